"""Max-min kernel with packing pairs, by column generation.

256 one-GPU jobs have 32,640 pairs and, on three types, 97,920 columns; an optimal answer uses a
few hundred. Identical jobs are merged into classes; then start with the jobs alone, price every
pair with the row duals, add the best ones, and repeat until no pair has a positive reduced cost:
the answer is then optimal for all pairs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats, Ints
from formulations.shares.classes import (
    PackedClasses,
    class_model,
    class_reduced_cost,
    packed_classes,
)
from formulations.shares.kernel import Demands
from formulations.shares.model import fastest
from formulations.shares.problem import ShareProblem
from formulations.tolerances import SMALLEST
from morph_opt.scheduling.shares.max_min import Raised, Solve, raise_level
from morph_opt.scheduling.shares.parameters import PACKING


def worthwhile(problem: ShareProblem) -> npt.NDArray[np.bool_]:
    """Return the pairs and types on which sharing beats taking turns, shape (P, T).

    Two jobs that take turns on a GPU keep fractions f and 1 - f of their speed. A pair whose
    kept fractions add up to at most 1 can be replaced by turns in any answer, so leaving it out
    is exact (for pairs of equal gangs; others are always kept).
    """
    pairs = problem.pairs
    alone = np.stack([problem.speed[pairs.first], problem.speed[pairs.second]], axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(problem.pair_allowed[:, :, None], pairs.throughput / alone, 0.0)
    equal = problem.gang[pairs.first] == problem.gang[pairs.second]
    gain = kept.sum(axis=2) > 1.0
    return np.asarray(problem.pair_allowed & (gain | ~equal[:, None]))


def packed_raise(
    problem: ShareProblem, base: Floats, slope: Floats, solve: Solve
) -> tuple[float, Floats, Floats, int]:
    """Return the largest level with packing.

    Returns
    -------
    tuple
        Proven bound on the level, shares of jobs (J, T) and of pairs (P, T), models solved.

    Raises
    ------
    ValueError
        If no level is feasible.
    """
    classes = packed_classes(problem, base, slope, worthwhile(problem))
    offers = np.argwhere((classes.pair_speed > 0).all(axis=2) & (classes.pair_count > 0)[:, None])
    top = classes.speed.max(axis=1)
    asks = classes.slope > 0
    unit = float((top[asks] / classes.slope[asks]).min())
    chosen = np.full(len(offers), len(offers) <= PACKING.direct)
    turns = 0
    # Every turn but the last offers at least one more column, so it ends.
    while True:
        turns += 1
        outcome = solve(class_model(classes, offers[chosen], unit))
        if outcome.x is None or outcome.row_duals is None:
            raise ValueError("no level is feasible: the demands at level 0 exceed the cluster")
        gain = class_reduced_cost(classes, offers, outcome.row_duals)
        gain[chosen] = 0.0
        better = np.flatnonzero(gain > PACKING.reduced_cost)
        if not better.size:
            break
        chosen[_spread(classes, offers, gain, better)] = True
    x, y = _totals(classes, offers[chosen], outcome.x)
    shares = classes.shares(x, y)
    return outcome.objective * unit, *shares, turns


def _totals(classes: PackedClasses, pair: Ints, point: Floats) -> tuple[Floats, Floats]:
    x = np.zeros_like(classes.speed)
    single = np.argwhere(classes.speed > 0)
    x[single[:, 0], single[:, 1]] = point[: len(single)]
    y = np.zeros((classes.pair_count.size, classes.capacity.size))
    y[pair[:, 0], pair[:, 1]] = point[len(single) : len(single) + len(pair)]
    return np.maximum(x, 0.0), np.maximum(y, 0.0)


def _spread(classes: PackedClasses, offers: Ints, gain: Floats, better: Ints) -> Ints:
    """Return the best columns, a limited number per class."""
    order = better[np.argsort(-gain[better], kind="stable")]
    used = np.zeros(classes.classes, dtype=np.int64)
    taken: list[int] = []
    limit = max(64, classes.classes)
    one, two = classes.first[offers[order, 0]].tolist(), classes.second[offers[order, 0]].tolist()
    for index, a, b in zip(order.tolist(), one, two, strict=True):
        if used[a] < PACKING.per_job and used[b] < PACKING.per_job:
            used[a] += 1
            used[b] += 1
            taken.append(index)
            if len(taken) >= limit:
                break
    return np.asarray(taken, dtype=np.int64)


def raise_rates(
    problem: ShareProblem,
    slope: Floats,
    solve: Solve,
    base: Floats | None = None,
    prices: Floats | None = None,
) -> tuple[Raised, Floats]:
    """Return the largest level of ``base + t slope`` with or without pairs, and the shares.

    Raises
    ------
    ValueError
        If no level is feasible, or no job has a positive slope.
    """
    base = np.zeros(problem.jobs) if base is None else base
    if problem.pairs.count:
        level, x, y, turns = packed_raise(problem, base, slope, solve)
        x, y = granted(problem, x, y, base + level * slope)
        rates = problem.rates(x, y)
        rows = slope > 0
        reached = float(((rates - base)[rows] / slope[rows]).min())
        none = np.zeros(problem.types)
        return Raised(reached, level, x, none, np.zeros(problem.jobs), turns), y
    demands = Demands(problem.speed, problem.gang, problem.capacity, base, slope)
    return raise_level(demands, solve, prices), np.zeros((0, problem.types))


def granted(problem: ShareProblem, x: Floats, y: Floats, floor: Floats) -> tuple[Floats, Floats]:
    """Return shares that fit exactly and keep floors that a model left out or rounded away.

    Only what is small against the rest may be missing: it is added on the fastest type, and all
    that is there makes room for it.
    """
    missing = floor - problem.rates(x, y)
    missing = np.where(missing > PACKING.rounding * floor, missing, 0.0)
    if missing.any():
        x = x.copy()
        x[np.arange(problem.jobs), problem.speed.argmax(axis=1)] += missing / fastest(problem)
    pairs = problem.pairs
    time = x.sum(axis=1)
    np.add.at(time, pairs.first, y.sum(axis=1))
    np.add.at(time, pairs.second, y.sum(axis=1))
    busy = np.maximum(time, 1.0)
    x, y = x / busy[:, None], y / np.maximum(busy[pairs.first], busy[pairs.second])[:, None]
    used = problem.gang @ x + problem.pair_gang @ y
    over = np.maximum(used / np.maximum(problem.capacity, SMALLEST), 1.0)
    return x / over, y / over
