"""Shapes: how many GPUs a job holds on each of its nodes, without saying which nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Self

from morph_opt.domain.errors import InputError

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
        """The shape with these parts, in any order."""
        return cls(tuple(sorted(parts, reverse=True)))

    @classmethod
    def parse(cls, label: str) -> Self:
        """Read ``"8+8+4"``.

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
        """``"8+8+4"``."""
        return "+".join(map(str, self.parts))

    def __str__(self) -> str:
        return self.label


@lru_cache(maxsize=4096)
def partitions(total: int, largest: int) -> tuple[Shape, ...]:
    """Every shape of ``total`` GPUs whose parts do not exceed ``largest``, fewest nodes first."""

    def walk(rest: int, cap: int) -> list[tuple[int, ...]]:
        if rest == 0:
            return [()]
        return [
            (part, *tail)
            for part in range(min(rest, cap), 0, -1)
            for tail in walk(rest - part, part)
        ]

    found = [Shape(parts) for parts in walk(total, largest) if parts]
    return tuple(sorted(found, key=lambda shape: (shape.nodes, [-p for p in shape.parts])))
