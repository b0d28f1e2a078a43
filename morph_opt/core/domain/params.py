"""Dataclasses of numbers that steer a method, each checked against its range when it is set."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import inf
from typing import Any


def limited(default: Any, low: float, high: float = inf) -> Any:
    """Return a field with numbers from ``low`` to ``high``; other fields accept 0 and more."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, slots=True)
class Params:
    """Base of dataclasses of numbers that steer a method; checks each number, also in tuples.

    Raises
    ------
    ValueError
        If a count is no whole number, or a number is outside the range of its field.
    """

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Params):
                continue
            whole = "int" in str(one.type)
            low, high = one.metadata.get("low", 0), one.metadata.get("high", inf)
            kinds: tuple[type, ...] = (int,) if whole else (int, float)
            for number in value if isinstance(value, tuple) else (value,):
                known = isinstance(number, kinds) and not isinstance(number, bool)
                if not known or not low <= number <= high:
                    word = "a whole number" if whole else "a number"
                    to = "" if high == inf else f" to {high:g}"
                    name = f"{type(self).__name__}.{one.name}"
                    raise ValueError(f"{name} must be {word} from {low}{to}, got {value!r}")
