"""Types of options: what is accepted is part of the type, and can be read off it."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path

from morph_opt.domain import InputError, Range

LONGEST_TEXT = 4096
"""Characters of a name or path; longer ones no file system takes."""

WEIGHTS = Range(1e-6, 1e6)
"""Weights and prices by name; their quotients stay far from the tolerances of solvers."""


def text(value: str) -> str:
    """A name or the like: not empty, printable, of a sensible length."""
    if not value.strip():
        raise ArgumentTypeError("must not be empty")
    if len(value) > LONGEST_TEXT:
        raise ArgumentTypeError(f"must have at most {LONGEST_TEXT} characters, has {len(value)}")
    if not value.isprintable():
        raise ArgumentTypeError(f"must be printable, got {value[:40]!r}")
    return value


def path(value: str) -> Path:
    """The path of a file or folder."""
    return Path(text(value))


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a range.

    Parameters
    ----------
    range
        What is accepted.
    """

    range: Range

    def __call__(self, value: str) -> float:
        """The number, an `int` if the range is of whole numbers."""
        try:
            return self.range.parse(value)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None


def whole(low: int, high: int) -> Number:
    """Whole numbers from ``low`` to ``high``."""
    return Number(Range(low, high, whole=True))


@dataclass(frozen=True, slots=True)
class NamedNumbers:
    """``a=2,b=1``: stays text, but is refused here if it does not say numbers by name.

    Parameters
    ----------
    range
        Of every number.
    """

    range: Range = WEIGHTS

    def __call__(self, value: str) -> str:
        """The text itself."""
        try:
            named_numbers(text(value), None, self.range)
        except InputError as error:
            raise ArgumentTypeError(error.rule) from None
        return value


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """``2`` for all, or ``a=2`` for one name.

    Parameters
    ----------
    range
        Of the number.
    """

    range: Range

    def __call__(self, value: str) -> tuple[str | None, float]:
        """Name, or None for all, and number."""
        name, equals, number = text(value).rpartition("=")
        if equals and not name.strip():
            raise ArgumentTypeError(f"must be a number or NAME=NUMBER, got {value!r}")
        return (name.strip() if equals else None), Number(self.range)(number.strip())


def named_numbers(text: str, field: str | None, range: Range = WEIGHTS) -> dict[str, float]:
    """``a=2,b=1`` as numbers by name.

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
