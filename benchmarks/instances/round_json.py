"""`RoundProblem` as JSON: what one round's tables look like on disk, with a version.

Columns of the tables stand under the names of the dataclass fields; a column that may be left out
in the dataclass may be left out here, and those of gangs over several node classes are where there
are none. Tables of two dimensions carry their shape. JSON has no word
for NaN (a queued job has no ``stay_iteration_s``) and infinity (an uplink without limit): they are
``null`` and ``"inf"``.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, Field, fields
from typing import Any

import numpy as np

from formulations.resources import LEAST, RESOURCES
from formulations.round import tables as round_problem
from formulations.round.tables import CandidateTable, RoundProblem

FORMAT = "morph-opt round"
VERSION = 1
_HEAD = ("format", "version", "resources")

_TABLES: dict[str, type] = {
    field.name: getattr(round_problem, str(field.type))
    for field in fields(RoundProblem)
    if field.init and str(field.type).endswith("Table")
}
_DTYPES = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_}


class RoundJsonError(ValueError):
    """A text that is no round, of another version, or damaged; the message names the place."""


def to_json(problem: RoundProblem) -> str:
    """Text of a round; equal rounds give equal bytes."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "resources": _names(problem.nodes.resources),
    }
    for field in _given(RoundProblem):
        value = getattr(problem, field.name)
        if field.name == "shared" and not (value.count or value.gang.size):
            continue
        if field.name == "returns" and not value.count:
            continue
        if field.name in _TABLES:
            value = {name: _encoded(getattr(value, name)) for name in _columns_of(value)}
        document[field.name] = value
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def from_json(text: str) -> RoundProblem:
    """Round of a text.

    Raises
    ------
    RoundJsonError
        If the text is no JSON, of another format or version, lacks a column, has one that is
        unknown or of another kind, or its tables contradict each other.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise RoundJsonError(f"line {error.lineno}: {error.msg}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RoundJsonError(f"the format must be {FORMAT!r}")
    if document.get("version") != VERSION:
        raise RoundJsonError(f"the version must be {VERSION}, got {document.get('version')!r}")
    if document.get("resources") not in [_names(n) for n in range(LEAST, len(RESOURCES) + 1)]:
        every = f"the resources must be {_names(len(RESOURCES))}"
        raise RoundJsonError(f"{every}; the last may be missing from the {LEAST + 1}. on")
    _require_known("table", document, [*_HEAD, *(field.name for field in _given(RoundProblem))])
    given: dict[str, Any] = {}
    for field in _given(RoundProblem):
        if field.name not in document:
            if not _optional(field):
                raise RoundJsonError(f"the table {field.name} is missing")
        elif field.name in _TABLES:
            given[field.name] = _table(field.name, document[field.name])
        else:
            given[field.name] = _scalar(field.name, document[field.name])
    try:
        return RoundProblem(**given)
    except (ValueError, IndexError) as error:
        raise RoundJsonError(str(error)) from error


def _names(count: int) -> list[str]:
    return [resource.name for resource in RESOURCES[:count]]


def _given(table: Any) -> list[Field[Any]]:
    """What a table is given; what is made of it is not written."""
    return [field for field in fields(table) if field.init]


def _columns_of(table: Any) -> list[str]:
    """Columns that are written: what only gangs over several classes have is left to them."""
    named = [field.name for field in _given(table)]
    if isinstance(table, CandidateTable):
        spare = {"part_class": not table.mixed.any(), "loose": not table.loose.any()}
        named = [name for name in named if not spare.get(name, False)]
    return named


def _optional(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _require_known(what: str, given: dict[str, Any], known: list[str], of: str = "") -> None:
    """Refuse a name that nobody reads: what is passed over would make another round."""
    for name in given:
        if name not in known:
            raise RoundJsonError(f"unknown {what} {f'{of}{name}'!r}; known are {', '.join(known)}")


def _encoded(column: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return column
    values = column.reshape(-1).tolist()
    if column.dtype == np.float64:
        values = [value if math.isfinite(value) else _word(value) for value in values]
    return values if column.ndim == 1 else {"shape": list(column.shape), "values": values}


def _word(value: float) -> str | None:
    if math.isnan(value):
        return None
    return "inf" if value > 0 else "-inf"


def _scalar(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RoundJsonError(f"{name} must be a number, got {value!r}")
    return float(value)


def _table(name: str, columns: object) -> Any:
    if not isinstance(columns, dict):
        raise RoundJsonError(f"the table {name} is missing")
    kind = _TABLES[name]
    known = _given(kind)
    _require_known("column", columns, [field.name for field in known], f"{name}.")
    given = {}
    for field in known:
        if field.name in columns:
            given[field.name] = _column(f"{name}.{field.name}", field, columns[field.name])
        elif not _optional(field):
            raise RoundJsonError(f"the column {name}.{field.name} is missing")
    try:
        return kind(**given)
    except (ValueError, IndexError) as error:
        raise RoundJsonError(f"the table {name} is damaged: {error}") from error


def _column(place: str, field: Field[Any], values: object) -> Any:
    dtype = _DTYPES.get(str(field.type))
    if dtype is None:
        return _nested(place, values)
    shape: tuple[int, ...] = (-1,)
    if isinstance(values, dict):
        shape, values = _shape(place, values.get("shape")), values.get("values")
    if not isinstance(values, list):
        raise RoundJsonError(f"the column {place} is no list")
    if dtype is np.float64:
        values = [math.nan if v is None else math.inf if v == "inf" else v for v in values]
        values = [-math.inf if v == "-inf" else v for v in values]
    try:
        column = np.asarray(values)
        if column.size and not np.can_cast(column.dtype, dtype, "safe"):
            raise RoundJsonError(f"the column {place} must hold {np.dtype(dtype).name}")
        return column.astype(dtype).reshape(shape)
    except (ValueError, TypeError) as error:
        if isinstance(error, RoundJsonError):
            raise
        raise RoundJsonError(f"the column {place} is damaged: {error}") from error


def _shape(place: str, shape: object) -> tuple[int, ...]:
    if not (isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)):
        raise RoundJsonError(f"the shape of the column {place} must be a list of counts")
    return tuple(shape)


def _nested(place: str, values: object) -> tuple[Any, ...]:
    """Names and subscripts of rules: tuples of words, or of tuples of whole numbers."""
    if not isinstance(values, list):
        raise RoundJsonError(f"the column {place} is no list")
    return tuple(tuple(v) if isinstance(v, list) else v for v in values)
