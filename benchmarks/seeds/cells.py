"""Look numbers up in the tables of reports."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from benchmarks.seeds.catalog import Place
from morph_opt.core.documents import LINES_BYTES, read_rows, read_text
from morph_opt.core.domain import InputError

REPORTS = Path(__file__).resolve().parents[2] / "reports"
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(?:[eE][-+]?\d+)?")

Row = Mapping[str, str]


def number_at(place: Place, reports: Path = REPORTS) -> float:
    """Return the number at a place.

    Raises
    ------
    InputError
        If no row matches, several match without a mean being meant, or a cell is no number.
    """
    path = reports / place.file
    wanted = {_plain(cell) for cell in place.row}
    rows = [row for row in _rows(path) if wanted <= set(row.values())]
    if place.mean:
        rows = [row for row in rows if all(row.get(name) for name in (place.column, *place.having))]
    if not rows or (len(rows) > 1 and not place.mean):
        rule = f"must have one row with {', '.join(place.row)}, and has {len(rows)}"
        raise InputError(rule, file=str(path))
    values = [_number(row, place.column, path) for row in rows]
    return math.fsum(values) / len(values)


def _number(row: Row, column: str, path: Path) -> float:
    found = _NUMBER.match(row.get(column, ""))
    if found is None:
        known = ", ".join(name for name in row if name)
        raise InputError(f"must be a number; columns are {known}", file=str(path), field=column)
    return float(found[0].replace(",", ""))


@cache
def _rows(path: Path) -> tuple[Row, ...]:
    """Return the rows of a file, each by header; headings of Markdown are cells as well."""
    if path.suffix == ".csv":
        return tuple(
            {name: _plain(cell) for name, cell in row.cells.items()}
            for row in read_rows(path, (), None)
        )
    text = read_text(path, LINES_BYTES)
    if path.suffix == ".json":
        runs = json.loads(text)["runs"]
        return tuple(
            {"case": case, **{name: str(value) for name, value in row.items()}}
            for case, row in runs.items()
        )
    return tuple(_markdown(text))


def _markdown(text: str) -> Iterator[Row]:
    heading, header = "", []  # type: str, list[str]
    for line in text.splitlines():
        if line.startswith("#"):
            heading, header = line.lstrip("# "), []
        elif not line.startswith("|"):
            header = []
        elif not header:
            header = _cells(line)
        elif set(line) - set("|-: "):
            yield {"": heading, **dict(zip(header, _cells(line), strict=True))}


def _cells(line: str) -> list[str]:
    return [_plain(cell) for cell in line.strip().strip("|").split("|")]


def _plain(cell: str) -> str:
    """Return a cell without marks of code and emphasis."""
    return cell.replace("`", "").replace("*", "").strip()
