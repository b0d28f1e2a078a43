"""The lists of the published Tiresias code: queues whose order is part of the rule.

A job moves to the tail of the list of another queue; whoever runs is moved to the front of its
list after every deal. `benchmarks.published.simulators.tiresias` drives them by events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from morph_opt.core.domain import InputError
from morph_opt.scheduling.policies.published import TIRESIAS
from morph_opt.scheduling.policies.tiresias.queues import (
    GittinsIndex,
    require_limits,
)


class Discipline(StrEnum):
    """Order in which GPUs are assigned."""

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
    GITTINS_ASCENDING = "gittins_onelinefix"
    """The published schedule ``gittins`` with one line mended so that it runs: no queues, and the
    *lowest* index first. Nobody's target; here for comparison with the published code."""


QUEUED = (Discipline.LAS, Discipline.LAS_GPU, Discipline.GITTINS)
BY_ARRIVAL = (Discipline.FIFO, Discipline.FIT)


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
    queue_limits: tuple[float, ...] = TIRESIAS.queue_limits_gpu_s
    starvation_knob: float = 0.0
    index: GittinsIndex | None = None
    quirks: Quirks = field(default_factory=Quirks)

    def __post_init__(self) -> None:
        require_limits(self.queue_limits)
        if self.starvation_knob < 0:
            raise InputError("must be at least 0", field="starvation_knob")
        indexed = (Discipline.GITTINS, Discipline.GITTINS_ASCENDING)
        if self.discipline in indexed and self.index is None:
            raise InputError("needs a Gittins index", field="index")


def published_rank(index: GittinsIndex, attained_gpu_s: float) -> float:
    """The number that the published code sorts by, times 1e6, with its roundings.

    A table lookup at the first sample above the attained service, whole-number division in
    the expectation, the sample itself (and not what is left of it) under the expectation,
    probabilities to 5 and ranks to 4 digits.
    """
    samples = index.samples_gpu_s
    count = samples.size
    if attained_gpu_s > samples[-1] - 1:
        return 0.0
    first = int(np.searchsorted(samples, attained_gpu_s, side="right"))
    if first >= count:
        return 0.0
    start = samples[first] - 1
    until = start + index.quantum_gpu_s
    last = count - 1
    if until <= samples[-1] - 1:
        last = int(np.searchsorted(samples, until, side="right"))
    begin = int(np.searchsorted(samples, start, side="right"))
    alive = count - begin
    chance = round((last - begin) / alive, 5)
    mean = (samples[begin:last].sum() + index.quantum_gpu_s * (count - last)) // alive
    return round(chance * 1e6 / float(mean), 4)


@dataclass(slots=True, eq=False)
class Live:
    """A submitted, unfinished job; times in seconds.

    Parameters
    ----------
    name, gpus, submit_s
        Of the job.
    checked_s
        Instant up to which the seconds below are counted.
    left_s
        Run time that is left; inf where nobody knows.
    executed_s, waited_s
        Since the first run or the last promotion.
    """

    name: str
    gpus: int
    submit_s: int
    checked_s: float
    left_s: float
    running: bool = False
    executed_s: float = 0
    waited_s: float = 0
    queue: int = 0
    start_s: float = -1
    preemptions: int = 0
    promotions: int = 0


class QueueLists:
    """Jobs in their lists; nothing is assigned here.

    Parameters
    ----------
    rule
        Order, limits, starvation knob and quirks.
    """

    def __init__(self, rule: RigidRule) -> None:
        self.rule = rule
        self.live: list[Live] = []
        self.queues: list[list[Live]] = [[] for _ in range(len(rule.queue_limits) + 1)]

    def add(self, live: Live) -> None:
        """A new job, at the tail of the first list."""
        self.live.append(live)
        self.queues[0].append(live)

    def remove(self, live: Live) -> None:
        """A job is complete."""
        self.live.remove(live)
        self.queues[live.queue].remove(live)

    def until_move(self, live: Live) -> float:
        """Seconds until the job changes its queue if nothing else happens; 0 for never."""
        if self.rule.discipline not in QUEUED:
            return 0
        factor = self.rule.starvation_knob
        if not live.running:
            if factor > 0 and live.queue > 0 and live.executed_s > 0:
                return max(0, int(live.executed_s * factor) - live.waited_s)
            return 0
        if live.queue >= len(self.rule.queue_limits):
            return 0
        width = self._width(live)
        limit = int(self.rule.queue_limits[live.queue])
        if self.rule.quirks.late_demotion:
            return max(0, (limit - live.executed_s) // width)
        return max(0, -((live.executed_s * width - limit) // width))

    def _width(self, live: Live) -> int:
        return 1 if self.rule.discipline is Discipline.LAS else live.gpus

    def advance(self, now_s: float) -> None:
        """Count the seconds since the last call as run or waited."""
        for live in self.live:
            passed_s = now_s - live.checked_s
            live.checked_s = now_s
            if live.running:
                live.left_s -= passed_s
                live.executed_s += passed_s
            elif live.executed_s > 0:
                live.waited_s += passed_s

    def move(self) -> None:
        """Demote who has had enough, promote who has starved."""
        if self.rule.discipline not in QUEUED:
            return
        for live in self.live:
            if live.running:
                self._demote(live)
            else:
                self._promote(live)

    def _demote(self, live: Live) -> None:
        limits = self.rule.queue_limits
        attained = live.executed_s * self._width(live)
        if live.queue < len(limits) and attained >= limits[live.queue]:
            self._put(live, live.queue + 1)

    def _promote(self, live: Live) -> None:
        factor = self.rule.starvation_knob
        if factor <= 0 or live.queue == 0 or live.executed_s == 0:
            return
        if live.waited_s >= int(live.executed_s * factor):
            live.executed_s = live.waited_s = 0
            live.promotions += 1
            self._put(live, 0)

    def _put(self, live: Live, queue: int) -> None:
        self.queues[live.queue].remove(live)
        self.queues[queue].append(live)
        live.queue = queue

    def order(self) -> list[Live]:
        """Who is served first; ``shortest`` and Gittins index sort the lists themselves."""
        if self.rule.discipline is Discipline.SHORTEST:
            self.live.sort(key=lambda live: live.left_s)
        elif self.rule.discipline is Discipline.SHORTEST_GPU:
            self.live.sort(key=lambda live: live.left_s * live.gpus)
        elif self.rule.discipline is Discipline.GITTINS_ASCENDING:
            self.live.sort(key=self._ascending)
        elif self.rule.discipline in QUEUED:
            if self.rule.discipline is Discipline.GITTINS:
                for queue in self.queues:
                    queue.sort(key=lambda live: (-self._index(live), live.submit_s))
            return [live for queue in self.queues for live in queue]
        return list(self.live)

    def _index(self, live: Live) -> float:
        index = self.rule.index
        if index is None:
            return 0.0
        attained = live.executed_s * live.gpus
        if self.rule.quirks.rounded_index:
            return published_rank(index, attained)
        return index.exact(attained)

    def _ascending(self, live: Live) -> float:
        """The published rank; of those that wait, seconds count as GPU-seconds."""
        assert self.rule.index is not None
        width = live.gpus if live.running else 1
        return published_rank(self.rule.index, live.executed_s * width)

    def assigned(self) -> None:
        """After GPUs were assigned: running jobs go to the front of their list."""
        if self.rule.discipline in QUEUED:
            for queue in self.queues:
                queue.sort(key=lambda live: not live.running)
