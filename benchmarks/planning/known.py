"""The search of `plan nodes` where the true share of every size is known: how often is it right?

Workloads are Bernoulli draws, so that a search takes milliseconds and both of its errors can be
counted over thousands.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from morph_opt.core.domain import InputError
from morph_opt.plan.evaluate import Verdict
from morph_opt.plan.search import Search
from morph_opt.plan.statement import Target
from morph_opt.simulation.runs.slo import Slo

SLO = Slo.parse("avg queued_s <= 1")
MOST = 16


@dataclass(frozen=True)
class Truth:
    """True shares by size: 0 below the first that is told, 1 above the last.

    ``least`` is the smallest size that has the wanted share.
    """

    name: str
    wanted: float
    shares: Mapping[int, float]

    def share(self, size: int) -> float:
        """Of workloads that pass on so many nodes."""
        return self.shares.get(size, float(size > max(self.shares)))

    @property
    def least(self) -> int:
        """The smallest size whose share is that wanted."""
        return next(n for n in range(1, MOST + 1) if self.share(n) >= self.wanted)


TRUTHS = (
    Truth("5 points above", 0.9, {3: 0.2, 4: 0.6, 5: 0.95, 6: 0.99}),
    Truth("5 points above, near miss below", 0.9, {4: 0.6, 5: 0.899, 6: 0.95, 7: 0.98}),
    Truth("10 points above", 0.9, {4: 0.4, 5: 1.0}),
    Truth("5 points above", 0.8, {4: 0.5, 5: 0.854, 6: 0.93, 7: 0.97}),
    Truth("5 points above, near miss below", 0.8, {4: 0.799, 5: 0.85, 6: 0.9, 7: 0.95}),
    Truth("as wanted, one point below", 0.9, {4: 0.7, 5: 0.89, 6: 0.9, 7: 0.96}),
)


class _Judge:
    """Verdicts by draws; ``paired``: one draw of a workload for all sizes."""

    def __init__(self, truth: Truth, repetition: int, *, paired: bool) -> None:
        self._truth, self._repetition, self._paired = truth, repetition, paired
        self.replays: set[tuple[int, int]] = set()

    def refused(self, *_: object, **__: object) -> None:
        """No bounds."""

    def verdicts(self, scenarios: Sequence[Any], slo: Slo) -> list[Verdict]:
        """Whether workloads pass."""
        del slo  # the shares are those of any
        found = []
        for size, seed in cast(Sequence[tuple[int, int]], scenarios):
            self.replays.add((size, seed))
            of = seed if self._paired else f"{seed}/{size}"
            draw = random.Random(f"known/{self._repetition}/{of}").random()
            found.append(Verdict(draw < self._truth.share(size), "replay", 1.0))
        return found

    def save(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True, slots=True)
class Known:
    """Searches on one truth: how many named which size, and what they took.

    ``least`` named the least size, ``small`` one that has less than the wanted share.
    """

    name: str
    wanted: float
    share: float
    paired: bool
    searches: int
    least: int
    small: int
    more: int
    none: int
    replays: float


def known(truth: Truth, searches: int, *, paired: bool = True, confidence: float = 0.95) -> Known:
    """So many searches on one truth."""
    target = Target(SLO, truth.wanted, confidence)
    first, fresh = target.workloads(None, 20)
    beyond: list[int | None] = []
    replays = 0
    for repetition in range(searches):
        judge = _Judge(truth, repetition, paired=paired)
        looked = Search(judge, target, lambda n, s: cast(Any, (n, s)), first, fresh, MOST)
        try:
            beyond.append(looked.run() - truth.least)
        except InputError:
            beyond.append(None)
        replays += len(judge.replays)
    named = [one for one in beyond if one is not None]
    return Known(
        truth.name,
        truth.wanted,
        truth.share(truth.least),
        paired,
        searches,
        named.count(0),
        sum(one < 0 for one in named),
        sum(one > 0 for one in named),
        len(beyond) - len(named),
        replays / searches,
    )
