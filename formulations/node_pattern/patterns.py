"""Patterns: the maximal ways to cut a node's free resources into slots (Gilmore, Gomory 1961)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from formulations.arrays import Ints
from formulations.parameters import PATTERNS
from formulations.tolerances import DECIMALS, FEASIBILITY

Vector = tuple[float, ...]


class TooManyPatternsError(ValueError):
    """Too many patterns of one node to count; use ``node_assignment`` instead."""


@lru_cache(maxsize=8192)
def maximal_patterns(free: Vector, kinds: tuple[Vector, ...]) -> Ints:
    """Return the slot counts of every maximal pattern.

    Parameters
    ----------
    free
        Free amount of every counted resource; GPUs first.
    kinds
        Demand of each kind of slot for the same resources, distinct.

    Returns
    -------
    Ints
        Shape (patterns, kinds). A pattern is maximal if no further slot of any kind fits. Every
        feasible multiset of slots is contained in a maximal one, so no others are needed. No rows
        if no slot fits.

    Raises
    ------
    TooManyPatternsError
        If there are more than ``PATTERNS.patterns``.
    """
    order = sorted(range(len(kinds)), key=lambda k: kinds[k], reverse=True)
    found: list[tuple[int, ...]] = []
    limit = PATTERNS.patterns

    def room(rest: Vector, kind: Vector) -> int:
        return min(
            int((have + FEASIBILITY) // need)
            for have, need in zip(rest, kind, strict=True)
            if need > 0
        )

    def walk(position: int, rest: Vector, counts: tuple[int, ...]) -> None:
        if position == len(order):
            if sum(counts) and not any(room(rest, kind) for kind in kinds):
                found.append(counts)
                if len(found) > limit:
                    raise TooManyPatternsError(f"more than {limit} patterns for {free}")
            return
        kind = kinds[order[position]]
        last = position == len(order) - 1
        most = room(rest, kind)
        for count in range(most, most - 1 if last else -1, -1):
            left = tuple(have - count * need for have, need in zip(rest, kind, strict=True))
            walk(position + 1, left, (*counts, count))

    walk(0, free, ())
    table = np.asarray(found, dtype=np.int64).reshape(len(found), len(kinds))
    restored = np.empty_like(table)
    restored[:, order] = table
    return restored


@lru_cache(maxsize=65536)
def reachable_free_of(
    capacity: Vector, gangs: tuple[tuple[Vector, ...], ...]
) -> tuple[Vector, ...]:
    """Return the possible free states of a node, over all ways in which its gangs stay or end.

    Parameters
    ----------
    capacity
        Amount of every counted resource.
    gangs
        Possible holds of each gang of GPUs in use: of its job, or of a pair.

    Returns
    -------
    tuple
        Ascending; states below zero are left out, because they cannot occur.
    """
    states = {capacity}
    for ways in gangs:
        states |= {
            tuple(round(have - need, DECIMALS) for have, need in zip(state, part, strict=True))
            for state in states
            for part in ways
        }
        states = {state for state in states if min(state) >= -FEASIBILITY}
    return tuple(sorted(states))
