"""Strict reading of JSON: every field is known and typed, every complaint has a path."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from morph_opt.domain import InputError

_T = TypeVar("_T")
_MISSING: Any = object()


def parse_json(text: str, file: str) -> object:
    """The value of a JSON text.

    Raises
    ------
    InputError
        If it is not JSON, holds NaN or Infinity, or names a field of an object twice.
    """

    def refuse(token: str) -> NoReturn:
        raise InputError(f"must hold finite numbers, got {token}", file=file)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise InputError("stands twice in one object", file=file, field=name)
            found[name] = value
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", file=file, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON that can be read: {error}", file=file) from error


class Fields:
    """A JSON object that is read field by field.

    Parameters
    ----------
    value
        The parsed object.
    path
        Where it stands, for example ``jobs[2]``; empty for the document.
    file
        Shown in complaints.
    known
        Names of all fields that it may have.

    Raises
    ------
    InputError
        If the value is no object or has another field.
    """

    def __init__(self, value: object, path: str, file: str, known: Iterable[str]) -> None:
        self._path = path
        self._file = file
        self._known = tuple(known)
        if not isinstance(value, dict):
            raise self.error(None, f"must be an object, got {kind_of(value)}")
        self._value: dict[str, Any] = value
        for name in value:
            if name not in self._known:
                raise self.error(name, f"unknown field; known are {', '.join(self._known)}")

    def at(self, name: str | None) -> str:
        """Path of a field; of the object itself for None."""
        if name is None:
            return self._path or "document"
        return f"{self._path}.{name}" if self._path else name

    def error(self, name: str | None, rule: str) -> InputError:
        """The complaint about a field."""
        return InputError(rule, file=self._file, field=self.at(name))

    def has(self, name: str) -> bool:
        """Whether the field is given and not null."""
        return self._value.get(name) is not None

    def raw(self, name: str, default: Any = _MISSING) -> Any:
        """The value of a field as parsed."""
        if name not in self._value:
            if default is _MISSING:
                raise self.error(name, "is missing")
            return default
        return self._value[name]

    def text(self, name: str, default: Any = _MISSING) -> str:
        """A string."""
        value = self.raw(name, default)
        if not isinstance(value, str):
            raise self.error(name, f"must be text, got {kind_of(value)}")
        return value

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        """True or false."""
        value = self.raw(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, got {kind_of(value)}")
        return value

    def whole(self, name: str, default: Any = _MISSING) -> int:
        """A whole number."""
        value = self.raw(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"must be a whole number, got {kind_of(value)}")
        return value

    def number(self, name: str, default: Any = _MISSING, *, least: float | None = None) -> float:
        """A finite number."""
        value = self.raw(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"must be a number, got {kind_of(value)}")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.error(name, "must be a finite number")
        if least is not None and value < least:
            raise self.error(name, f"must be at least {least:g}, got {value:g}")
        return value

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers; empty if it is not given."""
        values = self.rows(name, ())
        parts = [f"{name}[{i}]" for i in range(len(values))]
        inner = Fields(dict(zip(parts, values, strict=True)), self._path, self._file, parts)
        return tuple(inner.number(part) for part in parts)

    def instant(self, name: str, latest_s: float) -> float | None:
        """Seconds since the start of the trace, not later than an instant; None if null."""
        if not self.has(name):
            return None
        value = self.number(name, least=0.0)
        if value > latest_s:
            raise self.error(name, f"must not be later than time_s = {latest_s:g}, got {value:g}")
        return value

    def rows(self, name: str, default: Any = _MISSING) -> list[Any]:
        """A list."""
        value = self.raw(name, default)
        if not isinstance(value, list | tuple):
            raise self.error(name, f"must be a list, got {kind_of(value)}")
        return list(value)

    def objects(self, name: str, known: Iterable[str], default: Any = _MISSING) -> list[Fields]:
        """A list of objects."""
        names = tuple(known)
        return [
            Fields(value, f"{self.at(name)}[{i}]", self._file, names)
            for i, value in enumerate(self.rows(name, default))
        ]

    def object(self, name: str, known: Iterable[str]) -> Fields:
        """An object."""
        return Fields(self.raw(name), self.at(name), self._file, known)

    def built(self, make: Callable[[], _T], name: str | None = None) -> _T:
        """Call a constructor; its complaint gets file and path.

        Where the constructor names one of this object's fields, the path ends in that field.
        """
        try:
            return make()
        except InputError as error:
            last = (error.field or "").rsplit(".", 1)[-1]
            raise self.error(last if last in self._known else name, error.rule) from error


def kind_of(value: object) -> str:
    """A JSON value in a few words, for complaints."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return json.dumps(value)[:60]
