"""The integer form of a model and the error that it admits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.scheduling.solvers.cpsat.scaling import OPEN_SIDE, ScalingError, to_integers
from tests.solvers import models


def test_integers_stay_as_they_are() -> None:
    whole = to_integers(models.single(0, 3, (2, 3), (-np.inf, 7), (1, 1)))
    assert whole.value.tolist() == [2, 3]
    assert whole.row_upper.tolist() == [7]
    assert whole.row_lower.tolist() == [-OPEN_SIDE]


def test_decimals_are_scaled_exactly() -> None:
    whole = to_integers(models.single(0, 3, (0.1, 12.5), (1.1, 31.4), (1, 1)))
    assert whole.value.tolist() == [1, 125]
    assert (whole.row_lower.tolist(), whole.row_upper.tolist()) == ([11], [314])


def test_irrational_rows_state_their_error() -> None:
    model = models.single(0, 3, (np.pi, np.e), (-np.inf, 7.123456789), (1, 1))
    whole = to_integers(model)
    assert 0 < whole.row_error[0] < 1e-6


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=5), st.floats(-50, 50), st.randoms())
def test_no_feasible_point_is_lost(row: list[float], side: float, rng: object) -> None:
    model = models.single(-2, 5, tuple(row), (-np.inf, side), tuple(row))
    whole = to_integers(model)
    x = np.array([rng.randint(-2, 5) for _ in row])  # type: ignore[attr-defined]
    activity = float(model.matrix() @ x) if len(row) == 1 else float((model.matrix() @ x)[0])
    scaled = 0
    for entry, value in zip(model.index.tolist(), whole.value.tolist(), strict=True):
        scaled += value * int(x[entry])
    if activity <= side:
        assert scaled <= whole.row_upper[0]
    if scaled <= whole.row_upper[0]:
        assert activity <= side + whole.row_error[0] + 1e-9


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=5), st.randoms())
def test_the_objective_is_off_by_no_more_than_stated(cost: list[float], rng: object) -> None:
    model = models.single(-2, 5, (1,) * len(cost), (-np.inf, 3), tuple(cost))
    whole = to_integers(model)
    x = np.array([rng.randint(-2, 5) for _ in cost])  # type: ignore[attr-defined]
    off = abs(float(model.cost @ x) - int(whole.cost @ x) / whole.cost_factor)
    assert off <= whole.cost_error + 1e-9 * max(1.0, float(np.abs(model.cost) @ np.abs(x)))


def test_what_cannot_be_scaled_is_refused_by_name() -> None:
    with pytest.raises(ScalingError, match=r"x\[0\] is continuous"):
        to_integers(models.single(0, 1, (1, 1), (0, 1), (1, 1), integer=False))
    with pytest.raises(ScalingError, match=r"x\[0\] has no bounds"):
        to_integers(models.unbounded())
    coarse = models.single(0, 2e9, (1e-9 * np.pi, 1e9 * np.e), (-np.inf, 1.0), (1, 1))
    with pytest.raises(ScalingError, match=r"row r\[0\] would be off"):
        to_integers(coarse)


def test_sides_without_an_integer_between_them_are_named() -> None:
    assert to_integers(models.single(0, 1, (2, 2), (3, 2), (1, 1))).empty == "r[0]"
    assert to_integers(models.single(0.2, 0.8, (2, 2), (0, 4), (1, 1))).empty == "x[0]"


def test_columns_that_are_fixed_to_zero_do_not_overflow() -> None:
    whole = to_integers(models.single(0, 0, (1e-9, 3.7), (-np.inf, 1.0), (5.0, 1e-12)))
    assert (np.abs(whole.cost) < 2**45).all()
    assert (np.abs(whole.value) < 2**52).all()
