"""Bound **deadline**: an instant by which the jobs cannot all be complete.

If all are complete by ``T``, each of them has paid for its GPUs, at any prices, at least
``K_j(T)``, the least price of its work between release and ``T``
(`morph_opt.simulation.metrics.bounds.completion`), and all together at most what the GPUs cost
until then. Prices here are 0 up to an instant ``r`` and ``lam_k`` after it, so

    K_j(T) = max over mu >= 0 of   mu - max(0, min(T, r) - r_j) max_c mu / d_c
                                      - (T - max(r, r_j)) max(0, max_c (mu / d_c - lam_{k_c} g_c))

and ``T`` is impossible if ``sum_j K_j(T) > sum_k G_k lam_k (T - r)``. Every ``r``, ``lam`` and
set of ``mu`` certifies; proof in ``docs/metrics.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from formulations import tolerances
from formulations.arrays import Floats, Ints
from morph_opt.simulation.metrics.bounds.completion import JobDemand, useful
from morph_opt.simulation.metrics.parameters import DEADLINE


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Columns over jobs; corners of their concave speed functions have shape (jobs, corners).

    ``step`` is the price of a whole job, per price of a GPU-second, from which on a corner pays
    against the one before it of its type. Padding repeats a job's last corner. The rates by
    corner and the largest rate of each job are made once for thousands of prices.
    """

    release_s: Floats
    gpus: Floats
    rate: Floats
    kind: Ints
    step: Floats
    rate_of_c: Floats = field(init=False)
    fastest: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate_of_c", np.ascontiguousarray(self.rate.T)[:, :, None])
        object.__setattr__(self, "fastest", self.rate.max(axis=1))


def deadline_makespan_s(demands: Sequence[JobDemand], gpus: Sequence[float]) -> float:
    """Return a certified lower bound on the makespan, from the first submission."""
    jobs, capacity = _columns(demands), np.asarray(gpus, dtype=np.float64)
    first_s = min(d.submission_s for d in demands)
    floors_s = jobs.release_s + 1.0 / jobs.fastest
    best_s = float(floors_s.max())
    releases_s = np.unique(jobs.release_s)
    picked = np.linspace(0, releases_s.size - 1, min(DEADLINE.instants, releases_s.size))
    prices = np.ones(capacity.size)
    for from_s in releases_s[np.unique(picked.round().astype(np.int64))].tolist():
        prices = _better_prices(jobs, capacity, from_s, prices, best_s)
        best_s = _latest(jobs, capacity, from_s, prices, best_s)
    bound_s = best_s - first_s
    return bound_s - tolerances.SUMS * (abs(bound_s) + abs(first_s))


def _columns(demands: Sequence[JobDemand]) -> _Jobs:
    rows = [_corners(demand) for demand in demands]
    widest = max(map(len, rows))
    padded = np.array([row + [row[-1]] * (widest - len(row)) for row in rows])
    return _Jobs(
        np.array([d.release_s for d in demands]),
        padded[:, :, 0],
        padded[:, :, 1],
        padded[:, :, 2].astype(np.int64),
        padded[:, :, 3],
    )


def _corners(demand: JobDemand) -> list[tuple[float, float, int, float]]:
    """Return (GPUs, rate, type, step) of every useful configuration."""
    found: list[tuple[float, float, int, float]] = []
    for gpus, rate, kind in useful(demand):
        before = found[-1] if found and found[-1][2] == kind else (0.0, 0.0, kind, 0.0)
        found.append((gpus, rate, kind, (gpus - before[0]) / (rate - before[1])))
    return found


def _excess(jobs: _Jobs, capacity: Floats, from_s: float, prices: Floats, end_s: float) -> float:
    """Return the least payment of jobs that end by ``end_s``, less the price of all GPUs.

    Above 0 the instant is impossible.
    """
    price = prices[jobs.kind]
    mu = price * jobs.step
    free_s = np.maximum(min(end_s, from_s) - jobs.release_s, 0.0)
    expensive_s = np.maximum(end_s - np.maximum(from_s, jobs.release_s), 0.0)
    by_c = jobs.rate_of_c * mu
    by_c -= (price * jobs.gpus).T[:, :, None]
    gain = np.maximum.reduce(by_c, axis=0, initial=0.0)
    gain *= expensive_s[:, None]
    paid = mu * (1.0 - free_s * jobs.fastest)[:, None] - gain
    least = np.maximum(np.maximum.reduce(paid, axis=1), 0.0)
    supply = float(capacity @ prices) * max(end_s - from_s, 0.0)
    return float(least.sum()) * (1.0 - tolerances.SUMS) - supply * (1.0 + tolerances.SUMS)


def _latest(jobs: _Jobs, capacity: Floats, from_s: float, prices: Floats, best_s: float) -> float:
    """Return the latest instant that these prices prove impossible, or ``best_s`` if later.

    The excess falls as the instant rises, so halving finds where it ends; every instant that is
    returned was shown itself.
    """
    if _excess(jobs, capacity, from_s, prices, best_s) <= 0.0:
        return best_s
    low_s, step_s = best_s, max(1.0, 0.01 * (best_s - from_s))
    while _excess(jobs, capacity, from_s, prices, low_s + step_s) > 0.0:
        low_s, step_s = low_s + step_s, 2.0 * step_s
    high_s = low_s + step_s
    for _ in range(DEADLINE.halvings):
        middle_s = 0.5 * (low_s + high_s)
        if _excess(jobs, capacity, from_s, prices, middle_s) > 0.0:
            low_s = middle_s
        else:
            high_s = middle_s
    return low_s


def _better_prices(
    jobs: _Jobs, capacity: Floats, from_s: float, prices: Floats, end_s: float
) -> Floats:
    """Return prices with a larger excess, found by a search over the logarithm of each price.

    The excess is concave in the prices and grows with all of them alike, so one is held.
    """
    log = np.log(prices)
    for _ in range(DEADLINE.turns if capacity.size > 1 else 0):
        for k in range(1, capacity.size):
            low, high = log[k] - 1.5, log[k] + 1.5
            for _ in range(DEADLINE.trials):
                third = (high - low) / 3.0
                ends = []
                for at in (low + third, high - third):
                    trial = log.copy()
                    trial[k] = at
                    trial_prices = np.exp(trial)
                    scale = float(capacity @ trial_prices)
                    found = _excess(jobs, capacity, from_s, trial_prices / scale, end_s)
                    ends.append(found)
                low, high = (low, high - third) if ends[0] >= ends[1] else (low + third, high)
            log[k] = 0.5 * (low + high)
    found_prices: Floats = np.exp(log)
    return found_prices
