"""The event-driven rigid simulator of Tiresias: what the published figures were made with.

Whole seconds, no rounds, no placement, nothing charged for preemption. At every event (arrival,
end, change of queue) all GPUs are assigned anew. It is a baseline of its own, next to the
engine, so that its figures can be compared exactly; the same rules inside the round engine are
`morph_opt.scheduling.policies.tiresias.policy`.

Where the published code differs from the paper `Quirks` has a switch: paper says / artifact does
/ we do are on ``docs/formulations/las.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.published.simulators.tiresias_lists import (
    BY_ARRIVAL,
    Discipline,
    Live,
    QueueLists,
    Quirks,
    RigidRule,
)
from morph_opt.core.domain import InputError

__all__ = ["Discipline", "Quirks", "RigidJob", "RigidRule", "RigidRun", "simulate"]


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
        self.lists = QueueLists(rule)
        self.arrivals = sorted(jobs, key=lambda job: job.submit_s)
        self.arrived = 0
        self.ended: dict[str, RigidRun] = {}
        ranked = rule.discipline is Discipline.GITTINS_ASCENDING
        self.review_s = rule.queue_limits[0] if ranked else math.inf
        """Instant at which ranks are looked at again if nothing else happens before."""

    def run(self) -> None:
        """Event by event until every job has ended."""
        while len(self.ended) < len(self.arrivals):
            now = self._next_event()
            self.lists.advance(now)
            self._end(now)
            self._arrive(now)
            self.lists.move()
            self._assign(now)
            self.review_s += now  # as published: not a period, it soon lies beyond every event

    def _next_event(self) -> float:
        live = self.lists.live
        times = [one.checked_s + one.left_s for one in live if one.running]
        times += [one.checked_s + wait for one in live if (wait := self.lists.until_move(one))]
        if self.arrived < len(self.arrivals):
            times.append(self.arrivals[self.arrived].submit_s)
        return min(self.review_s, *times)

    def _end(self, now: float) -> None:
        for live in [one for one in self.lists.live if one.left_s == 0]:
            self.lists.remove(live)
            self.ended[live.name] = RigidRun(
                live.name,
                live.submit_s,
                int(live.start_s),
                int(now),
                live.preemptions,
                live.promotions,
            )

    def _arrive(self, now: float) -> None:
        while self.arrived < len(self.arrivals) and self.arrivals[self.arrived].submit_s <= now:
            job = self.arrivals[self.arrived]
            self.lists.add(Live(job.name, job.gpus, job.submit_s, now, job.duration_s))
            self.arrived += 1

    def _assign(self, now: float) -> None:
        """Give out all GPUs in the discipline's order."""
        order = self.lists.order()
        free = self.gpus
        if self.rule.discipline in BY_ARRIVAL:
            free -= sum(live.gpus for live in order if live.running)
            order = [live for live in order if not live.running]
        for live in order:
            if live.gpus <= free:
                free -= live.gpus
                self._run(live, now)
            elif self.rule.discipline is Discipline.FIFO:
                break
            elif live.running:
                live.running = False
                live.preemptions += 1
        self.lists.assigned()

    def _run(self, live: Live, now: float) -> None:
        if live.running:
            return
        live.running = True
        if live.start_s < 0:
            live.start_s = now
