"""Values that differ by more than doubles hold: decisions, bounds and gaps against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import RoundMethod
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.decision.spread import floor_of, reachable
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Status, relative_gap
from tests.decision.test_ladder import LIMITS
from tests.decision.worlds import Posed, unpromised
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    LOCAL_SSD,
    SMALL,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import Candidate, Hold, tiny

METHODS = {"exact": ExactMip(HighsSolver()), "ladder": Ladder(HighsSolver())}
SIZES = {
    "gpus": SMALL,
    "places": replace(EVERYTHING, rules=0, side_resources_bind=False),
    "everything": EVERYTHING,
    "local SSD": LOCAL_SSD,
}


def wide_level(draw: np.random.Generator, problem: RoundProblem) -> Level:
    """A random level whose jobs have weights of 1e-9 to 1e12."""
    level = random_level(draw, problem)
    weight = 10.0 ** draw.uniform(-9.0, 12.0, problem.jobs.count)
    return replace(level, value=level.value * weight[problem.options.job])


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("method", METHODS)
def test_the_gap_claimed_is_no_less_than_the_true_one(kind: str, method: str) -> None:
    solves: RoundMethod = METHODS[method]
    for seed in range(30):
        draw = np.random.default_rng((seed, 91))
        problem = unpromised(random_round(draw, SIZES[kind]))
        level = wide_level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        solved = solves.solve(Posed(problem, (level,)), LIMITS)  # type: ignore[arg-type]
        assert solved.selection is not None
        value, outcome = solved.selection.value(level), solved.outcome
        assert outcome.bound >= truth * (1 - 1e-6), (kind, seed)
        assert relative_gap(value, truth) <= outcome.gap + 1e-6, (kind, seed)
        assert outcome.status is Status.OPTIMAL, (kind, seed)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("method", METHODS)
def test_a_goal_that_ranks_higher_is_kept_however_small_it_is(kind: str, method: str) -> None:
    solves: RoundMethod = METHODS[method]
    exactly = replace(LIMITS, gap=0.0)
    for seed in range(12):
        draw = np.random.default_rng((seed, 92))
        problem = unpromised(random_round(draw, SIZES[kind]))
        levels = wide_level(draw, problem), wide_level(draw, problem)
        truth = oracle.best(problem, levels)
        solved = solves.solve(Posed(problem, levels), exactly)  # type: ignore[arg-type]
        assert solved.selection is not None
        first, second = (truth.value(level) for level in levels)
        assert solved.selection.value(levels[0]) == pytest.approx(first, rel=3e-6, abs=0.0)
        assert solved.selection.value(levels[1]) >= second * (1 - 1e-5)
        assert solved.outcome.bound >= second * (1 - 1e-5)


# A node of 4 GPUs, of which job 0 holds two; jobs 1 and 2 wait. Options: starts of jobs 0, 1, 1, 2,
# then job 0 going on.
ROUND = tiny(
    [4],
    [Candidate(0, (4,)), Candidate(1, (2,)), Candidate(1, (4,)), Candidate(2, (4,))],
    holds=[Hold(0, 0, 2)],
)


def test_options_in_reach_match_hand_computation() -> None:
    # Worth at most 12: 34 is more even where jobs 1 and 2 lose 1 and 20. Worth at least 9: where
    # job 2 loses 20, the others add no more than 12 + 12; where job 1 loses 1, job 0 makes up.
    everyone = np.ones(5, dtype=bool)
    value = np.asarray([34.0, 12.0, -1.0, -20.0, 12.0])
    may = reachable(ROUND, value, everyone, 12.0, 9.0)
    assert may.tolist() == [False, True, True, False, True]


def test_a_floor_is_in_units_of_what_can_be_had() -> None:
    # 1e12 cannot be had where nothing is worth more than 2; -1e13 is never in what is worth 2, and
    # stands for so little that no other values make up for it.
    level = Level("worth", "points", np.asarray([1e12, 1.0, -1e13, 0.0, 2.0]))
    floor, least = floor_of(ROUND, level, 2.0, 2.0)
    assert floor.value.tolist() == [0.0, 1.0, -18.0, 0.0, 2.0]
    assert least == pytest.approx(2.0 - 2e-7, abs=1e-12)
