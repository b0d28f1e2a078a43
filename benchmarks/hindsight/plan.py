"""Plans: in which order jobs get GPUs, how, where, and when they are stopped.

A plan is a list of segments, times in which a job holds one configuration. Whoever follows it looks
at every boundary at which something arrives or ends through the segments that are ready, in the
plan's order, and starts each that fits (the parallel schedule generation scheme: Kolisch 1996). So
a plan stays feasible whatever is changed in it, and what follows a change moves up by itself.
The engine's clock is respected: jobs start at boundaries, are charged a start-up, and hold their
GPUs until the first boundary that is not before their end.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import Floats
from morph_opt.core.domain import Cluster, Trace
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.simulation.engine.config import ReplayConfig

ALIKE = 6
"""Speeds of each GPU count: a job may be spread where no node has as many GPUs free."""
Shapes = tuple[tuple[int, ...], ...]
"""Of so many GPUs: how many on each node."""


@dataclass(frozen=True, slots=True)
class Way:
    """So many GPUs for a job.

    Parameters
    ----------
    shapes
        GPUs per node, largest first; several where one is as fast as the other.
    work_s
        All iterations, seconds, without start-up.
    node_class
        Where.
    """

    shapes: Shapes
    work_s: float
    node_class: int

    @property
    def gpus(self) -> int:
        """In all."""
        return sum(self.shapes[0])


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be planned.

    Parameters
    ----------
    release
        First round of each job, shape (J,).
    submission_s, first_s, again_s
        Arrival, start-up of the first start and of every other one, shape (J,) each.
    ways
        Of each job, by class, fewest GPUs first, more only where they are faster.
    capacity, node_class
        GPUs and class of each node.
    interval_s
        Length of a round.
    """

    release: NDArray[np.int64]
    submission_s: Floats
    first_s: Floats
    again_s: Floats
    ways: tuple[tuple[Way, ...], ...]
    capacity: NDArray[np.int64]
    node_class: NDArray[np.int64]
    interval_s: float

    @classmethod
    def of(cls, trace: Trace, cluster: Cluster, speeds: SpeedModel, config: ReplayConfig) -> Work:
        """The jobs of a trace with the fastest shape of each GPU count, class by class."""
        builder = CandidateBuilder(speeds, prune=False)
        submission_s = np.asarray([job.submission_s for job in trace.jobs])
        kinds = list(cluster.node_types)
        ways = []
        for job in trace.jobs:
            rows = builder.all_of(job, cluster)
            ends = np.cumsum(rows.part_count)
            work_s = job.iterations * rows.iteration_s
            alike: dict[tuple[int, int, float], list[tuple[int, ...]]] = {}
            seen = set()
            for row in np.argsort(work_s, kind="stable").tolist():
                parts = rows.part_gpus[ends[row] - rows.part_count[row] : ends[row]].tolist()
                shape, kind = tuple(parts), int(rows.node_class[row])
                if (kind, shape) not in seen:
                    seen.add((kind, shape))
                    alike.setdefault((kind, sum(shape), float(work_s[row])), []).append(shape)
            found = [
                Way(tuple(shapes), seconds, kind) for (kind, _, seconds), shapes in alike.items()
            ]
            ways.append(_useful(found))
        return cls(
            np.asarray([config.boundary_at_or_after(s) for s in submission_s.tolist()]),
            submission_s,
            np.asarray([config.first_start_of(job.model) for job in trace.jobs]),
            np.asarray([config.restart_of(job.model) for job in trace.jobs]),
            tuple(ways),
            np.asarray([node.type.gpus for node in cluster.nodes]),
            np.asarray([kinds.index(node.type) for node in cluster.nodes]),
            config.interval_s,
        )


