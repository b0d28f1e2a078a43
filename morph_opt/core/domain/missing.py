"""Equality of records whose missing numbers are NaN."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class MissingEqual:
    """Base of frozen dataclasses that compare field by field, with NaN equal to NaN.

    The equality that `dataclasses` generates depends on the version of Python: up to 3.12 one NaN
    object equals itself, from 3.13 on it does not. A dataclass that inherits this one is
    declared with ``eq=False``, so that none is generated.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = (one.name for one in fields(self) if one.compare)  # type: ignore[arg-type]
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        values = (getattr(self, one.name) for one in fields(self) if one.compare)  # type: ignore[arg-type]
        return hash(tuple(None if value != value else value for value in values))


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))
