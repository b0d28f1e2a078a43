"""`LinearModel` as CPLEX LP text, for readers and golden tests."""

from __future__ import annotations

import math
from collections.abc import Iterator

from formulations.linear_model import LinearModel
from formulations.mps import number_text

TERMS = 20
"""Number of terms per line: CPLEX reads lines of up to 560 characters."""


def _name(text: str) -> str:
    """Return a portable LP name: ``x[3,12]`` becomes ``x(3_12)``."""
    return text.replace("[", "(").replace("]", ")").replace(",", "_")


def _terms(pairs: Iterator[tuple[float, str]]) -> str:
    words = [
        f"{'-' if value < 0 else '+'} {number_text(abs(value))} {name}"
        for value, name in pairs
        if value
    ]
    lines = (" ".join(words[k : k + TERMS]) for k in range(0, len(words), TERMS))
    return "\n  ".join(lines) or "0"


def to_lp(model: LinearModel, note: str = "") -> str:
    """Return the model in LP format, rows and columns in the model's order.

    A row with two different finite sides is written twice, with suffixes ``.lo`` and ``.up``.

    Parameters
    ----------
    note
        First line, a comment, in place of the model's name.
    """
    names = [_name(name) for name in model.column_names()]
    lines = [
        f"\\ {note or model.name}",
        "Maximize",
        " obj: "
        + _terms(zip(model.cost.tolist(), names, strict=True))
        + (f" + {number_text(model.offset)} constant" if model.offset else ""),
        "Subject To",
    ]
    for row, title in enumerate(model.row_names()):
        span = slice(int(model.start[row]), int(model.start[row + 1]))
        left = _terms(
            (value, names[column])
            for value, column in zip(
                model.value[span].tolist(), model.index[span].tolist(), strict=True
            )
        )
        low, high = float(model.row_lower[row]), float(model.row_upper[row])
        label = _name(title)
        if low == high:
            lines.append(f" {label}: {left} = {number_text(low)}")
            continue
        both = math.isfinite(low) and math.isfinite(high)
        if math.isfinite(high):
            lines.append(f" {label}{'.up' if both else ''}: {left} <= {number_text(high)}")
        if math.isfinite(low):
            lines.append(f" {label}{'.lo' if both else ''}: {left} >= {number_text(low)}")
    lines.append("Bounds")
    for name, low, high in zip(
        names, model.column_lower.tolist(), model.column_upper.tolist(), strict=True
    ):
        upper = f" <= {number_text(high)}" if math.isfinite(high) else ""
        lower = f"{number_text(low)} <= " if math.isfinite(low) else "-inf <= "
        lines.append(f" {lower}{name}{upper}")
    if model.offset:
        lines.append(" constant = 1")
    integers = [name for name, whole in zip(names, model.integer.tolist(), strict=True) if whole]
    if integers:
        lines.append("Generals")
        lines.extend(f" {name}" for name in integers)
    return "\n".join([*lines, "End", ""])
