"""Tables that ``sacctmgr -P show`` prints, one or several in a file, columns in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from morph_opt.core.documents.source import stream_lines
from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.conf import MOST_BYTES

_HEADERS = ({"account", "user"}, {"name", "priority"})
"""Columns by which a line is known to be the header of another table."""


@dataclass(frozen=True, slots=True)
class SlurmTable:
    """One table.

    Parameters
    ----------
    file
        Its file.
    line
        Line of its header.
    columns
        Names of the columns, in lower case.
    rows
        Line and cells of each row, by column.
    """

    file: str
    line: int
    columns: tuple[str, ...]
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    def has(self, *columns: str) -> bool:
        """Return whether the table has all of these columns."""
        return set(columns) <= set(self.columns)


def read_tables(path: Path) -> list[SlurmTable]:
    """Read the tables of a file.

    Raises
    ------
    InputError
        If there is none, or a row has too few cells; the message names file and line.
    """
    found: list[SlurmTable] = []
    for line, text in stream_lines(path, MOST_BYTES):
        cells = [cell.strip() for cell in text.rstrip("\n").split("|")]
        if not any(cells):
            continue
        names = tuple(cell.lower() for cell in cells)
        if not found or any(header <= set(names) for header in _HEADERS):
            found.append(SlurmTable(str(path), line, names))
            continue
        table = found[-1]
        if len(cells) < len(table.columns):
            rule = f"has {len(cells)} cells, its table has {len(table.columns)} columns"
            raise InputError(rule, file=str(path), line=line)
        table.rows.append((line, dict(zip(table.columns, cells, strict=False))))
    if not found:
        raise InputError("is empty: must be a table of sacctmgr -P", file=str(path))
    return found
