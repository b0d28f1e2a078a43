"""The immutable snapshot that a policy sees at a round boundary."""

from __future__ import annotations

import math
from dataclasses import dataclass

from morph_opt.core.domain._validate import require_finite, require_int, require_unique
from morph_opt.core.domain.cluster import Cluster
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.job import Job
from morph_opt.core.domain.placement import Allocation, Assignment, Placement
from morph_opt.core.domain.plan import ExecutionPlan
from morph_opt.core.domain.starting import StartPrices

MOST_S, MOST_GPU_S = 1e12, 1e18
"""Largest instant, duration or count of a state, and GPU-seconds: their products stay doubles."""


@dataclass(frozen=True, slots=True)
class JobState:
    """State of an active job (submitted, not complete) that a policy may know.

    Parameters
    ----------
    job
        As submitted.
    iterations_done
        Progress kept so far; fractional, because jobs stop anywhere in a round.
    running
        What the job holds as the round begins; None when it is queued.
    restart_left_s
        Seconds of start-up that a running job still has ahead of it.
    restart_s
        What a (re)start of this job costs.
    resume_s, migrate_s
        What it costs in its plan and with its GPU counts on the nodes that it holds or held last,
        and what in its plan with as many GPUs elsewhere; at most ``migrate_s`` and ``restart_s``.
        None: what these are.
    attained_gpu_s
        GPU-seconds held so far, start-up included.
    executed_s, queued_s
        Seconds with and without GPUs since submission.
    starts
        Times that the job was given GPUs or changed them.
    last_held
        What a queued job held before it was stopped; None where nothing of it is left: it never
        ran, was stopped in its start-up, or a node of it failed since.
    recent_starts_s
        Instants of the (re)starts of the last hour at least, ascending. The first start of all is
        not a restart: it may be among them, as ``first_start_s``, and does not count.
    first_start_s, last_start_s, last_stop_s
        Instants of the first and latest (re)start and the latest preemption; None before that.
    """

    job: Job
    iterations_done: float = 0.0
    running: Assignment | None = None
    restart_left_s: float = 0.0
    restart_s: float = 0.0
    attained_gpu_s: float = 0.0
    executed_s: float = 0.0
    queued_s: float = 0.0
    starts: int = 0
    first_start_s: float | None = None
    last_start_s: float | None = None
    last_stop_s: float | None = None
    recent_starts_s: tuple[float, ...] = ()
    resume_s: float | None = None
    migrate_s: float | None = None
    last_held: Assignment | None = None

    def __post_init__(self) -> None:
        for name in ("iterations_done", "restart_left_s", "restart_s", "executed_s", "queued_s"):
            require_finite(name, getattr(self, name), at_least=0.0, at_most=MOST_S)
        require_finite("attained_gpu_s", self.attained_gpu_s, at_least=0.0, at_most=MOST_GPU_S)
        require_int("starts", self.starts, at_least=0, at_most=int(MOST_S))
        for name in ("running", "last_held"):
            held = getattr(self, name)
            if held is not None and held.job != self.job.name:
                rule = f"holds the assignment of {held.job}"
                raise InputError(rule, field=f"job {self.job.name}: {name}")
        if self.running is not None and self.last_held is not None:
            rule = "must be left to queued jobs"
            raise InputError(rule, field=f"job {self.job.name}: last_held")
        if self.resume_s is not None or self.migrate_s is not None:
            _ = self.prices  # refuses what does not ascend

    @property
    def prices(self) -> StartPrices:
        """Prices of starts of the job."""
        return StartPrices.of(self.restart_s, self.migrate_s, self.resume_s)

    @property
    def kept(self) -> Assignment | None:
        """Assignment that the next start may keep a part of: the current or the last one.

        A start-up that is cut short leaves nothing.
        """
        if self.running is None:
            return self.last_held
        return self.running if self.restart_left_s == 0.0 else None

    def start_up_s(self, plan: ExecutionPlan, placement: Placement) -> float:
        """Return the start-up time of running so from now on; 0 if the job does already."""
        return self.prices.of_start(self.kept, plan, placement)

    @property
    def iterations_left(self) -> float:
        """Work still to do."""
        return max(0.0, self.job.iterations - self.iterations_done)


@dataclass(frozen=True, slots=True)
class RoundState:
    """State of a round that a policy may look at: jobs, progress, GPUs held, nodes up.

    Parameters
    ----------
    index
        Number of the round, from 0.
    time_s
        Instant of the boundary.
    interval_s
        Length of a round.
    cluster
        All nodes, also those that are down.
    jobs
        Active jobs; kept in order of submission, then name, whatever order they are given in.
    unavailable
        Indices of nodes that are failed or drained: nothing may be placed there. A job that
        runs on a drained node may stay until it is moved; a failed node holds nothing.
    failed
        The subset of ``unavailable`` that has failed.
    """

    index: int
    time_s: float
    interval_s: float
    cluster: Cluster
    jobs: tuple[JobState, ...]
    unavailable: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        require_int("round.index", self.index, at_least=0, at_most=int(MOST_S))
        require_finite("round.time_s", self.time_s, at_least=0.0, at_most=MOST_S)
        require_finite("round.interval_s", self.interval_s, above=0.0, at_most=MOST_S)
        require_unique("round.jobs", (state.job.name for state in self.jobs))
        # Every policy breaks ties by position, so that equal jobs are served by arrival, then name.
        in_order = sorted(self.jobs, key=lambda state: (state.job.submission_s, state.job.name))
        object.__setattr__(self, "jobs", tuple(in_order))
        known = range(len(self.cluster.nodes))
        strangers = [n for n in (*self.unavailable, *self.failed) if n not in known]
        if strangers:
            raise InputError(f"unknown node indices {strangers}", field="round.unavailable")
        if not self.failed <= self.unavailable:
            raise InputError("a failed node must also be unavailable", field="round.failed")

    @property
    def held(self) -> Allocation:
        """The running allocation."""
        return Allocation(tuple(s.running for s in self.jobs if s.running is not None))


def first_boundary(time_s: float, interval_s: float) -> int:
    """Return the number k >= 1 of the first boundary ``k * interval_s`` not before an instant."""
    number = max(1, math.ceil(time_s / interval_s))
    while number * interval_s < time_s:  # the quotient may be rounded down
        number += 1
    while number > 1 and (number - 1) * interval_s >= time_s:
        number -= 1
    return number
