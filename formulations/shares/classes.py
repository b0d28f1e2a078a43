"""Packing with identical jobs as one class: the max-min kernel over classes and pairs.

Jobs of one class have the same throughputs, gang and demand, and the same throughputs in every
pair. Spreading shares evenly over the jobs of a class keeps every row and every minimum, so the
totals of a class are enough::

    (time)      sum_m X[j,m] + sum_{pairs} Y <= n_j           (a pair of two jobs of j counts twice)
    (capacity)  sum_j s_j X[j,m] + sum_o s_o Y[o,m] <= N_m
    (share)     sum_m T[j,m] X[j,m] + sum_{pairs} T' Y >= n_j (base_j + t slope_j)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.shares.patterns import boxes
from formulations.shares.problem import ShareProblem


@dataclass(frozen=True, slots=True)
class PackedClasses:
    """Classes of jobs and of pairs.

    Parameters
    ----------
    of_job, of_pair
        Class of each job (J,) and each pair (P,).
    count, pair_count
        Members of each class, shapes (C,) and (Q,).
    speed, gang, base, slope
        Speed, gang and demand of a job of the class, shapes (C, T), (C,), (C,), (C,); speed 0 if
        not allowed.
    first, second
        Job classes of each pair class, shape (Q,).
    pair_speed, pair_gang
        Speeds and gang of a pair, shapes (Q, T, 2) and (Q,); 0 if not allowed or not worthwhile.
    capacity
        GPUs of each type, shape (T,).
    """

    of_job: Ints
    of_pair: Ints
    count: Ints
    pair_count: Ints
    speed: Floats
    gang: Ints
    base: Floats
    slope: Floats
    first: Ints
    second: Ints
    pair_speed: Floats
    pair_gang: Ints
    capacity: Floats

    @property
    def classes(self) -> int:
        """Number of job classes C."""
        return int(self.count.size)

    @property
    def fastest(self) -> Floats:
        """Largest throughput of a job of each class, alone or with another, shape (C,)."""
        top: Floats = self.speed.max(axis=1)
        np.maximum.at(top, self.first, self.pair_speed[:, :, 0].max(axis=1, initial=0.0))
        np.maximum.at(top, self.second, self.pair_speed[:, :, 1].max(axis=1, initial=0.0))
        return top

    def shares(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Spread totals per class, (C, T), and pair class, (Q, T), over jobs and pairs."""
        each = x / self.count[:, None]
        pair = y / np.maximum(self.pair_count, 1)[:, None]
        return each[self.of_job], pair[self.of_pair]


def _groups(key: Floats) -> tuple[Ints, Ints, Ints]:
    """Return first member, group of each row and group sizes of identical rows."""
    rows = np.ascontiguousarray(key)
    packed = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse, count = np.unique(
        packed, return_index=True, return_inverse=True, return_counts=True
    )
    return first, inverse.reshape(-1), count


