"""``groups.csv``: figures of the jobs of each queue, user and priority class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from morph_opt.core.domain import Job
from morph_opt.core.domain.missing import MissingEqual
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.rules.model import OperatorRules, TenantQuota
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, QueueTree, class_of
from morph_opt.simulation.metrics.history import History, JobRecord
from morph_opt.simulation.metrics.losses import loss_of
from morph_opt.simulation.metrics.schedule import began_s, queued_s
from morph_opt.simulation.runs.rows import columns, line, to_cells


@dataclass(frozen=True, eq=False, slots=True)
class GroupRow(MissingEqual):
    """Figures of the jobs of a queue, user or class; NaN if there is none.

    Parameters
    ----------
    kind, group
        ``queue``, ``user`` or ``class``, and its name.
    jobs, started, completed
        Numbers of its jobs.
    waiting_mean_s, waiting_p90_s
        Mean and 90 % quantile of the time from submission to the first start, of started jobs.
    queued_mean_s
        Mean time without GPUs of completed jobs.
    gpu_hours, entitled_gpu_hours
        GPU-hours held, and those that the rules give the queue over the length of the replay.
    evictions
        Number of stops by the policy.
    gpu_hours_lost
        GPU-hours lost by stops and moves, as in ``summary.json``.
    """

    kind: str
    group: str
    jobs: int
    started: int
    completed: int
    waiting_mean_s: float
    waiting_p90_s: float
    queued_mean_s: float
    gpu_hours: float
    entitled_gpu_hours: float
    evictions: int
    gpu_hours_lost: float


COLUMNS = columns(GroupRow)

KINDS = ("queue", "user", "class")
"""Kinds of groups, in order."""


def group_rows(history: History, rules: OperatorRules) -> tuple[GroupRow, ...]:
    """Return a row per queue, user and class, by kind and name.

    A kind of which all jobs are in one group has no rows.

    Parameters
    ----------
    history
        Records of the jobs.
    rules
        Rules of the run: its queues and classes.
    """
    groups: dict[tuple[int, str], list[JobRecord]] = {}
    tree, classes = rules.tree, rules.classes
    for record in history.jobs:
        for kind, name in _groups_of(record.job, tree, classes):
            groups.setdefault((KINDS.index(kind), name), []).append(record)
    entitled = _entitled(rules)
    length_h = (history.ended.time_s - began_s(history)) / HOUR_S
    return tuple(
        _row(KINDS[kind], name, found, entitled.get(name, nan) * length_h if not kind else nan)
        for (kind, name), found in sorted(groups.items())
        if len(found) < len(history.jobs)
    )


def groups_csv(rows: Iterable[GroupRow]) -> str:
    """Return the text of the file; missing numbers are empty cells."""
    return line(COLUMNS) + "".join(line(to_cells(row, COLUMNS)) for row in rows)


def _groups_of(
    job: Job, tree: QueueTree, classes: Sequence[PriorityClass]
) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each group of a job; a queue has the jobs of all queues below it."""
    for _, path in tree.lineage(job.tenant):
        yield "queue", path
    if job.user:
        yield "user", job.user
    mine = class_of(job, classes)
    if mine is not None:
        yield "class", mine.name


def _entitled(rules: OperatorRules) -> dict[str, float]:
    """Return the GPUs that the rules give each queue."""
    tree = rules.tree
    found = {r.tenant: float(r.gpus) for r in rules.rules if isinstance(r, TenantQuota)}
    for queue in tree.queues:
        kinds = tree.kinds(tree.roots[queue.name])
        found[tree.path(queue)] = sum(tree.nominal(queue, kind) for kind in kinds)
    return found


def _row(kind: str, name: str, records: Sequence[JobRecord], entitled_h: float) -> GroupRow:
    waits_s = [r.starting_s - r.job.submission_s for r in records if r.starting_s is not None]
    done = [queued_s(record) for record in records if record.finish_s is not None]
    return GroupRow(
        kind,
        name,
        jobs=len(records),
        started=len(waits_s),
        completed=len(done),
        waiting_mean_s=float(np.mean(waits_s)) if waits_s else nan,
        waiting_p90_s=float(np.quantile(waits_s, 0.9)) if waits_s else nan,
        queued_mean_s=float(np.mean(done)) if done else nan,
        gpu_hours=sum(record.gpu_s for record in records) / HOUR_S,
        entitled_gpu_hours=entitled_h,
        evictions=sum(record.preemptions for record in records),
        gpu_hours_lost=sum(loss_of(record).gpu_s for record in records) / HOUR_S,
    )
