"""`LinearModel` as free MPS.

The file keeps names, bounds, integrality, offset, the order of rows and columns, and every number
(the shortest text of the same double). It avoids conventions that differ between readers:

* it minimises the negated objective: some readers refuse a section ``OBJSENSE``, others skip it
  and minimise;
* a constant is a column `CONSTANT` fixed at 1: some readers add the right-hand side of the
  objective row, others subtract it;
* both bounds of every integer column are written, and ``FREE`` after the name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from formulations.linear_model import LinearModel

OBJECTIVE = "objective"

CONSTANT = "constant"
"""Name of the last column, fixed at 1 and in no row: the constant of the objective."""


def to_mps(model: LinearModel, note: str = "") -> str:
    """Return the model in free MPS with its objective negated: MPS minimises.

    Parameters
    ----------
    note
        First line, a comment; "" for none.

    Raises
    ------
    ValueError
        If a name has blanks, or a column has the name of the constant.
    """
    rows, columns = list(model.row_names()), list(model.column_names())
    for name in (*rows, *columns):
        if any(c.isspace() for c in name):
            raise ValueError(f"MPS names must have no blanks, got {name!r}")
    if model.offset and CONSTANT in columns:
        raise ValueError(f"no column may be named {CONSTANT!r}: it holds the constant")
    lines = [
        *([f"* {note}"] if note else []),
        f"NAME {model.name.replace(' ', '_') or 'model'} FREE",
        "ROWS",
        f" N {OBJECTIVE}",
    ]
    lines.extend(f" {kind} {name}" for kind, name in zip(_kinds(model), rows, strict=True))
    lines.append("COLUMNS")
    lines.extend(_column_lines(model, rows, columns))
    if model.offset:
        lines.append(f" {CONSTANT} {OBJECTIVE} {number_text(-model.offset)}")
    lines.append("RHS")
    sides = np.where(np.isfinite(model.row_upper), model.row_upper, model.row_lower)
    lines.extend(
        f" RHS {name} {number_text(side)}"
        for name, side in zip(rows, sides.tolist(), strict=True)
        if side and math.isfinite(side)
    )
    lines.extend(_range_lines(model, rows))
    lines.append("BOUNDS")
    lines.extend(_bound_lines(model, columns))
    if model.offset:
        lines.append(f" FX BND {CONSTANT} 1")
    lines.append("ENDATA")
    return "\n".join([*lines, ""])


def number_text(value: float) -> str:
    """Return a short text that parses to the same double; whole numbers have no point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _kinds(model: LinearModel) -> Iterator[str]:
    for low, high in zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True):
        if low == high:
            yield "E"
        elif math.isfinite(high):
            yield "L"
        else:
            yield "G" if math.isfinite(low) else "N"


def _column_lines(model: LinearModel, rows: list[str], columns: list[str]) -> Iterator[str]:
    by_column = model.matrix().tocsc()
    by_column.sort_indices()
    start, index, value = (
        by_column.indptr.tolist(),
        by_column.indices.tolist(),
        by_column.data.tolist(),
    )
    whole = False
    markers = 0
    for column, name in enumerate(columns):
        if bool(model.integer[column]) != whole:
            whole = not whole
            yield f" M{markers} 'MARKER' '{'INTORG' if whole else 'INTEND'}'"
            markers += 1
        cost = -float(model.cost[column])
        entries = range(start[column], start[column + 1])
        if cost or not entries:
            yield f" {name} {OBJECTIVE} {number_text(cost)}"
        for k in entries:
            yield f" {name} {rows[index[k]]} {number_text(value[k])}"
    if whole:
        yield f" M{markers} 'MARKER' 'INTEND'"


def _range_lines(model: LinearModel, rows: list[str]) -> list[str]:
    two = np.isfinite(model.row_lower) & np.isfinite(model.row_upper)
    two &= model.row_lower != model.row_upper
    found = [
        f" RNG {rows[row]} {number_text(float(model.row_upper[row] - model.row_lower[row]))}"
        for row in np.flatnonzero(two).tolist()
    ]
    return ["RANGES", *found] if found else []


def _bound_lines(model: LinearModel, columns: list[str]) -> Iterator[str]:
    for name, low, high, whole in zip(
        columns,
        model.column_lower.tolist(),
        model.column_upper.tolist(),
        model.integer.tolist(),
        strict=True,
    ):
        if low == high:
            yield f" FX BND {name} {number_text(low)}"
            continue
        if low == -math.inf:
            yield f" {'FR' if high == math.inf else 'MI'} BND {name}"
        elif low or whole:
            yield f" LO BND {name} {number_text(low)}"
        if high != math.inf:
            yield f" UP BND {name} {number_text(high)}"
        elif whole and low != -math.inf:
            yield f" PL BND {name}"
