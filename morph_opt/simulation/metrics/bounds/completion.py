"""Bound **completion**: jobs that end at an instant must have paid for their GPUs by then.

Relaxation: job ``j`` may at any instant run any mix of its configurations; configuration ``c``
holds ``g_c`` GPUs of type ``k_c`` and makes the share ``1 / d_c`` of the job per second. For
every path of prices ``lam_k(t) >= 0`` of a GPU-second of each type

    sum_j min_{C >= r_j + D_j} [w_j C + K_j(C)] - sum_k G_k * integral of lam_k
        <=   sum_j w_j completion_j

    K_j(C) = max_{mu >= 0} (mu - integral over r_j <= t <= C of
                                 max(0, max_c (mu / d_c - lam_{k_c}(t) g_c)))

(proof in ``docs/metrics.md``). Prices are constant per cell of a grid, so for a fixed ``mu`` the
bracket is linear in ``C`` within a cell; the largest over some ``mu`` of the smaller of its values
at the two ends is not above its minimum there. Hence a finite set of ``mu`` certifies a value for
every path of prices, and where the search for prices stops matters for strength only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations import tolerances
from formulations.arrays import Floats, Ints
from morph_opt.core.domain import InputError
from morph_opt.simulation.metrics.parameters import COMPLETION


@dataclass(frozen=True, slots=True)
class JobDemand:
    """Demand of a job: durations and GPUs of its configurations, for the bounds.

    Parameters
    ----------
    job
        Name.
    submission_s, release_s
        Submission and first boundary not before it, ``release_s >= submission_s``.
    gpus
        GPU counts of its configurations, one entry per configuration.
    duration_s
        Start-up and all iterations in that configuration, seconds.
    kind
        Its GPU type, by number.
    weight
        Weight of its completion in a weighted mean.
    """

    job: str
    submission_s: float
    release_s: float
    gpus: Floats
    duration_s: Floats
    kind: Ints
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.gpus.size == 0 or not self.gpus.shape == self.duration_s.shape == self.kind.shape:
            rule = "needs a GPU count, a duration and a GPU type per configuration"
            raise InputError(rule, field=self.job)
        if not self.weight > 0.0:
            raise InputError("needs a weight above 0", field=self.job)
        if self.release_s < self.submission_s or self.gpus.min() <= 0 or self.duration_s.min() < 0:
            raise InputError("must have positive GPUs and durations", field=self.job)

    @property
    def floor_s(self) -> float:
        """Shortest time from release to completion, alone on the cluster."""
        return float(self.duration_s.min())

    @property
    def work_gpu_s(self) -> float:
        """Fewest GPU-seconds that complete the job."""
        return float((self.gpus * self.duration_s).min())


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Columns over jobs; ``gpus``, ``rate`` and ``kind`` have shape (configurations, jobs).

    The first ``count[c]`` jobs have a configuration ``c``; entries of the others mean nothing.
    ``capacity`` has shape (types,). With weights other than 1 a job counts its payment in units
    of its own weight, so that ``C + K_j(C)`` is its share over the weight.
    """

    release_s: Floats
    weight: Floats
    floor_s: Floats
    gpus: Floats
    rate: Floats
    kind: Ints
    count: Ints
    capacity: Floats


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows of time per job, in order of jobs, with cell, begin and end.

    ``first`` is where each job's begin; ``end_s`` where its window ends. A completion beyond it
    costs at least ``end_s``, so a window that is too short weakens the bound and keeps it valid.
    """

    job: Ints
    cell: Ints
    begin_s: Floats
    until_s: Floats
    first: Ints
    end_s: Floats


def completion_jct_s(
    demands: Sequence[JobDemand],
    gpus: Sequence[float],
    guess_finish_s: Sequence[float],
    guess_kind: Sequence[int],
) -> float | None:
    """Return a certified lower bound on the mean job completion time, weighted by the demands.

    Parameters
    ----------
    demands
        At least one job.
    gpus
        GPUs of the cluster by type, in the numbering of the demands' ``kind``.
    guess_finish_s, guess_kind
        Guess of each job's completion and GPU type; first prices follow from its queues.

    Returns
    -------
    float or None
        Seconds; None for more than ``most_jobs`` jobs. Answers are remembered in the process, as
        schedulers are compared on the same jobs and nodes.
    """
    if len(demands) > COMPLETION.most_jobs:
        return None
    key = _digest(demands, gpus, guess_finish_s, guess_kind)
    if key not in _found:
        if len(_found) >= COMPLETION.remembered:
            _found.clear()
        _found[key] = _computed(demands, gpus, guess_finish_s, guess_kind)
    return _found[key]


_found: dict[bytes, float] = {}


def _digest(
    demands: Sequence[JobDemand],
    gpus: Sequence[float],
    guess_finish_s: Sequence[float],
    guess_kind: Sequence[int],
) -> bytes:
    """Return the SHA-256 of everything the bound depends on."""
    jobs = [(d.submission_s, d.release_s, d.weight, d.gpus.size) for d in demands]
    columns = [
        np.concatenate(part)
        for part in (
            [d.gpus for d in demands],
            [d.duration_s for d in demands],
            [d.kind for d in demands],
        )
    ]
    digest = hashlib.sha256()
    for column in (jobs, *columns, gpus, guess_finish_s, guess_kind):
        values = np.asarray(column, dtype=np.float64)
        digest.update(repr(values.shape).encode() + values.tobytes())
    return digest.digest()


def _computed(
    demands: Sequence[JobDemand],
    gpus: Sequence[float],
    guess_finish_s: Sequence[float],
    guess_kind: Sequence[int],
) -> float:
    rows = [useful(d) for d in demands]
    # Jobs with most configurations first: those with at least so many are then a prefix.
    order = sorted(range(len(demands)), key=lambda j: -len(rows[j]))
    jobs = _columns([demands[j] for j in order], [rows[j] for j in order], gpus)
    guess_s = np.asarray(guess_finish_s, dtype=np.float64)[order]
    kind = np.asarray(guess_kind, dtype=np.int64)[order]
    reach_s = 4.0 * jobs.floor_s + 1.5 * np.maximum(guess_s - jobs.release_s, 0.0)
    begin_s = float(jobs.release_s.min())
    span_s = 1.3 * (float(max(guess_s.max(), (jobs.release_s + jobs.floor_s).max())) - begin_s)
    wished = min(COMPLETION.windows, COMPLETION.windows_per_job * len(demands))
    step_s = max(float(reach_s.sum()) / wished, span_s / COMPLETION.cells, COMPLETION.least_cell_s)
    edges_s = begin_s + step_s * np.arange(int(np.ceil(span_s / step_s)) + 2, dtype=np.float64)
    best_s = _raise(jobs, reach_s, edges_s, _queue_prices(jobs, guess_s, kind, edges_s))
    submitted_s = np.array([d.submission_s for d in demands])
    weight = np.array([d.weight for d in demands])
    bound_s = best_s / len(demands) - float(np.average(submitted_s, weights=weight))
    return bound_s - tolerances.SUMS * (abs(bound_s) + float(np.abs(submitted_s).max()))


def _columns(
    demands: Sequence[JobDemand],
    rows: Sequence[list[tuple[float, float, int]]],
    gpus: Sequence[float],
) -> _Jobs:
    """Return the columns of jobs, with the configurations that are best at some prices."""
    widest = len(rows[0])
    weight = np.array([d.weight for d in demands])
    padded = np.array([row + [row[-1]] * (widest - len(row)) for row in rows])
    floor_s = np.array([float(d.duration_s.min()) for d in demands])
    return _Jobs(
        np.array([d.release_s for d in demands]),
        weight / weight.mean(),
        floor_s,
        np.ascontiguousarray(padded[:, :, 0].T),
        np.ascontiguousarray(padded[:, :, 1].T),
        np.ascontiguousarray(padded[:, :, 2].T.astype(np.int64)),
        np.array([sum(len(row) > c for row in rows) for c in range(widest)]),
        np.asarray(gpus, dtype=np.float64),
    )


def useful(demand: JobDemand) -> list[tuple[float, float, int]]:
    """Return corners (GPUs, rate, type) of the concave hull of each type's configurations."""
    rate = 1.0 / np.maximum(demand.duration_s, COMPLETION.shortest_s)
    return [
        (*corner, kind)
        for kind in sorted(set(demand.kind.tolist()))
        for corner in _hull(demand.gpus[demand.kind == kind], rate[demand.kind == kind])
    ]


