"""What became of promises to guaranteed jobs; each figure is defined in ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from morph_opt.domain import Cluster, Job
from morph_opt.metrics.bounds.demands import fitting
from morph_opt.metrics.history import History, JobRecord
from morph_opt.perf.speed import SpeedModel

ROUNDS = 2
"""Rounds that a promised end allows for: one until the first boundary, one for its rounding."""


@dataclass(frozen=True, slots=True)
class PromiseMetrics:
    """Figures of one replay with guaranteed jobs; None where no such job completed.

    Parameters
    ----------
    guaranteed_avg_jct_s, best_effort_avg_jct_s
        Mean JCT of completed jobs with and without a promise.
    guaranteed_late_jobs, guaranteed_late_s
        Guaranteed jobs that took longer than they were promised, and by how much in sum.
    """

    guaranteed_avg_jct_s: float | None
    best_effort_avg_jct_s: float | None
    guaranteed_late_jobs: int
    guaranteed_late_s: float

    def as_dict(self) -> dict[str, int | float | None]:
        """Flat values for ``summary.json``."""
        return asdict(self)


def promise_metrics(
    history: History,
    cluster: Cluster,
    speeds: SpeedModel,
    restart_of: Callable[[str], float],
) -> PromiseMetrics:
    """All figures.

    Parameters
    ----------
    speeds
        The truth.
    restart_of
        Start-up seconds of a model.
    """
    paces: dict[tuple[object, ...], float] = {}

    def promised_s(job: Job) -> float:
        key = (job.model, job.requested_gpus, job.requested_plan, job.cpus_per_gpu)
        if key not in paces:
            paces[key] = _requested_iteration_s(job, cluster, speeds)
        work_s = job.iterations * paces[key]
        return restart_of(job.model) + work_s + ROUNDS * history.begun.interval_s

    promised = [r for r in history.jobs if r.submitted and r.job.guaranteed]
    late_s = [
        max(0.0, _age_s(record, history.ended.time_s) - promised_s(record.job))
        for record in promised
    ]
    return PromiseMetrics(
        guaranteed_avg_jct_s=_mean_jct_s(promised),
        best_effort_avg_jct_s=_mean_jct_s([r for r in history.jobs if not r.job.guaranteed]),
        guaranteed_late_jobs=sum(seconds > 0.0 for seconds in late_s),
        guaranteed_late_s=sum(late_s),
    )


def _requested_iteration_s(job: Job, cluster: Cluster, speeds: SpeedModel) -> float:
    """Of the request in its tightest shape; where it runs nowhere, of the slowest that does."""
    rows = tuple(fitting(speeds, job.model, cluster, job.cpus_per_gpu))
    asked = [
        (row.shape.nodes, row.iteration_s)
        for row in rows
        if row.plan == job.requested_plan and row.shape.gpus == job.requested_gpus
    ]
    return min(asked)[1] if asked else max(row.iteration_s for row in rows)


def _age_s(record: JobRecord, ended_s: float) -> float:
    """From submission to completion, or to the end of the replay."""
    return (ended_s if record.finish_s is None else record.finish_s) - record.job.submission_s


def _mean_jct_s(records: list[JobRecord]) -> float | None:
    jct_s = [record.turnaround_s for record in records if record.turnaround_s is not None]
    return float(np.mean(jct_s)) if jct_s else None
