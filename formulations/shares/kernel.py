"""The max-min kernel with most jobs' patterns fixed: a small exact linear model.

    maximise t  subject to  thr_j >= base_j + t slope_j  and the polytope of `model`.

Given GPU prices, `patterns.price` finds how each job meets its demand. If that is certain, the
job's shares are an affine function of t and need neither columns nor rows; other jobs are *free*.
`reduced_model` is the resulting model, `price_bound` the Lagrangian bound that certifies its answer
for all jobs. The driver is `morph_opt.scheduling.shares.max_min`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.parameters import SHARES
from formulations.shares.patterns import Patterns, affine_shares, boxes, price
from formulations.tolerances import SMALLEST, SOLVED


@dataclass(frozen=True, slots=True)
class Demands:
    """Demanded speeds of the jobs as a function of the level t.

    Parameters
    ----------
    speed
        Steps per second, shape (J, T); 0 if a share is not allowed.
    load
        GPUs of a share of 1, shape (J,): the gang, times the number of merged jobs.
    capacity
        GPUs of each type, shape (T,).
    base, slope
        ``thr_j >= base_j + t slope_j``, steps per second, shape (J,), slope at least 0.
    """

    speed: Floats
    load: Ints
    capacity: Floats
    base: Floats
    slope: Floats

    @property
    def jobs(self) -> int:
        """Number of jobs J."""
        return int(self.load.size)

    def at(self, level: float) -> Floats:
        """Return the demanded steps per second, shape (J,)."""
        return self.base + level * self.slope

    @property
    def cap(self) -> float:
        """Largest level that every job could reach alone on its fastest type."""
        rows = self.slope > 0
        room = self.speed.max(axis=1)[rows] - self.base[rows]
        return float((room / self.slope[rows]).min(initial=np.inf))

    @property
    def unit(self) -> float:
        """Size of the level for scaling, above 0."""
        rows = self.slope > 0
        return float((self.speed.max(axis=1)[rows] / self.slope[rows]).min(initial=np.inf))

    def level(self, x: Floats) -> float:
        """Return the largest level that the shares reach, from the definition."""
        rows = self.slope > 0
        thr = (self.speed * x).sum(axis=1)
        short = (thr < self.base - SOLVED * self.speed.max(axis=1)) & ~rows
        if short.any():
            return -np.inf
        return float(((thr - self.base)[rows] / self.slope[rows]).min(initial=np.inf))

    def take(self, rows: Ints, capacity: Floats) -> Demands:
        """Return the demands of some of the jobs on another cluster."""
        return Demands(
            self.speed[rows], self.load[rows], capacity, self.base[rows], self.slope[rows]
        )


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduced model and the way back.

    Parameters
    ----------
    model
        Columns x of free jobs, ``t`` and ``load``; rows ``time``, ``capacity``, ``share``.
    free
        Indices of the free jobs, ascending.
    entry
        (position in ``free``, type) of each x column.
    unit
        Unit of the column ``t / unit``.
    constant, per_step
        Affine shares of the fixed jobs (0 in the rows of free ones), shape (J, T).
    """

    model: LinearModel
    free: Ints
    entry: Ints
    unit: float
    constant: Floats
    per_step: Floats

    def shares(self, demands: Demands, point: Floats) -> tuple[float, Floats]:
        """Return level and shares (J, T) of a point."""
        level = float(point[self.entry.shape[0]]) * self.unit
        x = self.constant + self.per_step * demands.at(level)[:, None]
        x[self.free[self.entry[:, 0]], self.entry[:, 1]] = point[: self.entry.shape[0]]
        return level, np.maximum(x, 0.0)


