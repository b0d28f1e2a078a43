"""Scaling of models by powers of two, and a bound from any row duals.

Solvers take coefficients below about 1e-9 for 0 and satisfy rows to about 1e-7 *absolutely*, so a
model whose numbers differ by more is solved as another model. Scaling by powers of two changes no
digit of any number. The rule, for continuous columns:

* a column is measured in its box (the larger of its two finite bounds);
* a row whose largest entry is out of range is measured in its side if it has one, otherwise in that
  entry, so that a row ``sum a x >= 0`` is satisfied relative to its entries;
* the objective is measured in its largest cost, which becomes ``SCALING.dearest``: solvers take
  reduced costs below an absolute 1e-7 for 0.

Sizes from ``SCALING.small`` to ``SCALING.large`` stay as they are, so a well scaled model is not
changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.linear_model import LinearModel
from formulations.parameters import SCALING


@dataclass(frozen=True, slots=True)
class Scaled:
    """A scaled model and the way back; all factors are powers of two.

    Parameters
    ----------
    model
        Scaled model: columns ``x / column``, rows times ``row``, objective times ``objective``.
    column, row
        Factors, shapes (columns,) and (rows,).
    objective
        Factor of the objective.
    """

    model: LinearModel
    column: Floats
    row: Floats
    objective: float

    def point(self, x: Floats) -> Floats:
        """Return a point of the scaled model in the original model's units."""
        return x * self.column

    def duals(self, row_duals: Floats) -> Floats:
        """Return row duals of the scaled model in the original model's units."""
        return row_duals * self.row / self.objective


def scaled(model: LinearModel) -> Scaled:
    """Scale a model by the rule of the module; integer columns keep their size."""
    box = np.maximum(np.abs(model.column_lower), np.abs(model.column_upper))
    column = np.where(model.integer | ~np.isfinite(box), 1.0, _power(box))
    owner = np.repeat(np.arange(model.rows), np.diff(model.start))
    value = model.value * column[model.index]
    largest = np.zeros(model.rows)
    np.maximum.at(largest, owner, np.abs(value))
    side = np.maximum(_finite(model.row_lower), _finite(model.row_upper))
    measure = np.where(side > 0, np.maximum(side, largest / SCALING.widest), largest)
    row = np.where(_stays(largest), 1.0, 1.0 / _power(measure))
    cost = model.cost * column
    dearest = float(np.abs(cost).max(initial=0.0))
    stays = dearest == 0.0 or 1.0 <= dearest <= SCALING.large
    objective = 1.0 if stays else SCALING.dearest / float(_power(np.asarray(dearest), always=True))
    lesser = replace(
        model,
        cost=cost * objective,
        offset=model.offset * objective,
        column_lower=model.column_lower / column,
        column_upper=model.column_upper / column,
        row_lower=model.row_lower * row,
        row_upper=model.row_upper * row,
        value=value * row[owner],
    )
    return Scaled(lesser, column, row, objective)


def _finite(side: Floats) -> Floats:
    return np.where(np.isfinite(side), np.abs(side), 0.0)


def _stays(size: Floats) -> Bools:
    return np.asarray((size == 0) | ((size >= SCALING.small) & (size <= SCALING.large)))


def _power(size: Floats, *, always: bool = False) -> Floats:
    """Return the nearest power of two of each size; 1 if the size is 0 or in range."""
    stays = (size == 0) if always else _stays(size)
    return np.where(stays, 1.0, np.exp2(np.round(np.log2(np.where(stays, 1.0, size)))))


def lagrangian_bound(model: LinearModel, row_duals: Floats) -> float:
    """Return an upper bound on a continuous model's objective from any row duals.

    ``max (c - A'y)'x`` over the columns' boxes, plus ``y`` times the rows' sides (signs as in a
    maximisation: at least 0 for a binding ``<=``). Valid for every y that is 0 where its side is
    open, whatever a solver claims; inf if a column with positive reduced cost has no bound.
    """
    side = np.where(row_duals > 0, model.row_upper, model.row_lower)
    y = np.where(np.isfinite(side), row_duals, 0.0)
    reduced = model.cost - model.matrix().T @ y
    box = np.where(reduced > 0, model.column_upper, model.column_lower)
    with np.errstate(invalid="ignore"):
        columns = np.where(reduced == 0, 0.0, reduced * box).sum()
        rows = np.where(y == 0, 0.0, y * side).sum()
    return float(columns + rows) + model.offset
