"""`LinearModel`: a sparse mixed-integer model with a name for every row and column.

Every formulation builds one and every solver adapter reads one, so solvers are compared on the same
model. It is plain data (numpy arrays), picklable and independent of any solver.

    maximise    cost' x + offset
    subject to  row_lower <= A x <= row_upper
                column_lower <= x <= column_upper,  x_i integer where integer[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows or columns of one family; names are made on demand.

    Parameters
    ----------
    family
        Name of the constraint or variable on the formulation page, for example ``"one_config"``.
    start
        Index of the first row or column.
    labels
        The k subscripts of each member, shape (count, k).
    """

    family: str
    start: int
    labels: Ints

    @property
    def count(self) -> int:
        """Number of members."""
        return int(self.labels.shape[0])

    def name(self, index: int) -> str:
        """Return ``family[subscript,...]`` of a member, or ``family`` without subscripts."""
        if not self.labels.shape[1]:
            return self.family
        return f"{self.family}[{','.join(map(str, self.labels[index - self.start]))}]"


def _find(blocks: Sequence[Block], index: int) -> Block:
    for block in blocks:
        if block.start <= index < block.start + block.count:
            return block
    raise IndexError(f"no row or column {index}")


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A maximisation MILP in compressed sparse rows.

    Parameters
    ----------
    name
        Title; the formulation's name.
    cost, offset
        Objective, shape (columns,), and constant. The sense is always maximise.
    column_lower, column_upper, integer
        Bounds and integrality, shape (columns,).
    row_lower, row_upper
        Sides of the rows, shape (rows,), infinite where a side is open.
    start, index, value
        Matrix in compressed sparse rows: row i has entries ``start[i]:start[i + 1]``.
    row_blocks, column_blocks
        Names, in order, covering every row and column once.
    """

    name: str
    cost: Floats
    offset: float
    column_lower: Floats
    column_upper: Floats
    integer: Bools
    row_lower: Floats
    row_upper: Floats
    start: Ints
    index: Ints
    value: Floats
    row_blocks: tuple[Block, ...]
    column_blocks: tuple[Block, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.row_lower.size)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.cost.size)

    @property
    def nonzeros(self) -> int:
        """Number of stored matrix entries."""
        return int(self.value.size)

    def row_name(self, row: int) -> str:
        """Return the name of a row, for example ``one_config[3]``."""
        return _find(self.row_blocks, row).name(row)

    def column_name(self, column: int) -> str:
        """Return the name of a column, for example ``x[3,12]``."""
        return _find(self.column_blocks, column).name(column)

    def row_names(self) -> Iterator[str]:
        """Yield the names of all rows in order."""
        for block in self.row_blocks:
            yield from (block.name(block.start + i) for i in range(block.count))

    def column_names(self) -> Iterator[str]:
        """Yield the names of all columns in order."""
        for block in self.column_blocks:
            yield from (block.name(block.start + i) for i in range(block.count))

    def matrix(self) -> sparse.csr_array:
        """Return the matrix A, shape (rows, columns)."""
        # The import of scipy takes 0.1 s, and most rounds do not need it.
        from scipy import sparse

        return sparse.csr_array(
            (self.value, self.index, self.start), shape=(self.rows, self.columns)
        )

    def activity(self, x: Floats) -> Floats:
        """Return A x, shape (rows,)."""
        row = np.repeat(np.arange(self.rows), np.diff(self.start))
        sums = np.bincount(row, self.value * x[self.index], minlength=self.rows)
        return sums.astype(np.float64)

    def objective(self, x: Floats) -> float:
        """Return the value of a point, offset included."""
        return float(self.cost @ x) + self.offset

    def with_objective(self, cost: Floats, offset: float = 0.0) -> LinearModel:
        """Return the same feasible set under another objective."""
        if cost.shape != self.cost.shape:
            raise ValueError(f"cost has shape {cost.shape}, the model {self.cost.shape}")
        return replace(self, cost=cost, offset=offset)

    @property
    def scale(self) -> float:
        """Largest cost of a usable column, the unit of solvers' costs; 1 if there is none."""
        used = (self.column_upper > 0) | (self.column_lower < 0)
        return float(np.abs(self.cost).max(initial=0.0, where=used)) or 1.0

    def with_row(
        self,
        family: str,
        label: Sequence[int],
        columns: Ints,
        values: Floats,
        lower: float,
        upper: float,
    ) -> LinearModel:
        """Return the model with a last row ``lower <= values' x[columns] <= upper``."""
        block = Block(family, self.rows, np.asarray([label], dtype=np.int64))
        return replace(
            self,
            row_lower=np.append(self.row_lower, lower),
            row_upper=np.append(self.row_upper, upper),
            start=np.append(self.start, self.start[-1] + columns.size),
            index=np.concatenate([self.index, columns]),
            value=np.concatenate([self.value, values]),
            row_blocks=(*self.row_blocks, block),
        )

    def with_rows_of(self, other: LinearModel, rows: Sequence[int]) -> LinearModel:
        """Return the model with these rows of another model appended, names kept.

        The rows may only have entries in columns that mean the same in both models.
        """
        model = self
        for row in rows:
            block = _find(other.row_blocks, row)
            span = slice(int(other.start[row]), int(other.start[row + 1]))
            model = model.with_row(
                block.family,
                block.labels[row - block.start].tolist(),
                other.index[span],
                other.value[span],
                float(other.row_lower[row]),
                float(other.row_upper[row]),
            )
        return model

    def relaxed(self) -> LinearModel:
        """Return the linear relaxation: the same rows and bounds, no integer columns."""
        return replace(self, integer=np.zeros_like(self.integer))


