"""Metrics of a schedule, defined in ``docs/metrics.md``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from morph_opt.core.domain import Cluster
from morph_opt.simulation.metrics.history import History, JobRecord, Scalar
from morph_opt.simulation.metrics.losses import loss_metrics
from morph_opt.simulation.metrics.promises import PromiseCount


def metrics_of(
    history: History, cluster: Cluster, over_capacity: int, promises: PromiseCount
) -> dict[str, int | float | None]:
    """Return figures of the schedule by the names of `simulation.runs.summary.Summary`.

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
    waits_s = [queued_s(record) for record in done]
    return {
        "jobs": len(jobs),
        "completed": len(done),
        "avg_jct_s": _mean(jct_s),
        "weighted_avg_jct_s": _mean(jct_s, [record.job.weight for record in done]),
        "median_jct_s": quantile(jct_s, 0.5),
        "p99_jct_s": quantile(jct_s, 0.99),
        "max_jct_s": quantile(jct_s, 1.0),
        "makespan_s": last_s - first_s if len(done) + gone == len(jobs) else None,
        "avg_queue_s": _mean(waits_s),
        "p95_queue_s": quantile(waits_s, 0.95),
        "p99_queue_s": quantile(waits_s, 0.99),
        "bounded_slowdown": _mean([bounded_slowdown(record) for record in done]),
        "gpu_utilization": held_gpu_s / window_gpu_s if window_gpu_s > 0.0 else 0.0,
        "gpu_productive_share": 1.0 - startup_gpu_s / held_gpu_s if held_gpu_s > 0.0 else None,
        "gpu_s_held": held_gpu_s,
        **loss_metrics(jobs),
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
    """Return the first submission, or the instant of the state from which the replay starts."""
    first_s = min(record.job.submission_s for record in history.jobs)
    return max(first_s, history.begun.time_s)


def bounded_slowdown(record: JobRecord) -> float:
    """Return JCT over the seconds with GPUs of a completed job, these at least 10 s, at least 1.

    Source: Feitelson et al., "Theory and Practice in Parallel Job Scheduling" (JSSPP 1997).
    """
    turnaround_s = queued_s(record) + record.held_s
    return max(1.0, turnaround_s / max(record.held_s, 10.0))


def queued_s(record: JobRecord) -> float:
    """Return the seconds without GPUs between submission and completion of a completed job."""
    turnaround_s = record.turnaround_s
    if turnaround_s is None:
        raise ValueError(f"job {record.job.name} is not complete")
    return max(0.0, turnaround_s - record.held_s)


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the quantile with linear interpolation; None without values."""
    sample = np.fromiter(values, dtype=float)
    return float(np.quantile(sample, share)) if sample.size else None


def _mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    if weights is not None:
        return float(np.average(values, weights=weights)) if values else None
    return sum(values) / len(values) if values else None


Gpu = tuple[int, int]
Stretch = tuple[float, float]


def gpu_utilization_by_type(history: History, cluster: Cluster) -> dict[str, float]:
    """Return the utilisation of each GPU type from the first submission to the end.

    An instant at which several jobs hold a GPU counts once.

    Returns
    -------
    dict
        GPU type to a fraction in [0, 1], types in order of their names; 0 in a replay of no
        length.
    """
    nodes_gpu_type = [node.type.gpu_type.name for node in cluster.nodes]
    counts: defaultdict[str, int] = defaultdict(int)
    for node in cluster.nodes:
        counts[node.type.gpu_type.name] += node.type.gpus
    length_s = history.ended.time_s - began_s(history)
    held_s: defaultdict[str, float] = defaultdict(float)
    for (node_index, _), stretches in stretches_by_gpu(history.jobs).items():
        held_s[nodes_gpu_type[node_index]] += covered_s(stretches)
    return {
        name: held_s[name] / (counts[name] * length_s) if length_s > 0.0 else 0.0
        for name in sorted(counts)
    }


def stretches_by_gpu(records: Iterable[JobRecord]) -> dict[Gpu, list[Stretch]]:
    """Return the intervals in which each GPU was held, by (node index, GPU index)."""
    found: defaultdict[Gpu, list[Stretch]] = defaultdict(list)
    for record in records:
        for segment in record.segments:
            for node, gpus in segment.placement.parts:
                for gpu in gpus:
                    found[node, gpu].append((segment.start_s, segment.end_s))
    return found


def covered_s(stretches: list[Stretch]) -> float:
    """Return the length of the union of intervals."""
    total_s, until_s = 0.0, float("-inf")
    for start_s, end_s in sorted(stretches):
        total_s += max(0.0, end_s - max(start_s, until_s))
        until_s = max(until_s, end_s)
    return total_s


def shared_s(record: JobRecord) -> float:
    """Return the seconds that a job ran next to a partner, start-up included."""
    return sum((segment.shared_s for segment in record.segments), 0.0)


def packing_metrics(history: History) -> dict[str, str | float | int | None]:
    """Return figures of a run in which jobs share GPUs.

    Returns
    -------
    dict
        ``packed_jobs``, the jobs that ever ran next to a partner, and ``packed_gpu_share``, the
        part of all GPU-seconds held that two jobs held together; None if nothing ran.
    """
    held = sum(record.gpu_s for record in history.jobs)
    shared = sum(record.shared_gpu_s for record in history.jobs)
    return {
        "packed_jobs": sum(shared_s(record) > 0.0 for record in history.jobs),
        "packed_gpu_share": shared / held if held > 0.0 else None,
    }


def service_metrics(history: History) -> dict[str, Scalar]:
    """Return mean time to first service and to first report, and the longest wait.

    ``feedback_s`` is missing if no job of the trace has a report.
    """
    end_s = history.ended.time_s
    jobs = [record for record in history.jobs if record.submitted]
    first = [r.starting_s - r.job.submission_s for r in jobs if r.starting_s is not None]
    found: dict[str, Scalar] = {
        "first_service_s": _mean(first),
        "longest_wait_s": max((longest_wait_s(record, end_s) for record in jobs), default=None),
    }
    if any(record.job.feedback_iterations is not None for record in history.jobs):
        instants = [(record, reported_s(record)) for record in jobs]
        instants_s = [at - record.job.submission_s for record, at in instants if at is not None]
        found |= {"reported_jobs": len(instants_s), "feedback_s": _mean(instants_s)}
    cancelled = sum(record.cancelled_s is not None for record in history.jobs)
    if cancelled:
        found["cancelled_jobs"] = cancelled
    late_s = [record.late_s for record in history.jobs if record.late_s > 0.0]
    if late_s:
        found |= {"late_jobs": len(late_s), "late_max_s": max(late_s)}
    plans = history.plans
    if plans.count:
        found |= {"plans": plans.count, "plan_gap": _mean(plans.gaps)}
        found["moved_promises"] = plans.moved
    return found


def reported_s(record: JobRecord) -> float | None:
    """Return the instant of a job's first report; None if it has none or none was seen."""
    wanted = record.job.feedback_iterations
    if wanted is None:
        return None
    for segment in record.segments:
        instant = segment.reached_s(wanted)
        if instant is not None:
            return instant
    # By rounding, the last iteration of a job may come slightly after its completion.
    return record.finish_s if wanted == record.job.iterations else None


def longest_wait_s(record: JobRecord, end_s: float) -> float:
    """Return the longest time without GPUs between submission and end of a job."""
    begin_s = 0.0 if record.before is None else record.before.time_s
    free_s, longest = max(record.job.submission_s, begin_s), 0.0
    for segment in record.segments:
        longest = max(longest, segment.start_s - free_s)
        free_s = segment.end_s
    return max(longest, record.end_s(end_s) - free_s)
