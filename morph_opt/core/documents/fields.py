"""Strict reading of tables and objects, whose errors name file, line and field; and of options.

A table of options (`morph_opt.core.domain.options`) has no entry for None; numbers come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from morph_opt.core.documents.structure import (
    field_of,
    flag,
    kind_of,
    names_of,
    number,
    structure,
    text,
    unknown_field,
    whole,
)
from morph_opt.core.domain._validate import beyond
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.options import Setting, settings

_T = TypeVar("_T")
_Subject = TypeVar("_Subject")
_MISSING: Any = object()


class Fields:
    """A JSON object or a TOML table that is read field by field.

    Parameters
    ----------
    value
        As parsed.
    path
        Path in the document, for example ``jobs[2]``; empty for the document itself.
    file
        Shown in complaints.
    known
        Names of all fields that it may have; None for any (a table of named tables).
    lines
        Lines of a TOML text by path (`morph_opt.core.documents.parse.key_lines`); complaints
        then name a line, and speak of tables and not of objects.

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
            raise self.error(None, f"must be an object, got {kind_of(value)}")
        self._value: dict[str, Any] = value
        if self._known is None:
            return
        for name in value:
            if name not in self._known:
                raise self.error(name, unknown_field(name, self._known))

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def at(self, name: str | None) -> str:
        """Return the path of a field, or of the object itself for None."""
        if name is None:
            return self._path or "document"
        return f"{self._path}.{name}" if self._path else name

    def error(self, name: str | None, rule: str, below: str = "") -> InputError:
        """Return an error about a field, or about a part of it such as ``[2].name``."""
        place = (self.at(name) if name or self._path or not below else "") + below
        place = place.removeprefix(".")
        if self._lines is not None:
            rule = rule.replace("must be an object", "must be a table")
        lines = self._lines or {}
        near = (place, f"{place}[0]", place.rpartition(".")[0], self.at(name), self._path)
        line = next((lines[path] for path in near if path in lines), None)
        return InputError(rule, file=self._file, line=line, field=place)

    def given(self, name: str) -> bool:
        """Return whether the object has the field, null or not."""
        return name in self._value

    def has(self, name: str) -> bool:
        """Return whether the object has the field and it is not null."""
        return self._value.get(name) is not None

    def raw(self, name: str, default: Any = _MISSING) -> Any:
        """Return the value of a field as parsed."""
        if name not in self._value:
            if default is _MISSING:
                raise self.error(name, "is missing")
            return default
        return self._value[name]

    def text(self, name: str, default: Any = _MISSING) -> str:
        """Return a field that is a string."""
        return self._read(text, name, default)

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        """Return a field that is true or false."""
        return self._read(flag, name, default)

    def whole(
        self,
        name: str,
        default: Any = _MISSING,
        *,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> int:
        """Return a field that is a whole number of 64 bits, or within narrower limits."""
        value = self._read(whole, name, default)
        if rule := beyond(value, at_least=least, at_most=most, whole=True):
            raise self.error(name, rule)
        return value

    def number(
        self,
        name: str,
        default: Any = _MISSING,
        *,
        least: float = -math.inf,
        above: float = -math.inf,
    ) -> float:
        """Return a field that is a finite number."""
        value = self._read(number, name, default)
        if rule := beyond(value, at_least=least, above=above):
            raise self.error(name, rule)
        return value

    def value(self, name: str, kind: type[_T], default: Any = _MISSING) -> _T:
        """Return a field as a value of a type; see `structure`."""
        return self._read(lambda value: structure(kind, value), name, default)

    def make(self, kind: type[_T], **given: Any) -> _T:
        """Return a dataclass made from fields of the object and from given values."""
        names = [name for name in names_of(kind) if name in self._value]
        try:
            return structure(kind, {name: self._value[name] for name in names} | given)
        except InputError as error:
            below = error.field or ""
            stray = below[1:] in given and below[1:] not in self._value
            raise self.error(None, error.rule, "" if stray else below) from None

    def _read(self, read: Callable[[Any], _T], name: str, default: Any) -> _T:
        value = self.raw(name, default)
        try:
            return read(value)
        except InputError as error:
            raise self.error(name, error.rule, error.field or "") from None

    def rows(self, name: str, default: Any = _MISSING) -> list[Any]:
        """Return a field that is a list."""
        value = self.raw(name, default)
        if not isinstance(value, list | tuple):
            table = isinstance(value, dict) and bool(self._lines)
            more = f": in TOML a list of tables is written [[{name}]]" if table else ""
            raise self.error(name, f"must be a list, got {kind_of(value)}{more}")
        return list(value)

    def objects(
        self, name: str, known: Iterable[str] | None, default: Any = _MISSING
    ) -> list[Fields]:
        """Return a field that is a list of objects."""
        names = None if known is None else tuple(known)
        return [
            Fields(value, f"{self.at(name)}[{i}]", self._file, names, self._lines)
            for i, value in enumerate(self.rows(name, default))
        ]

    def object(self, name: str, known: Iterable[str] | None, default: Any = _MISSING) -> Fields:
        """Return a field that is an object."""
        return Fields(self.raw(name, default), self.at(name), self._file, known, self._lines)

    def part(self, name: str) -> Fields:
        """Return a field that is an object; an empty one if it is missing or null."""
        given = self._value[name] if self.has(name) else {}
        return Fields(given, self.at(name), self._file, None, self._lines)

    def parts(self, name: str) -> list[Fields]:
        """Return a field that is a list of objects; an empty list if it is missing or null."""
        return self.objects(name, None) if self.has(name) else []

    def word(self, name: str) -> str:
        """Return a field that is a string; "" if it is missing or null."""
        return self.text(name) if self.has(name) else ""

    def by_name(self, name: str) -> dict[str, str]:
        """Return a field that maps names to strings; empty if it is missing or null."""
        return self.value(name, dict[str, str]) if self.has(name) else {}

    def named(self, name: str, known: Iterable[str] | None) -> dict[str, Fields]:
        """Return a field that maps names to objects; empty if it is not given."""
        table = self.object(name, None, {})
        names = None if known is None else tuple(known)
        return {key: table.object(key, names) for key in table}

    def built(self, make: Callable[[], _T], name: str | None = None) -> _T:
        """Call a constructor and add file, line and path to its error.

        Where the constructor names one of this object's fields, the path ends in that field.
        """
        try:
            return make()
        except InputError as error:
            last = field_of(error)
            raise self.error(last if last in (self._known or ()) else name, error.rule) from error


# ---------------------------------------------------------------- options


def read_options(read: Fields, subject: type[_Subject]) -> _Subject:
    """Return an options dataclass read from its table; only optional fields may be missing.

    Raises
    ------
    InputError
        Naming file, line and field.
    """
    values = {name: _value(read, one) for name, one in settings(subject).items()}
    return read.built(lambda: subject(**values))


def read_given(read: Fields, subject: type[Any]) -> dict[str, Any]:
    """Return the values that a table gives of an options dataclass."""
    return {n: _value(read, one) for n, one in settings(subject).items() if read.given(n)}


def _value(read: Fields, one: Setting) -> Any:
    if one.optional and not read.given(one.name):
        return None
    kind: Any = dict[str, float] if one.kind is dict else one.kind
    return read.value(one.name, kind)


def options_table(value: Any) -> dict[str, Any]:
    """Return an options dataclass as a table that `read_options` reads."""
    plain: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    for name, one in settings(type(value)).items():
        found = getattr(value, name)
        if found is None:
            continue
        if one.kind is dict:
            tables[name] = {key: float(number) for key, number in sorted(found.items())}
        else:
            plain[name] = found
    return plain | tables
