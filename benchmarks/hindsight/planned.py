"""A plan as a policy of the engine: what was planned, by the rules that all policies keep to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.hindsight.plan import Entry, Work
from formulations.round.decode import place_parts
from morph_opt.domain import RoundState, Trace
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision
from morph_opt.policies.filling import Filling, FillingPolicy


@dataclass(frozen=True, slots=True)
class Due:
    """When and how a job is to start."""

    round: int
    parts: tuple[int, ...]
    node_class: int
    nodes: tuple[int, ...]


class Planned(FillingPolicy):
    """Starts jobs as planned and stops none.

    Who finds no room then (of resources that a plan does not count) starts as soon as there is.
    """

    name = "planned"
    requests_only = False

    def __init__(self, belief: SpeedModel, due: Mapping[str, Due]) -> None:
        super().__init__(belief)
        self._due = due
        self._now = 0
        self._names: list[str] = []

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.policies.base.Policy`."""
        self._now = round(state.time_s / state.interval_s)
        self._names = [known.job.name for known in state.jobs]
        return super().decide(state)

    def fill(self, filling: Filling) -> None:
        """Whoever runs stays; then those that are due, the earliest first."""
        running = filling.problem.jobs.running
        for job in np.flatnonzero(running).tolist():
            filling.keep(job)
        waiting = [(self._due[self._names[job]], job) for job in np.flatnonzero(~running).tolist()]
        for due, job in sorted(waiting, key=lambda pair: (pair[0].round, pair[1])):
            if due.round <= self._now:
                self._start(filling, job, due)

    def _start(self, filling: Filling, job: int, due: Due) -> None:
        """On the planned nodes, else on any."""
        view, problem = filling.view, filling.problem
        table = problem.candidates
        mine = [
            k
            for k in range(int(view.offset[job]), int(view.offset[job + 1]))
            if table.parts(k) == due.parts and table.node_class[k] == due.node_class
        ]
        mine.sort(key=lambda k: float(table.iteration_s[k]))
        planned = np.zeros(problem.nodes.count, dtype=bool)
        planned[list(due.nodes)] = True
        there = replace(problem, nodes=replace(problem.nodes, open=problem.nodes.open & planned))
        for candidate in mine[:1]:
            found = place_parts(there, candidate, filling.room)
            if found is not None:
                filling.choice[job], filling.spots[job] = candidate, found
                return
        filling.start(job, mine)


def due_by_name(trace: Trace, work: Work, entries: Sequence[Entry]) -> dict[str, Due]:
    """What a plan says of each job."""
    due = {}
    for job, ways, entry in zip(trace.jobs, work.ways, entries, strict=True):
        way = ways[entry.way]
        due[job.name] = Due(entry.start, way.parts, way.node_class, entry.nodes)
    return due
