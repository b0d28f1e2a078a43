"""Small models for the adapter tests, and the brute force that knows their optimum."""

from __future__ import annotations

import itertools

import numpy as np

from formulations.linear_model import LinearModel, ModelBuilder

WORK = {"cpsat"}


def single(
    lower: float,
    upper: float,
    row: tuple[float, ...],
    sides: tuple[float, float],
    cost: tuple[float, ...],
    name: str = "m",
    integer: bool = True,
) -> LinearModel:
    """One row, columns with equal bounds."""
    builder = ModelBuilder(name)
    count = len(row)
    x = builder.add_columns("x", np.arange(count)[:, None], upper, lower=lower, integer=integer)
    builder.add_rows("r", np.zeros((1, 1), int), *sides, [(np.zeros(count, int), x, np.array(row))])
    return builder.build(np.array(cost))


def infeasible() -> LinearModel:
    return single(0, 1, (1, 1), (3, np.inf), (1, 1))


def integer_infeasible() -> LinearModel:
    """Feasible as a relaxation: 2x + 2y = 3."""
    return single(0, 5, (2, 2), (3, 3), (1, 1))


def unbounded() -> LinearModel:
    return single(0, np.inf, (1, -1), (-np.inf, 3), (1, 1))


def infeasible_and_open() -> LinearModel:
    """No solution, and a relaxation without a bound: only probing tells the two apart."""
    builder = ModelBuilder("open")
    builder.add_columns("x", np.arange(2)[:, None], np.inf)
    builder.add_rows(
        "whole", np.zeros((1, 1), int), 0.5, 0.5, [(np.zeros(1, int), np.zeros(1, int), 1.0)]
    )
    return builder.build(np.array([0.0, 1.0]))


def hard(columns: int = 80, rows: int = 10, seed: int = 1) -> LinearModel:
    """A multi-dimensional knapsack that no solver finishes in a test's time."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 1000, (rows, columns)).astype(float)
    builder = ModelBuilder("hard")
    x = builder.add_columns("x", np.arange(columns)[:, None], 1.0)
    builder.add_rows(
        "capacity",
        np.arange(rows)[:, None],
        -np.inf,
        np.floor(weight.sum(1) / 2),
        [(np.repeat(np.arange(rows), columns), np.tile(x, rows), weight.ravel())],
    )
    return builder.build(weight.sum(0) / rows + rng.integers(0, 100, columns))


def hidden(columns: int = 40, seed: int = 3) -> LinearModel:
    """Equalities that few points meet: no incumbent comes by itself."""
    rng = np.random.default_rng(seed)
    rows = 5
    weight = rng.integers(0, 100, (rows, columns)).astype(float)
    side = np.floor(weight.sum(1) / 2)
    builder = ModelBuilder("hidden")
    x = builder.add_columns("x", np.arange(columns)[:, None], 1.0)
    builder.add_rows(
        "equal",
        np.arange(rows)[:, None],
        side,
        side,
        [(np.repeat(np.arange(rows), columns), np.tile(x, rows), weight.ravel())],
    )
    return builder.build(rng.random(columns))


def random_small(rng: np.random.Generator) -> LinearModel:
    """2 to 6 integer columns, rows of every kind, offset; some are infeasible."""
    columns, rows = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    builder = ModelBuilder("small")
    x = builder.add_columns(
        "x",
        np.arange(columns)[:, None],
        rng.integers(0, 4, columns).astype(float),
        lower=-rng.integers(0, 2, columns).astype(float),
    )
    weight = rng.integers(-3, 8, (rows, columns)) * rng.choice([1.0, 0.5, 0.1], (rows, 1))
    side = np.round(rng.uniform(-1, 12, rows), 1)
    kind = rng.choice([0, 1, 2, 2, 2, 2, 3, 4], rows)
    lower = np.where(kind == 0, side - 3, np.where(kind == 1, side - 6, -np.inf))
    upper = np.where(kind == 0, np.inf, side)
    whole = kind == 4
    lower, upper = np.where(whole, 0.0, lower), np.where(whole, 0.0, upper)
    builder.add_rows(
        "r",
        np.arange(rows)[:, None],
        lower,
        upper,
        [(np.repeat(np.arange(rows), columns), np.tile(x, rows), weight.ravel())],
    )
    return builder.build(np.round(rng.uniform(-3, 10, columns), 3), float(rng.integers(-2, 3)))


def brute_force(model: LinearModel) -> float | None:
    """Optimum by enumeration; None when no point is feasible."""
    ranges = [
        np.arange(low, high + 1)
        for low, high in zip(model.column_lower, model.column_upper, strict=True)
    ]
    points = np.array(list(itertools.product(*ranges)), dtype=float)
    if not points.size:
        return None
    activity = points @ model.matrix().toarray().T
    good = ((activity >= model.row_lower - 1e-9) & (activity <= model.row_upper + 1e-9)).all(1)
    return float((points[good] @ model.cost).max()) + model.offset if good.any() else None
