"""Incumbent and bound of one level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.round.check import RuleError, check
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.scheduling.solvers.outcome import Outcome, Status, Stop, relative_gap


@dataclass
class Known:
    """Best decision and tightest bound of a level so far.

    Parameters
    ----------
    selection, value
        Decision and its value; None and -inf before there is one.
    bound, bound_by
        Upper bound of all decisions, and what proves it; -inf if there is no decision at all.
    step
        Step that decided last.
    """

    selection: Selection | None
    value: float
    bound: float = np.inf
    bound_by: str = "knapsack"
    step: str = "knapsack"

    def better(self, problem: RoundProblem, level: Level, found: Selection | None) -> bool:
        """Take a decision if it is feasible and better; return whether it was."""
        if found is None:
            return False
        value = found.value(level)
        if self.selection is not None and value <= self.value:
            return False
        try:
            check(problem, found)
        except RuleError:
            return False
        self.selection, self.value = found, value
        return True

    def bounded(self, bound: float, by: str) -> bool:
        """Take a bound if it is tighter; return whether it was."""
        if bound >= self.bound:
            return False
        self.bound, self.bound_by = bound, by
        return True

    def outcome(self, gap: float) -> Outcome:
        """Return the level's result as an `Outcome`."""
        reached = float("inf")
        if self.bound == -np.inf:
            status = Status.INFEASIBLE
        elif self.selection is None:
            status = Status.NO_SOLUTION
        else:
            reached = relative_gap(self.value, self.bound)
            status = Status.OPTIMAL if reached <= gap else Status.FEASIBLE
        return Outcome(
            status,
            Stop.PROVED if status in (Status.OPTIMAL, Status.INFEASIBLE) else Stop.NODE_LIMIT,
            "ladder",
            objective=float("nan") if self.selection is None else self.value,
            bound=max(self.bound, self.value),
            gap=reached,
            message=self.step,
        )
