"""Table of a sweep: one row per cell, failures included, axes first."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.table import Table
from morph_opt.sweep.cell import Cell
from morph_opt.sweep.store import Found

if TYPE_CHECKING:
    import pandas as pd

FAILURE = ("failure", "failure_status", "failure_message")
_CLOCK = re.compile(r".*_ms(_.*)?|wall_s|peak_rss_mib")
"""Figures that depend on clock or machine, kept out of the table of results."""


def _names(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row))


class SweepTable:
    """Results of a sweep.

    Parameters
    ----------
    cells, found
        One result per cell, in the same order.

    Raises
    ------
    InputError
        If their numbers differ.
    """

    def __init__(self, cells: Sequence[Cell], found: Sequence[Found]) -> None:
        if len(cells) != len(found):
            rule = f"must be one for each of {len(cells)} cells, got {len(found)}"
            raise InputError(rule, field="found")
        self.axes = tuple(dict.fromkeys(name for cell in cells for name, _ in cell.axes))
        self.rows: list[dict[str, Any]] = []
        self.times: list[dict[str, Any]] = []
        for cell, one in zip(cells, found, strict=True):
            row: dict[str, Any] = dict(cell.axes) | {"key": one.key}
            clock: dict[str, Any] = {"key": one.key}
            failure = one.failure
            if failure is None:
                row |= dict.fromkeys(FAILURE)
                for name, value in one.summary.items():
                    (clock if _CLOCK.fullmatch(name) else row).setdefault(name, value)
                clock |= {f"cell_{name}": value for name, value in one.times.items()}
            else:
                outcome = (failure.kind, failure.status, failure.message)
                row |= dict(zip(FAILURE, outcome, strict=True))
                clock |= {"cell_wall_s": failure.wall_s, "cell_host": failure.host}
                clock |= {"cell_attempts": failure.attempts}
            self.rows.append(row)
            self.times.append(clock)

    @property
    def failed(self) -> int:
        """Number of rows without a result."""
        return sum(row["failure"] is not None for row in self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, axes first."""
        return _names(self.rows)

    @property
    def main(self) -> tuple[str, ...]:
        """Names of the main columns: axes, failures if any, and the figures of `compare`."""
        from morph_opt.report.comparison import FIGURES

        wanted = (*self.axes, *FAILURE, *(figure.key for figure in FIGURES))
        filled = {name for row in self.rows for name, value in row.items() if value is not None}
        return tuple(name for name in wanted if name in self.axes or name in filled)

    def to_table(self, *columns: str, times: bool = False) -> Table:
        """Return the rows, or their times.

        Parameters
        ----------
        *columns
            Names of columns; all if none is given.
        times
            Whether to return the times.

        Raises
        ------
        InputError
            If there is no such column.
        """
        rows = self.times if times else self.rows
        known = _names(rows)
        names = columns or known
        for name in columns:
            if name not in known:
                raise InputError(unknown("column", name, known), field="columns")
        formats = dict.fromkeys(names, ".6g")
        return Table(names, [[row.get(name) for name in names] for row in rows], "lr", formats)

    def to_pandas(self, *columns: str) -> pd.DataFrame:
        """Return a data frame with one row per cell; missing values are None or NaN."""
        import pandas as pd

        return pd.DataFrame(self.rows)[list(columns or self.names)]

    def to_csv(self) -> str:
        """Return the text of ``results.csv``, the same bytes for the same cells."""
        return self.to_table().to_csv()

    def write(self, path: Path, columns: Sequence[str] = ()) -> None:
        """Write a table by its suffix, ``.csv`` or ``.parquet``.

        Parameters
        ----------
        path
            File to write.
        columns
            Names of columns; all if none is given.

        Raises
        ------
        InputError
            If the suffix is another one, there is no such column, or Parquet cannot be written
            here.
        """
        table = self.to_table(*columns)
        if path.suffix == ".csv":
            write_atomically(path, table.to_csv())
            return
        if path.suffix != ".parquet":
            raise InputError("must end in .csv or .parquet", file=str(path), field="--out")
        try:
            import pyarrow  # noqa: F401 - pandas imports it, with a less clear message
        except ImportError as error:
            rule = "Parquet needs pyarrow: pip install pyarrow"
            raise InputError(rule, field="--out") from error
        buffer = io.BytesIO()
        frame = self.to_pandas(*columns)
        # A column with numbers and texts (none today) would be text.
        frame.to_parquet(buffer, index=False)
        write_atomically(path, buffer.getvalue())
