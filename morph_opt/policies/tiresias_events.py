"""The event-driven rigid simulator of Tiresias: what the published figures were made with.

Whole seconds, no rounds, no placement, nothing charged for preemption. At every event (arrival,
end, change of queue) all GPUs are dealt out again. It is a baseline of its own, next to the
engine, so that its figures can be compared exactly; the same rules inside the round engine are
`morph_opt.policies.tiresias`.

Where the published code differs from the paper `Quirks` has a switch: paper says / artifact does
/ we do are on ``docs/formulations/las.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from morph_opt.domain import InputError
from morph_opt.policies.tiresias_queues import (
    QUEUE_LIMITS_GPU_S,
    GittinsIndex,
    require_limits,
)


class Discipline(StrEnum):
    """Order in which GPUs are dealt out."""

    FIFO = "fifo"
    """Arrival, no job overtakes one that does not fit, nobody is preempted."""
    FIT = "fjf"
    """Arrival, jobs that do not fit are skipped, nobody is preempted."""
    SHORTEST = "shortest"
    """Remaining seconds, preemptive."""
    SHORTEST_GPU = "shortest-gpu"
    """Remaining GPU-seconds, preemptive."""
    LAS = "dlas"
    """Discretised queues over executed seconds."""
    LAS_GPU = "dlas-gpu"
    """Discretised queues over executed GPU-seconds: 2D-LAS."""
    GITTINS = "dlas-gpu-gittins"
    """2D-LAS, and inside a queue by Gittins index."""


QUEUED = (Discipline.LAS, Discipline.LAS_GPU, Discipline.GITTINS)
BY_ARRIVAL = (Discipline.FIFO, Discipline.FIT)


@dataclass(frozen=True, slots=True)
class RigidJob:
    """A job with a fixed gang and a known run time.

    Parameters
    ----------
    name
        Of the job.
    gpus
        Gang.
    submit_s, duration_s
        Whole seconds; the duration above 0.
    """

    name: str
    gpus: int
    submit_s: int
    duration_s: int

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise InputError(f"must be at least 1, got {self.gpus}", field=f"{self.name}: gpus")
        if self.submit_s < 0 or self.duration_s < 1:
            raise InputError(
                f"needs submission >= 0 and duration >= 1, got {self.submit_s} and "
                f"{self.duration_s}",
                field=self.name,
            )


@dataclass(frozen=True, slots=True)
class Quirks:
    """Deviations of the published code; both off by default.

    Parameters
    ----------
    late_demotion
        The instant of the next demotion is computed as if one GPU-second passed per second.
    rounded_index
        The Gittins index is the published table with its roundings.
    """

    late_demotion: bool = False
    rounded_index: bool = False


@dataclass(frozen=True, slots=True)
class RigidRule:
    """A discipline with its parameters.

    Parameters
    ----------
    discipline
        See `Discipline`.
    queue_limits
        Attained service at which a job moves down: GPU-seconds, or seconds for `Discipline.LAS`.
    starvation_knob
        K: a job below the first queue whose waits, since it first ran or was last promoted, add
        up to at least K times its executed time goes back to the first queue with executed time
        0; 0 for never.
    index
        Needed by `Discipline.GITTINS`.
    quirks
        See `Quirks`.
    """

    discipline: Discipline
    queue_limits: tuple[float, ...] = QUEUE_LIMITS_GPU_S
    starvation_knob: float = 0.0
    index: GittinsIndex | None = None
    quirks: Quirks = field(default_factory=Quirks)

    def __post_init__(self) -> None:
        require_limits(self.queue_limits)
        if self.starvation_knob < 0:
            raise InputError("must be at least 0", field="starvation_knob")
        if self.discipline is Discipline.GITTINS and self.index is None:
            raise InputError("needs a Gittins index", field="index")


@dataclass(frozen=True, slots=True)
class RigidRun:
    """What became of a job: instants in seconds, and how often it lost its GPUs."""

    name: str
    submit_s: int
    start_s: int
    end_s: int
    preemptions: int
    promotions: int

    @property
    def jct_s(self) -> int:
        """Job completion time."""
        return self.end_s - self.submit_s


@dataclass(slots=True)
class _Live:
    """A submitted, unfinished job."""

    job: RigidJob
    order: int
    checked_s: int
    running: bool = False
    done_s: int = 0
    executed_s: int = 0
    waited_s: int = 0
    queue: int = 0
    start_s: int = -1
    preemptions: int = 0
    promotions: int = 0

    @property
    def left_s(self) -> int:
        return self.job.duration_s - self.done_s


def simulate(jobs: Sequence[RigidJob], gpus: int, rule: RigidRule) -> tuple[RigidRun, ...]:
    """Run all jobs to their end on a pool of ``gpus``; results in the order of ``jobs``.

    Raises
    ------
    InputError
        If a gang is larger than the pool, or a name occurs twice.
    """
    for job in jobs:
        if job.gpus > gpus:
            raise InputError(f"asks for {job.gpus} GPUs, the cluster has {gpus}", field=job.name)
    if len({job.name for job in jobs}) != len(jobs):
        raise InputError("must be unique", field="name")
    simulation = _Simulation(jobs, gpus, rule)
    simulation.run()
    return tuple(simulation.ended[job.name] for job in jobs)


class _Simulation:
    def __init__(self, jobs: Sequence[RigidJob], gpus: int, rule: RigidRule) -> None:
        self.gpus = gpus
        self.rule = rule
        self.arrivals = sorted(jobs, key=lambda job: job.submit_s)
        self.arrived = 0
        self.live: list[_Live] = []
        self.queues: list[list[_Live]] = [[] for _ in range(len(rule.queue_limits) + 1)]
        self.ended: dict[str, RigidRun] = {}

    def run(self) -> None:
        """Event by event until every job has ended."""
        while len(self.ended) < len(self.arrivals):
            now = self._next_event()
            self._advance(now)
            self._end(now)
            self._arrive(now)
            self._move_between_queues()
            self._deal(now)

    def _next_event(self) -> int:
        times = []
        if self.arrived < len(self.arrivals):
            times.append(self.arrivals[self.arrived].submit_s)
        times += [live.checked_s + live.left_s for live in self.live if live.running]
        times += [live.checked_s + wait for live in self.live if (wait := self._until_move(live))]
        return min(times)

    def _until_move(self, live: _Live) -> int:
        """Seconds until the job changes its queue if nothing else happens; 0 for never."""
        if self.rule.discipline not in QUEUED:
            return 0
        knob = self.rule.starvation_knob
        if not live.running:
            if knob > 0 and live.queue > 0 and live.executed_s > 0:
                return max(0, int(live.executed_s * knob) - live.waited_s)
            return 0
        if live.queue >= len(self.rule.queue_limits):
            return 0
        width = 1 if self.rule.discipline is Discipline.LAS else live.job.gpus
        limit = int(self.rule.queue_limits[live.queue])
        if self.rule.quirks.late_demotion:
            return max(0, (limit - live.executed_s) // width)
        return max(0, -((live.executed_s * width - limit) // width))

    def _advance(self, now: int) -> None:
        for live in self.live:
            passed = now - live.checked_s
            live.checked_s = now
            if live.running:
                live.done_s += passed
                live.executed_s += passed
            elif live.executed_s > 0:
                live.waited_s += passed

    def _end(self, now: int) -> None:
        for live in [one for one in self.live if one.left_s == 0]:
            self.live.remove(live)
            self.queues[live.queue].remove(live)
            self.ended[live.job.name] = RigidRun(
                live.job.name,
                live.job.submit_s,
                live.start_s,
                now,
                live.preemptions,
                live.promotions,
            )

    def _arrive(self, now: int) -> None:
        while self.arrived < len(self.arrivals) and self.arrivals[self.arrived].submit_s <= now:
            live = _Live(self.arrivals[self.arrived], self.arrived, now)
            self.live.append(live)
            self.queues[0].append(live)
            self.arrived += 1

    def _move_between_queues(self) -> None:
        if self.rule.discipline not in QUEUED:
            return
        for live in self.live:
            if live.running:
                self._demote(live)
            else:
                self._promote(live)

    def _demote(self, live: _Live) -> None:
        width = 1 if self.rule.discipline is Discipline.LAS else live.job.gpus
        limits = self.rule.queue_limits
        if live.queue < len(limits) and live.executed_s * width >= limits[live.queue]:
            self._move(live, live.queue + 1)

    def _promote(self, live: _Live) -> None:
        knob = self.rule.starvation_knob
        if knob <= 0 or live.queue == 0 or live.executed_s == 0:
            return
        if live.waited_s >= int(live.executed_s * knob):
            live.executed_s = live.waited_s = 0
            live.promotions += 1
            self._move(live, 0)

    def _move(self, live: _Live, queue: int) -> None:
        self.queues[live.queue].remove(live)
        self.queues[queue].append(live)
        live.queue = queue

    def _deal(self, now: int) -> None:
        """Give out all GPUs in the discipline's order."""
        order = self._order()
        free = self.gpus
        if self.rule.discipline in BY_ARRIVAL:
            free -= sum(live.job.gpus for live in order if live.running)
            order = [live for live in order if not live.running]
        for live in order:
            if live.job.gpus <= free:
                free -= live.job.gpus
                self._run(live, now)
            elif self.rule.discipline is Discipline.FIFO:
                break
            elif live.running:
                live.running = False
                live.preemptions += 1
        if self.rule.discipline in QUEUED:
            for queue in self.queues:
                queue.sort(key=lambda live: not live.running)

    def _run(self, live: _Live, now: int) -> None:
        if live.running:
            return
        live.running = True
        if live.start_s < 0:
            live.start_s = now

    def _order(self) -> list[_Live]:
        if self.rule.discipline is Discipline.SHORTEST:
            self.live.sort(key=lambda live: live.left_s)
        elif self.rule.discipline is Discipline.SHORTEST_GPU:
            self.live.sort(key=lambda live: live.left_s * live.job.gpus)
        elif self.rule.discipline in QUEUED:
            if self.rule.discipline is Discipline.GITTINS:
                for queue in self.queues:
                    queue.sort(key=lambda live: (-self._index(live), live.job.submit_s))
            return [live for queue in self.queues for live in queue]
        return list(self.live)

    def _index(self, live: _Live) -> float:
        index = self.rule.index
        if index is None:
            return 0.0
        attained = live.executed_s * live.job.gpus
        if self.rule.quirks.rounded_index:
            return index.published(attained)
        return index.exact(attained)