def packed_classes(
    problem: ShareProblem, base: Floats, slope: Floats, useful: Bools
) -> PackedClasses:
    """Return the classes; every job is its own if the pairs do not allow merging.

    Parameters
    ----------
    base, slope
        Demands, steps per second, shape (J,).
    useful
        Pairs and types to offer, shape (P, T).
    """
    pairs = problem.pairs
    key = np.column_stack([problem.speed, problem.gang, base, slope])
    first, of_job, count = _groups(key)
    speeds = np.where(useful[:, :, None], pairs.throughput, 0.0)
    one, two = of_job[pairs.first], of_job[pairs.second]
    swap = one > two
    one, two = np.where(swap, two, one), np.where(swap, one, two)
    speeds = np.where(swap[:, None, None], speeds[:, :, ::-1], speeds)
    same = one == two
    # The order of two jobs of one class must not matter.
    flip = same & (speeds[:, :, 0].sum(axis=1) > speeds[:, :, 1].sum(axis=1))
    speeds = np.where(flip[:, None, None], speeds[:, :, ::-1], speeds)
    table = np.column_stack([one, two, speeds.reshape(pairs.count, -1)])
    chosen, of_pair, pair_count = _groups(table)
    a, b = one[chosen], two[chosen]
    complete = np.where(a == b, count[a] * (count[a] - 1) // 2, count[a] * count[b])
    mixed = (a == b) & ~np.isclose(speeds[chosen, :, 0], speeds[chosen, :, 1]).all(axis=1)
    if (pair_count != complete).any() or mixed.any():
        first = of_job = np.arange(problem.jobs)
        count = np.ones(problem.jobs, dtype=np.int64)
        chosen = of_pair = np.arange(pairs.count)
        pair_count = np.ones(pairs.count, dtype=np.int64)
        a, b = pairs.first, pairs.second
        speeds = np.where(useful[:, :, None], pairs.throughput, 0.0)
    return PackedClasses(
        of_job,
        of_pair,
        count,
        pair_count,
        problem.speed[first],
        problem.gang[first],
        base[first],
        slope[first],
        a,
        b,
        speeds[chosen],
        problem.pair_gang[chosen],
        problem.capacity,
    )


def class_model(classes: PackedClasses, pair: Ints, unit: float) -> LinearModel:
    """Build the kernel over classes with the (pair class, type) columns ``pair``, (n, 2).

    Columns ``X``, ``Y``, then ``t / unit``; rows ``time``, ``capacity``, ``share``, all scaled to
    the size of 1.
    """
    c = classes
    single = np.argwhere(c.speed > 0)
    builder = ModelBuilder("target shares: packed")
    job, kind = single[:, 0], single[:, 1]
    one, two = c.first[pair[:, 0]], c.second[pair[:, 0]]
    asks = c.slope > 0
    cap = float(((c.fastest - c.base)[asks] / c.slope[asks]).min())
    need = c.base + cap * c.slope
    speed = c.pair_speed[pair[:, 0], pair[:, 1]]
    top = c.count[:, None] * boxes(c.speed, need)
    shared = np.maximum(
        c.count[one] * boxes(speed[:, :1], need[one])[:, 0],
        c.count[two] * boxes(speed[:, 1:], need[two])[:, 0],
    )
    x = builder.add_columns("X", single, top[job, kind], integer=False)
    y = builder.add_columns("Y", pair, shared, integer=False)
    t = builder.add_columns("t", np.zeros((1, 0), dtype=np.int64), cap / unit, integer=False)
    every = np.arange(c.classes)
    builder.add_rows(
        "time",
        every[:, None],
        -np.inf,
        1.0,
        [(job, x, 1.0 / c.count[job]), (one, y, 1.0 / c.count[one]), (two, y, 1.0 / c.count[two])],
    )
    builder.add_rows(
        "capacity",
        np.arange(c.capacity.size)[:, None],
        -np.inf,
        1.0,
        [
            (kind, x, c.gang[job] / c.capacity[kind]),
            (pair[:, 1], y, c.pair_gang[pair[:, 0]] / c.capacity[pair[:, 1]]),
        ],
    )
    size = 1.0 / (c.count * c.speed.max(axis=1))
    each = c.count * size
    builder.add_rows(
        "share",
        every[:, None],
        c.base * each,
        np.inf,
        [
            (job, x, c.speed[job, kind] * size[job]),
            (one, y, speed[:, 0] * size[one]),
            (two, y, speed[:, 1] * size[two]),
            (every, np.full(c.classes, t[0]), -c.slope * each * unit),
        ],
    )
    cost = np.zeros(int(t[0]) + 1)
    cost[t[0]] = 1.0
    return builder.build(cost)


def class_reduced_cost(classes: PackedClasses, pair: Ints, duals: Floats) -> Floats:
    """Return the reduced cost of each (pair class, type) column of `class_model`.

    Parameters
    ----------
    duals
        Row duals of the model, shape (rows,); only their size matters.
    """
    c = classes
    size = np.abs(duals)
    time = size[: c.classes] / c.count
    price = size[c.classes : c.classes + c.capacity.size]
    push = size[c.classes + c.capacity.size :] / (c.count * c.speed.max(axis=1))
    number, kind = pair[:, 0], pair[:, 1]
    one, two = c.first[number], c.second[number]
    speed = c.pair_speed[number, kind]
    held = c.pair_gang[number] / c.capacity[kind] * price[kind]
    worth = push[one] * speed[:, 0] + push[two] * speed[:, 1]
    return np.asarray(worth - time[one] - time[two] - held)
