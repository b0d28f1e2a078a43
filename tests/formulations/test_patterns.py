"""Patterns: maximal and complete; free states: exactly the reachable ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.arrays import Ints
from formulations.node_pattern.patterns import (
    TooManyPatternsError,
    Vector,
    maximal_patterns,
    reachable_free_of,
)

SIZES = st.sets(st.integers(1, 12), max_size=5).map(lambda found: tuple(sorted(found)))


def gpus(free: int, sizes: tuple[int, ...]) -> Ints:
    """Maximal patterns where GPUs alone are counted."""
    return maximal_patterns((float(free),), tuple((float(size),) for size in sizes))


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Vector, tuple[Vector, ...]]:
    """What is free of one to three resources, and kinds of slots that ask for them.

    Every kind has GPUs; other resources may be 0 and are multiples of a quarter.
    """
    resources = draw(st.integers(1, 3))
    side = st.integers(0, 24).map(lambda quarters: quarters / 4)
    free = (float(draw(st.integers(0, 8))), *(draw(side) for _ in range(resources - 1)))
    kind = st.tuples(
        st.integers(1, 8).map(float), *(st.integers(0, 12).map(lambda q: q / 4),) * (resources - 1)
    )
    return free, tuple(sorted(draw(st.sets(kind, max_size=4))))


def multisets(free: Vector, kinds: tuple[Vector, ...]) -> list[tuple[int, ...]]:
    """Every feasible multiset of slots as counts per kind."""
    if not kinds:
        return [()]
    found, left = [], free
    for count in range(int(free[0] / kinds[-1][0]) + 1):
        left = tuple(f - count * k for f, k in zip(free, kinds[-1], strict=True))
        if min(left) < 0:
            break
        found += [(*rest, count) for rest in multisets(left, kinds[:-1])]
    return found


@given(cuts())
def test_patterns_are_feasible_maximal_and_distinct(cut: tuple[Vector, tuple[Vector, ...]]) -> None:
    free, kinds = cut
    patterns = maximal_patterns(free, kinds)
    assert patterns.shape[1] == len(kinds)
    feasible = set(multisets(free, kinds))
    for row in patterns.tolist():
        assert tuple(row) in feasible
        for kind in range(len(kinds)):
            more = tuple(c + (i == kind) for i, c in enumerate(row))
            assert more not in feasible
    assert len({tuple(row) for row in patterns.tolist()}) == patterns.shape[0]


@given(cuts())
def test_every_feasible_multiset_is_contained_in_a_pattern(
    cut: tuple[Vector, tuple[Vector, ...]],
) -> None:
    patterns = maximal_patterns(*cut)
    for counts in multisets(*cut):
        if any(counts):
            assert (patterns >= np.asarray(counts)).all(axis=1).any(), counts


@given(cuts())
def test_no_pattern_contains_another(cut: tuple[Vector, tuple[Vector, ...]]) -> None:
    for a, b in combinations(maximal_patterns(*cut), 2):
        assert not (a >= b).all()
        assert not (b >= a).all()


def test_a_node_of_eight_has_its_partitions() -> None:
    """Maximal patterns over all sizes fill the node: the partitions of f; 66 for f of 1 to 8."""
    counts = [gpus(free, tuple(range(1, 9))).shape[0] for free in range(9)]
    assert counts == [0, 1, 2, 3, 5, 7, 11, 15, 22]


def test_order_is_largest_slots_first_and_does_not_change() -> None:
    assert gpus(4, (1, 2, 4)).tolist() == [[0, 0, 1], [0, 2, 0], [2, 1, 0], [4, 0, 0]]
    assert gpus(3, (4,)).shape == (0, 1)
    assert gpus(3, ()).shape == (0, 0)


def test_another_resource_can_be_what_runs_out() -> None:
    """Eight GPUs and 10 CPU threads; slots of 2 GPUs with 1 or 4 threads."""
    found = maximal_patterns((8.0, 10.0), ((2.0, 1.0), (2.0, 4.0)))
    assert sorted(found.tolist()) == [[2, 2], [3, 1], [4, 0]]


def test_too_many_patterns_are_refused() -> None:
    kinds = tuple((1.0 + i / 100, 1.0 - i / 100) for i in range(12))
    with pytest.raises(TooManyPatternsError, match="more than"):
        maximal_patterns((60.0, 60.0), kinds)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=5))
def test_reachable_free_states_are_those_of_the_subsets(held: list[tuple[int, int]]) -> None:
    full = (sum(g for g, _ in held) + 3.0, sum(c for _, c in held) / 10 + 1.0)
    parts = [(float(g), c / 10) for g, c in held]
    subsets = [part for k in range(len(parts) + 1) for part in combinations(parts, k)]
    expected = {
        tuple(round(f - sum(p[r] for p in part), 9) for r, f in enumerate(full)) for part in subsets
    }
    found = reachable_free_of(full, tuple((part,) for part in parts))
    assert list(found) == sorted(found)
    assert {tuple(round(v, 6) for v in s) for s in found} == {
        tuple(round(v, 6) for v in s) for s in expected
    }


@pytest.mark.parametrize(("held", "states"), [((), (8,)), ((8,), (0, 8)), ((2, 2), (4, 6, 8))])
def test_reachable_free_by_hand(held: tuple[int, ...], states: tuple[int, ...]) -> None:
    found = reachable_free_of((8.0,), tuple(((float(part),),) for part in held))
    assert found == tuple((float(state),) for state in states)


def test_free_amounts_never_go_below_zero() -> None:
    """Two gangs of 3 on 4: either may go on, both cannot."""
    assert reachable_free_of((4.0,), (((3.0,),), ((3.0,),))) == ((1.0,), (4.0,))
    assert reachable_free_of((4.0,), (((5.0,),),)) == ((4.0,),)
