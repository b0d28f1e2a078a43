"""Rows of limits of what runs at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from formulations.arrays import Bools, Ints
from formulations.round.rule_table import RULE_S
from morph_opt.core.domain import Cluster, Job
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import QueueTree, RunningLimit
from morph_opt.scheduling.decision.rules.rows import Rows

_Key = tuple[str, ...]


def add_limits(rows: Rows, view: RoundView, cluster: Cluster, rules: OperatorRules) -> Bools:
    """Add a row ``limit`` for each limit and set of jobs that count together and could exceed it.

    What must stay stays: where it is beyond a limit, nothing more is started.

    Returns
    -------
    Bools
        Whether each candidate is within all limits by itself, shape (K,).
    """
    candidates, holds = view.problem.candidates, view.problem.holds
    within = np.ones(candidates.count, dtype=bool)
    limits = [rule for rule in rules.rules if isinstance(rule, RunningLimit)]
    if not limits:
        return within
    tree, bound = rules.tree, rows.bound()
    held_class = view.problem.nodes.node_class[holds.node]
    for position, limit in enumerate(limits):
        counts = np.asarray([limit.counts_on(kind.gpu_type.name) for kind in cluster.node_types])
        here = counts[held_class]
        held = np.bincount(
            holds.job[here], holds.demand[here, 0], minlength=view.problem.jobs.count
        )
        gpus = np.where(counts[candidates.node_class], candidates.gpus, 0).astype(np.float64)
        for group, jobs in enumerate(_together(limit, tree, view).values()):
            starts = _starts(view, jobs)
            starts = starts[gpus[starts] > 0.0]
            running = [job for job in jobs.tolist() if held[job]]
            for most, of_start, of_stay in (
                (limit.gpus, gpus, held),
                (limit.jobs, np.ones(gpus.size), np.ones(held.size)),
            ):
                if most is None:
                    continue
                within[starts] &= of_start[starts] <= most
                largest = np.zeros(held.size)
                largest[running] = of_stay[running]
                np.maximum.at(largest, candidates.job[starts], of_start[starts])
                if largest.sum() <= most:
                    continue
                stay = sum(float(of_stay[job]) for job in running if bound[job])
                rows.add(
                    "limit",
                    (position, group, int(of_start is not gpus)),
                    [(RULE_S, job, float(of_stay[job])) for job in running],
                    starts=starts,
                    amounts=of_start[starts],
                    upper=max(float(most), stay),
                )
    return within


def _starts(view: RoundView, jobs: Ints) -> Ints:
    """Return the candidates of jobs."""
    first, last = view.offset[jobs], view.offset[jobs + 1]
    return np.concatenate(
        [np.zeros(0, dtype=np.int64), *map(np.arange, first.tolist(), last.tolist())]
    )


def _together(limit: RunningLimit, tree: QueueTree, view: RoundView) -> Mapping[_Key, Ints]:
    """Return the jobs that count together, by what they have in common, in order."""
    lines: dict[tuple[str, str, str], Sequence[str]] = {}
    found: dict[_Key, list[int]] = {}
    for at, known in enumerate(view.states):
        job = known.job
        alike = (job.tenant, job.user, job.qos)
        if alike not in lines:
            lines[alike] = limit.named(job, tree)
        for key in _keys(limit, job, lines[alike]):
            found.setdefault(key, []).append(at)
    return {key: np.asarray(jobs, dtype=np.int64) for key, jobs in found.items()}


def _keys(limit: RunningLimit, job: Job, queues: Sequence[str]) -> Iterator[_Key]:
    """Yield what a job has in common with the jobs that count together with it."""
    if limit.per in ("queue", "user_queue"):
        for queue in queues:
            yield (queue, job.user) if limit.per == "user_queue" else (queue,)
    elif queues:
        yield {"user": (job.user,), "job": (job.name,), "all": ()}[limit.per]
