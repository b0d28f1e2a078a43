"""The bound **malleable**: jobs that reshape for nothing, priced GPU-seconds.

Relaxation: job ``j`` may at any instant run any mix of its configurations; configuration ``c``
holds ``g_c`` GPUs and makes the share ``1 / d_c`` of the job per second. The mean time at which
the job's work is done, plus half of its shortest duration ``D_j``, is no later than its
completion. Every price path ``lam(t) >= 0`` of a GPU-second and every ``mu_j`` then give

    sum_j [mu_j - integral over t >= r_j of max(0, max_c (mu_j - t) / d_c - lam(t) g_c)]
        - G * integral of lam + sum_j D_j / 2   <=   sum_j completion_j

(proof in ``docs/metrics.md``). The left side is concave in ``(mu, lam)``; it is raised by a fixed
number of gradient steps. Where they stop matters for strength only: every value is certified.
The integrand is convex in ``t`` between two grid points, so the trapezoidal rule is never below
the integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_JOBS = 5_000
"""Beyond, the bound is not computed: it would take longer than a replay may."""
_MOST_SEGMENTS = 80_000
_WISHED_SEGMENTS = 24_000
_WISHED_PER_JOB = 100
_MOST_BUCKETS = 2_000
_STEPS = (80, 80)
_MEAN, _SQUARE, _RATE = 0.9, 0.99, 0.1


class Demand(Protocol):
    """What is read of a `morph_opt.metrics.bounds.lower.JobDemand`."""

    @property
    def submission_s(self) -> float:
        """Submission."""
        ...

    @property
    def release_s(self) -> float:
        """First boundary not before it."""
        ...

    @property
    def gpus(self) -> Floats:
        """GPUs per configuration."""
        ...

    @property
    def duration_s(self) -> Floats:
        """Duration per configuration."""
        ...


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Columns over jobs; ``gpus`` and ``rate`` have shape (configurations, jobs)."""

    release_s: Floats
    floor_s: Floats
    gpus: Floats
    rate: Floats
    total_gpus: float


@dataclass(frozen=True, slots=True)
class _Grid:
    """Ends of stretches of time: every stretch appears twice, with its begin and with its end.

    ``job`` and ``bucket`` of each, its instant ``at_s``, and half its length. ``gpus`` and
    ``rate`` are those of the job, shape (configurations, ends). ``last_s`` is where the stretches
    of each job end: its ``mu`` must not lie beyond.
    """

    job: Ints
    bucket: Ints
    at_s: Floats
    half_s: Floats
    gpus: Floats
    rate: Floats
    last_s: Floats


def malleable_jct_s(
    demands: Sequence[Demand], gpus: int, guess_finish_s: Sequence[float]
) -> float | None:
    """A certified lower bound on the mean job completion time.

    Parameters
    ----------
    demands
        At least one job.
    gpus
        GPUs of the whole cluster.
    guess_finish_s
        A guess of each job's completion; it only sets how far ahead prices are looked at.

    Returns
    -------
    float or None
        Seconds; None for more than `MOST_JOBS` jobs.
    """
    if len(demands) > MOST_JOBS:
        return None
    jobs = _columns(demands, gpus)
    guess_s = np.asarray(guess_finish_s) - jobs.release_s
    reach_s = 4.0 * jobs.floor_s + 1.5 * np.maximum(guess_s, 0.0)
    begin_s = float(jobs.release_s.min())
    end_s = float((jobs.release_s + 2.0 * reach_s).max())
    wished = min(_WISHED_SEGMENTS, _WISHED_PER_JOB * len(demands))
    step_s = max(6.0 * float(jobs.floor_s.sum()) / wished, (end_s - begin_s) / _MOST_BUCKETS, 1e-6)
    while _segments(reach_s, step_s) > _MOST_SEGMENTS:
        step_s *= 1.25
    count = int(np.ceil((end_s - begin_s) / step_s)) + 2
    edges_s = begin_s + step_s * np.arange(count, dtype=np.float64)
    mu_s, price = jobs.release_s + jobs.floor_s, np.zeros(edges_s.size - 1)
    best_s = -np.inf
    for steps in _STEPS:
        if _segments(reach_s, step_s) > 2 * _MOST_SEGMENTS:
            break
        grid = _grid(jobs, reach_s, edges_s)
        mu_s, price, value_s = _raise(jobs, grid, (mu_s, price), edges_s, steps)
        best_s = max(best_s, value_s)
        reach_s = 1.5 * (mu_s - jobs.release_s) + 8.0 * step_s
    submitted_s = np.array([d.submission_s for d in demands])
    bound_s = best_s + float((jobs.floor_s / 2.0 - submitted_s).mean())
    return bound_s - 1e-9 * abs(bound_s)  # rounding of the sums


def _columns(demands: Sequence[Demand], gpus: int) -> _Jobs:
    """Per job only the configurations that some price makes best, padded with the last one."""
    hulls = [_hull(d.gpus, 1.0 / np.maximum(d.duration_s, 1e-9)) for d in demands]
    widest = max(len(hull) for hull in hulls)
    padded = np.array([hull + [hull[-1]] * (widest - len(hull)) for hull in hulls])
    return _Jobs(
        np.array([d.release_s for d in demands]),
        np.array([float(d.duration_s.min()) for d in demands]),
        np.ascontiguousarray(padded[:, :, 0].T),
        np.ascontiguousarray(padded[:, :, 1].T),
        float(gpus),
    )


