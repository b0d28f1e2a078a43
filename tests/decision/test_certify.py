"""A bound however a round ends: never below the optimum, promises and higher goals included."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.objectives import guarantee, kept
from formulations.prices.certify import bound_by_prices
from formulations.round.rules import broken_rule, with_floor, with_promises
from formulations.round.tables import RoundProblem
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round

EXACT = Limits(gap=0.0, time_s=600.0)


@pytest.mark.parametrize("seed", range(40))
def test_promises_and_floors_are_in_the_bound(seed: int) -> None:
    """The optimum under promises and a floor for a goal above, by enumeration of the same rows."""
    draw = np.random.default_rng((seed, 5))
    problem = random_round(draw, EVERYTHING)
    above, level = random_level(draw, problem), random_level(draw, problem)
    first = RoundSolver(HighsSolver(), EXACT).guaranteed(
        problem, (above, level), (guarantee(problem), above, level)
    )
    assert first.selection is not None
    bound = bound_by_prices(problem, level, bool(first.promised)).value
    value = first.selection.value(level)
    assert bound >= value - 1e-7 * abs(value)
    ranked = with_promises(problem) if first.promised else problem
    for rank, goal in enumerate(first.levels[:-1]):
        floor = oracle.best(ranked, [goal]).value(goal)
        ranked = with_floor(ranked, rank, goal, floor * (1 - 1e-9))
    truth = oracle.best(ranked, [level]).value(level)
    assert bound_by_prices(ranked, level, False).value >= truth - 1e-9 * abs(truth)
    assert truth == pytest.approx(value, rel=1e-6, abs=1e-9)


def keeps_promises(problem: RoundProblem, choice: np.ndarray) -> bool:
    enough = kept(problem)
    return all(
        picked >= 0 and bool(enough[picked])
        for job, picked in enumerate(choice.tolist())
        if problem.jobs.guaranteed[job]
    )


@pytest.mark.parametrize("seed", range(40))
def test_rows_of_promises_say_what_the_models_rows_say(seed: int) -> None:
    draw = np.random.default_rng((seed, 6))
    problem = random_round(draw, EVERYTHING)
    level = random_level(draw, problem)
    solved = RoundSolver(HighsSolver(), EXACT).guaranteed(
        problem, (level,), (guarantee(problem), level)
    )
    assert solved.outcome.status is Status.OPTIMAL
    assert solved.selection is not None
    promised = with_promises(problem)
    holds = broken_rule(promised, solved.selection) is None
    assert holds == keeps_promises(problem, solved.selection.choice)
    if problem.jobs.guaranteed.any():
        assert solved.promised == (
            bound_by_prices(promised, level, False).value > -np.inf and holds
        )
