"""Shapes: GPU counts of a job per node, whichever nodes these are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Self

from morph_opt.core.domain.errors import InputError

_LABEL = re.compile(r"[1-9][0-9]{0,8}(\+[1-9][0-9]{0,8})*")


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """GPUs per node, largest first: ``Shape((8, 8, 4))`` is 20 GPUs on three nodes.

    Parameters
    ----------
    parts
        One positive count per node, in descending order.

    Raises
    ------
    InputError
        If ``parts`` is empty, unordered, or has a count below 1.
    """

    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("must have at least one part", field="shape")
        for part in self.parts:
            if isinstance(part, bool) or not isinstance(part, int) or part < 1:
                raise InputError(
                    f"must have whole parts of at least 1, got {part!r}", field="shape"
                )
        if any(a < b for a, b in pairwise(self.parts)):
            raise InputError(f"must list its parts largest first, got {self.parts}", field="shape")

    @classmethod
    def of(cls, *parts: int) -> Self:
        """Return the shape with these parts, given in any order."""
        return cls(tuple(sorted(parts, reverse=True)))

    @classmethod
    def parse(cls, label: str) -> Self:
        """Return the shape of a label such as ``"8+8+4"``.

        Raises
        ------
        InputError
            If the text is not a ``+``-separated list of positive counts.
        """
        if not _LABEL.fullmatch(label):
            raise InputError(f"must look like 8 or 4+4, got {label!r}", field="shape")
        return cls.of(*(int(part) for part in label.split("+")))

    @property
    def gpus(self) -> int:
        """Total number of GPUs."""
        return sum(self.parts)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.parts)

    @property
    def label(self) -> str:
        """Canonical text, such as ``"8+8+4"``."""
        return "+".join(map(str, self.parts))

    def __str__(self) -> str:
        return self.label


MOST_PARTS = 1 << 16
"""Limit of the parts of all shapes of `partitions` together: 200 GPUs on nodes of 8 have 10^8."""


@lru_cache(maxsize=256)
def partitions(total: int, largest: int) -> tuple[Shape, ...]:
    """Return the shapes of ``total`` GPUs with parts up to ``largest``, fewest nodes first.

    All shapes if they have at most `MOST_PARTS` parts together (gangs of up to 32 GPUs on nodes of
    8); else the first, which are the tightest, and at least one.
    """
    found: list[Shape] = []
    listed = 0
    for nodes in range(max(1, -(-total // largest)), total + 1):
        for parts in _split(total, nodes, largest):
            listed += nodes
            if found and listed > MOST_PARTS:
                return tuple(found)
            found.append(Shape(parts))
    return tuple(found)


def _split(total: int, nodes: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield partitions of ``total`` into ``nodes`` parts up to ``largest``, larger parts first.

    Each is made from the one before, in place, so that neither depth nor memory grows.
    """
    # The first part takes as much as it can and leaves 1 for each later part.
    parts = [1] * nodes
    _fill(parts, 0, total - nodes, largest)
    while True:
        yield tuple(parts)
        # The last part that can give one GPU to the later ones, all of which stay smaller.
        behind = 0
        for at in range(nodes - 1, -1, -1):
            if behind + 1 <= (nodes - 1 - at) * (parts[at] - 1) and parts[at] > 1:
                break
            behind += parts[at]
        else:
            return
        parts[at] -= 1
        rest, cap = behind + 1, parts[at]
        parts[at + 1 :] = [1] * (nodes - 1 - at)
        _fill(parts, at + 1, rest - (nodes - 1 - at), cap)


def _fill(parts: list[int], start: int, extra: int, largest: int) -> None:
    """Add ``extra`` GPUs to the parts from ``start`` on, up to ``largest`` each."""
    for at in range(start, len(parts)):
        if not extra:
            return
        more = min(extra, largest - parts[at])
        parts[at] += more
        extra -= more
