"""Gavel's published simulator around its round mechanism, event for event.

Restart cost 0, and rounds end with their longest job. The mechanism is
`morph_opt.scheduling.policies.gavel.policy`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from morph_opt.scheduling.policies.gavel.policy import Mechanism
from morph_opt.scheduling.policies.published import GAVEL


def select(
    mechanism: Mechanism,
    active: Ints,
    gang: Ints,
    speed: Floats,
    capacity: Floats,
    kinds: Ints,
    *,
    skip_unwanted: bool = False,
) -> Ints:
    """Type of each active job in this round, -1 for none.

    Parameters
    ----------
    active
        Job numbers.
    gang, speed
        Of all jobs, shapes (J,) and (J, T).
    capacity
        GPUs of each type, shape (T,).
    kinds
        Order in which the types are served.
    skip_unwanted
        Leave jobs with priority 0 out (as for FIFO in the published code); otherwise they may
        use what is left over.
    """
    chosen = np.full(active.size, -1, dtype=np.int64)
    for kind in kinds.tolist():
        left = float(capacity[kind])
        wanted = mechanism.priorities(active)[:, kind]
        for position in mechanism.order(active, kind).tolist():
            if left <= 0:
                break
            job = active[position]
            if chosen[position] >= 0 or speed[job, kind] <= 0 or gang[job] > left:
                continue
            if skip_unwanted and wanted[position] <= 0:
                continue
            chosen[position] = kind
            left -= float(gang[job])
    return chosen


@dataclass(frozen=True, slots=True)
class RoundJobs:
    """Jobs of a simulation as columns of shape (J,), in order of arrival.

    Parameters
    ----------
    speed
        Steps per second, shape (J, T).
    gang, steps, weight, arrival_s
        GPUs, steps to do, share weight, seconds.
    """

    speed: Floats
    gang: Ints
    steps: Floats
    weight: Floats
    arrival_s: Floats

    @property
    def count(self) -> int:
        """Number of jobs J."""
        return int(self.gang.size)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a share policy sees at a reset.

    Parameters
    ----------
    active
        Job numbers, ascending.
    steps_left, since_s
        Of the active jobs.
    now_s
        Instant.
    """

    active: Ints
    steps_left: Floats
    since_s: Floats
    now_s: float


ShareRule = Callable[[Moment], Floats]
"""Shares (active, T) at a moment."""


@dataclass(frozen=True, slots=True)
class RoundRun:
    """Result of a simulation.

    Parameters
    ----------
    end_s
        Instant at which each job ended, shape (J,).
    jct_s
        ``end_s - arrival_s``.
    makespan_s
        Instant of the last end.
    resets
        Times that the shares were solved.
    failed
        Jobs that the published code gave up (`RoundQuirks`), shape (J,); they end undone.
    """

    end_s: Floats
    jct_s: Floats
    makespan_s: float
    resets: int
    failed: Bools

    @property
    def average_jct_s(self) -> float:
        """Average over the jobs that were not given up, as the published code prints it."""
        return float(self.jct_s[~self.failed].mean())


FAILURES = 5
"""Rounds without effect after which the published code gives a job up."""


@dataclass(frozen=True, slots=True)
class RoundQuirks:
    """What the published simulator does besides its paper.

    A job is credited the time from the end of the last round in which anybody ran, so that idle
    time before a round counts as received, and in the order of finish, last first. A gang whose
    steps of a round are fewer than its GPUs makes none (they are divided among its workers in whole
    numbers, and a worker without any is a failure); after `FAILURES` such rounds in a row the job
    is given up.

    Parameters
    ----------
    shuffled
        Whether the types are served in a random order, drawn anew for every round, as for all
        policies that do not look at speeds.
    seed
        Of the simulator; the order is drawn from ``Random(seed + 5)``.
    """

    shuffled: bool = False
    seed: int = 0


def simulate(
    jobs: RoundJobs,
    capacity: Floats,
    kinds: Ints,
    rule: ShareRule,
    *,
    round_s: float = GAVEL.round_s,
    reset_s: float = GAVEL.reset_s,
    skip_unwanted: bool = False,
    quirks: RoundQuirks | None = None,
) -> RoundRun:
    """The published simulator: rounds, resets, whole steps per round, no restart cost.

    Parameters
    ----------
    kinds
        Order in which the types are served; the published code takes V100, P100, K80.
    quirks
        Do as the published code; None: as the paper.

    Raises
    ------
    ValueError
        If no active job can run although nothing else will arrive.
    """
    world = _World(jobs, capacity, kinds, rule, round_s, reset_s, skip_unwanted, quirks)
    while not np.isfinite(world.end_s).all():
        world.round()
    end = world.end_s
    failed = world.failures >= FAILURES
    return RoundRun(end, end - jobs.arrival_s, float(end.max()), world.resets, failed)


