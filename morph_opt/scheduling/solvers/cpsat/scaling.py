"""Scaling of a model to integers, with a bound on the error of rounding.

Every row i gets a whole factor F so that ``F a`` is close to integers: the smallest power of ten
that makes it exact, otherwise the largest power of two that keeps the sums in 64 bits. The error
of a row is ``sum |a - round(F a) / F| max|x|`` over the column bounds. Its sides are relaxed by
that error, so that no feasible point is lost; the recheck catches points that are gained. A
model whose error could exceed the feasibility tolerance is refused (`ScalingError`). The error of
the objective is added to the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.parameters import INTEGERS
from morph_opt.scheduling.solvers.recheck import FEASIBILITY_TOLERANCE

OPEN_SIDE = 2**62
"""Integer for an open side of a row."""


class ScalingError(Exception):
    """Error: integers cannot represent a model within the tolerance."""


@dataclass(frozen=True, slots=True)
class IntegerModel:
    """Integer form of a `LinearModel`, with the same rows.

    Parameters
    ----------
    column_lower, column_upper
        Shape (columns,).
    value
        Scaled matrix entries, shape (nonzeros,).
    row_lower, row_upper
        Scaled, relaxed sides, shape (rows,); beyond `OPEN_SIDE` where a side is open.
    cost, cost_factor
        Scaled objective: ``cost / cost_factor`` is close to the model's.
    cost_error
        Largest difference of the two objectives on any point, in the objective's unit.
    row_error
        Largest violation of a row by a point of the integer model, shape (rows,), row's unit.
    empty
        Name of a row or column between whose sides no integer lies, or ``""``.
    """

    column_lower: Ints
    column_upper: Ints
    value: Ints
    row_lower: Ints
    row_upper: Ints
    cost: Ints
    cost_factor: float
    cost_error: float
    row_error: Floats
    empty: str = ""


def to_integers(model: LinearModel) -> IntegerModel:
    """Scale the model to integers.

    Raises
    ------
    ScalingError
        If a column is continuous or has no finite bounds, or if a row's error could exceed the
        feasibility tolerance.
    """
    if not model.integer.all():
        column = model.column_name(int(np.flatnonzero(~model.integer)[0]))
        raise ScalingError(f"column {column} is continuous")
    wide = (
        np.maximum(np.abs(model.column_lower), np.abs(model.column_upper)) > INTEGERS.widest_column
    )
    if wide.any():
        # A bound made up here would turn an unbounded model into a proof of optimality.
        column = model.column_name(int(np.flatnonzero(wide)[0]))
        raise ScalingError(f"column {column} has no bounds within {INTEGERS.widest_column:g}")
    lower = np.ceil(model.column_lower - 1e-9)
    upper = np.floor(model.column_upper + 1e-9)
    reach = np.maximum(np.abs(lower), np.abs(upper))
    row = np.repeat(np.arange(model.rows), np.diff(model.start))
    factor = _row_factors(model, row, reach)
    scaled = np.round(model.value * factor[row])
    misfit = np.abs(model.value - scaled / factor[row]) * reach[model.index]
    error = np.bincount(row, weights=misfit, minlength=model.rows) + 1e-12
    # Sides that are whole after scaling must not move: a relaxation by 1e-12 is rounded away.
    low = np.ceil((model.row_lower - error) * factor - 1e-7)
    high = np.floor((model.row_upper + error) * factor + 1e-7)
    row_error = 2 * error + 1e-7 / factor
    _refuse_coarse(model, row_error)
    cost_factor, cost, cost_error = _objective(model.cost, reach)
    return IntegerModel(
        lower.astype(np.int64),
        upper.astype(np.int64),
        scaled.astype(np.int64),
        _sides(low),
        _sides(high),
        cost,
        cost_factor,
        cost_error,
        row_error,
        _empty(model, lower > upper, low > high),
    )


def _row_factors(model: LinearModel, row: Ints, reach: Floats) -> Floats:
    """Return the factor of each row by the module's rule, shape (rows,)."""
    finite = np.concatenate(
        [
            model.value,
            *(np.where(np.isfinite(s), s, 0.0) for s in (model.row_lower, model.row_upper)),
        ]
    )
    owner = np.concatenate([row, np.arange(model.rows), np.arange(model.rows)])
    # A column that is fixed to 0 must not let its coefficient grow without end.
    widest = np.maximum(reach, 1.0)
    largest = np.bincount(
        row, weights=np.abs(model.value) * widest[model.index], minlength=model.rows
    )
    for side in (model.row_lower, model.row_upper):
        largest = np.maximum(largest, np.where(np.isfinite(side), np.abs(side), 0.0))
    room = INTEGERS.largest_sum / np.maximum(largest, 1.0)
    factor = np.exp2(np.floor(np.log2(room)))
    for candidate in reversed(INTEGERS.exact_factors):
        off = np.abs(finite * candidate - np.round(finite * candidate))
        exact = np.ones(model.rows, dtype=np.bool_)
        exact[owner[off > 1e-12 * np.maximum(1.0, np.abs(finite * candidate))]] = False
        factor = np.where(exact & (candidate <= room), candidate, factor)
    return factor


def _objective(cost: Floats, reach: Floats) -> tuple[float, Ints, float]:
    largest = float(np.abs(cost) @ np.maximum(reach, 1.0))
    factor = float(np.exp2(np.floor(np.log2(INTEGERS.objective_sum / max(largest, 2.0**-60)))))
    scaled = np.round(cost * factor)
    return factor, scaled.astype(np.int64), float(np.abs(cost - scaled / factor) @ reach)


def _refuse_coarse(model: LinearModel, error: Floats) -> None:
    sides = np.maximum(
        *(np.abs(np.where(np.isfinite(s), s, 0.0)) for s in (model.row_lower, model.row_upper))
    )
    coarse = np.flatnonzero(error > FEASIBILITY_TOLERANCE * np.maximum(1.0, sides))
    if coarse.size:
        first = int(coarse[0])
        raise ScalingError(
            f"row {model.row_name(first)} would be off by up to {error[first]:.2g} in integers"
        )


def _empty(model: LinearModel, columns: Bools, rows: Bools) -> str:
    if columns.any():
        return model.column_name(int(columns.argmax()))
    return model.row_name(int(rows.argmax())) if rows.any() else ""


def _sides(side: Floats) -> Ints:
    return np.clip(side, -OPEN_SIDE, OPEN_SIDE).astype(np.int64)
