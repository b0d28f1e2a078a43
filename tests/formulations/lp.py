"""Write a `LinearModel` as CPLEX LP text: what a person reads and a golden test compares."""

from __future__ import annotations

import math
from collections.abc import Iterator

from formulations.linear_model import LinearModel


def _number(value: float) -> str:
    return f"{value:.12g}"


def _name(text: str) -> str:
    """Brackets and commas are not portable in LP names: ``x[3,12]`` becomes ``x(3_12)``."""
    return text.replace("[", "(").replace("]", ")").replace(",", "_")


def _terms(pairs: Iterator[tuple[float, str]]) -> str:
    words = [
        f"{'-' if value < 0 else '+'} {_number(abs(value))} {name}"
        for value, name in pairs
        if value
    ]
    return " ".join(words) if words else "0"


def to_lp(model: LinearModel) -> str:
    """Text of the model in LP format, rows and columns in the model's order.

    A row with two different finite sides is written twice, with suffixes ``.lo`` and ``.up``.
    """
    names = [_name(name) for name in model.column_names()]
    lines = [
        f"\\ {model.name}",
        "Maximize",
        " obj: "
        + _terms(zip(model.cost.tolist(), names, strict=True))
        + (f" + {_number(model.offset)} constant" if model.offset else ""),
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
            lines.append(f" {label}: {left} = {_number(low)}")
            continue
        both = math.isfinite(low) and math.isfinite(high)
        if math.isfinite(high):
            lines.append(f" {label}{'.up' if both else ''}: {left} <= {_number(high)}")
        if math.isfinite(low):
            lines.append(f" {label}{'.lo' if both else ''}: {left} >= {_number(low)}")
    lines.append("Bounds")
    for name, low, high in zip(
        names, model.column_lower.tolist(), model.column_upper.tolist(), strict=True
    ):
        upper = f" <= {_number(high)}" if math.isfinite(high) else ""
        lower = f"{_number(low)} <= " if math.isfinite(low) else "-inf <= "
        lines.append(f" {lower}{name}{upper}")
    if model.offset:
        lines.append(" constant = 1")
    integers = [name for name, whole in zip(names, model.integer.tolist(), strict=True) if whole]
    if integers:
        lines.append("Generals")
        lines.extend(f" {name}" for name in integers)
    return "\n".join([*lines, "End", ""])
