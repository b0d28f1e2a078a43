"""Ranked goals by tables, a table per goal, and by prices, against enumeration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from formulations.check_bound import BoundError
from formulations.check_knapsack import Claim, check_knapsack
from formulations.knapsack import Tables, find_items
from formulations.parameters import KNAPSACK
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.climb import Climb
from morph_opt.scheduling.decision.params import DEFAULTS, CoreParams, LadderParams, TinyParams
from morph_opt.scheduling.decision.spread import floor_of
from tests.decision.test_knapsack import SIZES, climbed
from tests.decision.worlds import unpromised
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import random_level, random_round

LOSS = 1e-7


def drawn(kind: str, seed: int) -> tuple[RoundProblem, tuple[Level, ...]]:
    """A round whose goals look at some of the jobs each, like queues, and at all jobs at last."""
    draw = np.random.default_rng((seed, 60))
    problem = unpromised(random_round(draw, SIZES[kind]))
    queue = draw.integers(0, 3, problem.jobs.count)
    levels = [random_level(draw, problem) for _ in range(4)]
    for at, level in enumerate(levels[:-1]):
        mine = queue[problem.options.job] == at
        levels[at] = replace(level, value=np.where(mine, level.value, 0.0))
    return problem, tuple(levels)


def claims_of(tables: Tables, levels: tuple[Level, ...]) -> list[Claim]:
    return [
        Claim(level, float(table[0].flat[-1]), table, least)
        for level, table, least in zip(levels, tables.tables, tables.least, strict=True)
    ]


@pytest.mark.parametrize("kind", SIZES)
def test_every_goal_against_enumeration(kind: str) -> None:
    steps: Counter[str] = Counter()
    for seed in range(8):
        problem, levels = drawn(kind, seed)
        best = oracle.best(problem, list(levels))
        solved = climbed(problem, *levels)
        assert solved.selection is not None
        check(problem, solved.selection)
        for level, outcome in zip(levels, solved.outcomes, strict=True):
            truth = best.value(level)
            assert solved.selection.value(level) == pytest.approx(truth, rel=1e-6, abs=1e-9)
            # What one goal may lose to the next ones is no more than the tolerance.
            assert outcome.bound >= truth - 1e-12 * abs(truth), (kind, seed, level.name)
            assert outcome.gap <= 1e-6
        steps[solved.step] += 1
    assert steps["knapsack"] >= 6, steps


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", SIZES)
def test_candidates_that_a_goal_leaves_out_at_its_prices_are_in_no_best_decision(
    kind: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = LadderParams(
        small=0 if large else DEFAULTS.small,
        core=CoreParams(additions=0),
        tiny=TinyParams(0, 0, nodes=0),
    )
    over, left = Climb._over, list[int]()

    def noted(self: Climb, kept: Any, at: Any) -> None:
        left.append(int((~kept).sum()))
        over(self, kept, at)

    monkeypatch.setattr(Climb, "_over", noted)
    for seed in range(12):
        problem, levels = drawn(kind, seed)
        best = oracle.best(problem, list(levels))
        solved = climbed(problem, *levels, params=params)
        assert solved.selection is not None
        check(problem, solved.selection)
        for level, outcome in zip(levels, solved.outcomes, strict=True):
            truth = best.value(level)
            assert solved.selection.value(level) == pytest.approx(truth, rel=1e-5, abs=1e-6)
            assert outcome.bound >= truth - 1e-9 * abs(truth), (kind, seed, level.name)
    assert sum(left) > 5


@pytest.mark.parametrize("kind", SIZES)
def test_tables_bound_every_goal_and_are_checked(kind: str) -> None:
    refused = 0
    for seed in range(8):
        problem, levels = drawn(kind, seed)
        best = oracle.best(problem, list(levels))
        floors: list[tuple[Level, float]] = []
        for rank, level in enumerate(levels):
            tables = Tables(find_items(problem, level, floors, levels[rank + 1 :]), loss=LOSS)
            assert tables.bound >= best.value(level) - 1e-12 * abs(best.value(level))
            goals = (*(above for above, _ in floors), *levels[rank:])
            check_knapsack(problem, claims_of(tables, goals), tables.items.job)
            by_size = Tables(tables.items, replace(KNAPSACK, few_states=0), LOSS)
            for one, other in zip(tables.tables, by_size.tables, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
            floors.append(floor_of(problem, level, best.value(level), best.value(level)))
            if tables.bound > 1e-6:
                wrong = claims_of(tables, goals)
                wrong[rank] = wrong[rank]._replace(worth=tables.bound * (1 - 1e-9))
                with pytest.raises(BoundError):
                    check_knapsack(problem, wrong, tables.items.job)
                refused += 1
    assert refused > 8


@pytest.mark.parametrize("rank", range(3))
def test_a_goal_of_which_less_may_be_reached_needs_larger_tables_of_the_next(rank: int) -> None:
    """Tables for decisions that attain a goal do not prove what others are worth of the next."""
    refused = 0
    for seed in range(40):
        problem, levels = drawn("gpus", seed)
        tables = Tables(find_items(problem, levels[0], (), levels[1:]), loss=LOSS)
        for _ in range(rank):
            attained = tables.for_next(tables.bound)
            assert attained is not None
            tables = attained
        assert tables.for_next(tables.bound - 10.0 * tables.rounding - 1e-6) is None
        claims = claims_of(tables, levels)
        free = [*claims]
        free[rank] = free[rank]._replace(least=-np.inf)
        floors = [(one.level, one.least) for one in claims[:rank]]
        alone = Tables(find_items(problem, levels[rank + 1], floors)).bound
        if alone > claims[rank + 1].worth + 1e-6:
            with pytest.raises(BoundError):
                check_knapsack(problem, free, tables.items.job)
            refused += 1
    assert refused > 1
    last = tables
    while (following := last.for_next(last.bound)) is not None:
        last = following
    assert last.rank == len(levels) - 1


@pytest.mark.parametrize("kind", SIZES)
def test_items_out_of_reach_are_in_no_decision_of_that_worth(kind: str) -> None:
    left = 0
    for seed in range(8):
        problem, levels = drawn(kind, seed)
        best = oracle.best(problem, list(levels))
        above = levels[:2]
        floors = [floor_of(problem, one, best.value(one), best.value(one)) for one in above]
        tables = Tables(find_items(problem, levels[2], floors, levels[3:]), loss=LOSS)
        items, fine = tables.items, tables.in_reach(best.value(levels[2]))
        place = np.repeat(items.job, np.diff(items.start))
        for job, option in enumerate(best.choice):
            mine = (place == job) & (items.option == option)
            assert fine[mine].all(), (kind, seed)
        left += int((~fine).sum())
    assert left > 10
