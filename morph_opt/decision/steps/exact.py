"""How large the exact round of what may be in a better decision is."""

from __future__ import annotations

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
        self._problem = problem
        loss = surplus[problem.candidates.job] - reduced[: problem.candidates.count]
        self.alike = alike_candidates(problem, level)
        # Of those that are alike the one that loses least says whether all are in.
        self._least = np.full(int(self.alike.max(initial=-1)) + 1, np.inf)
        np.minimum.at(self._least, self.alike, loss)

    def within(self, slack: float) -> tuple[Ints, int]:
        """Those that lose no more than this, and about how many columns their exact round has."""
        fine = self._least <= slack
        kept = np.flatnonzero(fine[self.alike])
        moves = np.zeros(self._problem.jobs.count, dtype=bool)
        moves[self._problem.candidates.job[kept]] = True
        holds = int(moves[self._problem.holds.job].sum())
        return kept, int(fine.sum()) + PER_HOLD * holds
