"""Items that can be in a best choice, as prices of GPUs show: the core of a knapsack.

At prices of GPUs every job earns at most so much, all of them together the price bound (Everett
1963), and a choice is worth that bound less what its items lose against the best of their jobs,
less what idle GPUs would pay. So no choice with an item that loses ``slack`` is worth more than
the bound less ``slack``. What is left has few items for each job; of these a job takes the fewest
GPUs in any case, and tables need go over the others only (Balas and Zemel 1980 call it the core).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import golden_turns
from formulations.knapsack.items import Core, Items, numbered
from formulations.parameters import CORE, CoreParams
from formulations.tolerances import ROUNDING


@dataclass(frozen=True, slots=True)
class Priced:
    """A knapsack at prices of its GPUs.

    Parameters
    ----------
    prices
        Of a GPU of each class, shape (T,).
    bound
        No decision is worth more.
    place, loss
        Of each item its job's place, and what it earns less than the best of its job, shape (I,).
    """

    prices: Floats
    bound: float
    place: Ints
    loss: Floats


def priced(items: Items, params: CoreParams = CORE) -> Priced | None:
    """Items at prices that make the price bound small; None where a job can do nothing."""
    jobs, gpus = items.job.size, items.sizes.astype(np.float64)
    place = np.repeat(np.arange(jobs), np.diff(items.start))
    worth = np.full((gpus.shape[0], jobs), -np.inf)
    np.maximum.at(worth.reshape(-1), items.which * jobs + place, items.value)
    if not jobs or np.isneginf(worth.max(axis=0)).any():
        return None
    room = np.asarray(items.capacity, dtype=np.float64)
    prices = _least_bound(worth, gpus, room, params)
    earned = worth - (gpus @ prices)[:, None]
    best = earned.max(axis=0)
    bound = float(prices @ room + best.sum()) - items.promised
    return Priced(prices, bound, place, best[place] - (items.value - (gpus @ prices)[items.which]))


def _least_bound(worth: Floats, gpus: Floats, room: Floats, params: CoreParams) -> Floats:
    """Prices at which the bound is nearly least, shape (T,): Newton's steps on a smoothed one.

    Parameters
    ----------
    worth
        Of each size to each job, -inf where it has none of it, shape (S, J).
    gpus, room
        GPUs of each size, shape (S, T), and in all, shape (T,).
    """
    classes = room.size
    prices, eye = np.zeros(classes), np.eye(classes)
    finite = worth[np.isfinite(worth)]
    across = float(finite.max() - finite.min()) or 1.0
    turned, share = np.ascontiguousarray(gpus.T), np.empty_like(worth)

    def smoothed(at: Floats) -> tuple[float, Floats, Floats]:
        """The bound with soft maxima, its slope and its curvature times their width."""
        np.subtract(worth, (gpus @ at)[:, None], out=share)
        best = share.max(axis=0)
        np.subtract(share, best, out=share)
        np.multiply(share, 1.0 / width, out=share)
        np.exp(share, out=share)
        total = share.sum(axis=0)
        value = float(at @ room + best.sum() + width * np.log(total).sum())
        np.divide(share, total, out=share)
        used = turned @ share
        curved = (turned * share.sum(axis=1)) @ gpus - used @ used.T
        return value, room - used.sum(axis=1), curved

    width = params.widest * across
    while width * worth.shape[1] > params.close * params.narrower * across:
        last, slope, curved = smoothed(prices)
        for _ in range(params.steps):
            held = (prices <= 0.0) & (slope > 0.0)
            ridge = params.ridge * float(np.trace(curved)) / width + params.least_ridge
            bent = curved / width + ridge * eye
            bent[held] = eye[held]
            move = -np.linalg.solve(bent, np.where(held, 0.0, slope))
            step = 1.0
            while True:
                there = np.maximum(0.0, prices + step * move)
                value, *more = smoothed(there)
                wanted = last + params.descent * float(slope @ (there - prices))
                if value <= wanted or step < params.shortest:
                    break
                step *= params.shorter
            if value >= last:
                break
            prices, last, (slope, curved) = there, value, more
        width *= params.narrower
    return prices


def core_of(items: Items, at: Priced, kept: Ints, worth: float) -> Items | None:
    """Some of the items, by GPUs beyond the fewest that each job takes; None if those are too many.

    Parameters
    ----------
    kept
        At least one of every job, in their order.
    worth
        No decision with another item is worth more.
    """
    jobs, place = items.job.size, at.place[kept]
    gpus = items.sizes[items.which[kept]]
    least = np.minimum.reduceat(gpus, np.searchsorted(place, np.arange(jobs)))
    room = np.asarray(items.capacity) - least.sum(axis=0)
    if (room < 0).any():
        return None
    fits = (gpus - least[place] <= room).all(axis=1)
    kept, place, gpus = kept[fits], place[fits], gpus[fits]
    start = np.searchsorted(place, np.arange(jobs + 1))
    if not np.diff(start).all():
        return None
    most = np.maximum.reduceat(gpus, start[:-1]) - least
    sizes, which = numbered(gpus - least[place])
    fewest = np.empty_like(least)
    fewest[items.job] = least
    return replace(
        items,
        capacity=tuple(np.minimum(room, most.sum(axis=0)).tolist()),
        start=start,
        option=items.option[kept],
        value=items.value[kept],
        sizes=sizes,
        which=which,
        core=Core(at.prices, fewest, worth),
    )


def losing(items: Items, at: Priced, slack: float) -> Items | None:
    """The items that lose so much at most: no choice with another one is worth more than that."""
    return core_of(items, at, np.flatnonzero(at.loss <= slack), at.bound - slack)


def rounded(
    items: Items, at: Priced, slack: float, most: int, params: CoreParams = CORE
) -> Items | None:
    """A choice that loses little, and all that some jobs may do that loses no more than ``slack``.

    Jobs take their items in the shares of a smoothed best, by a golden-ratio sequence in the order
    of what they use; what then is too much or idle is made less, the most that its prices count
    first. As many jobs as tables with ``most`` additions have room for are left free.
    """
    jobs, gpus = items.job.size, items.gpus
    share = np.exp(-at.loss * (jobs / (params.spread * slack)))
    total = np.cumsum(share)
    ends = np.append(0.0, total[items.start[1:] - 1])
    share = (total - ends[at.place]) / np.diff(ends)[at.place]
    best = np.lexsort((at.loss, at.place))[items.start[:-1]]
    turn = np.empty(jobs)
    turn[np.lexsort(gpus[best].T)] = golden_turns(jobs)
    reached = np.flatnonzero(share >= turn[at.place] * (1.0 - ROUNDING))
    chosen = reached[np.searchsorted(at.place[reached], np.arange(jobs))]
    close = np.flatnonzero(at.loss <= slack)
    chosen = _balanced(items, at, chosen, close, params)
    place = at.place[close]
    start = np.searchsorted(place, np.arange(jobs))
    count = np.bincount(place, minlength=jobs)
    more = np.maximum.reduceat(gpus[close], start) - np.minimum.reduceat(gpus[close], start)
    several = np.flatnonzero(count > 1)
    several = several[np.argsort(golden_turns(several.size, 0.0))]
    states = np.minimum(np.cumsum(more[several], axis=0), items.capacity) + 1.0
    taken = np.searchsorted(states.prod(axis=1) * np.cumsum(count[several]), most)
    free = np.zeros(jobs, dtype=bool)
    free[several[:taken]] = True
    kept = np.zeros(at.loss.size, dtype=bool)
    kept[close[free[place]]] = True
    kept[chosen] = True
    return core_of(items, at, np.flatnonzero(kept), at.bound)


def _balanced(items: Items, at: Priced, chosen: Ints, close: Ints, params: CoreParams) -> Ints:
    """A choice with less idle and less too much, by one job after the other; shape (D,)."""
    gpus, place = items.gpus, at.place[close]
    weight = at.prices + params.idle * float(at.prices.max())
    over = gpus[chosen].sum(axis=0) - np.asarray(items.capacity)
    chosen = chosen.copy()
    change, lost = gpus[close] - gpus[chosen][place], at.loss[close] - at.loss[chosen][place]
    for _ in range(chosen.size):
        score = np.abs(over + change) @ weight + lost
        found = int(score.argmin())
        if score[found] >= float(np.abs(over) @ weight) - ROUNDING * abs(at.bound):
            break
        job, over = place[found], over + change[found]
        own = slice(*np.searchsorted(place, [job, job + 1]).tolist())
        chosen[job] = close[found]
        change[own] -= change[found].copy()
        lost[own] -= lost[found]
    return chosen
