"""Distinct rows are those that numpy finds, in its order; what is remembered, and of what."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.columns import (
    alike_columns,
    at_rows,
    by_content,
    distinct_rows,
    gathered,
    of_rows,
)
from formulations.parameters import COLUMNS


@pytest.mark.parametrize("seed", range(30))
def test_distinct_rows_are_numpys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    shape = int(draw.integers(0, 40)), int(draw.integers(1, 6))
    table = draw.integers(-2, 3, shape) * draw.choice([1.0, 0.1], shape[1])
    rows, at = distinct_rows(table)
    known, inverse = np.unique(table, axis=0, return_inverse=True)
    np.testing.assert_array_equal(rows, known)
    np.testing.assert_array_equal(at, inverse.reshape(-1))


def test_many_wide_columns_do_not_overflow() -> None:
    """Twelve columns of 100 values each: 100^12 places are more than an index holds."""
    table = np.random.default_rng(0).integers(0, 100, (300, 12)).astype(np.float64)
    table = np.vstack([table, table[::7]])
    rows, at = distinct_rows(table)
    known, inverse = np.unique(table, axis=0, return_inverse=True)
    np.testing.assert_array_equal(rows, known)
    np.testing.assert_array_equal(at, inverse.reshape(-1))


@pytest.mark.parametrize("seed", range(20))
def test_columns_that_are_alike_are_one_where_that_makes_them_few(seed: int) -> None:
    draw = np.random.default_rng((seed, 71))
    few = draw.choice([-np.inf, 0.0, 0.5, 1e300], (int(draw.integers(1, 9)), 3))
    table = few[:, draw.integers(0, 3, COLUMNS.fewer * 3)]
    distinct, at = alike_columns(table)
    assert at is not None
    np.testing.assert_array_equal(distinct[:, at], table)
    assert distinct.shape[1] == np.unique(table, axis=1).shape[1]
    apart = draw.permutation(COLUMNS.fewer * 3).astype(np.float64)[None, :]
    assert alike_columns(apart) == (apart, None)
    whole, none = alike_columns(np.zeros((2, 0)))
    assert whole.shape == (2, 0)
    assert none is None or none.size == 0


def test_entries_of_rows_are_theirs_in_order() -> None:
    start = np.asarray([0, 2, 2, 5])
    entry, begin = of_rows(start, np.asarray([2, 1, 0, 2]))
    assert entry.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert begin.tolist() == [0, 3, 3, 5, 8]
    assert of_rows(start, np.zeros(0, dtype=np.int64))[0].size == 0


@pytest.mark.parametrize("operation", [np.add, np.subtract, np.maximum])
def test_rows_are_changed_column_by_column_as_at_once(operation: np.ufunc) -> None:
    draw = np.random.default_rng(1)
    table, rows = draw.random((5, 3)), draw.integers(0, 5, 40)
    other, values = table.copy(), draw.random((40, 3))
    at_rows(operation, table, rows, values)
    operation.at(other, rows, values)
    np.testing.assert_array_equal(table, other)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_gathered_values_come_before_the_appended_ones(kind: type) -> None:
    values, rows = np.asarray([3, 1, 2], dtype=kind), np.asarray([2, 0, 2])
    found = gathered(values, rows, values[:0], values[1:])
    assert found.tolist() == [2, 3, 2, 1, 2]
    assert found.dtype == kind


def test_answers_are_remembered_by_what_is_in_the_arrays() -> None:
    """Equal arrays are one question; another shape or type of the same bytes is another."""
    asked: list[np.ndarray] = []

    @by_content
    def shape_of(table: np.ndarray) -> tuple[int, ...]:
        asked.append(table)
        return table.shape

    one = np.arange(6)
    assert [shape_of(one), shape_of(one.copy()), shape_of(one.reshape(2, 3))] == [
        (6,),
        (6,),
        (2, 3),
    ]
    assert len(asked) == 2
    one[0] = 7
    shape_of(one)
    shape_of(np.zeros(6))
    shape_of(np.zeros(6, dtype=np.int64))
    assert len(asked) == 5
    for number in range(COLUMNS.most_known):
        shape_of(np.full(1, number))
    shape_of(one)  # the oldest are forgotten
    assert len(asked) == 6 + COLUMNS.most_known
    for _ in range(2):
        shape_of(np.zeros(COLUMNS.largest_known // 8 + 1))
    assert len(asked) == 8 + COLUMNS.most_known
