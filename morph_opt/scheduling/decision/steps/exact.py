"""Candidates that a better decision may contain, and the size of their exact round."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from formulations.alike import alike_candidates
from formulations.arrays import Floats, Ints
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.params import DEFAULTS


class Inside:
    """Candidates that a better decision may contain, in groups that are alike.

    Parameters
    ----------
    problem, level
        Round and goal.
    surplus, reduced
        Surplus of each job and reduced value of each option at prices, shapes (J,) and (O,).
    bound
        Bound on all decisions at these prices; inf if there are none.
    per_hold
        Columns that a job's hold on a node adds; see `LadderParams.columns_per_hold`.

    Attributes
    ----------
    alike
        `formulations.alike.alike_candidates`.
    bound
        See the parameter.
    """

    def __init__(
        self,
        problem: RoundProblem,
        level: Level,
        surplus: Floats,
        reduced: Floats,
        bound: float,
        per_hold: int = DEFAULTS.columns_per_hold,
    ) -> None:
        self._per_hold = per_hold
        self.bound = bound
        self._problem, self._level = problem, level
        self._surplus, self._reduced = surplus, reduced

    @cached_property
    def alike(self) -> Ints:
        """Group number of each candidate; computed on first use, as most rounds need none."""
        return alike_candidates(self._problem, self._level)

    @cached_property
    def loss(self) -> Floats:
        """Loss of each candidate at the prices, shape (K,)."""
        table = self._problem.candidates
        return self._surplus[table.job] - self._reduced[: table.count]

    @cached_property
    def _least(self) -> Floats:
        """Least loss of any candidate of each group."""
        least = np.full(int(self.alike.max(initial=-1)) + 1, np.inf)
        np.minimum.at(least, self.alike, self.loss)
        return least

    def within(self, slack: float) -> tuple[Ints, int]:
        """Return candidates that lose at most ``slack``, and about how many columns they need."""
        fine = self._least <= slack
        kept = np.flatnonzero(fine[self.alike])
        moves = np.zeros(self._problem.jobs.count, dtype=bool)
        moves[self._problem.candidates.job[kept]] = True
        holds = int(moves[self._problem.holds.job].sum())
        return kept, int(fine.sum()) + self._per_hold * holds
