"""Fields of Slurm's JSON, of any release: numbers, states, lists of hosts and of GPUs.

A number is an integer or an object ``{set, infinite, number}``, a state a text or a list, by
release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.core.domain.cluster import MOST_NODES
from morph_opt.core.domain.job import MOST_GPUS

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


_GRES = re.compile(r"gpu(?::([^:(,=]+))??(?::([0-9]{1,9}))?(?:\(([^()]*)\))?", re.ASCII)
_NAME = re.compile(r"[^:(=,]*")
"""Name of a generic resource."""
_TRES = re.compile(
    r"gres[/:]gpu(?::([^=:,]*[^=:,0-9][^=:,]*))?(?:[=:]([0-9]{1,9}))?(?=,|$)", re.ASCII
)
"""Pattern of a list's GPUs with optional type and count; a bare number is the count."""

_SLICE = re.compile(r"[0-9][gc]\.[0-9]+gb", re.ASCII)
"""Pattern of slices of GPUs (MIG), which do not count as GPUs."""

_SHARES = re.compile(r"(?:^|,) *(?:shard|mps)(?::[^:(,]+)??:0*[1-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """GPUs in a list of trackable resources: number and type, "" for any."""

    gpus: int = 0
    gpu_type: str = ""


def number(row: Fields, name: str) -> float | None:
    """Return a number, plain or in an object; None if it is missing or unlimited."""
    value = row.raw(name, None)
    if value is None:
        return None
    if isinstance(value, dict):
        inner = row.object(name, None)
        if not inner.flag("set", True) or inner.flag("infinite", False):
            return None
        return inner.number("number", least=0.0)
    return row.number(name, least=0.0)


def texts(row: Fields, name: str) -> tuple[str, ...]:
    """Return the parts of a text with commas, or of a list of texts."""
    value: Any = row.raw(name, None)
    if value is None:
        return ()
    found = value.split(",") if isinstance(value, str) else row.value(name, tuple[str, ...])
    return tuple(one for one in found if one)


def words(row: Fields, *names: str) -> tuple[str, ...]:
    """Return states and flags, each a text or a list of texts, as upper-case words."""
    return tuple(word for name in names for one in texts(row, name) for word in _words(one))


@lru_cache
def _words(one: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[+ ]", one.upper()) if word)


def hosts(row: Fields, name: str) -> tuple[str, ...]:
    """Return the names of a list of hosts."""
    listed = ",".join(texts(row, name))
    return row.built(lambda: expand_hosts(listed), name)


def gres(row: Fields, name: str, listed: str) -> Iterator[tuple[str, int, str]]:
    """Yield type, number and text in parentheses of each GPU item of ``gpu:a100:4(IDX:0-3)``."""
    for item in re.findall(r"[^,(]+(?:\([^()]*\))?", listed):
        # Other resources have names that begin like this one: gpumem, gpu_mem.
        if _NAME.match(item.strip())[0] != "gpu" or _SLICE.search(item):  # type: ignore[index]
            continue
        found = _GRES.fullmatch(item.strip())
        if found is None:
            raise row.error(name, f"must look like gpu:a100:4(IDX:0-3), got {item[:60]!r}")
        yield found[1] or "", int(found[2] or 1), found[3] or ""


def indices(row: Fields, name: str, inside: str) -> list[int]:
    """Return the GPU indices of ``IDX:0-3,5``; empty if it names none."""
    ranges = inside.removeprefix("IDX:")
    if ranges in ("", "N/A"):
        return []
    return list(map(int, row.built(lambda: numbers_in(ranges, ranges), name)))


def shared(row: Fields, name: str) -> bool:
    """Return whether shares of GPUs (shards, MPS) are in use."""
    return _SHARES.search(row.word(name)) is not None


def asked(row: Fields, *names: str) -> Asked:
    """Return the total, and the type if there is one, of the first list that names GPUs."""
    for name in names:
        found = _TRES.findall(row.word(name))
        kinds = [(kind, int(count or 1)) for kind, count in found if kind]
        whole = {kind for kind, _ in kinds if not _SLICE.search(kind)}
        totals = [int(count or 1) for kind, count in found if not kind]
        # The untyped total has slices in it.
        slices = sum(count for kind, count in kinds if kind not in whole)
        total = (totals[0] if totals else sum(count for _, count in kinds)) - slices
        if total > 0:
            if total > MOST_GPUS:
                raise row.error(name, f"must be at most {MOST_GPUS} GPUs, got {total}")
            return Asked(total, whole.pop() if len(whole) == 1 else "")
    return Asked()
