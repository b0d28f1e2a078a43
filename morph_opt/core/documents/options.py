"""Tables of TOML files and JSON schemas, from the dataclasses of `morph_opt.core.domain.options`.

A table has no entry for None; tables of numbers come last.
"""

from __future__ import annotations

from typing import Any, TypeVar

from morph_opt.core.documents.fields import Fields
from morph_opt.core.domain.options import Setting, settings

_Subject = TypeVar("_Subject")


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
