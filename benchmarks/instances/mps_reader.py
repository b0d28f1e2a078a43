"""Read free MPS text line by line: what `formulations.mps` writes, bit for bit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.linear_model import Block, LinearModel
from formulations.mps import CONSTANT

_INDEX = r"(?:0|-?[1-9][0-9]{0,17})"  # as it is written again, and within 64 bits
_LABELLED = re.compile(rf"([^\[\]]+)\[({_INDEX}(?:,{_INDEX})*)\]")


class MpsError(ValueError):
    """A file that is no MPS, or a damaged one.

    Parameters
    ----------
    line
        Number of the offending line, from 1; the last one when something is missing.
    reason
        What must hold there.
    """

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


def from_mps(text: str) -> LinearModel:
    """Model of a free MPS text; a minimisation becomes a maximisation of the negated objective.

    Raises
    ------
    MpsError
        If the text is damaged.
    """
    return _Reader().read(text)


class _Reader:
    """One pass over the lines; a handler per section."""

    def __init__(self) -> None:
        self.line = 0
        self.name = ""
        self.maximise = False
        self.objective: str | None = None
        self.whole = False
        self.rows: dict[str, int] = {}
        self.kinds: list[str] = []
        self.ignored: set[str] = set()
        self.columns: dict[str, int] = {}
        self.integer: list[bool] = []
        self.cost: list[float] = []
        self.entries: dict[tuple[int, int], float] = {}
        self.sides: dict[int, float] = {}
        self.ranges: dict[int, float] = {}
        self.offset = 0.0
        self.lower: list[float] = []
        self.upper: list[float] = []

    def read(self, text: str) -> LinearModel:
        sections: dict[str, Callable[[list[str]], None]] = {
            "OBJSENSE": self._sense,
            "ROWS": self._row,
            "COLUMNS": self._column,
            "RHS": self._side,
            "RANGES": self._range,
            "BOUNDS": self._bound,
        }
        handler: Callable[[list[str]], None] | None = None
        for self.line, raw in enumerate(text.splitlines(), start=1):
            if raw.startswith("*") or not raw.strip():
                continue
            words = raw.split()
            if raw[0].isspace():
                if handler is None:
                    raise self._bad(f"data before a section: {raw.strip()!r}")
                handler(words)
                continue
            if words[0] == "ENDATA":
                return self._model()
            if words[0] == "NAME":
                self.name = " ".join(words[1:]).removesuffix(" FREE")
                continue
            if words[0] not in sections:
                raise self._bad(f"unknown section {words[0]!r}")
            handler = sections[words[0]]
            if words[0] == "OBJSENSE" and len(words) > 1:
                self._sense(words[1:])
        raise self._bad("the file ends without ENDATA")

    def _bad(self, reason: str) -> MpsError:
        return MpsError(max(1, self.line), reason)

    def _sense(self, words: list[str]) -> None:
        if words[0] not in ("MAX", "MIN", "MAXIMIZE", "MINIMIZE"):
            raise self._bad(f"the sense must be MAX or MIN, got {words[0]!r}")
        self.maximise = words[0].startswith("MAX")

    def _row(self, words: list[str]) -> None:
        if len(words) != 2 or words[0] not in ("N", "L", "G", "E"):
            raise self._bad("a row is a kind N, L, G or E and a name")
        kind, name = words
        if name in self.rows or name == self.objective or name in self.ignored:
            raise self._bad(f"row {name!r} is named twice")
        if kind == "N" and self.objective is None:
            self.objective = name
        elif kind == "N":
            self.ignored.add(name)
        else:
            self.rows[name] = len(self.kinds)
            self.kinds.append(kind)

    def _column(self, words: list[str]) -> None:
        if len(words) == 3 and words[1] == "'MARKER'":
            if words[2] not in ("'INTORG'", "'INTEND'"):
                raise self._bad(f"a marker is 'INTORG' or 'INTEND', got {words[2]}")
            self.whole = words[2] == "'INTORG'"
            return
        if len(words) not in (3, 5):
            raise self._bad("a column line is a name and one or two pairs of row and number")
        if words[0] not in self.columns:
            self.columns[words[0]] = len(self.cost)
            self.cost.append(0.0)
            self.integer.append(self.whole)
            self.lower.append(0.0)
            self.upper.append(math.inf)
        column = self.columns[words[0]]
        for row, number in self._pairs(words[1:]):
            if row is None:
                self.cost[column] += number
            elif (row, column) in self.entries:
                raise self._bad(f"column {words[0]!r} has this row twice")
            else:
                self.entries[row, column] = number

    def _pairs(self, words: list[str]) -> Iterator[tuple[int | None, float]]:
        """Pairs of row index (None: the objective) and number; free rows are left out."""
        for name, number in zip(words[::2], words[1::2], strict=True):
            value = self._number(number)
            if name in self.ignored:
                continue
            if name != self.objective and name not in self.rows:
                raise self._bad(f"unknown row {name!r}")
            yield self.rows.get(name), value

    def _number(self, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise self._bad(f"must be a number, got {word!r}") from None
        if math.isnan(value):
            raise self._bad("must be a number, got nan")
        return value

    def _side(self, words: list[str]) -> None:
        for row, number in self._pairs(words[1:] if len(words) % 2 else words):
            if row is None:
                self.offset = -number
            else:
                self.sides[row] = number

    def _range(self, words: list[str]) -> None:
        for row, number in self._pairs(words[1:] if len(words) % 2 else words):
            if row is None:
                raise self._bad("the objective has no range")
            self.ranges[row] = number

    def _bound(self, words: list[str]) -> None:
        kind = words[0]
        bare = kind in ("FR", "MI", "PL", "BV")
        if kind not in ("LO", "UP", "FX", "FR", "MI", "PL", "BV", "LI", "UI"):
            raise self._bad(f"unknown kind of bound {kind!r}")
        rest = words[1:] if len(words) == (2 if bare else 3) else words[2:]
        if len(rest) < (1 if bare else 2):
            raise self._bad("a bound is a kind, a set, a column and a number")
        if rest[0] not in self.columns:
            raise self._bad(f"unknown column {rest[0]!r}")
        column = self.columns[rest[0]]
        value = 0.0 if bare else self._number(rest[1])
        if kind in ("LO", "LI", "FX"):
            self.lower[column] = value
        if kind in ("UP", "UI", "FX"):
            self.upper[column] = value
        if kind in ("FR", "MI"):
            self.lower[column] = -math.inf
        if kind in ("FR", "PL"):
            self.upper[column] = math.inf
        if kind == "BV":
            self.lower[column], self.upper[column] = 0.0, 1.0
        if kind in ("BV", "LI", "UI"):
            self.integer[column] = True

    def _model(self) -> LinearModel:
        if self.objective is None:
            raise self._bad("there is no objective row (kind N)")
        self._take_constant()
        low, high = self._row_sides()
        pairs = np.array(sorted(self.entries), dtype=np.int64).reshape(-1, 2)
        counts = np.bincount(pairs[:, 0], minlength=len(self.kinds))
        sign = 1.0 if self.maximise else -1.0
        cost = np.array(self.cost, dtype=np.float64)
        return LinearModel(
            name=self.name,
            cost=cost if self.maximise else sign * cost,
            offset=sign * self.offset + 0.0,
            column_lower=np.array(self.lower, dtype=np.float64),
            column_upper=np.array(self.upper, dtype=np.float64),
            integer=np.array(self.integer, dtype=np.bool_),
            row_lower=low,
            row_upper=high,
            start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            index=np.ascontiguousarray(pairs[:, 1]),
            value=np.array([self.entries[i, j] for i, j in pairs.tolist()], dtype=np.float64),
            row_blocks=_blocks(list(self.rows)),
            column_blocks=_blocks(list(self.columns)),
        )

    def _take_constant(self) -> None:
        """The last column out, if it stands for the constant."""
        last = len(self.cost) - 1
        if self.columns.get(CONSTANT) != last or any(column == last for _, column in self.entries):
            return
        if self.integer[last] or (self.lower[last], self.upper[last]) != (1.0, 1.0):
            return
        del self.columns[CONSTANT]
        self.offset += self.cost.pop()
        for bounds in (self.integer, self.lower, self.upper):
            bounds.pop()

    def _row_sides(self) -> tuple[Floats, Floats]:
        low, high = np.zeros(len(self.kinds)), np.zeros(len(self.kinds))
        for row, kind in enumerate(self.kinds):
            side, width = self.sides.get(row, 0.0), self.ranges.get(row)
            low[row] = -math.inf if kind == "L" else side
            high[row] = math.inf if kind == "G" else side
            if width is not None and kind == "L":
                low[row] = side - abs(width)
            elif width is not None and kind == "G":
                high[row] = side + abs(width)
            elif width is not None:
                low[row], high[row] = min(side, side + width), max(side, side + width)
        return low, high


def _blocks(names: list[str]) -> tuple[Block, ...]:
    """Blocks that give these names; one that does not read as ``family[...]`` stands alone."""
    blocks: list[Block] = []
    family: str | None = None
    labels: list[list[int]] = []

    def close() -> None:
        if family is not None:
            start = blocks[-1].start + blocks[-1].count if blocks else 0
            table: Ints = np.array(labels, dtype=np.int64).reshape(len(labels), len(labels[0]))
            blocks.append(Block(family, start, table))

    for name in names:
        match = _LABELLED.fullmatch(name)
        label = [int(word) for word in match[2].split(",")] if match else []
        title = match[1] if match else name
        if title != family or (labels and len(labels[0]) != len(label)) or not label:
            close()
            family, labels = title, []
        labels.append(label)
    close()
    return tuple(blocks)
