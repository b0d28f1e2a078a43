"""Slurm's lists of hosts: ``gpu[01-03,7],login1``."""

from __future__ import annotations

import re

from morph_opt.core.domain import InputError
from morph_opt.core.domain.cluster import MOST_NODES

_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", re.ASCII)


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names of a list of hosts, in order; several brackets in a name multiply.

    Raises
    ------
    InputError
        If it is no such list, or one of too many hosts.
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or not part[0] or (part.end() < len(text) and text[part.end()] != ","):
            raise InputError(f"must be a list of hosts like gpu[01-03,7], got {text[:80]!r}")
        found += _expanded(part[0], text)
        at = part.end() + 1
        if len(found) > MOST_NODES:
            raise InputError(f"names more than {MOST_NODES} hosts: {text[:80]!r}")
    if text.endswith(","):
        raise InputError(f"must be a list of hosts like gpu[01-03,7], got {text[:80]!r}")
    return tuple(found)


def _expanded(part: str, text: str) -> list[str]:
    names = [""]
    for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", part):
        ends = [plain] if plain else numbers_in(ranges, text)
        if len(names) * len(ends) > MOST_NODES:
            raise InputError(f"names more than {MOST_NODES} hosts: {text[:80]!r}")
        names = [name + end for name in names for end in ends]
    return names


def numbers_in(ranges: str, text: str) -> list[str]:
    """Return the numbers of ``01-03,7``, with the leading zeros of a range's first number.

    Raises
    ------
    InputError
        If it is no such list, or one of too many numbers; ``text`` is what is shown.
    """
    found: list[str] = []
    for one in ranges.split(","):
        ends = _RANGE.fullmatch(one)
        low, high = (ends[1], ends[2] or ends[1]) if ends else ("1", "0")
        count = int(high) - int(low) + 1
        if count < 1 or count > MOST_NODES:
            raise InputError(f"has no range of numbers in {one[:40]!r}: {text[:80]!r}")
        found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return found