def _hull(gpus: Floats, rate: Floats) -> list[tuple[float, float]]:
    """Return the corners of the concave hull from the origin to the highest point."""
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
    """Return whether ``b`` is not above the line from ``a`` to ``c``."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def _queue_prices(jobs: _Jobs, finish_s: Floats, kind: Ints, edges_s: Floats) -> Floats:
    """Return first prices, shape (types, cells), from guessed completions and GPU types.

    On one fluid machine a GPU-second delays all jobs that end after it: its price is their
    weight over the GPUs.
    """
    middle_s = 0.5 * (edges_s[:-1] + edges_s[1:])
    price = np.zeros((jobs.capacity.size, middle_s.size))
    for k, capacity in enumerate(jobs.capacity.tolist()):
        mine = kind == k
        begun = _weight_until(jobs.release_s[mine], jobs.weight[mine], middle_s)
        ended = _weight_until(finish_s[mine], jobs.weight[mine], middle_s)
        price[k] = np.maximum(begun - ended, 0.0) / capacity
    return price


def _weight_until(at_s: Floats, weight: Floats, until_s: Floats) -> Floats:
    """Return the total weight of events up to and including these instants."""
    order = np.argsort(at_s, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(weight[order])])
    found: Floats = total[np.searchsorted(at_s[order], until_s, side="right")]
    return found


def _windows(jobs: _Jobs, reach_s: Floats, edges_s: Floats) -> _Windows:
    step_s, begin_s = float(edges_s[1] - edges_s[0]), float(edges_s[0])
    first = np.floor((jobs.release_s - begin_s) / step_s).astype(np.int64)
    first = np.clip(first, 0, edges_s.size - 2)
    last = np.ceil((jobs.release_s + reach_s - begin_s) / step_s).astype(np.int64)
    last = np.clip(last, first + 1, edges_s.size - 1)
    count = last - first
    job = np.repeat(np.arange(count.size), count)
    offset = np.cumsum(count) - count
    cell = np.arange(job.size) - np.repeat(offset - first, count)
    until_s = edges_s[cell + 1]
    begin_at_s = np.minimum(np.maximum(edges_s[cell], jobs.release_s[job]), until_s)
    return _Windows(job, cell, begin_at_s, until_s, offset, edges_s[last])


def _raise(jobs: _Jobs, reach_s: Floats, edges_s: Floats, price: Floats) -> float:
    """Return the best certified sum of completions found while prices rise from ``price``.

    Supergradient steps with Adam's step lengths (Kingma and Ba 2015) and a falling rate, from the
    best multiple of the first prices: a line search would stumble over the kinks. No linear
    algebra, so nothing starts threads.
    """
    params = COMPLETION
    step_s = float(edges_s[1] - edges_s[0])
    supply = jobs.capacity[:, None] * step_s
    least_s = np.maximum(jobs.floor_s, params.shortest_s)
    mu = np.geomspace(2.0**-7.5, 2.0**5, params.prices) * least_s[:, None]

    def fitted() -> tuple[_Windows, Floats]:
        windows = _windows(jobs, reach_s, edges_s)
        room = np.empty((4, params.prices, windows.job.size))
        room[0] = mu.T[:, windows.job]
        return windows, room

    windows, room = fitted()

    def at(prices: Floats) -> tuple[float, Floats, _Paid]:
        paid = _paid(jobs, windows, prices, mu, room)
        value_s = float(jobs.weight @ paid.share_s) - float((supply * prices).sum())
        return value_s, paid.used - supply, paid

    best_s, scale = max((at(part * price)[0], part) for part in (0.0, 0.5, 1.0))
    typical = float(price[price > 0.0].mean()) if (price > 0.0).any() else 1.0 / jobs.capacity.sum()
    x = scale * price / typical
    mean, square = np.zeros(x.shape), np.zeros(x.shape)
    for step in range(1, params.steps + 1):
        value_s, slope, paid = at(x * typical)
        best_s = max(best_s, value_s)
        if step in params.regrid:
            reach_s = 1.1 * (paid.share_s - jobs.release_s) + 4.0 * step_s
            mu = np.geomspace(0.9 * paid.mu_low, 1.1 * paid.mu_high, params.prices, axis=1)
            windows, room = fitted()
        slope = slope * typical
        mean = params.mean * mean + (1.0 - params.mean) * slope
        square = params.square * square + (1.0 - params.square) * slope * slope
        size = np.sqrt(square / (1.0 - params.square**step)) + params.epsilon
        rate = params.rate * (1.0 - (step - 1) / params.steps) / (1.0 - params.mean**step)
        x = np.maximum(x + rate * mean / size, 0.0)
    return best_s


@dataclass(frozen=True, slots=True)
class _Paid:
    """Least sum of completion and payment per job, with its minimiser.

    ``share_s`` is a lower bound on ``min_C [C + K_j(C)]``; ``used`` the GPU-seconds held then by
    type and cell (the supergradient); ``mu_low`` and ``mu_high`` the prices of a whole job between
    which those of near-best completions lie.
    """

    share_s: Floats
    used: Floats
    mu_low: Floats
    mu_high: Floats


def _gains(
    jobs: _Jobs, windows: _Windows, price: Floats, mu: Floats, gain: Floats, with_c: Floats
) -> Floats:
    """Write the largest gain of a second per mu and window to ``gain``; return the costs.

    Return the cost per configuration and window, inf for configurations that a job lacks.
    """
    gain[:] = 0.0
    cost = np.full((jobs.count.size, windows.job.size), np.inf)
    ends = np.append(windows.first, windows.job.size)
    for c, count in enumerate(jobs.count.tolist()):
        have = slice(0, int(ends[count]))
        job, mine, most = windows.job[have], with_c[:, have], gain[:, have]
        gpus = jobs.gpus[c, job] / jobs.weight[job]
        cost[c, have] = price[jobs.kind[c, job], windows.cell[have]] * gpus
        np.multiply(mu[:, have], jobs.rate[c, job], out=mine)
        np.subtract(mine, cost[c, have], out=mine)
        np.maximum(most, mine, out=most)
    return cost


def _first_best(values: Floats) -> tuple[Floats, Ints]:
    """Return the largest value of each column and its first row, row by row like `argmax`."""
    best, at = values[0].copy(), np.zeros(values.shape[1], dtype=np.int64)
    for row in range(1, values.shape[0]):
        np.copyto(at, row, where=values[row] > best)
        np.maximum(best, values[row], out=best)
    return best, at


def _paid(jobs: _Jobs, windows: _Windows, price: Floats, mu_of: Floats, room: Floats) -> _Paid:
    """Return the least value per job of the module's bracket, from tables of mu by window.

    ``room`` holds the mu of every window and three work tables, reused because allocating such
    large tables costs as much as the sums.
    """
    job, rows = windows.job, np.arange(windows.job.size)
    mu, gain, part, earned = room
    cost = _gains(jobs, windows, price, mu, gain, part)
    np.multiply(gain, windows.until_s - windows.begin_s, out=part)
    np.cumsum(part, axis=1, out=earned)
    length = np.diff(windows.first, append=job.size)
    earned -= np.repeat(earned[:, windows.first] - part[:, windows.first], length, axis=1)
    # No completion before this instant; in the cell where it lies, the bracket begins there.
    earliest_s = (jobs.release_s + jobs.floor_s)[job]
    from_s = np.clip(earliest_s, windows.begin_s, windows.until_s)
    to_pay = np.subtract(mu, earned, out=earned)
    right = np.add(to_pay, windows.until_s, out=part)
    left = np.multiply(gain, windows.until_s - from_s, out=gain)
    left += to_pay
    left += from_s
    largest, at_mu = _first_best(np.minimum(left, right, out=to_pay))
    lower_s = np.where(windows.until_s >= earliest_s, largest, np.inf)
    share_s = np.minimum(np.minimum.reduceat(lower_s, windows.first), windows.end_s)
    last = np.full(share_s.size, -1)  # the first stretch with the least value; -1: beyond them all
    hit = np.flatnonzero(lower_s == share_s[job])[::-1]
    last[job[hit]] = hit
    at = at_mu[last]
    # The first of the configurations that earn most at the mu that was taken; -1: none earns.
    most, which = _first_best(mu[at[job], rows] * jobs.rate[:, job] - cost)
    picked = np.where(most > 0.0, which, -1)
    ends_left = left[at, last] < right[at, last]
    ends_here = (rows == last[job]) & ends_left[job]
    held_s = np.where(ends_here, from_s, windows.until_s) - windows.begin_s
    held_s *= (rows <= last[job]) & (picked >= 0)
    key = jobs.kind[picked, job] * price.shape[1] + windows.cell
    used = np.bincount(key, held_s * jobs.gpus[picked, job], price.size).reshape(price.shape)
    near = lower_s <= (share_s + COMPLETION.close * (share_s - jobs.release_s))[job]
    tried = mu_of.shape[1] - 1
    low = np.minimum.reduceat(np.where(near, at_mu, tried), windows.first)
    high = np.maximum.reduceat(np.where(near, at_mu, 0), windows.first)
    low, high = np.minimum(low, high), np.maximum(low, high)
    of = np.arange(share_s.size)
    mu_low: Floats = mu_of[of, np.maximum(low - 1, 0)]
    mu_high: Floats = mu_of[of, np.minimum(high + 1, tried)]
    return _Paid(share_s, np.asarray(used, dtype=np.float64), mu_low, mu_high)
