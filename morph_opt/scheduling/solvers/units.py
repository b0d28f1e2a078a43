"""Units of a model: powers of two that bring costs and rows to the size that libraries expect.

Libraries have absolute tolerances: a gap of 1e-6, reduced costs of 1e-7, and entries below 1e-9 are
dropped. With costs of 1e-9 any point is "optimal" to them. Costs and rows that are too small or too
large are therefore divided by a power of two, which changes no digit. Models of rounds have a
largest cost of 1 and rows of nodes and GPUs: they are handed over as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.parameters import UNITS


@dataclass(frozen=True, slots=True)
class Units:
    """Units of costs and rows.

    Parameters
    ----------
    cost
        Unit of the objective: 1, or a power of two close to the largest cost.
    rows
        Unit of each row, shape (rows,): 1, or a power of two close to the row's largest entry, but
        large enough that no side exceeds twice ``UNITS.most_entry``: libraries refuse larger sides.
    """

    cost: float
    rows: Floats

    @classmethod
    def of(cls, model: LinearModel) -> Units:
        """Return the units of a model."""
        scale = model.scale
        cost = 1.0 if scale >= UNITS.cost else float(_power(scale))
        largest = largest_entries(model)
        odd = (largest < UNITS.least_entry) | (largest > UNITS.most_entry)
        least = np.minimum(1.0, _power(largest_sides(model)) / UNITS.most_entry)
        rows = np.maximum(_power(largest), least)
        return cls(cost, np.where(odd & (largest > 0.0), rows, 1.0))

    @property
    def plain(self) -> bool:
        """Whether all units are 1."""
        return self.cost == 1.0 and bool((self.rows == 1.0).all())

    def scaled(self, model: LinearModel) -> LinearModel:
        """Return the model in these units."""
        if self.plain:
            return model
        of_entry = np.repeat(self.rows, np.diff(model.start))
        used = (model.column_upper > 0.0) | (model.column_lower < 0.0)
        return replace(
            model,
            cost=np.where(used, model.cost, 0.0) / self.cost if self.cost != 1.0 else model.cost,
            offset=model.offset / self.cost,
            value=model.value / of_entry,
            row_lower=model.row_lower / self.rows,
            row_upper=model.row_upper / self.rows,
        )


def largest_entries(model: LinearModel) -> Floats:
    """Return the largest absolute entry of each row, shape (rows,); 0 for empty rows."""
    filled = np.flatnonzero(np.diff(model.start))
    largest = np.zeros(model.rows)
    if filled.size:
        largest[filled] = np.maximum.reduceat(np.abs(model.value), model.start[filled])
    return largest


def largest_sides(model: LinearModel) -> Floats:
    """Return the largest absolute finite side of each row, shape (rows,); 0 if there is none."""
    lower, upper = (
        np.abs(np.where(np.isfinite(s), s, 0.0)) for s in (model.row_lower, model.row_upper)
    )
    return np.maximum(lower, upper)


def wide_rows(model: LinearModel, ratio: float = UNITS.wide) -> Bools:
    """Return whether entries or sides of each row differ so much that a proof may be wrong."""
    largest = largest_entries(model)
    least = np.full(model.rows, np.inf)
    filled = np.flatnonzero(np.diff(model.start))
    if filled.size:
        sizes = np.where(model.value == 0.0, np.inf, np.abs(model.value))
        least[filled] = np.minimum.reduceat(sizes, model.start[filled])
    wide: Bools = np.maximum(largest, largest_sides(model)) >= ratio * least
    return wide


def is_wide(model: LinearModel, ratio: float = UNITS.wide) -> bool:
    """Return whether some row is wide; see `wide_rows`."""
    return bool(wide_rows(model, ratio).any())


def with_columns_in(model: LinearModel, units: Floats) -> LinearModel:
    """Return the model with columns in other units."""
    return replace(
        model,
        cost=model.cost * units,
        column_lower=model.column_lower / units,
        column_upper=model.column_upper / units,
        value=model.value * units[model.index],
    )


def hidden_unit(model: LinearModel, level: float) -> float | None:
    """Return a smaller unit of costs for points of this value; None if none is needed.

    A cost of 1 that no point can earn hides costs of 1e-9 that it can.

    Parameters
    ----------
    level
        Largest absolute value of point and bound, without the model's offset.
    """
    sizes = np.abs(model.cost[model.cost != 0.0])
    if not sizes.size or level >= UNITS.hidden * model.scale:
        return None
    least = float(sizes.min())
    if least >= UNITS.hidden * model.scale:
        return None
    return float(_power(max(level, least, model.scale / UNITS.farthest)))


def _power(size: Floats | float) -> Floats:
    """Return the largest power of two that is at most the size."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp2(np.floor(np.log2(size))), dtype=np.float64)
