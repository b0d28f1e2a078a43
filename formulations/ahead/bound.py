"""Bound of plans: prices of GPUs over time, and of instants at which a wide job excludes others.

Let p >= 0 be prices of a GPU-second of each node class, and of a second of rows of ways that
exclude each other, constant within a slot of time and 0 beyond the slots. The cheapest start of
each job, by itself, with the price of what it holds, less what free GPUs and seconds are worth,
bounds the cost of every plan from below (Everett 1963), whatever the instants of its starts: within
a slot cost and price are linear, so that the begins and ends of slots, before and after the run
time, are the only starts to try. Prices of GPUs alone let nearly all of a job of the whole cluster
run next to a small one; rows of a small job and of the wide ones that do not fit next to it forbid
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.ahead.tasks import Outlook, PlanParams, Start, Task
from formulations.arrays import Bools, Floats, Ints
from formulations.tolerances import FEASIBILITY, ROUNDING, SAME_INSTANT_S

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of time with the GPU-seconds that are free in them, and the starts to try.

    A way is a configuration of a job; of each, the starts are ascending, with the last repeated.

    Parameters
    ----------
    edge_s
        Begin of the first slot, which is now, and the end of each, shape (S + 1,).
    free
        Free GPU-seconds by class and slot, shape (C, S).
    most
        GPUs of each class, at least 1, shape (C,).
    job
        Job of each way, ascending from 0, shape (W,).
    gpus
        GPUs of each way by class, shape (W, C).
    run_s
        Run time of each way, shape (W,).
    start_s
        Starts in seconds from now, shape (W, M).
    cost
        Their costs, shape (W, M); inf where GPUs or the latest start forbid them.
    """

    edge_s: Floats
    free: Floats
    most: Floats
    job: Ints
    gpus: Floats
    run_s: Floats
    start_s: Floats
    cost: Floats

    def held_s(self, start_s: Floats) -> Floats:
        """Return the seconds of each slot that ways hold their GPUs, shape (W, S)."""
        begin, end = start_s[:, None], (start_s + self.run_s)[:, None]
        span = np.minimum(end, self.edge_s[1:]) - np.maximum(begin, self.edge_s[:-1])
        return np.asarray(np.maximum(0.0, span))


def slot_ends(tasks: Sequence[Task], plan: Sequence[Start], most: int) -> Floats:
    """Return the ends of at most ``most`` slots up to the end of a plan.

    They are halfway between slots of equal lengths and of equal numbers of starts and ends.
    """
    start_s = [start.start_s for start in plan]
    end_s = [one.start_s + job.ways[one.way].run_s for job, one in zip(tasks, plan, strict=True)]
    parts = np.arange(1, most + 1) / most
    instants = np.quantile([*start_s, *end_s], parts)
    return np.unique(0.5 * (instants + parts * max(end_s)))


def slots(outlook: Outlook, tasks: Sequence[Task], ends_s: Floats, late: float) -> Slots:
    """Return slots with these ends, and the starts of these tasks to try.

    Parameters
    ----------
    ends_s
        Ends of the slots in seconds from now, ascending, shape (S,); the first begins now.
    late
        Cost of a second after the due instant, in seconds of waiting before it.
    """
    edge_s = np.concatenate([np.zeros(1), ends_s])
    ways = [(job, one, way) for job, one in enumerate(tasks) for way in one.ways]
    gpus = np.zeros((len(ways), outlook.free.shape[1]))
    start_s = np.empty((len(ways), 2 * edge_s.size + 2))
    cost = np.empty(start_s.shape)
    for row, (_, one, way) in enumerate(ways):
        fits = np.ones(outlook.begin_s.size, dtype=bool)
        for kind, count in way.need:
            gpus[row, kind] += count
            fits &= outlook.free[:, kind] >= count - FEASIBILITY
        # Free GPUs only grow, so that a way that fits alone does so from then on.
        first_s = float(outlook.begin_s[fits.argmax()]) if fits.any() else np.inf
        first_s = max(first_s, one.after_s)
        if first_s > one.latest_s + SAME_INSTANT_S or first_s == np.inf:
            start_s[row], cost[row] = 0.0, np.inf
            continue
        points = np.concatenate([edge_s, edge_s - way.run_s, [one.due_s, one.latest_s]])
        fine = (points >= first_s) & (points <= one.latest_s) & (points < np.inf)
        points = np.sort(np.where(fine, points, first_s))
        start_s[row] = points
        over_s = np.maximum(0.0, points - one.due_s)
        cost[row] = one.weight * (points + way.run_s - one.least_s + late * over_s)
    job = np.asarray([job for job, _, _ in ways], dtype=np.int64)
    run_s = np.asarray([way.run_s for _, _, way in ways])
    free, most = _free_gpu_s(outlook, edge_s), np.maximum(1.0, outlook.free[-1])
    return Slots(edge_s, free, most, job, gpus, run_s, start_s, cost)


def _free_gpu_s(outlook: Outlook, edge_s: Floats) -> Floats:
    """Return the free GPU-seconds of each class in each slot, shape (C, S)."""
    begin_s = outlook.begin_s
    length_s = np.diff(begin_s)[:, None] * outlook.free[:-1]
    summed = np.concatenate([np.zeros((1, outlook.free.shape[1])), np.cumsum(length_s, axis=0)])
    at = np.searchsorted(begin_s, edge_s, side="right") - 1
    upto = summed[at] + (edge_s - begin_s[at])[:, None] * outlook.free[at]
    return np.asarray(np.diff(upto, axis=0).T)


