"""Metrics of a schedule; each is defined in ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from morph_opt.domain import Cluster
from morph_opt.metrics.history import History, JobRecord
from morph_opt.metrics.promises import PromiseCount


def metrics_of(
    history: History, cluster: Cluster, over_capacity: int, promises: PromiseCount
) -> dict[str, int | float | None]:
    """Figures by the names of `morph_opt.runs.summary.Summary`, from what was read and counted.

    Means and quantiles of completion times are over completed jobs and None without any;
    ``makespan_s`` is None while a job is neither complete nor cancelled by its search.
    """
    jobs = history.jobs
    done = [record for record in jobs if record.finish_s is not None]
    gone = sum(record.cancelled_s is not None for record in jobs)
    jct_s = [record.turnaround_s for record in done if record.turnaround_s is not None]
    first_s = min(record.job.submission_s for record in jobs)
    last_s = max((record.finish_s for record in done if record.finish_s is not None), default=0.0)
    window_gpu_s = cluster.gpus * (history.ended.time_s - began_s(history))
    held_gpu_s = sum(record.gpu_s for record in jobs)
    startup_gpu_s = sum(record.startup_gpu_s for record in jobs)
    rounds = history.rounds
    return {
        "jobs": len(jobs),
        "completed": len(done),
        "avg_jct_s": _mean(jct_s),
        "weighted_avg_jct_s": _mean(jct_s, [record.job.weight for record in done]),
        "median_jct_s": quantile(jct_s, 0.5),
        "p99_jct_s": quantile(jct_s, 0.99),
        "max_jct_s": quantile(jct_s, 1.0),
        "makespan_s": last_s - first_s if len(done) + gone == len(jobs) else None,
        "avg_queue_s": _mean([queued_s(record) for record in done]),
        "gpu_utilization": held_gpu_s / window_gpu_s if window_gpu_s > 0.0 else 0.0,
        "gpu_productive_share": 1.0 - startup_gpu_s / held_gpu_s if held_gpu_s > 0.0 else None,
        "gpu_s_held": held_gpu_s,
        "restarts_per_job": sum(record.restarts for record in jobs) / len(jobs),
        "preemptions": sum(record.preemptions + record.node_failures for record in jobs),
        "node_failure_stops": sum(record.node_failures for record in jobs),
        "rounds": rounds.count,
        "rounds_over_capacity": over_capacity,
        "fallback_rounds": rounds.fallbacks,
        "gap_max": rounds.gap_max,
        "guaranteed_jobs": sum(record.job.guaranteed for record in jobs),
        "rounds_guarantees_short": promises.short,
        "rounds_guarantees_missed": promises.missed,
        "guarantee_shortfall_sum": promises.shortfall,
    }


def began_s(history: History) -> float:
    """The first submission; of a replay that takes up a state, the instant of that."""
    first_s = min(record.job.submission_s for record in history.jobs)
    return max(first_s, history.begun.time_s)


def queued_s(record: JobRecord) -> float:
    """Seconds without GPUs between submission and completion of a completed job."""
    turnaround_s = record.turnaround_s
    if turnaround_s is None:
        raise ValueError(f"job {record.job.name} is not complete")
    return max(0.0, turnaround_s - record.held_s)


def quantile(values: Iterable[float], share: float) -> float | None:
    """Quantile with linear interpolation between order statistics; None without values."""
    sample = np.fromiter(values, dtype=float)
    return float(np.quantile(sample, share)) if sample.size else None


def _mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    if weights is not None:
        return float(np.average(values, weights=weights)) if values else None
    return sum(values) / len(values) if values else None
