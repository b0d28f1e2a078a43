"""Answer to a question of planning, with its evidence and what is not modelled."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.documents import write_atomically
from morph_opt.core.table import Cell, Table
from morph_opt.core.version import __version__
from morph_opt.sweep.cell import sources_digest

if TYPE_CHECKING:
    import pandas as pd

ANSWER, EVIDENCE = "answer.json", "evidence.csv"
SCHEMA = "morph-opt/plan/1"

NOT_MODELLED = (
    "the bounds and replays know the jobs' true work; users who change their minds, and jobs that "
    "fail by themselves, are not in it",
    "a node is there from the first second; delivery, power and cooling are not modelled",
    "load that grows is more of the same jobs, not larger models",
)
"""Limits that every answer states."""

_DECIDED = {
    "replay": "{} replayed",
    "early": "{} replayed until it missed",
    "failure": "{} failed",
    "impossible": "{} with a job that cannot run there",
}
_UNITS = {"s": "s", "usd": "$", "h": "h"}


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """Answer to a question of planning.

    Parameters
    ----------
    question, asked
        Name of the question, and its options: enough to repeat it.
    said
        Sentences of the answer, the most important first.
    figures
        Its figures by name.
    header, rows
        Evidence table; its column ``decided_by`` names what decided each row.
    notes
        Notes on this answer (few weeks of history, not monotone ...).
    not_modelled
        Limits of the models used.
    preface
        Lines before the answer: the hindcast of a log, and what policies know of its jobs.
    """

    question: str
    asked: Mapping[str, Any]
    said: tuple[str, ...]
    figures: Mapping[str, Any]
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = field(default=NOT_MODELLED)
    preface: tuple[str, ...] = ()

    @property
    def nodes(self) -> int | None:
        """Number of nodes; None if the answer is not a number of nodes."""
        found = self.figures.get("nodes")
        return None if found is None else int(found)

    @property
    def evidence(self) -> pd.DataFrame:
        """Evidence as a data frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(self.header))

    def __repr__(self) -> str:
        return f"<Answer to {self.question}: {self.said[0] if self.said else 'none'}>"

    def _repr_html_(self) -> str:
        lines = (*self.preface, *self.said, *self.notes)
        said = "".join(f"<p>{html.escape(line)}</p>\n" for line in lines)
        return said + self._shown().to_html()

    def _shown(self) -> Table:
        return readable(self.header, self.rows, str(self.asked.get("slo", "")))

    def to_table(self) -> Table:
        """Return the evidence as a table."""
        return Table(self.header, self.rows)

    def to_text(self) -> str:
        """Format the answer for a terminal."""
        parts = [*self.preface, *self.said, "", self._shown().to_text(), ""]
        parts += [f"note: {note}" for note in self.notes]
        parts += [f"not modelled: {line}" for line in self.not_modelled]
        return "\n".join(parts) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes null."""
        return {
            "schema": SCHEMA,
            "question": self.question,
            "asked": dict(self.asked),
            "preface": list(self.preface),
            "said": list(self.said),
            "figures": {name: _plain(value) for name, value in self.figures.items()},
            "evidence": [
                dict(zip(self.header, map(_plain, row), strict=True)) for row in self.rows
            ],
            "notes": list(self.notes),
            "not_modelled": list(self.not_modelled),
            "version": __version__,
            "sources": sources_digest(),
        }

    def write(self, folder: Path) -> None:
        """Write answer and evidence into the folder of their cells."""
        write_atomically(folder / EVIDENCE, self.to_table().to_csv())
        write_atomically(folder / ANSWER, json.dumps(self.to_json(), indent=1) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


# The files keep a column per number (`Answer.header`); here what belongs together is in one cell.


def readable(header: Sequence[str], rows: Sequence[Sequence[Cell]], slo: str = "") -> Table:
    """Return the table of an answer's evidence in plain words.

    Parameters
    ----------
    header, rows
        As in the answer.
    slo
        SLO of the question, in whose unit means are stated.
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
