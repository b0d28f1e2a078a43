"""How large the exact round of what may be in a better decision is."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from formulations.alike import alike_candidates
from formulations.arrays import Floats, Ints
from formulations.round.tables import Level, RoundProblem

PER_HOLD = 4
"""Columns of the exact round for what a job holds on a node: whether it goes on, or starts, and
free states and patterns of the node."""


class Inside:
    """Candidates that may be in a better decision, with those that are alike.

    Parameters
    ----------
    problem, level
        The round and its goal.
    surplus, reduced
        Of each job and option at prices, shapes (J,) and (O,).

    Attributes
    ----------
    alike
        `formulations.alike.alike_candidates`.
    """

    def __init__(
        self, problem: RoundProblem, level: Level, surplus: Floats, reduced: Floats
    ) -> None:
        self._problem, self._level = problem, level
        self._surplus, self._reduced = surplus, reduced

    @cached_property
    def alike(self) -> Ints:
        """See the attribute; most of the largest rounds end without it."""
        return alike_candidates(self._problem, self._level)

    @cached_property
    def _least(self) -> Floats:
        """Of those that are alike the one that loses least says whether all are in."""
        table = self._problem.candidates
        loss = self._surplus[table.job] - self._reduced[: table.count]
        least = np.full(int(self.alike.max(initial=-1)) + 1, np.inf)
        np.minimum.at(least, self.alike, loss)
        return least

    def within(self, slack: float) -> tuple[Ints, int]:
        """Those that lose no more than this, and about how many columns their exact round has."""
        fine = self._least <= slack
        kept = np.flatnonzero(fine[self.alike])
        moves = np.zeros(self._problem.jobs.count, dtype=bool)
        moves[self._problem.candidates.job[kept]] = True
        holds = int(moves[self._problem.holds.job].sum())
        return kept, int(fine.sum()) + PER_HOLD * holds