class ModelBuilder:
    """A model under construction, family by family; every call is vectorised.

    The order of calls is the order of columns and rows, hence deterministic.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._column_blocks: list[Block] = []
        self._row_blocks: list[Block] = []
        self._columns = 0
        self._rows = 0
        self._bounds: list[tuple[Floats, Floats, Bools]] = []
        self._sides: list[tuple[Floats, Floats]] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []

    @property
    def column_count(self) -> int:
        """Number of columns added so far."""
        return self._columns

    def add_columns(
        self,
        family: str,
        labels: Ints,
        upper: Floats | float,
        *,
        integer: bool = True,
        lower: Floats | float = 0.0,
    ) -> Ints:
        """Add one column per row of ``labels`` (shape (count, k)); return their indices."""
        block = Block(family, self._columns, np.asarray(labels, dtype=np.int64))
        count = block.count
        self._column_blocks.append(block)
        self._bounds.append(
            (
                _repeated(lower, count),
                _repeated(upper, count),
                np.full(count, integer),
            )
        )
        self._columns += count
        return np.arange(block.start, block.start + count, dtype=np.int64)

    def add_rows(
        self,
        family: str,
        labels: Ints,
        lower: Floats | float,
        upper: Floats | float,
        entries: Sequence[tuple[Ints, Ints, Floats | float]],
    ) -> Ints:
        """Add one row per row of ``labels``; return their indices.

        Parameters
        ----------
        entries
            Triples (row within the family, column, coefficient) of equally long arrays;
            coefficients of the same row and column add up.
        """
        block = Block(family, self._rows, np.asarray(labels, dtype=np.int64))
        count = block.count
        self._row_blocks.append(block)
        self._sides.append((_repeated(lower, count), _repeated(upper, count)))
        for row, column, coefficient in entries:
            values = _repeated(coefficient, row.size)
            self._entries.append((row + self._rows, column, values))
        self._rows += count
        return np.arange(block.start, block.start + count, dtype=np.int64)

    def build(self, cost: Floats, offset: float = 0.0) -> LinearModel:
        """Assemble the model; ``cost`` has one entry per column."""
        if cost.shape != (self._columns,):
            raise ValueError(f"cost has shape {cost.shape}, expected {(self._columns,)}")
        none = np.zeros(0, dtype=np.int64)
        row = np.concatenate([e[0] for e in self._entries] or [none])
        column = np.concatenate([e[1] for e in self._entries] or [none])
        value = np.concatenate([e[2] for e in self._entries] or [np.zeros(0)])
        start, index, value = _compressed(row, column, value, self._rows, self._columns)
        empty = np.zeros(0)
        return LinearModel(
            name=self._name,
            cost=np.asarray(cost, dtype=np.float64),
            offset=offset,
            column_lower=np.concatenate([b[0] for b in self._bounds] or [empty]),
            column_upper=np.concatenate([b[1] for b in self._bounds] or [empty]),
            integer=np.concatenate([b[2] for b in self._bounds] or [empty.astype(bool)]),
            row_lower=np.concatenate([s[0] for s in self._sides] or [empty]),
            row_upper=np.concatenate([s[1] for s in self._sides] or [empty]),
            start=start,
            index=index,
            value=value,
            row_blocks=tuple(self._row_blocks),
            column_blocks=tuple(self._column_blocks),
        )


def _compressed(
    row: Ints, column: Ints, value: Floats, rows: int, columns: int
) -> tuple[Ints, Ints, Floats]:
    """Return the entries as compressed rows, columns ascending, duplicates summed, no zeros."""
    key = row * max(1, columns) + column
    order = np.argsort(key, kind="stable")
    key, value = key[order], value[order]
    fresh = np.diff(key, prepend=-1) > 0
    if not fresh.all():
        # In the order of addition: floating-point sums depend on it.
        key, value = key[fresh], np.bincount(np.cumsum(fresh) - 1, value).astype(np.float64)
    kept = value != 0
    row, index = np.divmod(key[kept], max(1, columns))
    return np.searchsorted(row, np.arange(rows + 1)), index, value[kept]


def _repeated(value: Floats | float, count: int) -> Floats:
    """Return the numbers themselves, or one number repeated ``count`` times."""
    found = np.asarray(value, dtype=np.float64)
    if not found.ndim:
        return np.full(count, found)
    if found.shape != (count,):
        raise ValueError(f"{count} numbers expected, got {found.shape}")
    return found
