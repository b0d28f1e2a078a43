"""Ranges of numbers that users set.

A range is stated where a setting is declared and serves command line, file and Python alike.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from morph_opt.core.domain.errors import InputError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_LONGEST = 40
"""Largest number of characters of a number; a double needs fewer."""


@dataclass(frozen=True, slots=True)
class Range:
    """Range of numbers from ``low`` to ``high``.

    Parameters
    ----------
    low, high
        Limits, both accepted; finite, so that values computed from the number are bounded.
    above
        Whether ``low`` itself is refused.
    whole
        Whether the numbers are integers.
    """

    low: float
    high: float
    above: bool = False
    whole: bool = False

    @property
    def words(self) -> str:
        """Words for the range, such as ``a whole number from 1 to 64``."""
        kind = "a whole number" if self.whole else "a number"
        low = f"above {_plain(self.low)} and up to" if self.above else f"from {_plain(self.low)} to"
        return f"{kind} {low} {_plain(self.high)}"

    def holds(self, value: object) -> bool:
        """Return whether a value is a number in the range; False for `bool`."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.low <= value <= self.high and not (self.above and value == self.low)

    def refusal(self, value: object) -> str:
        """Return the rule that a value breaks; "" if it is in the range."""
        return "" if self.holds(value) else f"must be {self.words}, got {_short(value)}"

    def require(self, field: str, value: object) -> None:
        """Refuse a value outside the range.

        Raises
        ------
        InputError
            Naming the field and the range.
        """
        if rule := self.refusal(value):
            raise InputError(rule, field=field)

    def parse(self, text: str) -> float:
        """Return the number in a text: an `int` if the range is of whole numbers, else a `float`.

        Raises
        ------
        ValueError
            If it is no number, or one outside the range.
        """
        written = (_WHOLE if self.whole else _NUMBER).fullmatch(text)
        if written and len(text) <= _LONGEST:
            value = int(text) if self.whole else float(text)
            if self.holds(value):
                return value
        raise ValueError(f"must be {self.words}, got {_short(text)}")


def _plain(limit: float) -> str:
    return f"{limit:.0f}" if limit == math.floor(limit) and abs(limit) < 1e10 else f"{limit:g}"


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST + 2 else text[:_LONGEST] + "..."


SEEDS = Range(0, 2**31 - 1, whole=True)
"""Range of seeds that every solver and generator accepts."""
