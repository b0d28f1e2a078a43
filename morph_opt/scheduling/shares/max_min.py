"""Fast max-min kernel with a certificate: sample, price, fix, certify.

1. A few jobs on a cluster scaled down to them give rough GPU prices.
2. Every job's cheapest pattern at these prices is known in closed form; those that are certain are
   fixed, a hundred or so stay free, and a small exact model gives new prices.
3. The Lagrangian bound of those prices is compared with the level of the shares, recomputed from
   the definition. Equal: done, proven for all jobs. Not equal: mend the free set and repeat.

HiGHS on the whole model needs 0.06 to 0.6 s at 2,048 jobs and 3 types, this a few hundredths;
``python -m benchmarks.fairness times`` has the figures. The whole model is the last resort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel
from formulations.scaling import lagrangian_bound, scaled
from formulations.shares.kernel import Demands, forced_patterns, price_bound, reduced_model
from formulations.shares.patterns import Patterns, affine_shares, price
from formulations.tolerances import ROUNDING, SAME_VALUE, SMALLEST
from morph_opt.scheduling.shares.parameters import KERNEL
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, relative_gap
from morph_opt.scheduling.solvers.registry import make_solver

Solve = Callable[[LinearModel], Outcome]


def lp_solver() -> Solve:
    """Return a function that solves continuous models of any scaling with one thread.

    The bound of its outcomes is recomputed from the row duals where all columns have a box.
    """
    solver = make_solver("highs")
    limits = Limits(gap=0.0, time_s=600.0, threads=1)

    def solve(model: LinearModel) -> Outcome:
        small = scaled(model)
        outcome = solver.solve(small.model, limits)
        if outcome.x is None:
            return outcome
        x, duals = small.point(outcome.x), outcome.row_duals
        duals = None if duals is None else small.duals(duals)
        value = model.objective(x)
        bound = np.inf if duals is None else lagrangian_bound(model, duals)
        bound = bound if np.isfinite(bound) else outcome.bound / small.objective
        return replace(
            outcome,
            x=x,
            row_duals=duals,
            objective=value,
            bound=max(bound, value),
            gap=relative_gap(value, max(bound, value)),
        )

    return solve


@dataclass(frozen=True, slots=True)
class Raised:
    """Answer of the kernel.

    Parameters
    ----------
    level
        Reached by the shares, from the definition.
    bound
        Proven upper bound on the level.
    x
        Shares, shape (J, T).
    prices
        Per GPU of each type, shape (T,); all 0 when only the jobs' own speed limits the level.
    push
        Shadow price of each job's demand, shape (J,), above 0 only for jobs that cannot rise.
    solves
        Linear models solved.
    """

    level: float
    bound: float
    x: Floats
    prices: Floats
    push: Floats
    solves: int


def merged(demands: Demands) -> tuple[Demands, npt.NDArray[np.int64]]:
    """Merge identical jobs, for which equal shares are optimal by convexity.

    Returns
    -------
    tuple
        Demands of the classes, and the class of each job, shape (J,).
    """
    key = np.column_stack([demands.speed, demands.load, demands.base, demands.slope])
    packed = np.ascontiguousarray(key).view(np.dtype((np.void, key.dtype.itemsize * key.shape[1])))
    _, first, inverse, count = np.unique(
        packed.ravel(), return_index=True, return_inverse=True, return_counts=True
    )
    small = demands.take(first, demands.capacity)
    return replace(small, load=small.load * count), inverse.reshape(-1)


def raise_level(demands: Demands, solve: Solve, prices: Floats | None = None) -> Raised:
    """Return the largest level t at which ``thr_j >= base_j + t slope_j`` holds for all jobs.

    Parameters
    ----------
    solve
        See `lp_solver`.
    prices
        A good guess of the GPU prices, for example of a similar problem.

    Raises
    ------
    ValueError
        If no level is feasible, or no job has a positive slope.
    """
    if not (demands.slope > 0).any():
        raise ValueError("slope: at least one job must ask for a share")
    at_once = _on_one_type(demands)
    if at_once is not None:
        return at_once
    small, inverse = merged(demands)
    state = _Search(small, solve)
    if prices is None:
        prices = state.sample_prices()
    answer = state.run(prices)
    count = np.bincount(inverse, minlength=small.jobs)
    return replace(answer, x=answer.x[inverse], push=(answer.push / count)[inverse])


def _on_one_type(demands: Demands) -> Raised | None:
    """Return the answer on a single type whose GPUs limit the level; None elsewhere.

    All GPUs are then in use and no job has more than it demands, so there is one answer.
    """
    if demands.capacity.size != 1:
        return None
    speed, load = demands.speed[:, 0], demands.load
    least, more = demands.base / speed, demands.slope / speed
    grows, left = float(load @ more), float(demands.capacity[0] - load @ least)
    level = left / grows
    if left < 0.0 or level >= demands.cap:
        return None
    x = shrunk(demands, (least + level * more)[:, None])
    prices = np.array([1.0 / grows])
    reached = demands.level(x)
    bound = max(price_bound(demands, prices, level)[0], reached)
    push = load / (speed * grows * demands.unit)
    return Raised(reached, bound, x, prices, push, solves=0)


class _Search:
    """Run of the kernel on merged jobs."""

    def __init__(self, demands: Demands, solve: Solve) -> None:
        self.demands = demands
        self.solve = solve
        self.solves = 0
        self.cap = demands.cap

    def sample_prices(self) -> Floats:
        """Return prices of a strided sample on a cluster scaled by its part of the demand."""
        d = self.demands
        if d.jobs <= KERNEL.sample + KERNEL.free or not (d.slope > 0).all():
            return np.zeros(d.capacity.size)
        need = d.load * (np.maximum(d.base, 0.0) + self.cap * d.slope) / d.speed.max(axis=1)
        order = np.argsort(need, kind="stable")
        rows = np.sort(order[np.linspace(0, d.jobs - 1, KERNEL.sample).astype(np.int64)])
        part = d.take(rows, d.capacity * (need[rows].sum() / max(need.sum(), SMALLEST)))
        everyone = np.ones(rows.size, dtype=bool)
        best = np.zeros(rows.size, dtype=np.int64)
        level = min(self.cap, part.cap)
        for bounds, load in (((-np.inf, level), False), ((level, level), True)):
            model = reduced_model(part, everyone, best, level=bounds, minimise_load=load)
            outcome = self._solve(model.model)
            prices = row_prices(outcome, part.capacity, rows.size)
            if prices.max() > SAME_VALUE:
                break
        return prices

    def run(self, prices: Floats) -> Raised:
        """Iterate from these prices to a certified answer."""
        d = self.demands
        # Jobs that only hold what they have tie the prices to their bases: no sampling then.
        whole = d.jobs <= KERNEL.sample + KERNEL.free or not (d.slope > 0).all()
        if whole or not prices.any():
            level, best = self.cap, prices
        else:
            level, best = self._settled(prices)
        if whole:
            forced = forced_patterns(d)
            return self._feasible(self._step(forced < 0, forced, False))
        found = price(d.speed, d.load, best, d.at(level))
        kept = np.zeros(d.jobs, dtype=bool)
        answer = None
        for attempt in range(KERNEL.rounds):
            free = kept | self._undecided(found, level, best, KERNEL.free << attempt)
            answer = self._step(free, found.best, level >= self.cap and not free.all())
            if free.all() or answer.bound - answer.level <= KERNEL.gap * abs(answer.level):
                break
            if answer.prices.any():
                level, best = self._better((level, best), answer)
            fresh = price(d.speed, d.load, best, d.at(level))
            sure = fresh.second - fresh.cost > SAME_VALUE * np.abs(fresh.cost)
            kept |= (fresh.best != found.best) & sure & ~free
            found = fresh
        return self._feasible(answer)

    @staticmethod
    def _feasible(answer: Raised | None) -> Raised:
        if answer is None or not np.isfinite(answer.level):
            raise ValueError("no level is feasible: the bases alone exceed the cluster")
        return answer

    def _settled(self, prices: Floats) -> tuple[float, Floats]:
        """Raise prices of overloaded types; return the lowest bound and its prices."""
        d = self.demands
        capacity = np.maximum(d.capacity, SMALLEST)
        prices = np.maximum(prices, KERNEL.least_price * prices.max())
        level, best, lowest, since = self.cap, prices, np.inf, 0
        for turn in range(KERNEL.turns):
            bound, found = price_bound(d, prices, level)
            level = min(level, bound)
            since = 0 if bound < lowest * (1.0 - KERNEL.progress) else since + 1
            if bound < lowest:
                lowest, best = bound, prices
            if since >= KERNEL.patience:
                break
            constant, per_step = affine_shares(d.speed, found.best)
            used = d.load @ np.maximum(constant + per_step * d.at(level)[:, None], 0.0) / capacity
            used = np.clip(used / max(used.max(), SMALLEST), KERNEL.slowest, 1.0)
            prices = prices * used ** (KERNEL.first_power * KERNEL.fades**turn)
        return level, best

    def _better(self, best: tuple[float, Floats], answer: Raised) -> tuple[float, Floats]:
        """Return the prices with the lower bound, else a step from the best to the new ones."""
        d = self.demands
        if answer.bound < best[0]:
            return answer.bound, answer.prices
        worth = d.capacity
        mixed = KERNEL.kept * best[1] / (best[1] @ worth)
        mixed += KERNEL.taken * answer.prices / (answer.prices @ worth)
        return min(best[0], price_bound(d, mixed, best[0])[0]), mixed

    def _undecided(self, found: Patterns, level: float, prices: Floats, count: int) -> Bools:
        """Return the jobs whose pattern a small change of price or level may change."""
        d = self.demands
        gap = (found.second - found.cost) / np.maximum(np.abs(found.cost), SMALLEST)
        for change in KERNEL.changes:
            other = price(d.speed, d.load, prices, d.at(level * change))
            gap = np.where(other.best != found.best, np.minimum(gap, KERNEL.near), gap)
        gap = np.where(np.isfinite(found.cost), gap, -1.0)
        rank = np.argsort(gap, kind="stable")
        free = np.zeros(d.jobs, dtype=bool)
        free[rank[:count]] = True
        return free

    def _step(self, free: Bools, best: Ints, at_cap: bool) -> Raised:
        """Solve the reduced model; recompute shares, level and bound from their definitions."""
        d = self.demands
        bounds = (self.cap, self.cap) if at_cap else (-np.inf, self.cap)
        reduced = reduced_model(d, free, best, level=bounds, minimise_load=at_cap)
        outcome = self._solve(reduced.model)
        if outcome.x is None:
            nothing = np.zeros_like(d.speed)
            return Raised(
                -np.inf, self.cap, nothing, np.zeros(d.capacity.size), np.zeros(d.jobs), self.solves
            )
        level, x = reduced.shares(d, outcome.x)
        x = shrunk(d, x)
        reached = d.level(x)
        prices = row_prices(outcome, d.capacity, reduced.free.size)
        bound, at = price_bound(d, prices, min(level, self.cap))
        push = at.slope.copy()
        if outcome.row_duals is not None:
            share = np.abs(outcome.row_duals[-reduced.free.size :]) if reduced.free.size else 0.0
            push[reduced.free] = share / d.speed[reduced.free].max(axis=1)
        return Raised(reached, max(bound, reached), x, prices, push, self.solves)

    def _solve(self, model: LinearModel) -> Outcome:
        self.solves += 1
        return self.solve(model)


def row_prices(outcome: Outcome, capacity: Floats, free: int) -> Floats:
    """Return GPU prices, shape (T,), from the capacity rows of a `reduced_model`.

    Parameters
    ----------
    free
        Jobs with columns, whose time rows come first.
    """
    if outcome.row_duals is None:
        return np.zeros(capacity.size)
    rows = np.abs(outcome.row_duals[free : free + capacity.size])
    prices = rows / np.maximum(capacity, SMALLEST)
    return np.asarray(np.where(rows > ROUNDING * max(1.0, rows.max(initial=0.0)), prices, 0.0))


def shrunk(demands: Demands, x: Floats) -> Floats:
    """Return shares scaled down until time and capacity hold exactly."""
    x = x / np.maximum(1.0, x.sum(axis=1, keepdims=True))
    used = demands.load @ x
    over = np.where(used > demands.capacity, demands.capacity / np.maximum(used, SMALLEST), 1.0)
    return np.asarray(x * over[None, :])
