"""Checks of the types of arguments that users give in Python."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from morph_opt.core.domain.errors import InputError

_LONGEST = 60
"""Largest number of characters of a refused value in a message."""

_WORDS: dict[Any, tuple[str, str]] = {
    str: ("text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "truth values"),
    Path: ("a path", "paths"),
    Mapping: ("a dict", "dicts"),
    Sequence: ("a sequence", "sequences"),
    Iterable: ("an iterable", "iterables"),
    Callable: ("a function", "functions"),
    None: ("None", "None"),
}
"""Words for a type: singular and plural."""

_NUMBERS: dict[Any, type] = {int: numbers.Integral, float: numbers.Real}


def require_type(field: str, value: Any, *kinds: Any) -> Any:
    """Return a value of one of these types, converted from numpy and pandas to Python's own.

    A whole number counts as a number, true and false count as neither, and a text is no sequence.
    Where a path is accepted, an empty text is refused.

    >>> require_type("seed", "3", int, None)
    Traceback (most recent call last):
    morph_opt.core.domain.errors.InputError: seed: must be a whole number or None, got '3'

    Parameters
    ----------
    field
        Name of the parameter.
    value
        Argument that a caller gave.
    *kinds
        Types of which one must hold, None for None itself.

    Raises
    ------
    InputError
        If the value is of no such type.
    """
    value = own_value(value)
    if not any(is_kind(value, kind) for kind in kinds):
        raise InputError(f"must be {_one_of(kinds, 0)}, got {shown(value)}", field=field)
    if Path in kinds and value == "":
        raise InputError("must not be empty", field=field)
    return value


def require_each(field: str, values: Any, *kinds: Any) -> Any:
    """Return a sequence whose elements are all of one of these types; see `require_type`.

    >>> require_each("seeds", 5, int)
    Traceback (most recent call last):
    morph_opt.core.domain.errors.InputError: seeds: must be a sequence of whole numbers, got 5

    Raises
    ------
    InputError
        If it is no sequence, or an element is of no such type.
    """
    values = own_value(values)
    rule = f"must be a sequence of {_one_of(kinds, 1)}"
    if not is_kind(values, Sequence):
        raise InputError(f"{rule}, got {shown(values)}", field=field)
    classes = tuple(kind for kind in kinds if kind not in (None, int, float, Sequence))
    for place, value in enumerate(values):  # a round has thousands of jobs: the quick test first
        if not isinstance(value, classes) and not any(is_kind(value, kind) for kind in kinds):
            raise InputError(f"{rule}, entry {place} is {shown(value)}", field=field)
    return values


def take_own(value: Any) -> None:
    """Convert numpy values of a frozen dataclass to Python's own, in its ``__post_init__``."""
    for one in fields(value):
        held = getattr(value, one.name)
        if hasattr(type(held), "tolist"):
            object.__setattr__(value, one.name, own_value(held))


def own_value(value: Any) -> Any:
    """Return a value converted from numpy or pandas to Python's own; others unchanged."""
    if isinstance(value, list | tuple) and any(hasattr(type(one), "tolist") for one in value):
        owned = map(own_value, value)
        return list(owned) if isinstance(value, list) else tuple(owned)
    return value.tolist() if hasattr(type(value), "tolist") else value


def shown(value: object) -> str:
    """Return a refused value as text for a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"a {type(value).__name__}"


def kind_of(value: object) -> str:
    """Return the name of a value's type; ``None`` for None."""
    return "None" if value is None else type(value).__name__


def is_kind(value: object, kind: Any) -> bool:
    """Return whether a value is of a type; whole numbers are numbers, `bool` is not."""
    if kind is None:
        return value is None
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    if kind is Sequence and isinstance(value, str | bytes):
        return False
    return isinstance(value, kind)


def _one_of(kinds: Iterable[Any], number: int) -> str:
    """Return the types in words: singular if ``number`` is 0, plural if it is 1."""
    words = [_WORDS[kind][number] if kind in _WORDS else _named(kind, number) for kind in kinds]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _named(kind: type, number: int) -> str:
    article = "" if number else "an " if kind.__name__[0] in "AEIOU" else "a "
    return article + kind.__name__
