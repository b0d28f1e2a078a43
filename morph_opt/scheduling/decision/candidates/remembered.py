"""Constant columns of jobs: their configurations, and what running jobs hold.

Columns over the jobs of a round, gathered from those of the round before: only jobs that
are new, or hold other GPUs than then, are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import no_ints
from formulations.resources import SIDES, UPLINK
from formulations.round.candidates import amounts
from formulations.round.tables import HoldTable, JobTable
from morph_opt.core.domain import Assignment, ExecutionPlan, Job, JobState
from morph_opt.core.domain.placement import Sides

KeptPlan = tuple[ExecutionPlan, int]
"""Plan of a job and the number of GPUs on which it ran."""

_ROW = np.dtype(
    [
        ("configurations", np.int64),
        ("iterations", np.float64),
        ("request_iteration_s", np.float64),
        ("guaranteed", np.bool_),
        ("submission_s", np.float64),
        ("weight", np.float64),
        ("stay_iteration_s", np.float64),
        ("side", np.float64, (len(SIDES),)),
        ("crosses", np.bool_),
        ("shares", np.bool_),
        ("held", np.int64),
        ("first", np.int64),
        ("parts", np.int64),
    ]
)

Rows = np.ndarray[tuple[int], np.dtype[np.void]]

_OF_JOB = ("iterations", "guaranteed", "submission_s", "weight")
_ABOUT, _JOB, _RUNNING = attrgetter(*_OF_JOB), attrgetter("job"), attrgetter("running")
_RESUME_S, _MIGRATE_S = attrgetter("resume_s"), attrgetter("migrate_s")
_CHAIN = chain.from_iterable


def kept_plan(state: JobState) -> KeptPlan | None:
    """Return the plan in which a job may continue for less than a restart; None without one."""
    if state.resume_s is None and state.migrate_s is None:
        return None
    kept = state.kept
    if kept is None:
        return None
    return None if state.prices.plain else (kept.plan, kept.placement.gpus)


def kept_plans(states: Sequence[JobState]) -> list[KeptPlan | None]:
    """Return `kept_plan` of every job."""
    if {*map(_RESUME_S, states), *map(_MIGRATE_S, states)} <= {None}:
        return [None] * len(states)
    return [kept_plan(state) for state in states]


class HeldGpus(NamedTuple):
    """Placement of a job and what it holds; nothing by default.

    Parameters
    ----------
    stay_iteration_s
        Believed seconds per iteration there.
    side
        Side demand there.
    crosses
        Whether it crosses leaves.
    shares
        Whether another job holds the same GPUs.
    nodes, gpus
        Nodes, and GPUs held on each.
    """

    stay_iteration_s: float = float("nan")
    side: Sides = (0.0,) * len(SIDES)
    crosses: bool = False
    shares: bool = False
    nodes: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class KnownJobs:
    """Cached columns of the jobs of a round.

    Parameters
    ----------
    jobs, held, keeps
        Each job, its assignment or None, and its `kept_plan`.
    rows
        Cached values of each job, shape (J,); ``held`` is the identity of the assignment,
        ``configurations`` the number of its slice.
    node, gpus
        Holds, job by job, shape (H,); a job has ``parts`` of them from ``first`` on.
    """

    jobs: list[Job] = field(default_factory=list)
    held: list[Assignment | None] = field(default_factory=list)
    keeps: list[KeptPlan | None] = field(default_factory=list)
    rows: Rows = field(default_factory=lambda: np.zeros(0, dtype=_ROW))
    node: Ints = field(default_factory=no_ints)
    gpus: Ints = field(default_factory=no_ints)

    def next(
        self,
        states: Sequence[JobState],
        what_it_is: Callable[[Job, KeptPlan | None], tuple[int, float]],
        what_it_holds: Callable[[Job, Assignment], HeldGpus],
    ) -> KnownJobs:
        """Return the columns of the next round's jobs: this table itself if they are the same.

        Parameters
        ----------
        what_it_is
            Number of a job's slice, and seconds per iteration of its request.
        what_it_holds
            Placement of a running job.
        """
        jobs, held, keeps = list(map(_JOB, states)), list(map(_RUNNING, states)), kept_plans(states)
        if _same(jobs, self.jobs) and _same(held, self.held) and keeps == self.keeps:
            return self
        # By identity: while this table lives, so do the jobs and assignments that it knows.
        place = dict(zip(map(id, self.jobs), range(len(self.jobs)), strict=True))
        at = _ints(map(place.get, map(id, jobs), repeat(-1)), len(jobs))
        known = at >= 0
        rows = self.rows.take(at, mode="clip") if self.jobs else np.zeros(len(jobs), dtype=_ROW)
        rows[~known] = np.zeros(1, dtype=_ROW)
        if any(keeps) or any(self.keeps):
            before = (self.keeps[row] if row >= 0 else None for row in at.tolist())
            known &= np.asarray([a == b for a, b in zip(before, keeps, strict=True)], dtype=bool)
        fresh = np.flatnonzero(~known).tolist()
        _fill(
            rows,
            fresh,
            ("configurations", "request_iteration_s", *_OF_JOB),
            [(*what_it_is(jobs[job], keeps[job]), *_ABOUT(jobs[job])) for job in fresh],
        )
        holding = _ints(map(id, held), len(jobs))
        moved = np.flatnonzero((rows["held"] != holding) | (at < 0)).tolist()
        rows["held"] = holding
        found = [
            HeldGpus() if own is None else what_it_holds(jobs[job], own)
            for job, own in zip(moved, map(held.__getitem__, moved), strict=True)
        ]
        _fill(rows, moved, HeldGpus._fields[:4], found)
        sizes = [len(one.nodes) for one in found]
        rows["parts"][moved] = sizes
        rows["first"][moved] = self.node.size + np.cumsum([0, *sizes])[:-1]
        node = np.append(self.node, _ints(_CHAIN(one.nodes for one in found), sum(sizes)))
        gpus = np.append(self.gpus, _ints(_CHAIN(one.gpus for one in found), sum(sizes)))
        first = np.cumsum(rows["parts"]) - rows["parts"]
        part = np.repeat(rows["first"] - first, rows["parts"])
        part += np.arange(part.size, dtype=np.int64)
        rows["first"] = first
        return KnownJobs(jobs, held, keeps, rows, node[part], gpus[part])

    def job_table(self, states: Sequence[JobState]) -> JobTable:
        """Return the table of jobs, with the columns that change from round to round."""

        def column(name: str) -> Floats:
            return np.fromiter(map(attrgetter(name), states), np.float64, len(states))

        def looked_up(name: str) -> Floats:
            return np.ascontiguousarray(self.rows[name])

        return JobTable(
            iterations_left=np.maximum(0.0, self.rows["iterations"] - column("iterations_done")),
            request_iteration_s=looked_up("request_iteration_s"),
            guaranteed=np.ascontiguousarray(self.rows["guaranteed"]),
            restart_s=column("restart_s"),
            restart_left_s=column("restart_left_s"),
            stay_iteration_s=looked_up("stay_iteration_s"),
            attained_gpu_s=column("attained_gpu_s"),
            submission_s=looked_up("submission_s"),
            weight=looked_up("weight"),
        )

    def hold_table(self, resources: int) -> HoldTable:
        """Return what running jobs hold of the first ``resources`` resources, job by job."""
        job = np.repeat(np.arange(self.rows.size, dtype=np.int64), self.rows["parts"])
        gpus = self.gpus.astype(np.float64)
        held = amounts(self.rows["side"][job, : resources - 1], gpus)
        uplink = np.where(self.rows["crosses"][job], held[:, UPLINK], 0.0)
        return HoldTable(job, self.node, np.column_stack([gpus, held]), uplink)

    def gangs(self) -> Ints:
        """Return a group number per job, equal for jobs on the same GPUs, shape (J,); or empty.

        Empty if no GPUs are shared.
        """
        gang = np.arange(self.rows.size, dtype=np.int64)
        sharing = np.flatnonzero(self.rows["shares"]).tolist()
        if not sharing:
            return gang[:0]
        index = {job.name: at for at, job in enumerate(self.jobs)}
        for at in sharing:
            own = self.held[at]
            assert own is not None
            assert own.partner is not None
            gang[at] = min(at, index.get(own.partner, at))
        return gang if (gang < np.arange(gang.size)).any() else gang[:0]


def _same(left: Sequence[object], right: Sequence[object]) -> bool:
    """Return whether two sequences have the same objects in the same order."""
    return len(left) == len(right) and all(map(is_, left, right))


def _fill(
    rows: Rows, at: list[int], names: tuple[str, ...], values: Sequence[tuple[Any, ...]]
) -> None:
    """Set some columns of some rows."""
    for name, column in zip(names, zip(*values, strict=True), strict=False):
        rows[name][at] = column


def _ints(values: Iterable[int], count: int) -> Ints:
    return np.fromiter(values, np.int64, count)