class _World:
    def __init__(
        self,
        jobs: RoundJobs,
        capacity: Floats,
        kinds: Ints,
        rule: ShareRule,
        round_s: float,
        reset_s: float,
        skip_unwanted: bool,
        quirks: RoundQuirks | None,
    ) -> None:
        self.jobs, self.capacity, self.kinds, self.rule = jobs, capacity, kinds, rule
        self.round_s, self.reset_after_s, self.skip = round_s, reset_s, skip_unwanted
        self.mechanism = Mechanism(jobs.count, capacity.size, round_s)
        self.left = jobs.steps.copy()
        self.end_s = np.full(jobs.count, np.nan)
        self.arrived = 0
        self.now_s = float(jobs.arrival_s[0])
        self.changed = False
        self.resets = 0
        self.quirks = quirks
        self.random = Random(quirks.seed + 5) if quirks is not None else None
        self.failures = np.zeros(jobs.count, dtype=np.int64)
        self.round_ended_s = 0.0

    def _served(self) -> Ints:
        """Types in the order in which they are served in this round."""
        kinds = self.kinds.tolist()
        if self.random is not None and self.quirks is not None and self.quirks.shuffled:
            self.random.shuffle(kinds)
        return np.asarray(kinds, dtype=np.int64)

    def round(self) -> None:
        """Arrivals, shares if due, selection, and the jump to the end of the round."""
        arrival = self.jobs.arrival_s
        before = self.arrived
        self.arrived = int(np.searchsorted(arrival, self.now_s, side="right"))
        self.changed |= self.arrived > before
        active = np.flatnonzero(np.isnan(self.end_s[: self.arrived]))
        self._reset_if_due(active)
        chosen = select(
            self.mechanism,
            active,
            self.jobs.gang,
            self.jobs.speed,
            self.capacity,
            self._served(),
            skip_unwanted=self.skip,
        )
        # Jobs that came after the last reset are not in the shares and are not started.
        chosen[~self.mechanism.known[active]] = -1
        self._run(active, chosen)

    def _reset_if_due(self, active: Ints) -> None:
        mechanism = self.mechanism
        due = self.now_s - mechanism.reset_s >= self.reset_after_s or mechanism.reset_s == 0.0
        if not (self.changed and due and active.size):
            return
        moment = Moment(
            active, self.left[active], self.now_s - self.jobs.arrival_s[active], self.now_s
        )
        mechanism.reset(self.now_s, active, self.rule(moment))
        self.changed = False
        self.resets += 1

    def _run(self, active: Ints, chosen: Ints) -> None:
        started = np.flatnonzero(chosen >= 0)
        if not started.size:
            self._skip_ahead()
            return
        rows, kinds = active[started], chosen[started]
        speed = self.jobs.speed[rows, kinds]
        steps = np.minimum(np.floor(speed * self.round_s), self.left[rows])
        seconds = steps / speed
        if not (steps > 0).any():
            raise ValueError("no job makes a step in a round: a throughput is too small")
        finish_s, credit_s = self.now_s + seconds, seconds
        order = np.arange(rows.size)
        if self.quirks is not None:
            void = steps < np.maximum(self.jobs.gang[rows], 1)
            self.failures[rows] = np.where(void, self.failures[rows] + 1, 0)
            self.changed |= bool(void.any())
            steps = np.where(void, 0.0, steps)
            credit_s = np.where(void, 0.0, finish_s - self.round_ended_s)
            order = np.lexsort((rows, -finish_s))
        self.left[rows] -= steps
        for position in order.tolist():
            spent_s = float(credit_s[position])
            self.mechanism.credit(int(rows[position]), int(kinds[position]), spent_s)
        done = (self.left[rows] <= 0) | (self.failures[rows] >= FAILURES)
        self.end_s[rows[done]] = finish_s[done]
        self.changed |= bool(done.any())
        self.now_s = self.round_ended_s = float(finish_s.max())

    def _skip_ahead(self) -> None:
        if self.arrived < self.jobs.count:
            self.now_s = max(self.now_s, float(self.jobs.arrival_s[self.arrived]))
            return
        if self.mechanism.reset_s == 0.0:
            raise ValueError("no active job can run on any type")
        self.mechanism.reset_s = 0.0
