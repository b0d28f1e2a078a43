"""Solutions in files: written for MIPLIB's checker, read in the formats of all solvers.

Written is a line per column that is not zero, ``name value``; ``#`` begins a comment. A line
``=obj= value`` is the claimed objective of the MPS file, which minimises what is maximised here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.instances.solution_files import CLAIM, Written, read_written
from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.scheduling.solvers.recheck import violated

FEW_DIGITS = 1e-3
"""Largest relative violation that few digits can explain: a row adds up many rounded numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Point of a solution file.

    Parameters
    ----------
    x
        Value per column, shape (columns,).
    claim
        Claimed value of the maximised objective; None if none is claimed.
    remedy
        How to get more digits if the file has few; else empty.
    """

    x: Floats
    claim: float | None = None
    remedy: str = ""

    def broken(self, model: LinearModel) -> list[str]:
        """Return the worst violation in numbers; [] if the point is feasible."""
        name = violated(model, self.x)
        if not name:
            return []
        rows = [row for row in range(model.rows) if model.row_name(row) == name]
        if rows:
            value = float(model.activity(self.x)[rows[0]])
            least, most = model.row_lower[rows[0]], model.row_upper[rows[0]]
            rule = f"violates the row {name}: {value:.9g}, allowed {_range(least, most)}"
            near = value
        else:
            column = list(model.column_names()).index(name)
            least, most = model.column_lower[column], model.column_upper[column]
            whole = "a whole number " if model.integer[column] else ""
            value = float(self.x[column])
            rule = f"violates the column {name}: {value:.9g}, allowed {whole}{_range(least, most)}"
            near = round(value) if whole and least <= value <= most else value
        excess = max(least - value, value - most, abs(value - near))
        by_digits = excess <= FEW_DIGITS * max(1.0, abs(value))
        return [rule + (f" ({self.remedy})" if self.remedy and by_digits else "")]


def _range(least: float, most: float) -> str:
    if least == most:
        return f"{least:.9g}"
    if math.isinf(least) or math.isinf(most):
        return f"at most {most:.9g}" if math.isinf(least) else f"at least {least:.9g}"
    return f"from {least:.9g} to {most:.9g}"


def write_solution(path: Path, model: LinearModel, x: Floats, objective: float) -> None:
    """Write the columns of ``x`` that are not zero, after the objective."""
    lines = [f"# {model.name}", f"{CLAIM} {-objective!r}"]
    names = list(model.column_names())
    for column in np.flatnonzero(x).tolist():
        value = float(x[column])
        lines.append(f"{names[column]} {int(value) if value == int(value) else repr(value)}")
    write_atomically(path, "\n".join([*lines, ""]))


def read_solution(path: Path, model: LinearModel) -> Point:
    """Read the point of a solution file.

    Raises
    ------
    InputError
        If the file cannot be read, holds no solution, was cut, is of another model, names a
        column twice, or has no number; it names the line.
    """
    written = read_written(path)
    if written.columns not in (None, model.columns):
        rule = f"is of another model: it has {written.columns} columns, not {model.columns}"
        raise written.error(rule)
    columns = {name: column for column, name in enumerate(model.column_names())}
    x = np.zeros(model.columns)
    seen: set[int] = set()
    for line, which, number in written.values:
        column = columns.get(which) if isinstance(which, str) else which
        if column is None:
            few = f"; the columns are those of the .mps file, {next(iter(columns))!r} and so on"
            hint = did_you_mean(str(which), columns) or few
            raise written.error(f"unknown column {which!r}{hint}", line)
        if not 0 <= column < model.columns:
            raise written.error(f"has no column at that position, only {model.columns}", line)
        if column in seen:
            raise written.error(f"column {which!r} is duplicated", line)
        seen.add(column)
        x[column] = _number(number, written, line)
    if written.claim is None:
        return Point(x, None, written.remedy)
    return Point(x, -_number(written.claim[1], written, written.claim[0]), written.remedy)


def _number(word: str, written: Written, line: int) -> float:
    try:
        value = math.nan if "_" in word or not word.isascii() else float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise written.error(f"must be a finite number, got {word!r}", line)
    return value
