"""`RoundProblem` as JSON: what one round's tables look like on disk, with a version.

Columns of the tables are arrays under the names of the dataclass fields. NaN (a job that is
queued has no ``stay_iteration_s``) is ``null``, as JSON has no word for it.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np

from formulations.round_problem import (
    RESOURCES,
    CandidateTable,
    HoldTable,
    JobTable,
    NodeTable,
    RoundProblem,
)

FORMAT = "morph-opt round"
VERSION = 1

_TABLES = {
    "jobs": JobTable,
    "candidates": CandidateTable,
    "nodes": NodeTable,
    "holds": HoldTable,
}
_BOOLEAN = {"guaranteed", "open"}
_INTEGER = {
    "job",
    "node",
    "node_class",
    "gpus",
    "part_start",
    "part_gpus",
}
_WIDTH = {"side": len(RESOURCES) - 1, "capacity": len(RESOURCES), "demand": len(RESOURCES)}


class RoundJsonError(ValueError):
    """A text that is no round, of another version, or damaged; the message names the place."""


def to_json(problem: RoundProblem) -> str:
    """Text of a round; equal rounds give equal bytes."""
    tables = {
        name: {
            field.name: _listed(getattr(getattr(problem, name), field.name))
            for field in fields(kind)
        }
        for name, kind in _TABLES.items()
    }
    document = {"format": FORMAT, "version": VERSION, "resources": list(RESOURCES), **tables}
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def from_json(text: str) -> RoundProblem:
    """Round of a text.

    Raises
    ------
    RoundJsonError
        If the text is no JSON, of another format or version, lacks a column, has one of another
        kind, or its tables contradict each other.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise RoundJsonError(f"line {error.lineno}: {error.msg}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RoundJsonError(f"the format must be {FORMAT!r}")
    if document.get("version") != VERSION:
        raise RoundJsonError(f"the version must be {VERSION}, got {document.get('version')!r}")
    if document.get("resources") != list(RESOURCES):
        raise RoundJsonError(f"the resources must be {list(RESOURCES)}")
    tables = {name: _table(kind, name, document.get(name)) for name, kind in _TABLES.items()}
    try:
        return RoundProblem(**tables)
    except ValueError as error:
        raise RoundJsonError(str(error)) from error


def _listed(column: Any) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype == np.float64 and column.ndim == 1:
        return [None if value != value else value for value in values]
    return values


def _table(kind: type, name: str, columns: object) -> Any:
    if not isinstance(columns, dict):
        raise RoundJsonError(f"the table {name} is missing")
    return kind(**{f.name: _column(f"{name}.{f.name}", columns.get(f.name)) for f in fields(kind)})


def _column(place: str, values: object) -> Any:
    word = place.partition(".")[2]
    if not isinstance(values, list):
        raise RoundJsonError(f"the column {place} is missing")
    dtype = np.bool_ if word in _BOOLEAN else np.int64 if word in _INTEGER else np.float64
    if dtype is np.float64:
        values = [np.nan if value is None else value for value in values]
    try:
        column = np.asarray(values)
        exact = column.size == 0 or np.can_cast(column.dtype, dtype, "safe")
        if not exact:
            raise RoundJsonError(f"the column {place} must hold {np.dtype(dtype).name}")
        return (
            column.astype(dtype).reshape(-1, _WIDTH[word])
            if word in _WIDTH
            else (column.astype(dtype).reshape(-1))
        )
    except (ValueError, TypeError) as error:
        if isinstance(error, RoundJsonError):
            raise
        raise RoundJsonError(f"the column {place} is damaged: {error}") from error
