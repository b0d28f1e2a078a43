"""Small checks shared by the domain types; each raises `InputError` with field and rule."""

from __future__ import annotations

import math
from collections.abc import Iterable

from morph_opt.domain.errors import InputError


def require_name(field: str, value: str) -> None:
    """A name is a non-empty string without control characters or surrounding blanks."""
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise InputError(
            f"must be a non-empty name without surrounding blanks, got {value!r}", field=field
        )


def require_int(field: str, value: int, *, at_least: int, at_most: int | None = None) -> None:
    """A whole number (`bool` is refused) between ``at_least`` and ``at_most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"must be a whole number, got {value!r}", field=field)
    if value < at_least:
        raise InputError(f"must be at least {at_least}, got {value}", field=field)
    if at_most is not None and value > at_most:
        raise InputError(f"must be at most {at_most}, got {value}", field=field)


def require_finite(
    field: str, value: float, *, at_least: float = -math.inf, above: float = -math.inf
) -> None:
    """A finite number within the stated lower limit (``at_least`` closed, ``above`` open)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"must be a finite number, got {value!r}", field=field)
    if value < at_least:
        raise InputError(f"must be at least {at_least:g}, got {value:g}", field=field)
    if value <= above:
        raise InputError(f"must be above {above:g}, got {value:g}", field=field)


def require_unique(field: str, names: Iterable[str]) -> None:
    """No name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"must be unique, {name!r} occurs twice", field=field)
        seen.add(name)