@dataclass(frozen=True, slots=True)
class _Places:
    """Instants of ways in slots.

    Parameters
    ----------
    length_s
        Length of each slot, shape (S,).
    at
        Position of each instant's slot in an array of ways and slots, shape (W, M).
    part_s
        Seconds from the begin of the slot, shape (W, M).
    """

    length_s: Floats
    at: Ints
    part_s: Floats

    @classmethod
    def of(cls, problem: Slots, after_s: float | Floats) -> _Places:
        """Return the places of some seconds after each start."""
        instant_s, edge_s = problem.start_s + after_s, problem.edge_s
        length_s = np.diff(edge_s)
        slot = np.clip(np.searchsorted(edge_s, instant_s, side="right") - 1, 0, length_s.size - 1)
        part_s = np.minimum(instant_s - edge_s[slot], length_s[slot])
        return cls(length_s, np.arange(len(slot))[:, None] * length_s.size + slot, part_s)

    def summed(self, price: Floats) -> Floats:
        """Return the sum of prices of ways by slot, shape (W, S), from now to each instant."""
        worth = price * self.length_s
        before = np.cumsum(worth, axis=1) - worth
        return np.asarray(before.take(self.at) + price.take(self.at) * self.part_s)


def bound_of(problem: Slots, value: float, params: PlanParams) -> float:
    """Return a lower bound on the cost of every plan; inf if there is none.

    Supergradient steps of Polyak's length in deflected directions (Camerini, Fratta and Maffioli
    1975) raise it.

    Parameters
    ----------
    value
        Cost of a plan; the search ends when the bound is close to that.
    """
    use, limit = _rows(problem)
    first = np.flatnonzero(np.diff(problem.job, prepend=-1))
    ways = np.arange(problem.job.size)
    begins, ends = (_Places.of(problem, s) for s in (0.0, problem.run_s[:, None]))
    scale = np.ones((len(limit), 1))
    scale[: problem.most.size] = np.sqrt(ways.size)
    prices = best = direction = np.zeros(limit.shape)
    target, bound, length, stalled = value * (1.0 - params.close), -np.inf, 1.0, 0
    for _ in range(params.steps):
        price = use.T @ prices
        reduced = problem.cost + ends.summed(price) - begins.summed(price)
        point = reduced.argmin(axis=1)
        least = reduced[ways, point]
        of_job = np.minimum.reduceat(least, first)
        if not np.isfinite(of_job).all():
            return np.inf
        worth = float((prices * limit).sum())
        reached = float(of_job.sum()) - worth
        reached -= ROUNDING * (float(np.abs(of_job).sum()) + worth)
        stalled += 1
        if reached > bound:
            bound, best, stalled = reached, prices, 0
        if bound >= target:
            break
        if stalled == params.patience:
            length, stalled = params.shorter * length, 0
            prices = 0.5 * (prices + best)
        held_s = problem.held_s(problem.start_s[ways, point])
        held_s[~_cheapest(least, of_job, problem.job)] = 0.0
        slope = use @ held_s - limit
        slope[(prices <= 0.0) & (slope < 0.0)] = 0.0
        direction = scale * slope + params.inertia * direction
        rise = float((slope * direction).sum())
        if rise <= 0.0:
            direction = scale * slope
            rise = float((slope * direction).sum())
        if rise <= 0.0:
            break
        prices = np.maximum(0.0, prices + length * (target - reached) / rise * direction)
    return bound


def _rows(problem: Slots) -> tuple[sparse.csr_array, Floats]:
    """Return the use of rows by ways, shape (R, W), and their limits in seconds, shape (R, S).

    The first rows are the GPUs of each class, relative to all of the class. Each other row has ways
    that exclude each other at any instant: those of one job, and of wide jobs that do not fit next
    to it. A way is wide if it takes more than half of a class.
    """
    # Loaded with the first bound: replays without a solver start without scipy.
    from scipy import sparse

    job, count = problem.job, int(problem.job[-1]) + 1
    share = problem.gpus / problem.most
    use = [sparse.csr_array(share.T)]
    for mine in share.T:
        wide = np.flatnonzero(mine > 0.5)
        least, largest = np.full(count, np.inf), np.zeros(count)
        np.minimum.at(least, job, np.where(mine > 0.0, mine, np.inf))
        np.maximum.at(largest, job, mine)
        rows = np.flatnonzero((largest > 0.0) & (largest <= 0.5))
        excluded = least[rows, None] + mine[wide] > 1.0 + FEASIBILITY
        rows, excluded = rows[excluded.any(axis=1)], excluded[excluded.any(axis=1)]
        row_of = np.full(count, -1)
        row_of[rows] = np.arange(rows.size)
        own = np.flatnonzero((row_of[job] >= 0) & (mine > 0.0))
        row, at = np.nonzero(excluded)
        # The last row has the wide ways alone, of which any two exclude each other.
        row = np.concatenate([row_of[job[own]], row, np.full(wide.size, rows.size)])
        way = np.concatenate([own, wide[at], wide])
        shape = rows.size + (wide.size > 1), job.size
        kept = row < shape[0]
        use.append(sparse.csr_array((np.ones(kept.sum()), (row[kept], way[kept])), shape=shape))
    limits = [problem.free / problem.most[:, None]]
    limits.append(np.tile(np.diff(problem.edge_s), (sum(one.shape[0] for one in use[1:]), 1)))
    return sparse.csr_array(sparse.vstack(use)), np.concatenate(limits)


def _cheapest(least: Floats, of_job: Floats, job: Ints) -> Bools:
    """Return the first of the cheapest ways of each job, shape (W,)."""
    best = np.flatnonzero(least == of_job[job])
    chosen = np.zeros(job.size, dtype=bool)
    chosen[best[np.unique(job[best], return_index=True)[1]]] = True
    return chosen
