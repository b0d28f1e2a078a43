"""Smaller entries of switches: rows such as ``x <= 1e7 y``, which tolerances of libraries open.

An integer column of 1e-7 counts as 0, and opens a row with an entry of 1e7. Where the row is
redundant at one value of a switch, the entry may be as small as the row's largest activity needs
(coefficient tightening: Savelsbergh, ORSA Journal on Computing 6, 1994, section 1.2). Points and
values of the integer model stay the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.parameters import UNITS
from morph_opt.scheduling.solvers.units import wide_rows


def tightened(model: LinearModel) -> LinearModel:
    """Return the model with smaller entries of switches in wide rows of one side.

    The same object if there are none. A switch is an integer column with two values.
    """
    switch = model.integer & (model.column_upper - model.column_lower == 1.0)
    rows = np.flatnonzero(
        wide_rows(model) & (np.isfinite(model.row_lower) != np.isfinite(model.row_upper))
    )
    if not switch.any() or not rows.size:
        return model
    lower, upper = implied_bounds(model)
    value, low, high = model.value.copy(), model.row_lower.copy(), model.row_upper.copy()
    for row in rows.tolist():
        entries = np.arange(model.start[row], model.start[row + 1])
        column = model.index[entries]
        # As a row of at most `side`.
        sign = 1.0 if np.isfinite(high[row]) else -1.0
        entry = sign * value[entries]
        side = high[row] if sign > 0.0 else -low[row]
        with np.errstate(invalid="ignore"):
            most = np.where(entry > 0.0, entry * upper[column], entry * lower[column])
        most[entry == 0.0] = 0.0
        largest = float(most.sum())
        if not np.isfinite(largest):
            continue
        for at in np.flatnonzero(switch[column] & (entry != 0.0)).tolist():
            # Activity that is left to reach the side where the switch makes it smallest.
            spare = side - (largest - abs(entry[at]))
            if not 0.0 < spare < abs(entry[at]):
                continue
            up = entry[at] > 0.0
            fixed = model.column_upper[column[at]] if up else model.column_lower[column[at]]
            less = spare if up else -spare
            entry[at] -= less
            side -= less * fixed
            largest -= less * fixed
        value[entries] = sign * entry
        (high if sign > 0.0 else low)[row] = sign * side
    if (value == model.value).all():
        return model
    return replace(model, value=value, row_lower=low, row_upper=high)


def implied_bounds(model: LinearModel) -> tuple[Floats, Floats]:
    """Return bounds of continuous columns that rows and bounds imply, after a few passes.

    They are wider by a billionth, so that rounding errors cut off no point. Integer columns keep
    their own.
    """
    row = np.repeat(np.arange(model.rows), np.diff(model.start))
    entry, column = model.value, model.index
    lower, upper = model.column_lower.copy(), model.column_upper.copy()
    filled = entry != 0.0
    row, entry, column = row[filled], entry[filled], column[filled]
    for _ in range(UNITS.passes):
        before = lower.copy(), upper.copy()
        for sign, sides in ((1.0, model.row_upper), (-1.0, -model.row_lower)):
            mine = sign * entry
            least = np.where(mine > 0.0, mine * lower[column], mine * upper[column])
            open_ = np.isinf(least)
            least[open_] = 0.0
            total = np.bincount(row, least, model.rows)
            opens = np.bincount(row, open_, model.rows)
            # The others of the row at their least; unknown if one of them is open.
            usable = np.isfinite(sides[row]) & (opens[row] - open_ == 0)
            bound = (sides[row] - (total[row] - least))[usable] / mine[usable]
            slack = UNITS.slack * (
                1.0 + np.abs(bound) + (np.abs(total[row]) / np.abs(mine))[usable]
            )
            up, where = mine[usable] > 0.0, column[usable]
            np.minimum.at(upper, where[up], (bound + slack)[up])
            np.maximum.at(lower, where[~up], (bound - slack)[~up])
        if (lower == before[0]).all() and (upper == before[1]).all():
            break
    # An open switch is 1e-9 to bounds, but a whole one to the model.
    whole = model.integer
    lower[whole], upper[whole] = model.column_lower[whole], model.column_upper[whole]
    return lower, upper


def column_units(model: LinearModel) -> Floats | None:
    """Return units of the columns of an integer model, shape (columns,); None if all are 1.

    A cost of 1e-8 is none to libraries, even of a continuous column that may be 1e9.
    """
    if not model.integer.any():
        return None
    if not _is_large(model, model.column_lower, model.column_upper).any():
        return None
    lower, upper = implied_bounds(model)
    large = _is_large(model, lower, upper)
    if not large.any():
        return None
    largest = np.maximum(np.abs(lower), np.abs(upper))
    return np.where(large, np.exp2(np.floor(np.log2(np.where(large, largest, 1.0)))), 1.0)


def _is_large(model: LinearModel, lower: Floats, upper: Floats) -> Bools:
    largest = np.maximum(np.abs(lower), np.abs(upper))
    large: Bools = ~model.integer & np.isfinite(largest) & (largest > UNITS.widest)
    return large
