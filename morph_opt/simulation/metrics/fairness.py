"""Fairness of a replay: finish-time ratios, shares over time, shares of entities, queueing.

Defined in ``docs/formulations/fairness-metrics.md``. Jobs that did not complete have no
finish-time ratio; all other figures count them until they were cancelled or the replay ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.core.domain import Cluster
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.simulation.metrics.history import History, JobRecord, Scalar
from morph_opt.simulation.metrics.parameters import FIGURES
from morph_opt.simulation.metrics.schedule import quantile

SIZES = (("small", 1, 1), ("medium", 2, 8), ("large", 9, 1 << 30))
"""Size classes by requested GPUs: name, from, to."""


def fairness_metrics(
    history: History, cluster: Cluster, finish_time: Mapping[str, float]
) -> dict[str, Scalar]:
    """Return figures of fairness by the names of `Summary`; None if undefined.

    Parameters
    ----------
    finish_time
        See `finish_time_ratios`.
    """
    records = [record for record in history.jobs if record.submitted]
    ratios = list(finish_time.values())
    window = _window_shares(history, cluster)
    queues = {name: _queue(records, low, high) for name, low, high in SIZES}
    return {
        "ftf_max": quantile(ratios, 1.0),
        "ftf_p99": quantile(ratios, 0.99),
        "ftf_median": quantile(ratios, 0.5),
        "ftf_mean": float(np.mean(ratios)) if ratios else None,
        "ftf_above_1": float(np.mean(np.asarray(ratios) > 1.0)) if ratios else None,
        "jain_service": jain([_service(r, history.ended.time_s) for r in records]),
        "min_share_mean": float(np.mean(window)) if window else None,
        "min_share_worst": min(window, default=None),
        "entity_shares": _entity_shares(records),
        "queue_small_s": queues["small"],
        "queue_medium_s": queues["medium"],
        "queue_large_s": queues["large"],
    }


def finish_time_ratios(
    history: History,
    cluster: Cluster,
    speeds: SpeedModel,
    first_start_of: Callable[[str], float],
) -> dict[str, float]:
    """Return finish-time ratios of completed jobs by name (Themis; Gavel, section 4.2).

    JCT over the time that the job would take alone on 1/n of every GPU type, n being the mean
    number of active jobs during its life (itself included): ``start + iterations / I(n)``,
    with ``I(n) = sum_t T_t x_t``, ``x_t = N_t / (n s)``, scaled down to sum 1 if it exceeds 1.

    Parameters
    ----------
    speeds
        The truth.
    first_start_of
        Start-up seconds of a model's first start, the one that an isolated run pays.
    """
    gangs = GangSpeeds.on(cluster, speeds)
    records = [record for record in history.jobs if record.submitted]
    starts = np.asarray([r.job.submission_s for r in records])
    ends = np.asarray([r.end_s(history.ended.time_s) for r in records])
    ratios = {}
    for record, active in zip(records, mean_active(starts, ends).tolist(), strict=True):
        if record.turnaround_s is None:
            continue
        job = record.job
        share = gangs.capacity / (active * job.requested_gpus)
        share = share / max(1.0, float(share.sum()))
        speed = gangs.row(job)
        rate = float(speed @ share)
        start_s = first_start_of(job.model)
        ratios[job.name] = record.turnaround_s / (start_s + job.iterations / rate)
    return ratios


def mean_active(starts: Floats, ends: Floats) -> Floats:
    """Return the mean number of active jobs during each job's life, itself included; at least 1.

    Sum the lives that overlap its beginning, add later beginnings and subtract ends, each for the
    rest of the life.

    Parameters
    ----------
    starts, ends
        Instants, shape (J,) each, ``starts <= ends``.
    """
    begun, ended = np.sort(starts), np.sort(ends)
    from_begun, until_begun = (np.searchsorted(begun, at, side="right") for at in (starts, ends))
    from_ended, until_ended = (np.searchsorted(ended, at, side="right") for at in (starts, ends))
    area = (from_begun - from_ended) * (ends - starts)
    area += (until_begun - from_begun) * ends - _range_sums(begun, from_begun, until_begun)
    area -= (until_ended - from_ended) * ends - _range_sums(ended, from_ended, until_ended)
    return np.maximum(1.0, area / np.maximum(ends - starts, 1e-9))


def _range_sums(values: Floats, first: Ints, last: Ints) -> Floats:
    """Return sums of ``values[first:last]``, each added up separately to keep all digits."""
    if not values.size:
        return np.zeros(first.size)
    bounds = np.column_stack([first, last]).ravel()
    sums = np.add.reduceat(np.append(values, 0.0), bounds)[::2]
    return np.where(first < last, sums, 0.0)


def jain(values: Sequence[float]) -> float | None:
    """Return the Jain index ``(sum a)^2 / (n sum a^2)``; None without a positive value."""
    sample = np.asarray(values, dtype=np.float64)
    square = float((sample**2).sum())
    return float(sample.sum()) ** 2 / (sample.size * square) if square > 0 else None


def _service(record: JobRecord, horizon_s: float) -> float:
    """Return mean GPUs over the job's life, per unit of weight."""
    life = max(record.end_s(horizon_s) - record.job.submission_s, 1e-9)
    return record.gpu_s / (life * record.job.weight)


