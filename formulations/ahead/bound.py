"""Bound of plans: prices of GPUs over time, with the starts of wide jobs enumerated.

Let p >= 0 be prices of a GPU-second of each node class, constant within a slot of time and 0 beyond
the slots. The cheapest start of each job, by itself, with the price of what it holds, less what the
free GPUs are worth, bounds the cost of every plan from below (Everett 1963), whatever the instants
of its starts: within a slot cost and price are linear, so that the begins and ends of slots, before
and after the run time, are the only starts to try. This splits a job that needs most of the cluster
over time; so the starts of the widest jobs are confined to one interval after the other, all of
them in one array, and the least bound counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.ahead.tasks import Outlook, PlanParams, Task
from formulations.arrays import Bools, Floats, Ints
from formulations.tolerances import FEASIBILITY, ROUNDING, SAME_INSTANT_S


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of time with the GPU-seconds that are free in them, and the starts to try.

    A way is a configuration of a job; of each, the starts are ascending, with the last repeated.

    Parameters
    ----------
    length_s
        Length of each slot, shape (S,).
    free
        Free GPU-seconds by class and slot, shape (C, S).
    job
        Job of each way, ascending from 0, shape (W,).
    gpus
        GPUs of each way by class, shape (W, C).
    start_s
        Starts in seconds from now, shape (W, M).
    cost
        Their costs, shape (W, M); inf where GPUs or the latest start forbid them.
    held_s
        Seconds of each slot that a way holds its GPUs after a start, shape (W, M, S).
    """

    length_s: Floats
    free: Floats
    job: Ints
    gpus: Floats
    start_s: Floats
    cost: Floats
    held_s: Floats


def slots_of(instants_s: Iterable[float], most: int) -> Floats:
    """Return the ends of at most ``most`` slots out of the instants, ever farther apart.

    Each is later than the one before by a factor; the least factor that leaves few enough counts.
    """
    known = np.unique([one for one in instants_s if SAME_INSTANT_S < one < np.inf])
    if known.size <= most:
        return known
    low, high = 1.0, 2.0 * float(known[-1] / known[0])
    for _ in range(40):
        factor = float(np.sqrt(low * high))
        low, high = (low, factor) if _thinned(known, factor).size <= most else (factor, high)
    return _thinned(known, high)


def _thinned(known: Floats, factor: float) -> Floats:
    kept, least = [], 0.0
    for one in known.tolist():
        if one >= least:
            kept.append(one)
            least = one * factor
    return np.asarray(kept)


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
    cost, held_s = np.empty(start_s.shape), np.empty((*start_s.shape, ends_s.size))
    for row, (_, one, way) in enumerate(ways):
        fits = np.ones(outlook.begin_s.size, dtype=bool)
        for kind, count in way.need:
            gpus[row, kind] += count
            fits &= outlook.free[:, kind] >= count - FEASIBILITY
        # Free GPUs only grow, so that a way that fits alone does so from then on.
        first_s = float(outlook.begin_s[fits.argmax()]) if fits.any() else np.inf
        first_s = max(first_s, one.after_s)
        if first_s > one.latest_s + SAME_INSTANT_S or first_s == np.inf:
            start_s[row], cost[row], held_s[row] = 0.0, np.inf, 0.0
            continue
        points = np.concatenate([edge_s, edge_s - way.run_s, [one.due_s, one.latest_s]])
        fine = (points >= first_s) & (points <= one.latest_s) & (points < np.inf)
        points = np.sort(np.where(fine, points, first_s))
        start_s[row] = points
        over_s = np.maximum(0.0, points - one.due_s)
        cost[row] = one.weight * (points + way.run_s - one.least_s + late * over_s)
        begin, end = start_s[row][:, None], start_s[row][:, None] + way.run_s
        span = np.minimum(end, edge_s[1:]) - np.maximum(begin, edge_s[:-1])
        held_s[row] = np.maximum(0.0, span)
    job = np.asarray([job for job, _, _ in ways], dtype=np.int64)
    length_s, free = np.diff(edge_s), _free_gpu_s(outlook, edge_s)
    return Slots(length_s, free, job, gpus, start_s, cost, held_s)


