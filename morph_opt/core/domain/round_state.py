"""Immutable snapshot that a policy sees at a round boundary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from morph_opt.core.domain._validate import require_finite, require_int, require_unique
from morph_opt.core.domain.cluster import Cluster
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.job import Job
from morph_opt.core.domain.placement import Allocation, Assignment, Placement
from morph_opt.core.domain.plan import ExecutionPlan
from morph_opt.core.domain.starting import StartPrices

MOST_S, MOST_GPU_S = 1e12, 1e18
"""Largest seconds or counts of a state, and GPU-seconds; their products stay finite doubles."""


T = TypeVar("T")


def unchecked(kind: type[T], fields: Mapping[str, object], **more: object) -> T:
    """Return a dataclass of these fields, which are all of them, without its checks.

    For an engine, whose records meet the checks, and which makes thousands of states a second.
    """
    made = object.__new__(kind)
    vars(made).update(fields, **more)
    return made


# Without slots, so that a state is one dictionary, which `unchecked` fills at once.
@dataclass(frozen=True)
class JobState:
    """State of an active job (submitted, not complete) that a policy may know.

    Parameters
    ----------
    job
        Job as submitted.
    iterations_done
        Progress kept so far; fractional, because jobs stop anywhere in a round.
    running
        Assignment as the round begins; None if the job is queued.
    restart_left_s
        Seconds of start-up that a running job still has ahead of it.
    restart_s
        Seconds of start-up of a (re)start.
    resume_s, migrate_s
        Seconds of start-up in the same plan: with the same GPU counts on the same nodes, and with
        as many GPUs elsewhere; at most ``migrate_s`` and ``restart_s``. None for that limit.
    attained_gpu_s
        GPU-seconds held so far, start-up included.
    executed_s, queued_s
        Seconds with and without GPUs since submission.
    starts
        Number of times that the job was given GPUs or changed them.
    last_held
        Assignment that a queued job held before it was stopped; None if nothing of it is left: it
        never ran, was stopped in its start-up, or a node of it failed since.
    recent_starts_s
        Instants of the (re)starts of at least the last hour, ascending. The first start of all
        (``first_start_s``) may be among them and does not count.
    first_start_s, last_start_s, last_stop_s
        Instants of the first and latest (re)start and the latest preemption; None before that.
    checkpointed_s
        Instant of a running job's last checkpoint, after which its progress is lost when it is
        stopped or moved; None if it loses none.
    planned_s, promised_s
        Start of a queued job in the plan of the last round, and the latest start that it was
        promised; None without a plan.
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
    checkpointed_s: float | None = None
    planned_s: float | None = None
    promised_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("iterations_done", "restart_left_s", "restart_s", "executed_s", "queued_s"):
            require_finite(name, getattr(self, name), at_least=0.0, at_most=MOST_S)
        require_finite("attained_gpu_s", self.attained_gpu_s, at_least=0.0, at_most=MOST_GPU_S)
        require_int("starts", self.starts, at_least=0, at_most=int(MOST_S))
        for name in ("planned_s", "promised_s"):
            if (instant_s := getattr(self, name)) is None:
                continue
            require_finite(name, instant_s, at_least=0.0, at_most=MOST_S)
            if self.running is not None:
                raise InputError(
                    "must be left to queued jobs", field=f"job {self.job.name}: {name}"
                )
        for name in ("running", "last_held"):
            held = getattr(self, name)
            if held is not None and held.job != self.job.name:
                rule = f"holds the assignment of {held.job}"
                raise InputError(rule, field=f"job {self.job.name}: {name}")
        if self.running is not None and self.last_held is not None:
            rule = "must be left to queued jobs"
            raise InputError(rule, field=f"job {self.job.name}: last_held")
        if self.checkpointed_s is not None:
            require_finite("checkpointed_s", self.checkpointed_s, at_least=0.0, at_most=MOST_S)
            if self.running is None:
                rule = "must be left to running jobs"
                raise InputError(rule, field=f"job {self.job.name}: checkpointed_s")
        if self.resume_s is not None or self.migrate_s is not None:
            _ = self.prices  # refuses what does not ascend

    @property
    def prices(self) -> StartPrices:
        """Prices of starts of the job."""
        return StartPrices.of(self.restart_s, self.migrate_s, self.resume_s)

    @property
    def kept(self) -> Assignment | None:
        """Current or last assignment, which makes the next start cheaper if it is kept.

        A start-up that is cut short leaves nothing.
        """
        if self.running is None:
            return self.last_held
        return self.running if self.restart_left_s == 0.0 else None

    def start_up_s(self, plan: ExecutionPlan, placement: Placement) -> float:
        """Return the seconds of start-up in a plan and placement; 0 for the current ones."""
        return self.prices.of_start(self.kept, plan, placement)

    def lost_s(self, at_s: float, checkpoint_s: float | None = None) -> float:
        """Return the seconds of progress since the last checkpoint, which a stop or move loses.

        Parameters
        ----------
        at_s
            Instant of the stop.
        checkpoint_s
            Seconds between two checkpoints of jobs that state neither these nor their last one: a
            guess from their start; inf for all since then. None if these lose nothing.
        """
        if self.checkpointed_s is not None:
            return max(0.0, at_s - self.checkpointed_s)
        if self.running is None or checkpoint_s is None or self.restart_left_s > 0.0:
            return 0.0
        every_s = checkpoint_s if self.job.checkpoint_s is None else self.job.checkpoint_s
        ran_s = self.executed_s
        if self.last_start_s is not None:
            ran_s = at_s - self.last_start_s - self.restart_s
        return math.fmod(max(0.0, ran_s), every_s) if every_s else 0.0

    @property
    def iterations_left(self) -> float:
        """Iterations left to do."""
        return max(0.0, self.job.iterations - self.iterations_done)


@dataclass(frozen=True)
class RoundState:
    """State of a round that a policy may see: jobs, progress, GPUs held, nodes up.

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
        Active jobs, in any order; kept in order of submission, then name.
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
        """Running allocation."""
        return Allocation(tuple(s.running for s in self.jobs if s.running is not None))


def first_boundary(time_s: float, interval_s: float) -> int:
    """Return the smallest k >= 1 with ``k * interval_s`` at or after an instant."""
    number = max(1, math.ceil(time_s / interval_s))
    while number * interval_s < time_s:  # the quotient may be rounded down
        number += 1
    while number > 1 and (number - 1) * interval_s >= time_s:
        number -= 1
    return number
