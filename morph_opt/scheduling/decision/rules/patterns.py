"""Shell-style patterns of names in rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from morph_opt.core.domain import InputError
from morph_opt.core.domain._validate import require_name

_WILD = re.compile(r"[*?[]")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of these shell-style patterns (``*``, ``?``, ``[...]``)."""
    plain, others = _sorted_out(tuple(patterns))
    return name in plain or any(fnmatchcase(name, pattern) for pattern in others)


@lru_cache
def _sorted_out(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the patterns that are plain names, and all others."""
    others = tuple(pattern for pattern in patterns if _WILD.search(pattern))
    return frozenset(patterns).difference(others), others


def require_patterns(field: str, patterns: tuple[str, ...], *, empty: bool = False) -> None:
    """Refuse anything but a tuple of patterns; refuse an empty one unless it is allowed."""
    # A lone string would be taken apart into patterns of one letter.
    if not isinstance(patterns, tuple):
        raise InputError(f"must be a list of patterns, got {patterns!r}", field=field)
    if not patterns and not empty:
        raise InputError("must name at least one pattern", field=field)
    for pattern in patterns:
        require_name(field, pattern)
