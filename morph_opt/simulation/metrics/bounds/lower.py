"""Certified lower bounds that no schedule under the engine's rules can beat.

Every bound is the optimum of a relaxation, or a value that cannot exceed it; the proofs are in
``docs/metrics.md`` under the names used here: **floor**, **srpt**, **completion**, **work**,
**deadline**.

Notation: job ``j`` is submitted at ``s_j`` and cannot start before its first boundary ``r_j``;
configuration ``c`` of it uses ``g_c`` GPUs and, run alone from start to end, takes
``d_c = restart + iterations * iteration_s(c)`` seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from morph_opt.simulation.metrics.bounds.completion import JobDemand, completion_jct_s
from morph_opt.simulation.metrics.bounds.deadline import deadline_makespan_s


@dataclass(frozen=True, slots=True)
class Demands:
    """Demands of all jobs, and the GPUs of the cluster.

    Parameters
    ----------
    jobs
        At least one.
    gpus
        GPUs of the cluster by type, in the numbering of `JobDemand.kind`.
    """

    jobs: tuple[JobDemand, ...]
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Certified value and the relaxation that gives it."""

    value_s: float
    relaxation: str


def floor_jct_s(demands: Sequence[JobDemand]) -> float:
    """Return the mean JCT if every job had the cluster alone: ``r_j - s_j + min_c d_c``."""
    total = sum(d.release_s - d.submission_s + d.floor_s for d in demands)
    return total / len(demands)


def srpt_finish_s(demands: Sequence[JobDemand], gpus: int) -> list[float]:
    """Return completion times under SRPT on one fluid machine.

    Job ``j`` needs ``min_c g_c d_c`` GPU-seconds from ``r_j`` on; the machine serves ``gpus``
    GPU-seconds per second, to any number of jobs at once.
    """
    order = sorted(range(len(demands)), key=lambda index: demands[index].release_s)
    finish_s = [0.0] * len(demands)
    heap: list[tuple[float, int]] = []
    now_s, position = 0.0, 0
    while heap or position < len(order):
        if not heap:
            now_s = max(now_s, demands[order[position]].release_s)
        while position < len(order) and demands[order[position]].release_s <= now_s:
            heapq.heappush(heap, (demands[order[position]].work_gpu_s / gpus, order[position]))
            position += 1
        left_s, index = heapq.heappop(heap)
        next_s = demands[order[position]].release_s if position < len(order) else np.inf
        if now_s + left_s <= next_s:
            now_s += left_s
            finish_s[index] = now_s
        else:
            heapq.heappush(heap, (left_s - (next_s - now_s), index))
            now_s = next_s
    return finish_s


def fluid_schedule(demands: Demands) -> tuple[list[float], list[int]]:
    """Return a guess of the completion time and GPU type of each job.

    In order of release, each job goes to the type on which the work given so far lets it end
    first; on each type, shortest remaining processing time.
    """
    free_s = [-np.inf] * len(demands.gpus)
    kinds = [0] * len(demands.jobs)
    for index in sorted(range(len(kinds)), key=lambda index: demands.jobs[index].release_s):
        job = demands.jobs[index]
        ends = []
        for k in sorted(set(job.kind.tolist())):
            work_s = float((job.gpus * job.duration_s)[job.kind == k].min()) / demands.gpus[k]
            ends.append((max(free_s[k], job.release_s) + work_s, k))
        free_s[min(ends)[1]], kinds[index] = min(ends)
    finish_s = [0.0] * len(kinds)
    for k, gpus in enumerate(demands.gpus):
        mine = [index for index, kind in enumerate(kinds) if kind == k]
        there = [_only(demands.jobs[index], k) for index in mine]
        for index, end_s in zip(mine, srpt_finish_s(there, gpus), strict=True):
            finish_s[index] = end_s
    return finish_s, kinds


def _only(job: JobDemand, kind: int) -> JobDemand:
    """Return the job with its configurations of one GPU type."""
    mine = job.kind == kind
    return replace(job, gpus=job.gpus[mine], duration_s=job.duration_s[mine], kind=job.kind[mine])


def srpt_jct_s(demands: Sequence[JobDemand], gpus: int) -> float:
    """Return the mean JCT of `srpt_finish_s`: SRPT is optimal on that machine (Schrage 1968)."""
    finish_s = srpt_finish_s(demands, gpus)
    return (sum(finish_s) - sum(d.submission_s for d in demands)) / len(demands)


def floor_makespan_s(demands: Sequence[JobDemand]) -> float:
    """Return the latest ``r_j + min_c d_c``, counted from the first submission."""
    first_s = min(d.submission_s for d in demands)
    return max(d.release_s + d.floor_s for d in demands) - first_s


def work_makespan_s(demands: Sequence[JobDemand], gpus: int) -> float:
    """Return the latest ``r + work released at r or later / gpus``, from the first submission."""
    first_s = min(d.submission_s for d in demands)
    work_gpu_s, latest_s = 0.0, 0.0
    for demand in sorted(demands, key=lambda d: d.release_s, reverse=True):
        work_gpu_s += demand.work_gpu_s
        latest_s = max(latest_s, demand.release_s + work_gpu_s / gpus)
    return latest_s - first_s


def _best(candidates: dict[str, float]) -> LowerBound:
    name = max(candidates, key=lambda key: candidates[key])
    return LowerBound(candidates[name], name)


def avg_jct_lower_bound(demands: Demands) -> LowerBound:
    """Return the strongest bound on the unweighted mean job completion time."""
    jobs, gpus = tuple(replace(job, weight=1.0) for job in demands.jobs), sum(demands.gpus)
    demands = replace(demands, jobs=jobs)
    values = {"floor": floor_jct_s(jobs), "srpt": srpt_jct_s(jobs, gpus)}
    completion_s = completion_jct_s(jobs, demands.gpus, *fluid_schedule(demands))
    if completion_s is not None:
        values["completion"] = completion_s
    return _best(values)


def weighted_jct_lower_bound(demands: Demands) -> LowerBound:
    """Return the strongest bound on the mean job completion time, weighted by the jobs' weights."""
    jobs = demands.jobs
    waits_s = [d.release_s + d.floor_s - d.submission_s for d in jobs]
    values = {"floor": float(np.average(waits_s, weights=[d.weight for d in jobs]))}
    completion_s = completion_jct_s(jobs, demands.gpus, *fluid_schedule(demands))
    if completion_s is not None:
        values["completion"] = completion_s
    return _best(values)


def makespan_lower_bound(demands: Demands) -> LowerBound:
    """Return the strongest bound on the makespan."""
    jobs, gpus = demands.jobs, sum(demands.gpus)
    return _best(
        {
            "floor": floor_makespan_s(jobs),
            "work": work_makespan_s(jobs, gpus),
            "deadline": deadline_makespan_s(jobs, demands.gpus),
        }
    )
