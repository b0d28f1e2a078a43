"""Core of the knapsack: the items that can be in a best choice, found by GPU prices.

At prices of GPUs every job has a best reduced value; their sum and the price of all GPUs are the
price bound (Everett 1963). A choice is worth that bound less the loss of each item against the best
of its job, less the price of idle GPUs. So no choice with an item that loses ``slack`` is worth
more than the bound less ``slack``. The remaining items, few per job, are the core (Balas and Zemel
1980). Each job takes the fewest GPUs of its items in any case; tables cover the GPUs beyond these.
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
    """Knapsack with prices of its GPUs, and the loss of each item at these prices.

    Parameters
    ----------
    prices
        Price of a GPU of each class, shape (T,).
    bound
        Upper bound on all decisions.
    place, loss
        Place of each item's job, and the item's loss against the best of its job, shape (I,).
    """

    prices: Floats
    bound: float
    place: Ints
    loss: Floats


def priced(items: Items, params: CoreParams = CORE) -> Priced | None:
    """Return the items with prices of a small bound; None if some job has no item."""
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
    r"""Return prices with a nearly least bound, shape (T,), by Newton's method on a smooth bound.

    Minimises over p >= 0, for falling widths w, the convex function ::

        f(p) = p room + sum_j w log sum_s exp((worth[s,j] - gpus[s] p) / w)

    which lies between the bound B(p) and B(p) + J w log S. With the soft shares of sizes s per job,
    its slope is ``room`` less the GPUs used, and its second derivative the sum over jobs of the
    covariance of their GPUs, divided by w.

    Any p >= 0 proves B(p), so nothing here has to converge: a poor answer is a larger core. It ends
    because widths fall by a factor, each has ``steps`` steps, and each step is shortened a bounded
    number of times.

    Example: two jobs on 4 GPUs, each worth 2 on two GPUs and 3 on four. B(p) = 4 p + 2 max(2 - 2 p,
    3 - 4 p, 0) is least, 4, for p from 1/2 to 1, where both jobs take two GPUs.

    Parameters
    ----------
    worth
        Value of each size to each job, -inf if it has none of that size, shape (S, J).
    gpus, room
        GPUs of each size, shape (S, T), and in total, shape (T,).
    """
    classes = room.size
    prices, eye = np.zeros(classes), np.eye(classes)
    finite = worth[np.isfinite(worth)]
    across = float(finite.max() - finite.min()) or 1.0
    turned, share = np.ascontiguousarray(gpus.T), np.empty_like(worth)

    def smoothed(at: Floats) -> tuple[float, Floats, Floats]:
        """Return f, its slope, and its second derivative times the width."""
        np.subtract(worth, (gpus @ at)[:, None], out=share)
        best = share.max(axis=0)
        np.subtract(share, best, out=share)  # the largest exponent is 0: no overflow
        np.multiply(share, 1.0 / width, out=share)
        np.exp(share, out=share)
        total = share.sum(axis=0)
        value = float(at @ room + best.sum() + width * np.log(total).sum())
        np.divide(share, total, out=share)
        used = turned @ share
        curved = (turned * share.sum(axis=1)) @ gpus - used @ used.T
        return value, room - used.sum(axis=1), curved

    # A wide maximum first: at a narrow one, far from the least, the second derivative is 0 almost
    # everywhere. The last stage is the first one whose widths add up to ``close`` of the range.
    width = params.widest * across
    while width * worth.shape[1] > params.close * params.narrower * across:
        last, slope, curved = smoothed(prices)
        for _ in range(params.steps):
            # A price of 0 that would have to fall stays: its row of the system becomes move = 0.
            held = (prices <= 0.0) & (slope > 0.0)
            # The matrix is singular if every job has one size in a class: a ridge relative to it.
            ridge = params.ridge * float(np.trace(curved)) / width + params.least_ridge
            bent = curved / width + ridge * eye
            bent[held] = eye[held]
            move = -np.linalg.solve(bent, np.where(held, 0.0, slope))
            # Armijo's rule along the step, projected on p >= 0; too short a step is taken anyway.
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
    """Return a core of the kept items, counted in GPUs beyond each job's fewest.

    None if the fewest GPUs of all jobs together exceed the cluster.

    Parameters
    ----------
    kept
        Items to keep, in their order, at least one of every job.
    worth
        Upper bound on decisions with another item.
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
        goals=tuple(goal._replace(value=goal.value[kept]) for goal in items.goals),
    )


def losing(items: Items, at: Priced, slack: float) -> Items | None:
    """Return the core of the items that lose at most ``slack``.

    No choice with another item is worth more than the bound less ``slack``.
    """
    return core_of(items, at, np.flatnonzero(at.loss <= slack), at.bound - slack)


def rounded(
    items: Items, at: Priced, slack: float, most: int, params: CoreParams = CORE
) -> Items | None:
    """Return a core around a good choice, with some jobs free and the others fixed.

    Jobs take their items in the shares of a soft maximum, by a golden-ratio sequence in the order
    of their GPUs. Then excess and idle GPUs are reduced, those with the highest price first. As
    many jobs keep all items that lose at most ``slack`` as tables of ``most`` additions allow.
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
    """Return a choice with less excess and fewer idle GPUs, shape (D,).

    Each pass changes the item of the one job that lowers the sum of loss and priced imbalance most;
    it ends after D passes, or when no change lowers it.
    """
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
