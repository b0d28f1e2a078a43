"""Patterns: the maximal ways to cut a node's free GPUs into slots (Gilmore and Gomory, 1961)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from formulations.linear_model import Ints


@lru_cache(maxsize=4096)
def maximal_patterns(free: int, sizes: tuple[int, ...]) -> Ints:
    """Slot counts of every maximal pattern.

    Parameters
    ----------
    free
        Free GPUs of the node.
    sizes
        Slot sizes, ascending and distinct.

    Returns
    -------
    Ints
        Shape (patterns, len(sizes)). A pattern is maximal when no further slot fits; every
        feasible multiset of slots is contained in a maximal one, so the others are not needed.
        No rows when not even the smallest slot fits.
    """
    if not sizes or free < sizes[0]:
        return np.zeros((0, len(sizes)), dtype=np.int64)
    found: list[tuple[int, ...]] = []

    def walk(position: int, rest: int, counts: tuple[int, ...]) -> None:
        if position < 0:
            if rest < sizes[0]:
                found.append(counts[::-1])
            return
        for count in range(rest // sizes[position], -1, -1):
            walk(position - 1, rest - count * sizes[position], (*counts, count))

    walk(len(sizes) - 1, free, ())
    return np.asarray(found, dtype=np.int64)


def reachable_free(capacity: int, held: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of GPUs that can be free on a node when any subset of its holds stays."""
    sums = {0}
    for part in held:
        sums |= {total + part for total in sums}
    return tuple(sorted(capacity - total for total in sums))
