"""Solution files: a line per column that is not zero, ``name value``; ``#`` begins a comment.

This is what most solvers write (and MIPLIB's checker reads); a line ``=obj= value`` is taken as
the claimed objective of the MPS file, which minimises what is maximised here.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.documents import read_lines, write_atomically
from morph_opt.domain import InputError

CLAIM = "=obj="


def write_solution(path: Path, model: LinearModel, x: Floats, objective: float) -> None:
    """Write the columns of ``x`` that are not zero, after the objective."""
    lines = [f"# {model.name}", f"{CLAIM} {-objective!r}"]
    names = list(model.column_names())
    for column in np.flatnonzero(x).tolist():
        value = float(x[column])
        lines.append(f"{names[column]} {int(value) if value == int(value) else repr(value)}")
    write_atomically(path, "\n".join([*lines, ""]))


def read_solution(path: Path, model: LinearModel) -> Floats:
    """The point of a solution file, shape (columns,).

    Raises
    ------
    InputError
        If the file cannot be read, names an unknown column or one twice, or has no number; it
        names the line.
    """
    return read_claim(path, model)[0]


def read_claim(path: Path, model: LinearModel) -> tuple[Floats, float | None]:
    """The point, and the maximised objective that is claimed for it; None if none is."""
    columns = {name: column for column, name in enumerate(model.column_names())}
    x = np.zeros(model.columns)
    seen: set[str] = set()
    claim = None
    for line, raw in read_lines(path):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise InputError(
                f"must be a column and a number, got {raw.strip()!r}", file=str(path), line=line
            )
        name, number = words
        value = _number(number, path, line)
        if name == CLAIM:
            claim = -value
            continue
        if name not in columns:
            raise InputError(f"unknown column {name!r}", file=str(path), line=line)
        if name in seen:
            raise InputError(f"column {name!r} stands twice", file=str(path), line=line)
        seen.add(name)
        x[columns[name]] = value
    return x, claim


def _number(word: str, path: Path, line: int) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"must be a finite number, got {word!r}", file=str(path), line=line)
    return value
