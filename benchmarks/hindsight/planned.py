"""A plan as a policy of the engine: what was planned, by the rules that all policies keep to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.hindsight.plan import Course, Plan, Segment, Spots, Work
from formulations.round.decode import place_parts
from morph_opt.core.domain import RoundState, Trace
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Event, Preempted, Started


@dataclass(frozen=True, slots=True)
class Due:
    """When and how a job is to start; ``stop`` is the round in which it is to be stopped."""

    round: int
    stop: int | None
    node_class: int
    spots: Spots


class Planned(FillingPolicy):
    """Starts and stops jobs as planned.

    What finds no room then (of resources that a plan does not count) starts as soon as there is.
    """

    name = "planned"
    requests_only = False

    def __init__(self, belief: SpeedModel, due: Mapping[str, Sequence[Due]]) -> None:
        super().__init__(belief)
        self._due = due
        self._now = 0
        self._begun: dict[str, Due] = {}

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        self._now = round(state.time_s / state.interval_s)
        return super().decide(state)

    def fill(self, filling: Filling) -> None:
        """Whatever is not to be stopped stays; then those that are due, the earliest first."""
        due = []
        for job in range(len(filling.states)):
            name = filling.states[job].job.name
            last = [one for one in self._due[name] if one.round <= self._now][-1:]
            if filling.problem.jobs.running[job] and self._stays(name, last):
                filling.keep(job)
            elif last and (last[0].stop is None or self._now < last[0].stop):
                due.append((last[0].round, job, last[0]))
        for _, job, segment in sorted(due, key=lambda one: one[:2]):
            if self._start(filling, job, segment):
                self._begun[filling.states[job].job.name] = segment

    def _stays(self, name: str, last: Sequence[Due]) -> bool:
        """Whether the segment in which a job runs is the one that is due, and not over."""
        (segment,) = last
        over = segment.stop is not None and segment.stop <= self._now
        return segment is self._begun[name] and not over

    def _start(self, filling: Filling, job: int, due: Due) -> bool:
        """On the planned nodes, else on any."""
        view, problem = filling.view, filling.problem
        table = problem.candidates
        parts = tuple(gpus for _, gpus in due.spots)
        mine = [
            k
            for k in range(int(view.offset[job]), int(view.offset[job + 1]))
            if table.parts(k) == parts and table.node_class[k] == due.node_class
        ]
        mine.sort(key=lambda k: float(table.iteration_s[k]))
        # What is free beside the planned spots is kept back while they are looked at.
        room, most = filling.room.nodes, np.zeros(problem.nodes.count)
        for node, gpus in due.spots:
            most[node] = gpus
        spare = np.maximum(room[:, 0] - most, 0.0)
        room[:, 0] -= spare
        found = place_parts(problem, mine[0], filling.room) if mine else None
        room[:, 0] += spare
        if found is not None:
            filling.choice[job], filling.spots[job] = mine[0], found
            return True
        return filling.start(job, mine)


def due_by_name(trace: Trace, work: Work, plan: Plan, course: Course) -> dict[str, list[Due]]:
    """What a plan says of each job, by time."""
    due: dict[str, list[Due]] = {job.name: [] for job in trace.jobs}
    for number, index in sorted(course.runs):
        segment, run = plan.segments[number][index], course.runs[number, index]
        kind = work.ways[number][segment.way].node_class
        stop = run.start + segment.rounds if segment.rounds else None
        due[trace.jobs[number].name].append(Due(run.start, stop, kind, run.spots))
    return due


def plan_of(trace: Trace, work: Work, config: ReplayConfig, events: Sequence[Event]) -> Plan:
    """What a replay did, as a plan: in the same order, in the configurations nearest to its own."""
    numbers = {job.name: number for number, job in enumerate(trace.jobs)}
    segments: list[list[Segment]] = [[] for _ in trace.jobs]
    since = [0] * len(segments)
    order = []
    for event in events:
        if not isinstance(event, Started | Preempted):
            continue
        job, now = numbers[event.job], config.boundary_at_or_after(event.time_s)
        mine = segments[job]
        # A job that is given something else stops without an event of its own.
        if mine and not mine[-1].rounds:
            mine[-1] = mine[-1]._replace(rounds=now - since[job])
        if isinstance(event, Started):
            order.append((job, len(mine)))
            kind = int(work.node_class[event.placement.parts[0][0]])
            spots = sorted(((node, len(gpus)) for node, gpus in event.placement.parts), key=_size)
            mine.append(_nearest(work, job, kind, tuple(spots)))
            since[job] = now
    return Plan(order, segments)


def _size(spot: tuple[int, int]) -> int:
    """Most GPUs first."""
    return -spot[1]


def _nearest(work: Work, job: int, kind: int, spots: Spots) -> Segment:
    """There and so, or else on as many GPUs of a class of nodes or the most below, else any."""
    shape = tuple(gpus for _, gpus in spots)
    distance = [
        (
            way.node_class != kind,
            shape not in way.shapes,
            way.gpus > sum(shape),
            abs(way.gpus - sum(shape)),
        )
        for way in work.ways[job]
    ]
    way = distance.index(min(distance))
    return Segment(way, 0, True, () if any(distance[way][:2]) else spots)
