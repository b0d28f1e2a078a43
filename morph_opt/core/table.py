"""Table that is written as Markdown, HTML, CSV or plain text."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real

from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import kind_of, own_value, require_each, require_type, take_own

Cell = str | int | float | None
"""Value of a cell; None and NaN are shown as an empty cell."""


@dataclass(frozen=True, slots=True)
class Table:
    """Header and rows.

    Parameters
    ----------
    header
        Names of the columns.
    rows
        Cells by row, as many as there are columns.
    align
        ``l`` or ``r`` per column; the last letter holds for all further columns.
    formats
        Format specifications by column name, such as ``",.1f"``, for cells that are numbers.
        CSV has the numbers themselves.

    Raises
    ------
    InputError
        If a row has another number of cells, a cell is neither text nor a number, or a format
        names no column.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    align: str = "lr"
    formats: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        take_own(self)
        require_each("header", self.header, str)
        require_type("align", self.align, str)
        rows = [own_value(row) for row in require_each("rows", self.rows, Sequence)]
        object.__setattr__(self, "rows", rows)
        if not self.align or set(self.align) - set("lr"):
            raise InputError(f"align must consist of the letters l and r, got {self.align!r}")
        if unknown := set(self.formats) - set(self.header):
            raise InputError(f"no such columns: {', '.join(sorted(unknown))}")
        for name, spec in self.formats.items():
            if not any(_formats(number, spec) for number in (0.0, 0)):
                raise InputError(f"{name}: {spec!r} is no format of a number")
        for row in self.rows:
            if len(row) != len(self.header):
                raise InputError(f"{len(self.header)} columns, but {len(row)} cells: {row!r}")
            for name, cell in zip(self.header, row, strict=True):
                if cell is not None and not isinstance(cell, str | Real):
                    raise InputError(f"{name}: a cell is text or a number, got {kind_of(cell)}")

    def _sides(self) -> list[str]:
        """Return the alignment of each column, a letter each."""
        return list(self.align.ljust(len(self.header), self.align[-1])[: len(self.header)])

    def texts(self) -> Iterator[list[str]]:
        """Yield the rows as formatted text."""
        specs = [self.formats.get(name, "") for name in self.header]
        for row in self.rows:
            yield [_text(cell, spec) for cell, spec in zip(row, specs, strict=True)]

    def to_markdown(self, *, spaced: bool = False) -> str:
        """Return a GitHub table without a line break at its end.

        Parameters
        ----------
        spaced
            Whether the line under the header has blanks, as the rows have.
        """
        marks = ["---:" if side == "r" else "---" for side in self._sides()]
        rule = _line(marks) if spaced else "|" + "|".join(marks) + "|"
        return "\n".join((_line(_bars(self.header)), rule, *map(_line, map(_bars, self.texts()))))

    def to_html(self) -> str:
        """Return a ``table`` element; cells are escaped."""
        styles = [' style="text-align: right"' if s == "r" else "" for s in self._sides()]

        def row(kind: str, cells: Iterable[str]) -> str:
            marked = zip(styles, cells, strict=True)
            return "".join(f"<{kind}{style}>{html.escape(c)}</{kind}>" for style, c in marked)

        body = [f"<tr>{row('td', cells)}</tr>" for cells in self.texts()]
        head = f"<thead>\n<tr>{row('th', self.header)}</tr>\n</thead>"
        return "\n".join(("<table>", head, "<tbody>", *body, "</tbody>", "</table>"))

    _repr_html_ = to_html

    def to_csv(self) -> str:
        """Return comma-separated lines with a header; numbers in full, nothing for None and NaN."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_text(cell, "") for cell in row] for row in self.rows)
        return buffer.getvalue()

    def to_text(self) -> str:
        """Return columns for a terminal, two blanks apart, without a line break at the end."""
        lines = [list(self.header), *self.texts()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        sides = self._sides()

        def row(cells: Sequence[str]) -> str:
            padded = zip(cells, widths, sides, strict=True)
            return "  ".join(c.rjust(w) if s == "r" else c.ljust(w) for c, w, s in padded).rstrip()

        return "\n".join(map(row, lines))

    def __str__(self) -> str:
        return self.to_text()


def _formats(number: float, spec: str) -> bool:
    try:
        format(number, spec)
    except ValueError:
        return False
    return True


def _text(cell: Cell, spec: str) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return format(cell, spec) if spec and not isinstance(cell, str) else str(cell)


def _bars(cells: Iterable[str]) -> Iterable[str]:
    """Return cells with escaped bars and line breaks, which would end a cell."""
    return (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
