"""Reader of free MPS, line by line; what `formulations.mps` writes is read bit for bit.

Where readers differ, this one follows the manuals of CPLEX and Gurobi: integer columns without any
bound are binary, a negative upper bound alone opens the lower one, the first of several sets of
right-hand sides, ranges or bounds counts, and a bound of 1e20 is infinite. What they leave open,
such as an entry given twice, is refused with its line.
"""

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
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)

INFINITE_BOUND = 1e20
"""Absolute value from which a bound of a column is infinite."""
INFINITE_SIDE = 1e30
"""Absolute value from which a right-hand side or range is infinite."""


class MpsError(ValueError):
    """Refusal of a file that is no MPS, or a damaged one.

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
    """Read a free MPS text; a minimisation becomes a maximisation of the negated objective.

    Raises
    ------
    MpsError
        If the text is damaged.
    """
    return _Reader().read(text)


class _Reader:
    """Reader of one text, with a handler per section."""

    def __init__(self) -> None:
        self.line = 0
        self.name = ""
        self.maximise = False
        self.wanted: str | None = None
        self.objective: str | None = None
        self.whole = False
        self.rows: dict[str, int] = {}
        self.kinds: list[str] = []
        self.ignored: set[str] = set()
        self.columns: dict[str, int] = {}
        self.open: str | None = None
        self.priced: set[int] = set()
        self.sets: dict[str, str] = {}
        self.bounded: dict[int, set[str]] = {}
        self.integer: list[bool] = []
        self.cost: list[float] = []
        self.entries: dict[tuple[int, int], float] = {}
        self.sides: dict[int, float] = {}
        self.ranges: dict[int, float] = {}
        self.offset: float | None = None
        self.lower: list[float] = []
        self.upper: list[float] = []

    def read(self, text: str) -> LinearModel:
        sections: dict[str, Callable[[list[str]], None]] = {
            "OBJSENSE": self._sense,
            "OBJNAME": self._choose,
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
            if words[0] in ("OBJSENSE", "OBJNAME") and len(words) > 1:
                handler(words[1:])
        raise self._bad("the file ends without ENDATA")

    def _bad(self, reason: str) -> MpsError:
        return MpsError(max(1, self.line), reason)

    def _sense(self, words: list[str]) -> None:
        if re.fullmatch(r"(MAX|MIN)(IMI[SZ]E)?", words[0], re.IGNORECASE) is None:
            raise self._bad(f"the sense must be MAX or MIN, got {words[0]!r}")
        self.maximise = words[0].upper().startswith("MAX")

    def _choose(self, words: list[str]) -> None:
        """Take the name of the objective row, which comes before the rows."""
        if self.objective is not None or self.ignored or self.kinds:
            raise self._bad("OBJNAME must come before ROWS")
        self.wanted = words[0]

    def _row(self, words: list[str]) -> None:
        if len(words) != 2 or words[0] not in ("N", "L", "G", "E"):
            raise self._bad("a row is a kind N, L, G or E and a name")
        kind, name = words
        if name in self.rows or name == self.objective or name in self.ignored:
            raise self._bad(f"row {name!r} is named twice")
        if kind == "N" and self.objective is None and self.wanted in (None, name):
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
            self.whole, self.open = words[2] == "'INTORG'", None
            return
        if len(words) not in (3, 5):
            raise self._bad("a column line is a name and one or two pairs of row and number")
        if words[0] in self.columns and words[0] != self.open:
            raise self._bad(f"column {words[0]!r} comes again: its lines must follow each other")
        self.open = words[0]
        if words[0] not in self.columns:
            self.columns[words[0]] = len(self.cost)
            self.cost.append(0.0)
            self.integer.append(self.whole)
            self.lower.append(0.0)
            self.upper.append(math.inf)
        column = self.columns[words[0]]
        for row, number in self._pairs(words[1:]):
            if math.isinf(number):
                raise self._bad("must be a finite number")
            if column in self.priced if row is None else (row, column) in self.entries:
                raise self._bad(f"column {words[0]!r} has this row twice")
            if row is None:
                self.priced.add(column)
                self.cost[column] = number
            else:
                self.entries[row, column] = number

    def _pairs(
        self, words: list[str], infinity: float = math.inf
    ) -> Iterator[tuple[int | None, float]]:
        """Yield row index (None for the objective) and number of each pair, without free rows."""
        for name, number in zip(words[::2], words[1::2], strict=True):
            value = self._number(number, infinity)
            if name in self.ignored:
                continue
            if name != self.objective and name not in self.rows:
                raise self._bad(f"unknown row {name!r}")
            yield self.rows.get(name), value

    def _number(self, word: str, infinity: float = math.inf) -> float:
        if _NUMBER.fullmatch(word) is None and _INFINITE.fullmatch(word) is None:
            raise self._bad(f"must be a number, got {word!r}")
        value = float(word)
        return math.copysign(math.inf, value) if abs(value) >= infinity else value

    def _counts(self, section: str, name: str) -> bool:
        """Return whether lines of this set count: of named sets the section's first does."""
        return not name or name == self.sets.setdefault(section, name)

    def _vector(self, section: str, words: list[str]) -> Iterator[tuple[int | None, float]]:
        """Yield the pairs of a line whose first word may be the name of a set."""
        named = len(words) % 2 == 1
        pairs = list(self._pairs(words[named:], INFINITE_SIDE))
        if self._counts(section, words[0] if named else ""):
            yield from pairs

    def _side(self, words: list[str]) -> None:
        for row, number in self._vector("RHS", words):
            if row is None:
                if self.offset is not None or math.isinf(number):
                    raise self._bad("the constant of the objective must be one finite number")
                self.offset = -number
            elif row in self.sides:
                raise self._bad(f"row {list(self.rows)[row]!r} has two right-hand sides")
            elif math.isinf(number) and (number > 0.0) != (self.kinds[row] == "L"):
                raise self._bad(f"nothing can hold a row of kind {self.kinds[row]} at {number:g}")
            elif math.isinf(number) and self.kinds[row] == "E":
                raise self._bad("an equation must have a finite right-hand side")
            else:
                self.sides[row] = number

    def _range(self, words: list[str]) -> None:
        for row, number in self._vector("RANGES", words):
            if row is None:
                raise self._bad("the objective has no range")
            if row in self.ranges:
                raise self._bad(f"row {list(self.rows)[row]!r} has two ranges")
            self.ranges[row] = number

    def _bound(self, words: list[str]) -> None:
        kind = words[0]
        bare = kind in ("FR", "MI", "PL", "BV")
        if kind not in ("LO", "UP", "FX", "FR", "MI", "PL", "BV", "LI", "UI"):
            raise self._bad(f"unknown kind of bound {kind!r}")
        named = len(words) != (2 if bare else 3)
        rest = words[2:] if named else words[1:]
        if len(rest) not in ((1, 2) if bare else (2,)):
            raise self._bad("a bound is a kind, a set, a column and a number")
        if rest[0] not in self.columns:
            raise self._bad(f"unknown column {rest[0]!r}")
        column = self.columns[rest[0]]
        value = 0.0 if bare else self._number(rest[1], INFINITE_BOUND)
        if not self._counts("BOUNDS", words[1] if named else ""):
            return
        known = self.bounded.setdefault(column, set())
        if kind in known:
            raise self._bad(f"column {rest[0]!r} has two bounds of kind {kind}")
        known.add(kind)
        self._set_bound(kind, column, value)

    def _set_bound(self, kind: str, column: int, value: float) -> None:
        if (kind != "UP" and value == math.inf) or (kind[:1] in "UF" and value == -math.inf):
            raise self._bad(f"a bound of kind {kind} must be a finite number")
        lowered = self.bounded[column] & {"LO", "LI", "FX", "FR", "MI", "BV"}
        if kind in ("LO", "LI", "FX"):
            self.lower[column] = value
        if kind in ("UP", "UI", "FX"):
            self.upper[column] = value
        if kind in ("UP", "UI") and value < 0.0 and not lowered:
            self.lower[column] = -math.inf
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
            missing = "(kind N)" if self.wanted is None else repr(self.wanted)
            raise self._bad(f"there is no objective row {missing}")
        for column, whole in enumerate(self.integer):
            if whole and column not in self.bounded:
                self.upper[column] = 1.0
        offset = self._with_constant(self.offset or 0.0)
        low, high = self._row_sides()
        pairs = np.array(sorted(self.entries), dtype=np.int64).reshape(-1, 2)
        counts = np.bincount(pairs[:, 0], minlength=len(self.kinds))
        sign = 1.0 if self.maximise else -1.0
        cost = np.array(self.cost, dtype=np.float64)
        return LinearModel(
            name=self.name,
            cost=cost if self.maximise else sign * cost,
            offset=sign * offset + 0.0,
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

    def _with_constant(self, offset: float) -> float:
        """Remove the last column if it stands for the constant; return the offset with it."""
        last = len(self.cost) - 1
        if self.columns.get(CONSTANT) != last or any(column == last for _, column in self.entries):
            return offset
        if self.integer[last] or (self.lower[last], self.upper[last]) != (1.0, 1.0):
            return offset
        del self.columns[CONSTANT]
        for bounds in (self.integer, self.lower, self.upper):
            bounds.pop()
        return offset + self.cost.pop()

    def _row_sides(self) -> tuple[Floats, Floats]:
        low, high = np.zeros(len(self.kinds)), np.zeros(len(self.kinds))
        for row, kind in enumerate(self.kinds):
            side, width = self.sides.get(row, 0.0), self.ranges.get(row)
            low[row] = -math.inf if kind == "L" else side
            high[row] = math.inf if kind == "G" else side
            if width is not None and math.isinf(side):
                raise self._bad(f"row {list(self.rows)[row]!r} has a range and no finite side")
            if width is not None and kind == "L":
                low[row] = side - abs(width)
            elif width is not None and kind == "G":
                high[row] = side + abs(width)
            elif width is not None:
                low[row], high[row] = min(side, side + width), max(side, side + width)
        return low, high


def _blocks(names: list[str]) -> tuple[Block, ...]:
    """Return blocks with these names; a name that is not ``family[...]`` is a block of its own."""
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
