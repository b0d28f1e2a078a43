"""Prices where many rows concern several jobs, as in trees of queues."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.parameters import MANY_ROWS, ManyRowsParams
from formulations.prices.choose import Chosen, Cut
from formulations.prices.interior import SharedProgram, interior_prices
from formulations.prices.relaxation import Relaxation
from formulations.prices.rows import Shared


@dataclass(frozen=True, slots=True)
class SharedItems:
    """Options of single jobs that matter if only shared rows count.

    Parameters
    ----------
    option, owner
        The options job by job, and the job of each, shape (I,).
    rows
        Rows that concern several jobs or have an auxiliary column.
    forced
        Whether a job must take one of its options, shape (J,).
    """

    option: Ints
    owner: Ints
    rows: Ints
    forced: Bools


def shared_items(relaxation: Relaxation, free: Bools | None = None) -> SharedItems:
    """Return the options left if of a job's options with equal use the most valuable is kept.

    Parameters
    ----------
    free
        Whether a row is left out, shape (D,); None if none is.
    """
    shared, value = relaxation.shared, relaxation.value
    option, owner = relaxation.options_by_job()
    use = shared.use[:, option].tocsc()
    # Equal columns have equal sums; that equal sums mean equal columns is checked below.
    turns = np.random.default_rng(0).random(shared.count)
    key = np.asarray(use.T @ turns)
    order = np.lexsort((-value[option], key, owner))
    last = np.zeros(order.size, dtype=bool)
    last[1:] = (owner[order[1:]] == owner[order[:-1]]) & (key[order[1:]] == key[order[:-1]])
    if last.any():
        one, other = use[:, order[1:][last[1:]]], use[:, order[:-1][last[1:]]]
        differs = np.asarray(abs(one - other).max(axis=0).todense()).reshape(-1) > 0.0
        last[np.flatnonzero(last)[differs]] = False
    kept = np.sort(order[~last])
    use = use[:, kept].tocsr()
    several = np.zeros(shared.count, dtype=bool)
    filled = np.flatnonzero(np.diff(use.indptr))
    job = owner[kept][use.indices]
    least = np.minimum.reduceat(job, use.indptr[filled])
    several[filled] = least < np.maximum.reduceat(job, use.indptr[filled])
    several |= shared.aux_use.any(axis=1)
    several &= np.isfinite(shared.upper) | np.isfinite(shared.lower)
    if free is not None:
        several &= ~free
    return SharedItems(option[kept], owner[kept], np.flatnonzero(several), ~relaxation.idle)


def with_fixed(
    items: SharedItems, relaxation: Relaxation, keeps: Bools, fixed: Ints
) -> SharedItems:
    """Return the items if some jobs have their option already.

    Rows with a lower limit are left out: the options of these jobs attain it.

    Parameters
    ----------
    keeps, fixed
        Jobs that keep their option, and the option of each, -1 for nothing, shapes (J,).
    """
    free = ~keeps[items.owner]
    jobs = np.flatnonzero(keeps & (fixed >= 0))
    owner = np.append(items.owner[free], jobs)
    order = np.argsort(owner, kind="stable")
    option = np.append(items.option[free], fixed[jobs])[order]
    rows = items.rows[np.isinf(relaxation.shared.lower[items.rows])]
    return SharedItems(option, owner[order], rows, keeps)


def prices_of_many(
    relaxation: Relaxation, items: SharedItems, params: ManyRowsParams = MANY_ROWS
) -> Chosen:
    """Return prices of all rows at once, with their bound."""
    from scipy import sparse

    shared, rows = relaxation.shared, items.rows
    high = np.isfinite(shared.upper[rows])
    sign = np.where(high, 1.0, -1.0)
    aux = np.flatnonzero(shared.aux_upper > 0.0)
    turned = sparse.diags_array(sign)
    jobs, owner = np.unique(items.owner, return_inverse=True)
    use = turned @ shared.use[rows][:, items.option]
    # Rows are scaled: prices of values and of GPUs are then of one size.
    largest = abs(use).max(axis=1).toarray().reshape(-1)
    largest = np.maximum(largest, np.abs(shared.aux_use[rows]).max(axis=1, initial=0.0))
    scaled = sparse.diags_array(1.0 / largest)
    program = SharedProgram(
        relaxation.value[items.option],
        owner.reshape(-1),
        ~items.forced[jobs],
        sparse.csr_array(scaled @ use),
        sign * np.where(high, shared.upper[rows], shared.lower[rows]) / largest,
        sparse.csr_array(scaled @ turned @ shared.aux_use[rows][:, aux]),
        np.minimum(shared.aux_upper[aux], float(abs(use).sum()) + 1.0),
    )
    prices = np.zeros(shared.count)
    prices[rows] = sign * interior_prices(program) / largest
    prices[np.abs(prices) <= params.negligible * np.abs(prices).max(initial=0.0)] = 0.0
    _without_gains(shared, prices)
    best = relaxation.at(prices)
    usage = relaxation.usage(best.choice)
    cut = Cut(prices, best.bound, relaxation.slope(prices, usage), usage, best.choice)
    return Chosen(prices, best, (cut,), np.flatnonzero(prices))


def _without_gains(shared: Shared, prices: Floats) -> None:
    """Lower prices, in place, until no auxiliary column without a limit has a gain.

    Where a column counts in the row above at a price below that of its own row, the bound would be
    infinite: the own row gets the price above. Ends as no row of a tree is above itself.
    """
    endless = np.flatnonzero(np.isinf(shared.aux_upper))
    for _ in range(endless.size):
        changed = False
        for aux in endless.tolist():
            use = shared.aux_use[:, aux]
            own, paid = use < 0.0, float(np.maximum(use, 0.0) @ prices)
            earned = -float(use[own] @ prices[own])
            if earned > paid:
                prices[own] *= paid / earned
                changed = True
                if -float(use @ prices) > 0.0:
                    prices[own] = 0.0  # rounding would leave a gain
        if not changed:
            return
