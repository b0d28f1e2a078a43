"""Evidence tables for terminals and notebooks, with shares, units and plain words.

The files keep a column per number (`morph_opt.plan.answer.Answer.header`); here what belongs
together stands in one cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from morph_opt.core.table import Cell, Table

_DECIDED = {
    "replay": "{} replayed",
    "early": "{} replayed until it missed",
    "failure": "{} failed",
    "impossible": "{} with a job that cannot run there",
}
_UNITS = {"s": "s", "usd": "$", "h": "h"}


def readable(header: Sequence[str], rows: Sequence[Sequence[Cell]], slo: str = "") -> Table:
    """Return the table of an answer's evidence in plain words.

    Parameters
    ----------
    header, rows
        As in the answer.
    slo
        What was asked, whose unit means have.
    """
    unit = _UNITS.get(slo.split()[1].rpartition("_")[2], "") if len(slo.split()) > 1 else ""
    found = [_row(dict(zip(header, row, strict=True)), unit) for row in rows]
    names = list(dict.fromkeys(name for row in found for name in row))
    return Table(names, [[row.get(name, "") for name in names] for row in found], "l")


def _row(cells: Mapping[str, Cell], unit: str) -> dict[str, Cell]:
    shown: dict[str, Cell] = {}
    for name, cell in cells.items():
        if name == "workloads" and "passed" in cells:
            shown["workloads that pass"] = f"{cells['passed']} of {cell}"
        elif name == "lower":
            # Of workloads that pass it bounds their share, of a difference the difference itself.
            kind, text = ("share", _percent) if "passed" in cells else ("interval", _number)
            low, high = (text(cells[one]) for one in ("lower", "upper"))
            shown[kind] = f"{low} to {high}" if low and high else ""
        elif name == "mean":
            around = [_number(cells.get(one)) for one in ("mean_lower", "mean_upper")]
            interval = f" ({around[0]} to {around[1]})" if all(around) else ""
            shown[f"mean ({unit})" if unit else "mean"] = _number(cell) + interval
        elif name == "decided_by":
            words = str(cell or "").replace("bound ", "bound_").split()
            shown["decided by"] = ", ".join(map(_by, words))
        elif name not in ("passed", "upper", "mean_lower", "mean_upper"):
            shown[name.replace("_", " ")] = _number(cell) if isinstance(cell, float) else cell
    return shown


def _by(word: str) -> str:
    """Put the cause of a verdict, such as ``replay:3``, into words."""
    name, colon, count = word.partition(":")
    if not colon:
        return word
    if name.startswith("bound_"):
        return f"{count} by the bound {name.removeprefix('bound_')}"
    return _DECIDED.get(name, "{} " + name).format(count)


def _percent(cell: Cell) -> str:
    whole = isinstance(cell, int | float) and math.isfinite(cell)
    return f"{100 * float(cell):.0f} %" if whole and cell is not None else ""


def _number(cell: Cell) -> str:
    if isinstance(cell, float):
        return "" if math.isnan(cell) else f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return "" if cell is None else str(cell)
