"""Cheapest way for one job to reach a throughput at given GPU prices: exact, vectorised.

At prices ``lambda[m]`` (per GPU of type m) job j with demand D solves

    min s_j sum_m lambda_m x_m   with   sum_m T[j,m] x_m >= D,  sum_m x_m <= 1,  x >= 0,

a linear program with two rows: an optimal basic solution uses no type (D <= 0), one type
(``x_m = D / T_m``) or two types with both rows tight. These are the *patterns*. They give the
Lagrangian dual of the max-min kernel exactly and in closed form, and with few types most jobs'
pattern is certain once the prices are roughly known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.parameters import SHARES
from formulations.tolerances import ROUNDING


@dataclass(frozen=True, slots=True)
class Patterns:
    """Best patterns of all jobs.

    Parameters
    ----------
    best
        Index of the cheapest pattern, shape (J,): 0 none, 1..T one type, then pairs of types.
    cost
        Cost of that pattern, shape (J,); inf if the demand cannot be met.
    slope
        Derivative of the cost by the demand, shape (J,).
    second
        Cost of the cheapest other pattern, shape (J,).
    """

    best: Ints
    cost: Floats
    slope: Floats
    second: Floats


def type_pairs(types: int) -> list[tuple[int, int]]:
    """Return the ordered pairs (fast, slow) of type indices of patterns T + 1 and up."""
    return [p for a, b in combinations(range(types), 2) for p in ((a, b), (b, a))]


def price(speed: Floats, gang: Ints, prices: Floats, demand: Floats) -> Patterns:
    """Return the cheapest pattern of every job.

    Parameters
    ----------
    speed
        Steps per second, shape (J, T); 0 if not allowed.
    gang
        GPUs, shape (J,).
    prices
        Price of a GPU of each type, at least 0, shape (T,).
    demand
        Steps per second, shape (J,).
    """
    jobs, types = speed.shape
    tariff = gang[:, None] * prices[None, :]
    need = demand[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        per_step = np.where(speed > 0, tariff / speed, np.inf)
        enough = (speed > 0) & (need >= 0) & (speed * (1 + ROUNDING) >= need)
        single = np.where(enough, per_step * need, np.inf)
    options = [np.where(demand <= 0, 0.0, np.inf), *single.T]
    slopes = [np.zeros(jobs), *per_step.T]
    for fast, slow in type_pairs(types):
        a, b = speed[:, fast], speed[:, slow]
        mixed = (a > demand) & (demand > b) & (b > 0)
        span = np.where(mixed, a - b, 1.0)
        slope = (tariff[:, fast] - tariff[:, slow]) / span
        cost = tariff[:, slow] + slope * (demand - b)
        options.append(np.where(mixed, cost, np.inf))
        slopes.append(slope)
    table = np.stack(options, axis=1)
    rows = np.arange(jobs)
    best = table.argmin(axis=1)
    cost = table[rows, best]
    slope = np.stack(slopes, axis=1)[rows, best]
    table[rows, best] = np.inf
    return Patterns(best, cost, np.where(np.isfinite(slope), slope, 0.0), table.min(axis=1))


def boxes(speed: Floats, need: Floats) -> Floats:
    """Return shares that no job needs to exceed to reach ``need`` (steps/s, (J,)), shape (J, T).

    Far below 1 they give a solver the size of a column; 1 unless the need is small.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = SHARES.spare * np.maximum(need, 0.0)[:, None] / speed
    return np.asarray(np.where((speed > 0) & (share < SHARES.small_share), share, 1.0))


def affine_shares(speed: Floats, best: Ints) -> tuple[Floats, Floats]:
    """Return the shares of a pattern as ``constant + per_step * demand``, each (J, T)."""
    jobs, types = speed.shape
    constant, per_step = np.zeros((jobs, types)), np.zeros((jobs, types))
    for kind in range(types):
        rows = np.flatnonzero(best == kind + 1)
        per_step[rows, kind] = 1.0 / speed[rows, kind]
    for number, (fast, slow) in enumerate(type_pairs(types), start=types + 1):
        rows = np.flatnonzero(best == number)
        if rows.size:
            span = speed[rows, fast] - speed[rows, slow]
            per_step[rows, fast], per_step[rows, slow] = 1.0 / span, -1.0 / span
            constant[rows, fast] = -speed[rows, slow] / span
            constant[rows, slow] = speed[rows, fast] / span
    return constant, per_step
