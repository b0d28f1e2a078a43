"""Sampling with little variance, so that calibrated totals hold for every seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.core.domain import InputError


def stream(family: int, seed: int) -> np.random.Generator:
    """Return the random stream of a twin.

    Raises
    ------
    InputError
        If the seed is below 0.
    """
    if seed < 0:
        raise InputError(f"must be at least 0, got {seed}", field="seed")
    return np.random.default_rng([family, seed])


def stratified(
    levels: Sequence[float], values: Sequence[float], count: int, rng: np.random.Generator
) -> Floats:
    """Draw ``count`` values of a piecewise log-linear inverse CDF, one per stratum, ascending.

    Independent draws from a heavy tail would let the total vary by a factor of two from seed
    to seed; one draw in each of ``count`` equally likely strata does not.

    Parameters
    ----------
    levels
        Probabilities, ascending from 0 to 1.
    values
        Quantiles at these levels, above 0, not descending.
    """
    u = (np.arange(count) + rng.random(count)) / max(1, count)
    return np.asarray(np.exp(np.interp(u, levels, np.log(values))), dtype=np.float64)


def match_total(values: Floats, total: float) -> Floats:
    """Return the values, their upper quarter scaled so that they sum up to ``total``.

    Only the tail is touched: it carries nearly all of the sum, the quantiles below stay.
    """
    tail = values >= np.quantile(values, 0.75)
    rest = float(values[~tail].sum())
    factor = (total - rest) / float(values[tail].sum())
    return np.asarray(np.where(tail, values * max(factor, 0.1), values), dtype=np.float64)


def assign(
    values: Floats,
    counts: Ints,
    totals: Sequence[float],
    rng: np.random.Generator,
    kinds: Ints | None = None,
) -> Ints:
    """Deal values into bins of given sizes so that each bin's sum comes close to its total.

    Largest value first; a value goes to a bin that still needs as much, drawn with a
    probability that grows with the mean that the bin still needs.

    Parameters
    ----------
    values
        Shape ``(n,)``.
    counts
        Values per kind and bin, shape ``(kinds, bins)``; a row sums up to the values of its
        kind.
    totals
        Wanted sum per bin, over all kinds.
    kinds
        Kind of each value, shape ``(n,)``; all of kind 0 by default.

    Returns
    -------
    Ints
        Bin of each value, shape ``(n,)``.
    """
    slots = np.array(counts, dtype=np.int64)
    left = np.array(totals, dtype=np.float64)
    bins = np.empty(len(values), dtype=np.int64)
    for index in np.argsort(-values, kind="stable"):
        value = float(values[index])
        own = slots[0 if kinds is None else int(kinds[index])]
        open_bins = np.flatnonzero(own > 0)
        need = left / np.maximum(1, slots.sum(axis=0))
        room = open_bins[left[open_bins] >= 0.85 * value]
        if len(room):
            chosen = int(rng.choice(room, p=need[room] / need[room].sum()))
        else:
            chosen = int(open_bins[np.argmax(need[open_bins])])
        bins[index] = chosen
        own[chosen] -= 1
        left[chosen] -= value
    return bins