def _hull(gpus: Floats, rate: Floats) -> list[tuple[float, float]]:
    """Corners of the least concave function from the origin over these points, up to its top."""
    corners = [(0.0, 0.0)]
    for index in np.lexsort((-rate, gpus)).tolist():
        point = (float(gpus[index]), float(rate[index]))
        if point[1] <= corners[-1][1]:
            continue
        while len(corners) > 1 and _below(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return corners[1:]


def _below(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether ``b`` is not above the line from ``a`` to ``c``."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def _segments(reach_s: Floats, step_s: float) -> float:
    return float((reach_s / step_s + 2.0).sum())


def _grid(jobs: _Jobs, reach_s: Floats, edges_s: Floats) -> _Grid:
    step_s, begin_s = float(edges_s[1] - edges_s[0]), float(edges_s[0])
    most = edges_s.size - 1
    first = np.floor((jobs.release_s - begin_s) / step_s).astype(np.int64)
    last = np.ceil((jobs.release_s + reach_s - begin_s) / step_s).astype(np.int64)
    last = np.clip(last, first + 1, most)
    first = np.minimum(first, last - 1)
    count = last - first
    job = np.repeat(np.arange(count.size), count)
    offset = np.concatenate(([0], np.cumsum(count)))
    bucket = np.arange(offset[-1]) - np.repeat(offset[:-1] - first, count)
    end_s = edges_s[bucket + 1]
    start_s = np.minimum(np.maximum(edges_s[bucket], jobs.release_s[job]), end_s)
    half_s = 0.5 * (end_s - start_s)
    job = np.concatenate((job, job))
    return _Grid(
        job,
        np.concatenate((bucket, bucket)),
        np.concatenate((start_s, end_s)),
        np.concatenate((half_s, half_s)),
        jobs.gpus[:, job],
        jobs.rate[:, job],
        edges_s[last],
    )


def _raise(
    jobs: _Jobs, grid: _Grid, at: tuple[Floats, Floats], edges_s: Floats, steps: int
) -> tuple[Floats, Floats, float]:
    """Raise the bound from ``at = (mu, price)``; returns the best point met and its value.

    Adam steps (Kingma and Ba 2015) with a falling rate, in units of the jobs' own durations: a
    line search would stumble over the kinks. No linear algebra, so nothing starts threads. The
    value leaves out the constants of the formula and is divided by the number of jobs.
    """
    count = jobs.release_s.size
    typical = float((1.0 / jobs.gpus[-1]).mean())  # GPU-seconds as dear as the job's own time
    unit = np.concatenate((np.maximum(jobs.floor_s, 1e-9), np.full(at[1].size, typical)))
    most = np.concatenate((grid.last_s - jobs.release_s, np.full(at[1].size, np.inf))) / unit
    step_s = float(edges_s[1] - edges_s[0])
    x = np.minimum(np.concatenate((at[0] - jobs.release_s, at[1])) / unit, most)
    best_x, best = x, -np.inf
    mean, square = np.zeros(x.size), np.zeros(x.size)
    for step in range(1, steps + 1):
        mu_s, price = jobs.release_s + x[:count] * unit[:count], x[count:] * unit[count:]
        value, by_mu, by_price = _value(jobs, grid, mu_s, price, step_s)
        if value > best:
            best_x, best = x, value
        slope = np.concatenate((by_mu, by_price)) * unit
        mean = _MEAN * mean + (1.0 - _MEAN) * slope
        square = _SQUARE * square + (1.0 - _SQUARE) * slope * slope
        size = np.sqrt(square / (1.0 - _SQUARE**step)) + 1e-12
        rate = _RATE * (1.0 - (step - 1) / steps) / (1.0 - _MEAN**step)
        x = np.clip(x + rate * mean / size, 0.0, most)
    mu_s = jobs.release_s + best_x[:count] * unit[:count]
    return mu_s, best_x[count:] * unit[count:], best / count


def _value(
    jobs: _Jobs, grid: _Grid, mu_s: Floats, price: Floats, step_s: float
) -> tuple[float, Floats, Floats]:
    """The bound's varying part with its (super)gradients by ``mu`` and by price."""
    left_s, dear = mu_s[grid.job] - grid.at_s, price[grid.bucket]
    top, gpus, rate = np.zeros(left_s.size), np.zeros(left_s.size), np.zeros(left_s.size)
    for c in range(grid.gpus.shape[0]):
        gain = left_s * grid.rate[c] - dear * grid.gpus[c]
        better = gain > top
        np.copyto(top, gain, where=better)
        np.copyto(gpus, grid.gpus[c], where=better)
        np.copyto(rate, grid.rate[c], where=better)
    supply = jobs.total_gpus * step_s
    value = float(mu_s.sum()) - supply * float(price.sum()) - float((grid.half_s * top).sum())
    by_mu, by_price = np.ones(mu_s.size), np.full(price.size, -supply)
    by_mu -= np.bincount(grid.job, grid.half_s * rate, mu_s.size)
    by_price += np.bincount(grid.bucket, grid.half_s * gpus, price.size)
    return value, by_mu, by_price
