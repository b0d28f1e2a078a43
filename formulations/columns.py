"""Helpers for columns of tables: defaults, shapes, distinct rows, compressed rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats, Ints
from formulations.parameters import COLUMNS, ColumnParams


def no_ints() -> Ints:
    """Return an empty column of indices."""
    return np.zeros(0, dtype=np.int64)


def no_floats() -> Floats:
    """Return an empty column of numbers."""
    return np.zeros(0)


def distinct_rows(table: Floats) -> tuple[Floats, Ints]:
    """Return the distinct rows in lexicographic order and the index of each row, shape (rows,).

    Equals ``np.unique(table, axis=0, return_inverse=True)``, but works column by column: many times
    as fast for many rows of which few are distinct.
    """
    key, radix = np.zeros(table.shape[0], dtype=np.int64), 1
    for column in table.T:
        if not column.size or (column == column[0]).all():
            continue
        values, place = np.unique(column, return_inverse=True)
        if radix * values.size >= 2**62:
            short, key = np.unique(key, return_inverse=True)
            key, radix = key.reshape(-1), short.size
        key, radix = key * values.size + place.reshape(-1), radix * values.size
    _, first, at = np.unique(key, return_index=True, return_inverse=True)
    return table[first], at.reshape(-1)


def fingerprint(table: Iterable[Floats | Ints]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each column; two columns share one by chance alone."""
    key = np.zeros(1, dtype=np.uint64)
    for row in table:
        # Multiplication by an odd number is a bijection on 64 bits.
        key = (key ^ np.ascontiguousarray(row).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def alike_columns(table: Floats, params: ColumnParams = COLUMNS) -> tuple[Floats, Ints | None]:
    """Return the distinct columns of a table, shape (rows, D), and the index of each column.

    Returns the table itself and None unless distinct columns are far fewer. Columns are
    distinguished by a hash of their entries, and compared with the one they are taken for.
    """
    _, first, at = np.unique(fingerprint(table), return_index=True, return_inverse=True)
    if params.fewer * first.size > at.size:
        return table, None
    distinct, at = np.ascontiguousarray(table[:, first]), at.reshape(-1)
    same = all((own[at] == row).all() for own, row in zip(distinct, table, strict=True))
    return (distinct, at) if same else (table, None)


def stretches(count: int, params: ColumnParams = COLUMNS) -> Iterator[slice]:
    """Yield slices of rows 0 to ``count``, ``params.stretch`` rows each.

    Look-ups of a stretch stay in a processor's cache, and no temporary columns of a hundred
    megabytes are requested from the system.
    """
    size = params.stretch
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


GOLDEN = 0.6180339887498949
"""Golden ratio less 1."""


def golden_turns(count: int, begin: float = 0.5) -> Floats:
    """Return a golden-ratio sequence in [0, 1), shape (count,).

    Every stretch of it is spread evenly: comparing the entries with a share selects that share of
    each stretch, up to one entry or two.
    """
    turns: Floats = np.mod((np.arange(count) + begin) * GOLDEN, 1.0)
    return turns


Found = TypeVar("Found")
Table = TypeVar("Table")
Column = TypeVar("Column", Floats, Ints)


def strides(shape: Ints) -> Ints:
    """Return the stride of each axis in a flat table of this shape."""
    return np.append(np.cumprod(shape[:0:-1])[::-1], 1)


def by_content(function: Callable[..., Found]) -> Callable[..., Found]:
    """Cache the last answers of a pure function of arrays by the arrays' contents.

    From round to round the configurations on offer, and the nodes, are mostly the same. Answers
    must not be written to. Large arrays are not worth caching.
    """
    known: OrderedDict[tuple[Any, ...], Found] = OrderedDict()

    @wraps(function)
    def remembering(*tables: Any) -> Found:
        if sum(table.nbytes for table in tables) > COLUMNS.largest_known:
            return function(*tables)
        key = tuple((table.dtype.char, table.shape, table.tobytes()) for table in tables)
        if key in known:
            known.move_to_end(key)
            return known[key]
        known[key] = found = function(*tables)
        if len(known) > COLUMNS.most_known:
            known.popitem(last=False)
        return found

    return remembering


def of_tables(function: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """Cache, in the round, a function of its tables that ignores the work left of its jobs.

    For functions that use no column that `RoundProblem.later` replaces: from round to round the
    tables are mostly the same. Answers and arrays in them must not be written to.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def remembering(problem: Any) -> Found:
        known: dict[str, Found] = problem.known
        if name not in known:
            found = known[name] = function(problem)
            for array in found if isinstance(found, tuple) else (found,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
        return known[name]

    return remembering


def joined(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the positions of equal values in two columns, in the order of the right one."""
    order = np.argsort(left, kind="stable")
    first = np.searchsorted(left[order], right, side="left")
    length = np.searchsorted(left[order], right, side="right") - first
    inside = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    at: Ints = np.repeat(np.arange(right.size, dtype=np.int64), length)
    return order[np.repeat(first, length) + inside], at


def of_rows(start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the entries of some compressed rows, one row after the other, and each row's start.

    Parameters
    ----------
    start
        First entry of each row: row i has the entries ``start[i]`` to ``start[i + 1]``.
    """
    first = start[rows]
    lengths = start[1:][rows] - first
    begin = np.zeros(rows.size + 1, dtype=np.int64)
    lengths.cumsum(out=begin[1:])
    entry = (first - begin[:-1]).repeat(lengths)
    entry += np.arange(int(begin[-1]))
    return entry, begin


def at_rows(operation: np.ufunc, table: Floats, rows: Ints, values: Floats) -> None:
    """Apply ``operation.at(table, rows, values)`` column by column, which is many times faster."""
    for column, own in zip(table.T, values.T, strict=True):
        operation.at(column, rows, own)


def gathered(values: Column, rows: Ints, *behind: Column) -> Column:
    """Return ``values[rows]`` followed by more columns, without a second copy."""
    found = np.empty(rows.size + sum(more.size for more in behind), dtype=values.dtype)
    values.take(rows, out=found[: rows.size], mode="clip")  # without a copy, unlike "raise"
    found[rows.size :] = np.concatenate(behind)
    return found


def at_choice(values: Floats, choice: Ints) -> Floats:
    """Return the values of the chosen options, 0 for none (-1)."""
    found = np.zeros(choice.size)
    found[choice >= 0] = values[choice[choice >= 0]]
    return found


LEFT_OUT: Any = None
"""Default of a column that may be left out; the table fills it in."""


def require_shapes(table: object, **shapes: tuple[int, ...]) -> None:
    """Refuse columns of another shape, which broadcasting would accept silently."""
    for name, shape in shapes.items():
        column = getattr(table, name)
        found = column.shape if isinstance(column, np.ndarray) else np.shape(column)
        if found != shape:
            kind = type(table).__name__.removesuffix("Table").lower() + "s"
            raise ValueError(f"{kind}.{name} must have shape {shape}, got {found}")


def altered(table: Table, **columns: Any) -> Table:
    """Return a copy of a table with some columns replaced, without validation."""
    found: Table = object.__new__(type(table))
    for name in table.__slots__:  # type: ignore[attr-defined]
        value = columns[name] if name in columns else getattr(table, name)
        object.__setattr__(found, name, value)
    return found


def fill(table: object, **defaults: Any) -> None:
    """Set columns that were left out to their defaults."""
    for name, value in defaults.items():
        if getattr(table, name) is None:
            object.__setattr__(table, name, value)