def _free_gpu_s(outlook: Outlook, edge_s: Floats) -> Floats:
    """Return the free GPU-seconds of each class in each slot, shape (C, S)."""
    begin_s = outlook.begin_s
    length_s = np.diff(begin_s)[:, None] * outlook.free[:-1]
    summed = np.concatenate([np.zeros((1, outlook.free.shape[1])), np.cumsum(length_s, axis=0)])
    at = np.searchsorted(begin_s, edge_s, side="right") - 1
    upto = summed[at] + (edge_s - begin_s[at])[:, None] * outlook.free[at]
    return np.asarray(np.diff(upto, axis=0).T)


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Combinations of intervals to which the starts of jobs are confined, B of them.

    Parameters
    ----------
    first, last
        First and last start of each way that is allowed, shape (B, W).
    prices
        Prices to begin with, shape (B, C, S).
    bound
        Known bound of each, shape (B,).
    """

    first: Ints
    last: Ints
    prices: Floats
    bound: Floats

    def taken(self, which: Bools | Ints) -> _Boxes:
        """Return some of the combinations."""
        return _Boxes(self.first[which], self.last[which], self.prices[which], self.bound[which])


def bound_of(problem: Slots, value: float, params: PlanParams) -> float:
    """Return a lower bound on the cost of every plan; inf if there is none.

    Parameters
    ----------
    value
        Cost of a plan; the search ends when the bound is close to that.
    """
    ways, points = problem.cost.shape
    zero = np.zeros((1, ways), dtype=np.int64)
    prices = np.zeros((1, *problem.free.shape))
    found = _Boxes(zero, zero + points - 1, prices, np.full(1, -np.inf))
    target = value * (1.0 - params.close)
    found = _priced(problem, found, target, params.steps)
    done = np.inf
    for way in _wide(problem, params):
        is_open = found.bound < target
        done = min(done, float(found.bound[~is_open].min(initial=np.inf)))
        found = found.taken(is_open)
        children = _branched(problem, found, way)
        if not 0 < children.bound.size <= params.nodes:
            break
        found = _priced(problem, children, target, params.fixed_steps)
    return min(done, float(found.bound.min(initial=np.inf)))


def _wide(problem: Slots, params: PlanParams) -> list[int]:
    """Return the ways of the widest jobs, whose starts are confined, the widest first."""
    gpus = problem.gpus.sum(axis=1)
    most = params.wide * float((problem.free.sum(axis=0) / problem.length_s).max())
    order = np.lexsort([np.arange(gpus.size), -gpus])
    alone = np.bincount(problem.job)[problem.job] == 1
    return [way for way in order.tolist() if gpus[way] >= most and alone[way]][: params.fixed]


def _branched(problem: Slots, found: _Boxes, way: int) -> _Boxes:
    """Return each combination with every interval between two starts of a way, and the last start.

    After the last start, which is beyond the slots, cost rises and prices are 0.
    """
    start_s = problem.start_s[way]
    fresh = np.flatnonzero(np.append(np.diff(start_s) > 0.0, True))
    many = found.bound.size
    which, at = np.repeat(np.arange(many), fresh.size), np.tile(fresh, many)
    boxes = found.taken(which)
    boxes.first[:, way] = at
    boxes.last[:, way] = np.minimum(at + 1, start_s.size - 1)
    return boxes


def _priced(problem: Slots, boxes: _Boxes, target: float, steps: int) -> _Boxes:
    """Raise the bounds of combinations by supergradient steps (Polyak) at prices >= 0."""
    many, classes, slots_ = boxes.prices.shape
    ways, points = problem.cost.shape
    first = np.flatnonzero(np.diff(problem.job, prepend=-1))
    number = np.arange(points)
    cost = np.broadcast_to(problem.cost, (many, ways, points)).copy()
    for way in np.flatnonzero((boxes.first > 0).any(axis=0)).tolist():
        inside = number >= boxes.first[:, way, None]
        inside &= number <= boxes.last[:, way, None]
        cost[:, way] = np.where(inside, cost[:, way], np.inf)
    flat = problem.held_s.reshape(-1, slots_)
    prices, best = boxes.prices.copy(), boxes.prices.copy()
    bound, scale = boxes.bound.copy(), np.ones(many)
    rows, at = np.arange(many)[:, None], np.arange(ways)[None]
    for _ in range(steps):
        reduced = cost.copy()
        for kind in range(classes):
            charge = (flat @ prices[:, kind].T).T.reshape(many, ways, points)
            reduced += problem.gpus[:, kind, None] * charge
        point = reduced.argmin(axis=2)
        least = reduced[rows, at, point]
        of_job = np.minimum.reduceat(least, first, axis=1)
        worth = (prices * problem.free).sum(axis=(1, 2))
        total = of_job.sum(axis=1)
        sums = np.abs(np.where(np.isfinite(of_job), of_job, 0.0)).sum(axis=1) + worth
        reached = total - worth - ROUNDING * sums
        better = reached > bound
        bound = np.where(better, reached, bound)
        best[better] = prices[better]
        scale = np.where(better, np.minimum(1.0, 1.5 * scale), 0.7 * scale)
        active = bound < target
        if not active.any():
            break
        slope = np.broadcast_to(-problem.free, prices.shape).copy()
        chosen = _cheapest(least, of_job, problem.job)
        for kind in range(classes):
            used = np.where(chosen, problem.gpus[:, kind], 0.0)
            slope[:, kind] += np.einsum("bw,bws->bs", used, problem.held_s[at, point])
        slope[(prices <= 0.0) & (slope < 0.0)] = 0.0
        size = (slope**2).sum(axis=(1, 2))
        missing = np.where(active & np.isfinite(reached), target - reached, 0.0)
        step = np.divide(scale * missing, size, out=np.zeros(many), where=size > 0.0)
        if not (step > 0.0).any():
            break
        prices = np.maximum(0.0, prices + step[:, None, None] * slope)
    return _Boxes(boxes.first, boxes.last, best, bound)


def _cheapest(least: Floats, of_job: Floats, job: Ints) -> Bools:
    """Return the first of the cheapest ways of each job, shape (B, W); none where it is inf."""
    is_best = (least == of_job[:, job]) & np.isfinite(least)
    if job.size == of_job.shape[1]:
        return np.asarray(is_best)
    rank = np.cumsum(is_best, axis=1)
    first = np.flatnonzero(np.diff(job, prepend=-1))
    before = np.concatenate([np.zeros((len(rank), 1), dtype=rank.dtype), rank], axis=1)[:, first]
    return np.asarray(is_best & (rank == before[:, job] + 1))
