"""Strict CSV reader, whose errors name file, line, field and rule."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from morph_opt.core.documents.source import COLUMNS, LINES_BYTES, read_text
from morph_opt.core.domain._validate import beyond
from morph_opt.core.domain.errors import InputError, shown
from morph_opt.core.domain.nearest import did_you_mean

_T = TypeVar("_T")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a CSV file, cells by column.

    Parameters
    ----------
    file
        Path as the user gave it.
    line
        Line number in the file, from 1 (the header's).
    cells
        Text by column, without surrounding blanks.
    """

    file: str
    line: int
    cells: Mapping[str, str]

    def error(self, field: str, rule: str) -> InputError:
        """Return an error about one cell of this row."""
        return InputError(rule, file=self.file, line=self.line, field=field)

    def located(self, error: InputError) -> InputError:
        """Return an error of a domain type with file and line of this row."""
        return error.located(file=self.file, line=self.line)

    def built(self, make: Callable[[], _T], field: str) -> _T:
        """Call a function and add file, line and column to its error."""
        try:
            return make()
        except InputError as error:
            raise self.error(field, error.rule) from None

    def text(self, field: str) -> str:
        """Return the cell; refuse an empty one."""
        value = self.cells[field]
        if not value:
            raise self.error(field, "must not be empty")
        return value

    def integer(self, field: str, *, at_least: int, at_most: float = math.inf) -> int:
        """Return the cell as a whole number of at most 18 digits, without a decimal point."""
        text = self.text(field)
        if not _INTEGER.fullmatch(text):
            raise self.error(field, f"must be a whole number, got {text!r}")
        value = int(text)
        if rule := beyond(value, at_least=at_least, at_most=at_most, whole=True):
            raise self.error(field, rule)
        return value

    def number(self, field: str, *, at_least: float) -> float:
        """Return the cell as a finite number."""
        text = self.text(field)
        try:
            value = float(text) if "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(field, f"must be a finite number, got {text!r}")
        if rule := beyond(value, at_least=at_least, got=text):
            raise self.error(field, rule)
        return value

    def flag(self, field: str) -> bool:
        """Return whether the cell is 1; refuse all but 0 and 1."""
        text = self.text(field)
        if text not in ("0", "1"):
            raise self.error(field, f"must be 0 or 1, got {text!r}")
        return text == "1"


def read_rows(
    path: Path, required: Collection[str], optional: Collection[str] | None = ()
) -> Iterator[Row]:
    """Yield the rows of a comma-separated UTF-8 file with a header line; blank lines are skipped.

    Parameters
    ----------
    path
        The file. A byte-order mark is accepted.
    required
        Columns that must be there, in any order.
    optional
        Columns that may be there; any other column is refused, because a misspelt optional
        column must not pass for absent. None accepts (and keeps) all other columns.

    Raises
    ------
    InputError
        If the file cannot be read or decoded, its header is wrong, or a line has more or fewer
        cells than the header.
    """
    yield from rows_of(read_text(path, LINES_BYTES), str(path), required, optional)


def rows_of(
    text: str, file: str, required: Collection[str], optional: Collection[str] | None = ()
) -> Iterator[Row]:
    """Yield the rows of a CSV text; see `read_rows`."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    try:
        for raw in reader:
            cells = [cell.strip() for cell in raw]
            if not any(cells):
                continue
            if header is None:
                header = cells
                _check_header(header, file, reader.line_num, required, optional)
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"must have {len(header)} cells like the header, got {len(cells)}",
                    file=file,
                    line=reader.line_num,
                )
            yield Row(file, reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise InputError(f"is not a CSV line: {error}", file=file, line=reader.line_num) from None
    if header is None:
        raise InputError(
            f"is empty; it needs a header with {', '.join(required)}", file=file, line=1
        )


def _check_header(
    header: list[str],
    file: str,
    line: int,
    required: Collection[str],
    optional: Collection[str] | None,
) -> None:
    if len(header) > COLUMNS:
        rule = f"must have at most {COLUMNS} columns, got {len(header)}"
        raise InputError(rule, file=file, line=line)
    column, times = Counter(header).most_common(1)[0]
    if times > 1:
        raise InputError("column occurs twice", file=file, line=line, field=column)
    for column in required:
        if column not in header:
            raise InputError(
                f"column is missing; the header has {shown(', '.join(header))}",
                file=file,
                line=line,
                field=column,
            )
    if optional is None:
        return
    for column in header:
        if column not in required and column not in optional:
            known = ", ".join([*required, *optional])
            raise InputError(
                f"unknown column{did_you_mean(column, [*required, *optional])}; known are {known}",
                file=file,
                line=line,
                field=column or "(unnamed column)",
            )
