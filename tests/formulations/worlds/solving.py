"""Solving in tests: to the very optimum, one thread, no clock that could matter."""

from __future__ import annotations

from collections.abc import Sequence

from formulations.linear_model import LinearModel
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.ranked import RoundSolver, Solved
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status

EXACT = Limits(gap=0.0, time_s=600.0)
FORMULATIONS = RoundSolver.FORMULATIONS

_highs = HighsSolver()


def solve_model(model: LinearModel) -> Outcome:
    """Outcome of a model at gap 0."""
    return _highs.solve(model, EXACT)


def ranked(
    problem: RoundProblem, levels: Sequence[Level], formulation: str, tight: bool = False
) -> Solved:
    """Proven optimum of a round, its decision passed by the independent check."""
    solved = RoundSolver(_highs, EXACT, formulation, tight=tight).ranked(problem, tuple(levels))
    assert solved.outcome.status is Status.OPTIMAL, solved.outcome
    assert solved.selection is not None
    check(problem, solved.selection)
    return solved


def optimum(
    problem: RoundProblem, level: Level, formulation: str = "node_pattern", tight: bool = False
) -> float:
    """Objective of the optimum, recomputed from the decision."""
    found = ranked(problem, [level], formulation, tight).selection
    assert found is not None
    return found.value(level)