def _useful(ways: Sequence[Way]) -> tuple[Way, ...]:
    """Of each GPU count of a class the fastest, as long as fewer GPUs are never as fast."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda w: (w.node_class, w.gpus, w.work_s)):
        mine = [w for w in kept if w.node_class == way.node_class]
        alike = sum(w.gpus == way.gpus for w in mine)
        if alike < ALIKE and all(way.work_s < w.work_s or w.gpus == way.gpus for w in mine):
            kept.append(way)
    return tuple(kept)


Spots = tuple[tuple[int, int], ...]
"""Nodes, and GPUs on each."""


class Segment(NamedTuple):
    """A time in which a job holds GPUs.

    Parameters
    ----------
    way
        Of the job's.
    rounds
        After which it is stopped, if it is not complete; 0: it is not stopped.
    blocks
        Whether, while it does not fit, no later segment starts on its class of nodes.
    spots
        Nodes and the GPUs on each, if these are free then; any where it is empty.
    """

    way: int
    rounds: int
    blocks: bool
    spots: Spots = ()


Place = tuple[int, int]
"""A job, and which of its segments."""


class Plan(NamedTuple):
    """Not changed once it is made.

    Parameters
    ----------
    order
        Segments by precedence.
    segments
        Of each job, one after the other.
    """

    order: list[Place]
    segments: list[list[Segment]]


class Run(NamedTuple):
    """A segment as it came about: first round, the round in which it was ready, where."""

    start: int
    ready: int
    spots: Spots


class Course(NamedTuple):
    """What comes of a plan: completion times in sum, and the segments that ran."""

    total_s: float
    runs: dict[Place, Run]


class Follower:
    """Follows plans.

    Parameters
    ----------
    work
        What is planned.
    """

    def __init__(self, work: Work) -> None:
        self.ways = [
            [(way.shapes, way.node_class, way.work_s) for way in ways] for ways in work.ways
        ]
        self.release: list[int] = work.release.tolist()
        self.arrivals: list[int] = np.argsort(work.release, kind="stable").tolist()
        self.submission_s: list[float] = work.submission_s.tolist()
        self.first_s: list[float] = work.first_s.tolist()
        self.again_s: list[float] = work.again_s.tolist()
        self.capacity: list[int] = work.capacity.tolist()
        classes: list[int] = work.node_class.tolist()
        self.nodes = [
            [n for n, kind in enumerate(classes) if kind == k] for k in range(max(classes) + 1)
        ]
        self.interval_s = work.interval_s

    def follow(self, plan: Plan, limit_s: float = math.inf) -> Course | None:
        """What comes of a plan; None if completion times are above a limit in sum."""
        following = _Following(self, plan)
        while following.advance():
            following.start()
            if following.total_s > limit_s:
                return None
        return Course(following.total_s, following.runs)


class _Following:
    """A plan on its way from boundary to boundary."""

    def __init__(self, work: Follower, plan: Plan) -> None:
        jobs = len(work.arrivals)
        self._work, self._order, self._segments = work, plan.order, plan.segments
        self._rank = {place: number for number, place in enumerate(plan.order)}
        self._left = [1.0] * jobs  # of each job's iterations
        self._current = [0] * jobs
        self._ready_at = work.release[:]
        self._ready: list[int] = []  # numbers in the order, ascending
        self._until: dict[int, int] = {}  # in which round what runs gives its GPUs back
        self._free = work.capacity[:]
        self._now, self._arrived = -1, 0
        self.runs: dict[Place, Run] = {}
        self.total_s = 0.0

    def advance(self) -> bool:
        """To the next boundary at which something ends or arrives; False if there is none."""
        work, arrived = self._work, self._arrived
        self._now = min(self._until.values(), default=-1)
        if arrived < len(work.arrivals):
            arrival = work.release[work.arrivals[arrived]]
            self._now = arrival if self._now < 0 else min(self._now, arrival)
        for job in [job for job, end in self._until.items() if end <= self._now]:
            self._end(job)
        while arrived < len(work.arrivals) and work.release[work.arrivals[arrived]] <= self._now:
            insort(self._ready, self._rank[work.arrivals[arrived], 0])
            arrived += 1
        self._arrived = arrived
        return self._now >= 0

    def _end(self, job: int) -> None:
        del self._until[job]
        for node, gpus in self.runs[job, self._current[job]].spots:
            self._free[node] += gpus
        if self._left[job] > 0.0:
            self._current[job] += 1
            self._ready_at[job] = self._now
            insort(self._ready, self._rank[job, self._current[job]])

    def start(self) -> None:
        """Whatever is ready and fits, in the plan's order."""
        closed: set[int] = set()
        waiting = []
        for number in self._ready:
            job, index = self._order[number]
            segment = self._segments[job][index]
            shapes, kind, work_s = self._work.ways[job][segment.way]
            spots = None if kind in closed else self._room(segment, shapes, kind)
            if spots is not None:
                self._run(job, index, segment, spots, work_s)
                continue
            waiting.append(number)
            if segment.blocks:
                closed.add(kind)
        self._ready = waiting

    def _room(self, segment: Segment, shapes: Shapes, kind: int) -> Spots | None:
        """Where a segment fits now, best where it is to be."""
        free = self._free
        if segment.spots and all(free[node] >= gpus for node, gpus in segment.spots):
            return segment.spots
        return _fit(shapes, self._work.nodes[kind], free)

    def _run(self, job: int, index: int, segment: Segment, spots: Spots, work_s: float) -> None:
        work, now = self._work, self._now
        for node, gpus in spots:
            self._free[node] -= gpus
        self.runs[job, index] = Run(now, self._ready_at[job], spots)
        startup_s = work.again_s[job] if index else work.first_s[job]
        end_s = now * work.interval_s + startup_s + self._left[job] * work_s
        end = math.ceil(end_s / work.interval_s - 1e-9)
        if segment.rounds and now + segment.rounds < end:
            self._until[job] = now + segment.rounds
            self._left[job] -= max(segment.rounds * work.interval_s - startup_s, 0.0) / work_s
        else:
            self._until[job] = end
            self._left[job] = 0.0
            self.total_s += end_s - work.submission_s[job]


def _fit(shapes: tuple[tuple[int, ...], ...], nodes: list[int], free: list[int]) -> Spots | None:
    """The first shape that fits, each part where least is to spare; None if none does."""
    if sum(free[node] for node in nodes) < sum(shapes[0]):
        return None
    for parts in shapes:
        chosen: list[int] = []
        for part in parts:
            best, least = -1, 1 << 30
            for node in nodes:
                if part <= free[node] < least and node not in chosen:
                    best, least = node, free[node]
            if best < 0:
                break
            chosen.append(best)
        else:
            return tuple(zip(chosen, parts, strict=True))
    return None


def tidied(plan: Plan, course: Course) -> Plan:
    """The same course, by its starts, and without segments that never ran."""
    segments = [
        [
            segment._replace(spots=course.runs[job, index].spots)
            for index, segment in enumerate(mine)
            if (job, index) in course.runs
        ]
        for job, mine in enumerate(plan.segments)
    ]
    for mine in segments:
        mine[-1] = mine[-1]._replace(rounds=0)
    rank = {place: number for number, place in enumerate(plan.order)}
    order = sorted(course.runs, key=lambda place: (course.runs[place].start, rank[place]))
    return Plan(order, segments)
