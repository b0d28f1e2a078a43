"""Distinct rows are those that numpy finds, in its order."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.columns import distinct_rows


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