def reduced_model(
    demands: Demands, free: Bools, best: Ints, *, level: tuple[float, float], minimise_load: bool
) -> Reduced:
    """Build the exact model of the free jobs, the fixed ones folded into the capacity rows.

    Parameters
    ----------
    free
        Jobs that keep their columns, shape (J,).
    best
        Pattern of every fixed job, shape (J,).
    level
        Bounds of t; equal bounds fix it.
    minimise_load
        Whether to minimise the largest used fraction of a type instead of maximising t.
    """
    rows = np.flatnonzero(free)
    constant, per_step = affine_shares(demands.speed, best)
    constant[rows], per_step[rows] = 0.0, 0.0
    weight = demands.load[:, None] / np.maximum(demands.capacity, SMALLEST)[None, :]
    held = (weight * (constant + per_step * demands.base[:, None])).sum(axis=0)
    grows = (weight * per_step * demands.slope[:, None]).sum(axis=0)
    unit = demands.unit
    entry = np.argwhere(demands.speed[rows] > 0)
    job, kind = rows[entry[:, 0]], entry[:, 1]
    builder = ModelBuilder("target shares: reduced")
    x, t, load = _columns(builder, demands, job, kind, level, minimise_load)
    size = 1.0 / demands.speed[rows].max(axis=1)
    place = np.arange(rows.size)
    builder.add_rows("time", rows[:, None], -np.inf, 1.0, [(entry[:, 0], x, 1.0)])
    types = np.arange(demands.capacity.size)
    builder.add_rows(
        "capacity",
        types[:, None],
        -np.inf,
        -held,
        [
            (kind, x, weight[job, kind]),
            (types, np.full(types.size, t), grows * unit),
            (types, np.full(types.size, load), -1.0),
        ],
    )
    builder.add_rows(
        "share",
        rows[:, None],
        demands.base[rows] * size,
        np.inf,
        [
            (entry[:, 0], x, demands.speed[job, kind] * size[entry[:, 0]]),
            (place, np.full(rows.size, t), -demands.slope[rows] * size * unit),
        ],
    )
    cost = np.zeros(x.size + 2)
    cost[load if minimise_load else t] = -1.0 if minimise_load else 1.0
    return Reduced(builder.build(cost), rows, entry, unit, constant, per_step)


def _columns(
    builder: ModelBuilder,
    demands: Demands,
    job: Ints,
    kind: Ints,
    level: tuple[float, float],
    minimise_load: bool,
) -> tuple[Ints, int, int]:
    """Add the columns x[job, kind] and the single columns t and load."""
    # Only jobs with a slope: the holdings of others are 0 or large against rounding.
    need = np.where(demands.slope > 0, demands.at(level[1]), np.inf)
    top = boxes(demands.speed, need)
    x = builder.add_columns("x", np.stack([job, kind], axis=1), top[job, kind], integer=False)
    single = np.zeros((1, 0), dtype=np.int64)
    low, high = (float(end) / demands.unit for end in level)
    t = builder.add_columns("t", single, high, integer=False, lower=low)
    load = builder.add_columns(
        "load",
        single,
        np.inf if minimise_load else 1.0,
        integer=False,
        lower=0.0 if minimise_load else 1.0,
    )
    return x, int(t[0]), int(load[0])


def forced_patterns(demands: Demands) -> Ints:
    """Return the pattern of jobs whose shares are certain at any prices; -1 for the others.

    A job that has nothing and demands nothing takes nothing. A job that demands no more and has, to
    1e-6, the speed of its fastest type spends all its time there, unless another type is about as
    fast.
    """
    fastest = demands.speed.max(axis=1)
    best = demands.speed.argmax(axis=1)
    others = demands.speed.copy()
    others[np.arange(demands.jobs), best] = 0.0
    quiet = demands.slope <= 0
    at_top = demands.base >= (1.0 - SOLVED) * fastest
    tops = quiet & at_top & (others.max(axis=1) < SHARES.clear * fastest)
    return np.where(quiet & (demands.base <= 0), 0, np.where(tops, best + 1, -1))


def price_bound(demands: Demands, prices: Floats, level: float) -> tuple[float, Patterns]:
    """Return an upper bound on the level by GPU prices, and the patterns at ``level``.

    Notes
    -----
    At prices ``lambda >= 0`` every feasible level t has
    ``L(t) = sum_j cost_j(t) - lambda' N <= 0``.
    L is convex and increasing, so the root of its tangent at ``level`` is not below its own root.
    """
    found = price(demands.speed, demands.load, prices, demands.at(level))
    cap = demands.cap
    if not np.isfinite(found.cost).all():
        return cap, found
    excess = float(found.cost.sum() - prices @ demands.capacity)
    rate = float(found.slope @ demands.slope)
    if rate <= 0.0:
        return cap, found
    return min(cap, level - excess / rate), found
