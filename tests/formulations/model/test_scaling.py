"""Scaling by powers of two, and the bound that any row duals prove."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from formulations.linear_model import LinearModel, ModelBuilder
from formulations.parameters import SCALING
from formulations.scaling import lagrangian_bound, scaled


def model(seed: int, spread: float) -> LinearModel:
    """``a x <= b`` in the unit box times ``10 ** spread`` either way in rows, columns and costs."""
    rng = np.random.default_rng(seed)
    rows, columns = 4, 6
    ten = lambda n: 10.0 ** rng.uniform(-spread, spread, n)  # noqa: E731
    of_row, of_column = ten(rows), ten(columns)
    builder = ModelBuilder("random")
    x = builder.add_columns("x", np.arange(columns)[:, None], of_column, integer=False)
    row, column = np.divmod(np.arange(rows * columns), columns)
    value = rng.uniform(0.1, 1.0, row.size) * of_row[row] / of_column[column]
    builder.add_rows("r", np.arange(rows)[:, None], -np.inf, of_row, [(row, x[column], value)])
    return builder.build(rng.uniform(0.1, 1.0, columns) / of_column * ten(1))


def optimum(m: LinearModel) -> float:
    """Of the model in units of its boxes and sides, by another library."""
    box, side = m.column_upper, m.row_upper
    matrix = m.matrix().toarray() * box / side[:, None]
    unit = float(np.abs(m.cost * box).max())
    found = linprog(-m.cost * box / unit, matrix, np.ones(m.rows), bounds=(0, 1), method="highs")
    return float(-found.fun) * unit


@pytest.mark.parametrize("seed", range(6))
def test_a_model_of_ordinary_size_is_not_touched(seed: int) -> None:
    m = model(seed, 0.0)
    m = m.with_objective(m.cost * 100.0)
    small = scaled(m)
    for name in ("cost", "value", "row_upper", "column_upper"):
        assert np.array_equal(getattr(small.model, name), getattr(m, name))


@pytest.mark.parametrize("spread", [3.0, 8.0, 14.0])
@pytest.mark.parametrize("seed", range(6))
def test_scaling_is_exact_and_brings_everything_to_size(seed: int, spread: float) -> None:
    m = model(seed, spread)
    small = scaled(m)
    for factor in (small.column, small.row, np.array([small.objective])):
        assert np.array_equal(np.frexp(factor)[0], np.full(factor.shape, 0.5)), "powers of two"
    rng = np.random.default_rng(seed)
    z = rng.random(m.columns) * small.model.column_upper
    x = small.point(z)
    assert m.objective(x) * small.objective == pytest.approx(small.model.objective(z), rel=1e-14)
    assert m.matrix() @ x * small.row == pytest.approx(small.model.matrix() @ z, rel=1e-14)
    entries = np.abs(small.model.matrix().toarray()).max(axis=1)
    assert (np.maximum(entries, small.model.row_upper) >= SCALING.small / 2).all()
    assert (entries <= SCALING.widest * 2).all()


@pytest.mark.parametrize("spread", [0.0, 6.0, 12.0])
@pytest.mark.parametrize("seed", range(6))
def test_every_dual_gives_a_bound_and_the_best_one_the_optimum(seed: int, spread: float) -> None:
    m = model(seed, spread)
    best = optimum(m)
    rng = np.random.default_rng(seed)
    worth = float(np.abs(m.cost * m.column_upper).max())
    for _ in range(50):
        duals = rng.normal(0.0, 1.0, m.rows) * worth / m.row_upper
        assert lagrangian_bound(m, duals) >= best * (1 - 1e-9)
    box, side = m.column_upper, m.row_upper
    found = linprog(
        -m.cost * box / worth,
        m.matrix().toarray() * box / side[:, None],
        np.ones(m.rows),
        bounds=(0, 1),
        method="highs",
    )
    duals = -np.asarray(found.ineqlin.marginals) * worth / side
    assert lagrangian_bound(m, duals) == pytest.approx(best, rel=1e-9)


def test_a_column_without_an_end_that_pays_has_no_bound() -> None:
    builder = ModelBuilder("open")
    builder.add_columns("x", np.zeros((1, 1), dtype=np.int64), np.inf, integer=False)
    assert lagrangian_bound(builder.build(np.ones(1)), np.zeros(0)) == np.inf


def test_only_extreme_bounds_are_scaled() -> None:
    # 3 lies between 2**-10 and 2**20; 2**30 does not, and is its own power of two.
    builder = ModelBuilder("two")
    builder.add_columns("x", np.arange(2)[:, None], np.array([3.0, 2.0**30]), integer=False)
    assert scaled(builder.build(np.ones(2))).column.tolist() == [1.0, 2.0**30]


def test_model_without_costs_keeps_its_objective() -> None:
    builder = ModelBuilder("free")
    builder.add_columns("x", np.zeros((1, 1), dtype=np.int64), 1.0, integer=False)
    assert scaled(builder.build(np.zeros(1))).objective == 1.0
