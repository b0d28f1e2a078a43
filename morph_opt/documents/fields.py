"""Strict reading of tables and objects: every field is known and typed, every complaint placed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from morph_opt.domain.errors import InputError

_T = TypeVar("_T")
_MISSING: Any = object()
_WHOLE = 1 << 63
"""Whole numbers are below it: they end in arrays of 64 bits."""


class Fields:
    """A JSON object or a TOML table that is read field by field.

    Parameters
    ----------
    value
        As parsed.
    path
        Where it stands, for example ``jobs[2]``; empty for the document.
    file
        Shown in complaints.
    known
        Names of all fields that it may have; None for any (a table of named tables).
    lines
        Lines of a TOML text by path (`morph_opt.documents.toml_lines.key_lines`); complaints then
        name a line, and speak of tables and not of objects.

    Raises
    ------
    InputError
        If the value is no object or has another field.
    """

    def __init__(
        self,
        value: object,
        path: str,
        file: str | None,
        known: Iterable[str] | None,
        lines: Mapping[str, int] | None = None,
    ) -> None:
        self._path = path
        self._file = file
        self._known = None if known is None else tuple(known)
        self._lines = lines
        if not isinstance(value, dict):
            word = "an object" if lines is None else "a table"
            raise self.error(None, f"must be {word}, got {kind_of(value)}")
        self._value: dict[str, Any] = value
        if self._known is None:
            return
        for name in value:
            if name not in self._known:
                raise self.error(name, f"unknown field; known are {', '.join(self._known)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def at(self, name: str | None) -> str:
        """Path of a field; of the object itself for None."""
        if name is None:
            return self._path or "document"
        return f"{self._path}.{name}" if self._path else name

    def error(self, name: str | None, rule: str) -> InputError:
        """The complaint about a field."""
        place = self.at(name)
        lines = self._lines or {}
        near = (place, f"{place}[0]", self._path)
        line = next((lines[path] for path in near if path in lines), None)
        return InputError(rule, file=self._file, line=line, field=place)

    def given(self, name: str) -> bool:
        """Whether the field stands there, be it null."""
        return name in self._value

    def has(self, name: str) -> bool:
        """Whether the field is given and not null, for fields that may be null."""
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

    def texts(self, name: str, default: Any = _MISSING) -> tuple[str, ...]:
        """A list of strings."""
        values = self.rows(name, default)
        for i, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{name}[{i}]", f"must be text, got {kind_of(value)}")
        return tuple(values)

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        """True or false."""
        value = self.raw(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, got {kind_of(value)}")
        return value

    def whole(
        self,
        name: str,
        default: Any = _MISSING,
        *,
        least: int = 1 - _WHOLE,
        most: int = _WHOLE - 1,
    ) -> int:
        """A whole number of 64 bits, or within narrower limits."""
        value = self.raw(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"must be a whole number, got {kind_of(value)}")
        if not least <= value <= most:
            way = f"at least {least}" if value < least else f"at most {most}"
            raise self.error(name, f"must be {way}, got {value}")
        return value

    def number(
        self,
        name: str,
        default: Any = _MISSING,
        *,
        least: float | None = None,
        above: float | None = None,
    ) -> float:
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
        if above is not None and value <= above:
            raise self.error(name, f"must be above {above:g}, got {value:g}")
        return value

    def numbers(
        self, name: str, default: Any = (), *, count: int | None = None
    ) -> tuple[float, ...]:
        """A list of finite numbers, by default empty if it is not given."""
        values = self.rows(name, default)
        if count is not None and len(values) != count:
            raise self.error(name, f"must have {count} numbers, got {len(values)}")
        parts = [f"{name}[{i}]" for i in range(len(values))]
        inner = Fields(dict(zip(parts, values, strict=True)), self._path, self._file, None)
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

    def objects(
        self, name: str, known: Iterable[str] | None, default: Any = _MISSING
    ) -> list[Fields]:
        """A list of objects."""
        names = None if known is None else tuple(known)
        return [
            Fields(value, f"{self.at(name)}[{i}]", self._file, names, self._lines)
            for i, value in enumerate(self.rows(name, default))
        ]

    def object(self, name: str, known: Iterable[str] | None, default: Any = _MISSING) -> Fields:
        """An object."""
        return Fields(self.raw(name, default), self.at(name), self._file, known, self._lines)

    def named(self, name: str, known: Iterable[str] | None) -> dict[str, Fields]:
        """An object of objects by their names; empty if it is not given."""
        table = self.object(name, None, {})
        names = None if known is None else tuple(known)
        return {key: table.object(key, names) for key in table}

    def built(self, make: Callable[[], _T], name: str | None = None) -> _T:
        """Call a constructor; its complaint gets file, line and path.

        Where the constructor names one of this object's fields, the path ends in that field.
        """
        try:
            return make()
        except InputError as error:
            last = (error.field or "").rsplit(".", 1)[-1]
            raise self.error(last if last in (self._known or ()) else name, error.rule) from error


def kind_of(value: object) -> str:
    """A parsed value in a few words, for complaints."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return repr(value) if isinstance(value, str | int | float) else f"{value} (a date)"
