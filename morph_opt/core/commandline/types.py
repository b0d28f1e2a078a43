"""Types of options, which state the accepted values."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.domain import InputError, Range

LONGEST_TEXT = 4096
"""Largest number of characters of a name or path; no file system takes more."""

WEIGHTS = Range(1e-6, 1e6)
"""Range of weights and prices, whose quotients stay far from the tolerances of solvers."""


def text(value: str) -> str:
    """Return a text that is not empty, printable and of limited length."""
    if not value.strip():
        raise ArgumentTypeError("must not be empty")
    if len(value) > LONGEST_TEXT:
        raise ArgumentTypeError(f"must have at most {LONGEST_TEXT} characters, has {len(value)}")
    if not value.isprintable():
        raise ArgumentTypeError(f"must be printable, got {value[:40]!r}")
    return value


def path(value: str) -> Path:
    """Return the path of a file or folder."""
    return Path(text(value))


@dataclass(frozen=True, slots=True)
class Number:
    """Type of an option that is a number of a range.

    Parameters
    ----------
    range
        Range of accepted numbers.
    """

    range: Range

    def __call__(self, value: str) -> float:
        """Return the number, an `int` if the range is of whole numbers."""
        try:
            return self.range.parse(value)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None


def whole(low: int, high: int) -> Number:
    """Return the type of whole numbers from ``low`` to ``high``."""
    return Number(Range(low, high, whole=True))


@dataclass(frozen=True, slots=True)
class NamedNumbers:
    """Type of numbers by name, ``a=2,b=1``: checks the text and returns it unchanged.

    Parameters
    ----------
    range
        Range of every number.
    """

    range: Range = WEIGHTS

    def __call__(self, value: str) -> str:
        """Check the numbers and return the text itself."""
        try:
            named_numbers(text(value), None, self.range)
        except InputError as error:
            raise ArgumentTypeError(error.rule) from None
        return value


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """Type of a number for all names, ``2``, or for one name, ``a=2``.

    Parameters
    ----------
    range
        Range of the number.
    """

    range: Range

    def __call__(self, value: str) -> tuple[str | None, float]:
        """Return the name (None for all) and the number."""
        name, equals, number = text(value).rpartition("=")
        if equals and not name.strip():
            raise ArgumentTypeError(f"must be a number or NAME=NUMBER, got {value!r}")
        return (name.strip() if equals else None), Number(self.range)(number.strip())


def named_numbers(text: str, field: str | None, range: Range = WEIGHTS) -> dict[str, float]:
    """Return ``a=2,b=1`` as numbers by name.

    Raises
    ------
    InputError
        If it does not look like that, a name occurs twice, or a number is out of range.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if not name or not equals:
            raise InputError(
                f"must look like NAME=NUMBER,NAME=NUMBER, got {text[:120]!r}", field=field
            )
        try:
            value = range.parse(number)
        except ValueError as error:
            raise InputError(f"{name} {error}", field=field) from None
        if name in found:
            raise InputError(f"{name} is named twice", field=field)
        found[name] = value
    return found
