"""The ladder's first step against brute force, with everything that a round has.

``MORPH_OPT_BLOCKS=96 pytest tests/decision/test_knapsack.py`` is the campaign of 10,000 rounds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from formulations.check_bound import BoundError
from formulations.check_knapsack import Claim, check_knapsack
from formulations.knapsack import (
    Items,
    Tables,
    best_decision,
    find_items,
    least_additions,
)
from formulations.knapsack.placing import placed
from formulations.objectives import guarantee
from formulations.parameters import COLUMNS, KNAPSACK
from formulations.round.check import check
from formulations.round.rule_table import RULE_X
from formulations.round.rules import with_floor, with_promises
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.params import DEFAULTS, CoreParams, LadderParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.spread import floor_of
from morph_opt.scheduling.decision.steps import knapsack
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status
from tests.campaigns import blocks
from tests.decision.worlds import Posed, unpromised
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    LOCAL_SSD,
    SMALL,
    RoundSize,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import Candidate, Hold, Rule, level_of, rule_table, tiny

BLOCKS = blocks(1)
"""Of 15 rounds of each kind."""

# A safeguard that ends no round here, on whatever machine: what it cuts short is not proven.
LIMITS = Limits(gap=1e-9, time_s=3600.0)
SIZES = {
    "gpus": SMALL,
    "side": RoundSize(side_resources_bind=True),
    "places": replace(EVERYTHING, rules=0, side_resources_bind=False),
    "everything": EVERYTHING,
    "mixed": RoundSize(nodes=4, classes=3, candidates=4, running=0.3, mixed=0.8),
    "mixed everything": replace(EVERYTHING, nodes=5, classes=3, running=0.3, closed=0.1, mixed=0.8),
}
LARGER = replace(EVERYTHING, jobs=14, nodes=9, classes=2, candidates=6, running=0.6)


def climbed(
    problem: RoundProblem,
    *levels: Level,
    limits: Limits = LIMITS,
    params: LadderParams = DEFAULTS,
) -> Solved:
    ladder = Ladder(HighsSolver(), params)
    return ladder.solve(Posed(problem, levels), limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*SIZES, "local SSD"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_value_and_bound_against_brute_force(kind: str, block: int) -> None:
    steps: Counter[str] = Counter()
    for at in range(15):
        draw = np.random.default_rng((block, at, 36))
        problem = unpromised(random_round(draw, SIZES.get(kind, LOCAL_SSD)))
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        solved = climbed(problem, level)
        assert solved.selection is not None
        check(problem, solved.selection)
        value, outcome = solved.selection.value(level), solved.outcome
        assert value == pytest.approx(truth, rel=1e-9, abs=1e-12), (kind, block, at)
        assert outcome.objective == pytest.approx(value, rel=1e-12, abs=1e-12)
        assert outcome.bound >= truth - 1e-12 * abs(truth), (kind, block, at)
        steps[solved.step] += 1
        if solved.step == "knapsack":
            assert outcome.status is Status.OPTIMAL
            assert outcome.gap <= LIMITS.gap
    assert steps["knapsack"] >= 12, steps


@pytest.mark.parametrize("kind", SIZES)
def test_the_bound_of_the_tables_is_one_and_is_checked(kind: str) -> None:
    for seed in range(15):
        draw = np.random.default_rng((seed, 37))
        problem = unpromised(random_round(draw, SIZES[kind]))
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        items = find_items(problem, level)
        tables = Tables(items)
        bound = tables.bound
        assert bound >= truth - 1e-12 * abs(truth), (kind, seed)
        check_knapsack(problem, [Claim(level, bound, tables.table)], items.job)
        if bound > 0.0:
            with pytest.raises(BoundError):
                check_knapsack(problem, [Claim(level, bound * (1 - 1e-9), tables.table)], items.job)


@pytest.mark.parametrize("kind", SIZES)
def test_estimated_additions_do_not_exceed_those_of_the_tables(kind: str) -> None:
    """Or a round whose tables are small enough would be left without them."""
    counted, params = 0, replace(COLUMNS, stretch=3)
    for seed in range(40):
        draw = np.random.default_rng((seed, 49))
        problem = unpromised(random_round(draw, SIZES[kind]))
        estimate = least_additions(problem, 10**9, params)
        # Whoever has seen enough of it has seen no more than there is.
        assert min(estimate, 20) <= least_additions(problem, 20, params) <= estimate
        tables = Tables(find_items(problem, random_level(draw, problem)))
        assert estimate == 0 or tables.takes_more_than(estimate - 1), (kind, seed)
        counted += estimate > 0
    assert counted > 0 or "mixed" in kind


def test_jobs_on_closed_nodes_are_not_estimated_to_take_gpus() -> None:
    """Of four jobs one starts and one runs on the open node: 3 states for each of the four."""
    holds = [Hold(1, 0, 1), Hold(2, 1, 2), Hold(3, 1, 2)]
    problem = tiny([4, 4], [Candidate(0, (1,))], holds=holds, closed=[1])
    assert least_additions(problem, 1000) == 3 * 4


def test_first_of_equal_gangs_chooses_nodes_first() -> None:
    """Packing finds no nodes: 5 + 4, 4 + 2 and 4 + 2 on three nodes of 8 are looked for."""
    problem = tiny(
        [8] * 3, [Candidate(job, gang) for job, gang in enumerate([(4, 2)] * 2 + [(5, 4)])]
    )
    found = placed(problem, np.arange(3))
    assert found is not None
    assert found.nodes == ((1, 2), (2, 0), (0, 1))


def test_tables_far_too_large_need_no_items(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = tiny([8] * 4, [Candidate(job, (1,)) for job in range(20)])
    level = level_of(problem, [1.0] * 20, [0.0] * 20)
    most = least_additions(problem, 10**9) - 1
    monkeypatch.setattr(knapsack, "find_items", None)
    params = CoreParams(additions=most, estimated_from=10)
    assert knapsack.tables_of(problem, level, [], params=params) is None


def test_a_goal_that_ranks_higher_counts_where_this_one_is_indifferent() -> None:
    """Of two jobs on the same two GPUs the one runs that the goal above wants."""
    problem = tiny([2], [Candidate(0, (2,)), Candidate(1, (2,))])
    above = level_of(problem, [1.0, 3.0], [0.0, 0.0])
    here = level_of(problem, [0.0, 0.0], [0.0, 0.0])
    items = find_items(problem, here, [(above, 3.0)])
    assert min(items.weights) > 0.0
    assert Tables(items).bound == pytest.approx(0.0)
    assert Tables(find_items(problem, here, [(above, 4.0)])).bound == -np.inf


def test_jobs_that_must_run_are_worth_what_they_run_at() -> None:
    """Where none may rest, no size of none is among the items: 1 and 3 on two GPUs of three."""
    sizes, which = np.asarray([[1], [2]]), np.asarray([0, 1, 0, 1])
    value, start = np.asarray([1.0, 3.0, 1.0, 4.0]), np.asarray([0, 2, 4])
    items = Items((3,), np.arange(2), start, np.arange(4), value, sizes, which, (), 0.0, 7.0)
    assert Tables(items).bound == pytest.approx(5.0)


def test_a_job_that_must_start_on_closed_nodes_leaves_no_decision() -> None:
    must = rule_table([Rule("must", 1.0, np.inf, ((RULE_X, 0, 1.0),))])
    problem = tiny([4], [Candidate(0, (4,))], closed=[0], rules=must)
    level = level_of(problem, [1.0], [0.0])
    assert Tables(find_items(problem, level)).bound == -np.inf


@pytest.mark.parametrize("kind", ["gpus", "mixed everything"])
def test_check_refuses_tables_that_do_not_prove_their_claim(kind: str) -> None:
    """Every number that is lowered where it matters is noticed, by what it lacks."""
    noticed = 0
    for seed in range(8):
        draw = np.random.default_rng((seed + 2, 42))
        problem = unpromised(random_round(draw, SIZES[kind]))
        level = random_level(draw, problem)
        tables = Tables(find_items(problem, level))
        order, table, most = tables.items.job, tables.table, float(tables.table[0].max())
        full, tenth = (-1,) * (table.ndim - 1), 0.1 * most
        lowered = np.where(np.arange(len(table)) < len(table) - 1, 0.9, 1.0)
        lowered = table * lowered.reshape(-1, *(1 for _ in full))
        for wrong in (lowered, np.minimum(table, 0.9 * most), table - tenth, table * np.nan):
            with pytest.raises(BoundError):
                check_knapsack(problem, [Claim(level, float(wrong[0][full]), wrong)], order)
            noticed += 1
        for short in (table[1:], table[:, 1:], np.delete(table, 0, axis=0)):
            with pytest.raises(BoundError):
                check_knapsack(problem, [Claim(level, tables.bound, short)], order)
        with pytest.raises(BoundError):
            check_knapsack(problem, [Claim(level, tables.bound, table)], order + 1)
        # A table that says more than it must proves less, and says so.
        check_knapsack(problem, [Claim(level, tables.bound + tenth, table + tenth)], order)
    assert noticed == 32


@pytest.mark.parametrize("kind", SIZES)
def test_options_ruled_out_by_tables_are_in_no_better_decision(kind: str) -> None:
    left = 0
    for seed in range(15):
        draw = np.random.default_rng((seed, 38))
        problem = unpromised(random_round(draw, SIZES[kind]))
        level = random_level(draw, problem)
        best = oracle.best(problem, [level])
        items = find_items(problem, level)
        tables = Tables(items)
        fine = tables.in_reach(best.value(level))
        option = np.full(problem.jobs.count, -2)
        place = np.repeat(items.job, np.diff(items.start))
        for item in np.flatnonzero(fine).tolist():
            if items.option[item] == best.choice[place[item]]:
                option[place[item]] = items.option[item]
        assert (option == best.choice).all(), (kind, seed)
        left += int((~fine).sum())
    assert left > 20


@pytest.mark.parametrize("block", range(16))
def test_promises_and_goals_against_the_exact_rounds(block: int) -> None:
    draw = np.random.default_rng((block, 39))
    problem = random_round(draw, EVERYTHING if block % 2 else LARGER)
    levels = random_level(draw, problem), random_level(draw, problem)
    rounds = RoundSolver(HighsSolver(), replace(LIMITS, gap=0.0))
    exact = rounds.guaranteed(problem, levels, (guarantee(problem), *levels))
    solved = climbed(problem, *levels)
    assert solved.promised == exact.promised
    assert exact.selection is not None
    assert solved.selection is not None
    if solved.promised:
        check(with_promises(problem), solved.selection)
    assert [level.name for level in solved.levels] == [level.name for level in exact.levels]
    for level in solved.levels[:-1]:
        mine, best = (one.selection.value(level) for one in (solved, exact))
        assert mine == pytest.approx(best, rel=3e-6, abs=1e-9)
    best = exact.selection.value(levels[-1])
    assert solved.outcome.bound >= best - 1e-5 * abs(best)


def test_goals_that_rank_higher_are_counted_and_the_bound_is_checked() -> None:
    for seed in range(20):
        draw = np.random.default_rng((seed, 40))
        problem = unpromised(random_round(draw, SMALL))
        first, second = random_level(draw, problem), random_level(draw, problem)
        most = oracle.best(problem, [first]).value(first)
        floor = floor_of(problem, first, most, most)
        truth = oracle.best(problem, [first, second]).value(second)
        ranked = with_floor(problem, 0, *floor)
        items = find_items(ranked, second, [floor])
        tables = Tables(items)
        assert tables.bound >= truth - 1e-9 * abs(truth)
        first_goal, last_goal = (
            Claim(goal, float(table[0].max()), table, least)
            for goal, table, least in zip(
                (floor[0], second), tables.tables, tables.least, strict=True
            )
        )
        check_knapsack(ranked, [first_goal, last_goal], items.job)
        with pytest.raises(BoundError):
            # A larger least value of the goal above rules out more: that is not proven here.
            check_knapsack(ranked, [last_goal._replace(worth=truth - 1.0)], items.job)


def test_more_jobs_than_partial_choices_are_not_searched() -> None:
    """Whole choices would take as many steps as there are jobs; the bound of the tables stands."""
    searched = 0
    for seed in range(30):
        draw = np.random.default_rng((seed, 43))
        problem = unpromised(random_round(draw, SIZES["everything"]))
        level = random_level(draw, problem)
        tables, jobs = Tables(find_items(problem, level)), problem.jobs.count
        some, none = (
            best_decision(problem, level, tables, lambda _: (None, False), most)
            for most in (1_000, jobs - 1)
        )
        assert none.nodes == 0
        if some.nodes:
            searched += 1
            assert none.selection is None
            assert none.bound == tables.bound >= some.bound - tables.rounding
        else:
            assert none.value == some.value
    assert searched > 3


def test_tables_that_are_too_large_are_known_before_sizes_are() -> None:
    draw = np.random.default_rng(44)
    problem = unpromised(random_round(draw, LARGER))
    tables = Tables(find_items(problem, random_level(draw, problem)))
    states = tables.table[0].size
    assert tables.takes_more_than(states * problem.jobs.count - 1)
    assert not tables.takes_more_than(states * tables.items.option.size)
    additions = states * sum(map(len, tables._sizes[0]))
    assert tables.takes_more_than(additions - 1)
    assert not tables.takes_more_than(additions)


@pytest.mark.parametrize("kind", SIZES)
def test_tables_are_the_same_size_by_size_as_with_all_sizes_at_once(kind: str) -> None:
    for seed in range(10):
        draw = np.random.default_rng((seed, 54))
        problem = unpromised(random_round(draw, SIZES[kind]))
        items = find_items(problem, random_level(draw, problem))
        at_once = Tables(items).table
        by_size = Tables(items, replace(KNAPSACK, few_states=0)).table
        np.testing.assert_allclose(by_size, at_once, rtol=1e-12)


def test_twice_the_same_bit_by_bit() -> None:
    draw = np.random.default_rng(41)
    problem = random_round(draw, LARGER)
    level = random_level(draw, problem)
    one, two = climbed(problem, level), climbed(problem, level)
    assert one.selection is not None
    assert two.selection is not None
    assert one.selection.choice.tobytes() == two.selection.choice.tobytes()
    assert one.selection.nodes == two.selection.nodes
    assert one.outcome.bound == two.outcome.bound
