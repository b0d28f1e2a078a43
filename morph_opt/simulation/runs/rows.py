"""Rows of a run: CSV, values and data frames."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, get_type_hints, overload

from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.table import Cell, Table

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row")


class _Place(NamedTuple):
    """Access to the value of a column: attribute path, reader and type."""

    path: str
    read: Callable[[object], Any]
    of: Any


_PLACES: dict[type, Mapping[str, _Place]] = {}


def _places(kind: type) -> Mapping[str, _Place]:
    """Return the access to each column by name; nested dataclasses are flattened."""
    if kind not in _PLACES:  # looking types up takes longer than reading a row
        found: dict[str, _Place] = {}
        for name, of in get_type_hints(kind).items():
            parts = _places(of) if isinstance(of, type) and is_dataclass(of) else {}
            for column, inner in parts.items():
                path = f"{name}.{inner.path}"
                found[column] = _Place(path, attrgetter(path), inner.of)
            if not parts:
                found[name] = _Place(name, attrgetter(name), of)
        _PLACES[kind] = found
    return _PLACES[kind]


def _reader(kind: type, name: str) -> Callable[[object], Any]:
    """Return the function that reads a column: a field of the row, or one of its properties."""
    place = _places(kind).get(name)
    return attrgetter(name) if place is None else place.read


def columns(kind: type) -> tuple[str, ...]:
    """Return the names of a row's fields, in order; nested dataclasses are flattened."""
    return tuple(_places(kind))


def line(cells: Iterable[str]) -> str:
    """Format one line of CSV with its line break."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def to_cells(row: object, names: Sequence[str]) -> list[str]:
    """Return these fields as CSV cells; None and NaN are empty, wall times in 0.1 microseconds."""
    return [_cell(name, _places(type(row))[name].read(row)) for name in names]


def _cell(name: str, value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.4f}" if isinstance(value, float) and name.endswith("_ms") else str(value)


def from_cells(kind: type[Row], names: Sequence[str], cells: Sequence[str]) -> Row:
    """Return the row of these CSV cells; other fields have their defaults.

    Raises
    ------
    InputError
        If there are more or fewer cells than names, or one is not of its field's type.
    """
    if len(cells) != len(names):
        raise InputError(f"must have {len(names)} cells, got {len(cells)}")
    parts: dict[str, dict[str, Any]] = {"": {}}
    for name, cell in zip(names, cells, strict=True):
        place = _places(kind)[name]
        part, _, field = place.path.rpartition(".")
        try:
            parts.setdefault(part, {})[field] = _value(place.of, cell)
        except ValueError as error:
            raise InputError(f"got {cell!r}", field=name) from error
    own, types = parts.pop(""), get_type_hints(kind) if parts else {}
    return kind(**own, **{part: types[part](**values) for part, values in parts.items()})


def _value(kind: object, cell: str) -> object:
    if kind is not str and "_" in cell:  # only Python reads 1_000 as a number
        raise ValueError(cell)
    if kind is int:
        return int(cell)
    if kind is float:
        return _finite(cell) if cell else math.nan
    if kind is str:
        return cell
    if not cell and kind is not bool:
        return None
    return bool(int(cell))


def _finite(text: str) -> float:
    """Return a finite number; raise `ValueError` for anything else."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_SHOWN = 20
"""Number of rows that a notebook shows."""


class Records(Sequence[Row], Generic[Row]):
    """Rows of one kind, in order.

    Parameters
    ----------
    rows
        The rows.
    names
        Their columns, given because there may be no row.
    """

    def __init__(self, rows: Iterable[Row], names: Sequence[str]) -> None:
        self._rows = tuple(rows)
        self.names = tuple(names)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self.names)}>"

    def column(self, name: str) -> list[Any]:
        """Return one field of every row.

        Raises
        ------
        InputError
            If rows have no such field.
        """
        if name not in self.names:
            raise InputError(unknown("column", str(name), self.names))
        return [_reader(type(row), name)(row) for row in self]

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame of the rows; NaN or None if there is no value."""
        import pandas as pd

        return pd.DataFrame({name: self.column(name) for name in self.names})

    def _repr_html_(self) -> str:
        more = len(self) - _SHOWN
        last = f"<p>and {more:,} more</p>" if more > 0 else ""
        return Records(self[:_SHOWN], self.names).to_table().to_html() + last

    def to_table(self, *names: str) -> Table:
        """Return a table of these fields, or of all."""
        shown = names or self.names
        return Table(shown, list(zip(*(map(_shown, self.column(n)) for n in shown), strict=True)))


def _shown(value: object) -> Cell:
    return value if value is None or isinstance(value, int | float) else str(value)
