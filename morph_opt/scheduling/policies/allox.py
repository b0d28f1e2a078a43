"""AlloX (EuroSys'20): match waiting jobs to GPU types and queue positions for the least total time.

Each job of a single machine takes a type and a place in a machine's queue. The job that runs k-th
from the end, for d seconds, delays k jobs, itself among them, and so adds ``k d`` to the sum of
completion times (Horn 1973). The least sum is an assignment problem, which `least_total` solves.
Page: ``docs/published-heuristics.md``.
"""

from __future__ import annotations

import numpy as np

from formulations.alike import earlier_first
from formulations.arrays import Floats, Ints
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy
from morph_opt.scheduling.policies.published import ALLOX


def least_total(work_s: Floats, machines: Ints) -> tuple[Ints, Ints, float]:
    """Return the assignment with the least sum of completion times.

    Machines of a type are alike, so places of a type are counted over all of them: of n machines
    the first n places are last in line, the next n last but one.

    Parameters
    ----------
    work_s
        Seconds of each job on a machine of each type, inf where it cannot run; shape (J, T), each
        row finite on a type with machines.
    machines
        Number of machines of each type, shape (T,).

    Returns
    -------
    kind, depth, total_s
        Type of each job and its place from the end of the line, from 1; sum of completion times.
    """
    # A fifth of a second to import, for this policy alone.
    from scipy.optimize import linear_sum_assignment

    jobs = work_s.shape[0]
    kinds = np.flatnonzero(machines > 0)
    depth = np.concatenate([1 + np.arange(jobs) // machines[k] for k in kinds])
    kind = np.repeat(kinds, jobs)
    cost = work_s[:, kind] * depth
    row, column = linear_sum_assignment(cost)
    return kind[column], depth[column], float(cost[row, column].sum())


class AlloX(FillingPolicy):
    """AlloX on requested gangs, never preempted: waiting jobs are matched to free GPUs.

    A gang of g GPUs counts as g times its seconds on one. Per type the jobs first in line start;
    where a gang does not fit, the next in line may.
    """

    name = "allox"

    def fill(self, filling: Filling) -> None:
        """Keep running jobs, then start the heads of the queues of the free GPUs."""
        problem = filling.problem
        jobs, table, nodes = problem.jobs, problem.candidates, problem.nodes
        for job in filling.running:
            filling.keep(job)
        free = np.where(nodes.open, filling.room.nodes[:, 0], 0.0)
        machines = np.bincount(nodes.node_class, free, nodes.classes).astype(np.int64)
        work_s = np.full((jobs.count, nodes.classes), np.inf)
        seconds = jobs.restart_s[table.job] + jobs.iterations_left[table.job] * table.iteration_s
        np.minimum.at(work_s, (table.job, table.node_class), table.gpus * seconds)
        could = np.isfinite(work_s[:, machines > 0]).any(axis=1)
        waiting = np.flatnonzero(could & ~jobs.running)[: ALLOX.oldest]
        if not waiting.size:
            return
        kind, depth, _ = least_total(work_s[waiting], machines)
        # Jobs that take equal times may swap their places in line: the earlier starts first.
        equal = [row.tobytes() for row in work_s[waiting]]
        matched = list(zip((-depth).tolist(), kind.tolist(), strict=True))
        lines = earlier_first(equal, matched, lambda place: place)
        order = sorted(
            range(len(lines)), key=lambda at: (lines[at][0], work_s[waiting[at], lines[at][1]])
        )
        for at in order:
            job, on = int(waiting[at]), lines[at][1]
            filling.start(job, (k for k in filling.candidates(job) if table.node_class[k] == on))
