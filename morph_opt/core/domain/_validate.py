"""Checks of numbers and names; each raises `InputError` with field and rule."""

from __future__ import annotations

import math
from collections.abc import Iterable

from morph_opt.core.domain.errors import InputError

MOST_WHOLE = (1 << 63) - 1
"""Largest whole number: values end in arrays of 64 bits."""

LONGEST_NAME = 1_000
"""Largest number of characters of a name: each name is written once a round."""


def shown_number(value: object) -> str:
    """Return a value for a message; a long whole number is replaced by its size."""
    if isinstance(value, int) and not -(10**30) < value < 10**30:
        return f"a number of more than {30 if value > 0 else 31} characters"
    return repr(value)


def beyond(
    value: float,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    whole: bool = False,
    got: str = "",
) -> str:
    """Return the message about a limit that a number breaks; "" if it breaks none.

    Parameters
    ----------
    value
        A number; not NaN.
    at_least, above, at_most
        Limits; ``above`` is open.
    whole
        Whether number and limits are written in full, as whole numbers are.
    got
        The number as its source writes it; empty for the usual form.
    """
    for broken, words, limit in (
        (value < at_least, "at least", at_least),
        (value <= above, "above", above),
        (value > at_most, "at most", at_most),
    ):
        if broken:
            own = got or (shown_number(value) if whole else f"{value:g}")
            return f"must be {words} {limit if whole else f'{limit:g}'}, got {own}"
    return ""


def require_name(field: str, value: str) -> None:
    """Refuse a name that is empty or has control characters or surrounding blanks."""
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise InputError(
            f"must be a non-empty name without surrounding blanks, got {value!r}", field=field
        )
    if len(value) > LONGEST_NAME:
        rule = f"must have at most {LONGEST_NAME} characters, got {len(value)}"
        raise InputError(rule, field=field)


def require_int(field: str, value: int, *, at_least: int, at_most: int = MOST_WHOLE) -> None:
    """Refuse all but a whole number from ``at_least`` to ``at_most``; also refuse `bool`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"must be a whole number, got {value!r}", field=field)
    if rule := beyond(value, at_least=at_least, at_most=at_most, whole=True):
        raise InputError(rule, field=field)


def require_finite(
    field: str,
    value: float,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
) -> None:
    """Refuse all but a finite number within limits (``above`` open, the others closed).

    A whole number that no double holds is not finite.
    """
    if type(value) is float and at_least <= value <= at_most and above < value < math.inf:
        return  # nearly every call, in every round
    try:
        finite = not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        finite = False
    if not finite or not isinstance(value, int | float):
        raise InputError(f"must be a finite number, got {shown_number(value)}", field=field)
    if rule := beyond(value, at_least=at_least, above=above, at_most=at_most):
        raise InputError(rule, field=field)


SHORTEST_S, LONGEST_S = 1e-9, 1e9
"""Limits of an iteration's seconds; other values are typing errors, whose sums overflow."""


def require_iteration_s(value: float) -> None:
    """Refuse seconds per iteration outside `SHORTEST_S` to `LONGEST_S`."""
    require_finite("iteration_s", value, above=0.0)
    if not SHORTEST_S <= value <= LONGEST_S:
        rule = f"must be from {SHORTEST_S:g} to {LONGEST_S:g} seconds, got {value:g}"
        raise InputError(rule, field="iteration_s")


def require_unique(field: str, names: Iterable[str]) -> None:
    """Refuse duplicate names."""
    names = tuple(names)
    seen: set[str] = set()
    if len({*names}) == len(names):  # many times as fast as looking at each
        return
    for name in names:
        if name in seen:
            raise InputError(f"must be unique, {name!r} occurs twice", field=field)
        seen.add(name)
