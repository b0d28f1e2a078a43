"""Normalised throughput: what max-min fairness itself is about, of completed jobs."""

from __future__ import annotations

import numpy as np

from morph_opt.core.domain import Cluster
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.simulation.metrics.history import History, JobRecord
from morph_opt.simulation.metrics.parameters import FIGURES


def life_throughput(history: History, cluster: Cluster, speeds: SpeedModel) -> dict[str, float]:
    """What max-min fairness is about, over whole lives: ``s_j thr_j / (w_j p_j)`` by job name.

    thr_j is the work of a completed job over its JCT, p_j its speed on an equal mix of all GPU
    types (Gavel, OSDI'20, section 4.1). The smallest of these is the policy's own measure.

    Parameters
    ----------
    speeds
        The truth.
    """
    unit = _throughput_units(history, cluster, speeds)
    return {
        r.job.name: unit[r.job.name] * r.job.iterations / max(r.turnaround_s, 1e-9)
        for r in history.jobs
        if r.submitted and r.turnaround_s is not None
    }


def least_throughput(
    history: History, cluster: Cluster, speeds: SpeedModel, window_s: float = FIGURES.window_s
) -> list[float]:
    """Per window the smallest ``s_j thr_j / (w_j p_j)`` of the jobs active all through it."""
    unit = _throughput_units(history, cluster, speeds)
    records = [record for record in history.jobs if record.submitted]
    horizon_s = history.ended.time_s
    least = []
    for begin_s in np.arange(0.0, horizon_s, window_s).tolist():
        close_s = begin_s + window_s
        values = [
            unit[r.job.name] * _done_between(r, begin_s, close_s) / window_s
            for r in records
            if r.job.submission_s <= begin_s and r.end_s(horizon_s) >= close_s
        ]
        if values:
            least.append(min(values))
    return least


def _throughput_units(history: History, cluster: Cluster, speeds: SpeedModel) -> dict[str, float]:
    """``s_j / (w_j p_j)`` by job name."""
    gangs = GangSpeeds.on(cluster, speeds)
    mix = gangs.capacity / gangs.capacity.sum()
    jobs = [record.job for record in history.jobs if record.submitted]
    return {j.name: j.requested_gpus / (j.weight * float(gangs.row(j) @ mix)) for j in jobs}


def _done_between(record: JobRecord, begin_s: float, close_s: float) -> float:
    """Iterations in a window, even over each segment's time after its start-up."""
    done = 0.0
    for segment in record.segments:
        ready_s = segment.start_s + segment.startup_s
        inside_s = min(close_s, segment.end_s) - max(begin_s, ready_s)
        if inside_s > 0:
            done += segment.iterations * inside_s / (segment.end_s - ready_s)
    return done
