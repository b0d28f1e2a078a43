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
from morph_opt.core.domain.job import MOST_GPUS
from morph_opt.inputs.slurm.hostlist import expand_hosts, numbers_in

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
