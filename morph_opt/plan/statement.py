"""What is to hold, in which share of workloads, how surely: and its test on fresh workloads.

The k-th test may err with ``(1 - confidence) / 2^k`` and takes workloads that nothing has seen
before, of a number that is fixed beforehand: all of them together err with ``1 - confidence`` at
most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from morph_opt.domain import InputError
from morph_opt.plan.evaluate import Verdict
from morph_opt.plan.slo import Slo
from morph_opt.plan.stats import needed, share_at_least
from morph_opt.plan.workloads import distinct
from morph_opt.replay.scenario import Scenario

ATTEMPTS = 5
"""Tests that the workloads suffice for where their number is not given."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is to hold, in which share of workloads, how surely.

    Parameters
    ----------
    slo
        Of each run.
    share, confidence
        "The SLO holds in at least this share of workloads, with this confidence."

    Raises
    ------
    InputError
        If a share is not between 0 and 1.
    """

    slo: Slo
    share: float = 0.9
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("share", "confidence"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise InputError("must be above 0 and below 1", field=name)

    @classmethod
    def of(cls, slo: Slo | str, share: float, confidence: float) -> Target:
        """Of an SLO or its text."""
        return cls(slo if isinstance(slo, Slo) else Slo.parse(slo), share, confidence)

    def __str__(self) -> str:
        share, sure = f"{100 * self.share:g} %", f"{100 * self.confidence:g} %"
        return f"{self.slo} in at least {share} of workloads (confidence {sure})"

    def may_fail(self, of: int) -> int:
        """Workloads of an exploration that may fail."""
        return int((1.0 - self.share) * of + 1e-9)

    def workloads(
        self, seeds: Sequence[int] | None, exploration: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Seeds to explore with, and fresh ones; None: as many as `ATTEMPTS` tests need.

        Raises
        ------
        InputError
            If a seed stands twice, or they are fewer than the statement needs.
        """
        every = distinct(seeds if seeds is not None else range(exploration + self._enough()))
        least = needed(self.share, self.confidence)
        if len(every) < exploration + least:
            rule = f"{len(every)} workloads are fewer than the statement needs"
            raise InputError(
                f"{rule}: {exploration} to explore and {least} fresh ones to confirm",
                field="workloads",
            )
        return every[:exploration], every[exploration:]

    def _enough(self) -> int:
        return sum(needed(self.share, self.confidence, k) for k in range(1, ATTEMPTS + 1))


class Judge(Protocol):
    """What tells whether scenarios reach an SLO; `morph_opt.plan.evaluate.Evaluator` does."""

    def verdicts(self, scenarios: Sequence[Scenario], slo: Slo) -> list[Verdict]:
        """Verdicts in order."""

    def refused(self, scenario: Scenario, slo: Slo, *, dear: bool = True) -> Verdict | None:
        """A proof that the scenario does not reach the SLO, if there is one."""

    def save(self) -> None:
        """Keep what bounds said."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A test on fresh workloads: which one it is, what was seen, whether the statement holds."""

    attempt: int
    verdicts: list[Verdict]
    holds: bool

    @property
    def stage(self) -> str:
        """Its name in a table of evidence."""
        return f"confirm {self.attempt}"


class Confirmations:
    """Tests of a statement, each on workloads of its own.

    Parameters
    ----------
    judge, target
        How scenarios are judged, and what is to hold.
    fresh
        Seeds that nothing has seen, used up in order.
    """

    def __init__(self, judge: Judge, target: Target, fresh: Sequence[int]) -> None:
        self._judge, self._target, self._left = judge, target, tuple(fresh)
        self._attempt = 0

    def test(self, at: Callable[[int], Scenario], what: str) -> Confirmation:
        """Test what ``at`` gives for a seed, once.

        Raises
        ------
        InputError
            If too few fresh workloads are left.
        """
        self._attempt += 1
        share, confidence = self._target.share, self._target.confidence
        count = needed(share, confidence, self._attempt)
        if len(self._left) < count:
            raise InputError(
                f"no fresh workloads are left for confirmation {self._attempt} of {what}: it needs "
                f"{count}, there are {len(self._left)}",
                field="workloads",
            )
        seeds, self._left = self._left[:count], self._left[count:]
        verdicts = self._judge.verdicts([at(seed) for seed in seeds], self._target.slo)
        sure = 1.0 - (1.0 - confidence) / 2.0**self._attempt
        passed = sum(verdict.passed for verdict in verdicts)
        return Confirmation(self._attempt, verdicts, share_at_least(passed, count, sure) >= share)