def _window_shares(history: History, cluster: Cluster) -> list[float]:
    """Return each window's smallest received part of an equal share, over jobs active throughout.

    The equal share of a job is its weight's part of all GPUs, at most what it requested.
    """
    records = [record for record in history.jobs if record.submitted]
    if not records:
        return []
    starts = np.asarray([r.job.submission_s for r in records])
    ends = np.asarray([r.end_s(history.ended.time_s) for r in records])
    weight = np.asarray([r.job.weight for r in records])
    asked = np.asarray([float(r.job.requested_gpus) for r in records])
    shares = []
    window_s = FIGURES.window_s
    begins = np.arange(float(starts.min()), float(ends.max()), window_s)
    # Years without jobs have no shares, and are not looked at window by window.
    present = np.zeros(begins.size + 1, dtype=np.int64)
    np.add.at(present, np.searchsorted(begins, starts), 1)
    np.add.at(present, np.searchsorted(begins, ends), -1)
    for begin in begins[np.cumsum(present)[:-1] > 0].tolist():
        close = begin + window_s
        inside = np.flatnonzero((starts <= begin) & (ends >= close))
        if not inside.size:
            continue
        life = np.maximum(0.0, np.minimum(ends, close) - np.maximum(starts, begin))
        rivals = float((weight * life).sum()) / window_s
        due = np.minimum(asked[inside], cluster.gpus * weight[inside] / rivals) * window_s
        got = np.asarray([_held_between(records[i], begin, close) for i in inside.tolist()])
        shares.append(float(np.minimum(1.0, got / due).min()))
    return shares


def _held_between(record: JobRecord, begin_s: float, end_s: float) -> float:
    """Return GPU-seconds held inside a window."""
    return sum(segment.gpu_s_between(begin_s, end_s) for segment in record.segments)


def _entity_shares(records: Sequence[JobRecord]) -> str:
    total: dict[str, float] = {}
    for record in records:
        total[record.job.tenant] = total.get(record.job.tenant, 0.0) + record.gpu_s
    whole = sum(total.values())
    if whole <= 0:
        return ""
    return " ".join(f"{name}={total[name] / whole:.3f}" for name in sorted(total))


def _queue(records: Sequence[JobRecord], low: int, high: int) -> float | None:
    waits = [
        max(0.0, r.turnaround_s - r.held_s)
        for r in records
        if r.turnaround_s is not None and low <= r.job.requested_gpus <= high
    ]
    return float(np.mean(waits)) if waits else None
