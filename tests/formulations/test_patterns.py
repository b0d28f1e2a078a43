"""Patterns: maximal and complete; free states: exactly the reachable ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.patterns import maximal_patterns, reachable_free

FREE = st.integers(0, 12)
SIZES = st.sets(st.integers(1, 12), max_size=5).map(lambda found: tuple(sorted(found)))


def multisets(free: int, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every feasible multiset of slots as counts per size."""
    if not sizes:
        return [()]
    return [
        (*rest, count)
        for count in range(free // sizes[-1] + 1)
        for rest in multisets(free - count * sizes[-1], sizes[:-1])
    ]


@given(FREE, SIZES)
def test_patterns_are_feasible_maximal_and_distinct(free: int, sizes: tuple[int, ...]) -> None:
    patterns = maximal_patterns(free, sizes)
    assert patterns.shape[1] == len(sizes)
    assert (patterns >= 0).all()
    used = patterns @ np.asarray(sizes, dtype=np.int64)
    assert (used <= free).all()
    if sizes:
        assert (free - used < sizes[0]).all()
    assert len({tuple(row) for row in patterns.tolist()}) == patterns.shape[0]


@given(FREE, SIZES)
def test_every_feasible_multiset_is_contained_in_a_pattern(
    free: int, sizes: tuple[int, ...]
) -> None:
    patterns = maximal_patterns(free, sizes)
    for counts in multisets(free, sizes):
        if any(counts):
            assert (patterns >= np.asarray(counts)).all(axis=1).any(), counts


@given(FREE, SIZES)
def test_no_pattern_contains_another(free: int, sizes: tuple[int, ...]) -> None:
    patterns = maximal_patterns(free, sizes)
    for a, b in combinations(patterns, 2):
        assert not (a >= b).all()
        assert not (b >= a).all()


def test_a_node_of_eight_has_its_partitions() -> None:
    """Maximal patterns over all sizes fill the node: the partitions of f; 66 for f of 1 to 8."""
    sizes = tuple(range(1, 9))
    counts = [maximal_patterns(free, sizes).shape[0] for free in range(9)]
    assert counts == [0, 1, 2, 3, 5, 7, 11, 15, 22]


def test_order_is_largest_slots_first_and_does_not_change() -> None:
    assert maximal_patterns(4, (1, 2, 4)).tolist() == [[0, 0, 1], [0, 2, 0], [2, 1, 0], [4, 0, 0]]
    assert maximal_patterns(3, (4,)).shape == (0, 1)
    assert maximal_patterns(3, ()).shape == (0, 0)


@given(st.lists(st.integers(1, 4), max_size=5))
def test_reachable_free_states_are_those_of_the_subsets(held: list[int]) -> None:
    capacity = sum(held) + 3
    subsets = [part for k in range(len(held) + 1) for part in combinations(held, k)]
    expected = sorted({capacity - sum(part) for part in subsets})
    assert list(reachable_free(capacity, tuple(held))) == expected


@pytest.mark.parametrize(("held", "states"), [((), (8,)), ((8,), (0, 8)), ((2, 2), (4, 6, 8))])
def test_reachable_free_by_hand(held: tuple[int, ...], states: tuple[int, ...]) -> None:
    assert reachable_free(8, held) == states
