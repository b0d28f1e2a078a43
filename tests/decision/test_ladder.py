"""The ladder from prices on, against brute force and the exact MIP, on rounds with everything.

What tables decide of such rounds is held in `tests.decision.test_knapsack`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.instances.scaled import cold_round, round_after, speeds_of
from formulations.objectives import guarantee
from formulations.round.check import check
from formulations.round.rules import with_promises
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision import climb
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.params import (
    CoreParams,
    LadderParams,
    SubRoundParams,
    TinyParams,
)
from morph_opt.scheduling.decision.placement import place
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip, RoundSolver
from morph_opt.scheduling.policies.objectives.plain import Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status, relative_gap
from tests.campaigns import blocks
from tests.decision.worlds import Posed, unpromised
from tests.formulations.worlds import oracle
from tests.formulations.worlds.packed_rounds import PACKED, best_value, packed_level, packed_round
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    LOCAL_SSD,
    SMALL,
    RoundSize,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import Candidate, tiny

BLOCKS = blocks(1)
"""Of 15 rounds of each kind; 170 of them are more than 10,000 rounds."""

# A safeguard that ends no round here, on whatever machine: what it cuts short is not proven.
LIMITS = Limits(gap=1e-4, time_s=3600.0)
SIZES = {
    "gpus": SMALL,
    "side": RoundSize(side_resources_bind=True),
    "places": replace(EVERYTHING, rules=0, side_resources_bind=False),
    "everything": EVERYTHING,
    "local SSD": LOCAL_SSD,
}
LARGER = replace(EVERYTHING, jobs=14, nodes=9, classes=2, candidates=6, running=0.6)


EVERY_STEP = LadderParams(
    small=0,
    exact_gap=np.inf,
    shaped_gap=0.0,
    core=CoreParams(additions=0),
    tiny=TinyParams(0, 0, nodes=0),
)
"""The rounds here are small, and all steps from prices on are to be seen."""


def climbed(
    problem: RoundProblem,
    *levels: Level,
    limits: Limits = LIMITS,
    params: LadderParams = EVERY_STEP,
) -> Solved:
    ladder = Ladder(HighsSolver(), params)
    return ladder.solve(Posed(problem, levels), limits)  # type: ignore[arg-type]


def kept_to(problem: RoundProblem, level: Level, solved: Solved, truth: float) -> None:
    """A decision, its claim, and a bound and gap that hold against the true optimum."""
    assert solved.selection is not None
    check(problem, solved.selection)
    value, outcome = solved.selection.value(level), solved.outcome
    assert outcome.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert outcome.bound >= truth - 1e-6 * abs(truth)
    assert relative_gap(value, truth) <= outcome.gap + 1e-6
    if outcome.status is Status.OPTIMAL:
        assert outcome.gap <= LIMITS.gap


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_value_and_bound_against_brute_force(kind: str, block: int) -> None:
    for at in range(15):
        draw = np.random.default_rng((block, at, 31))
        problem = unpromised(random_round(draw, SIZES[kind]))
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        params = replace(EVERY_STEP, exact_gap=(np.inf, 0.0)[at % 2])
        solved = climbed(problem, level, params=params)
        assert solved.outcome.status is Status.OPTIMAL, (kind, block, at)
        kept_to(problem, level, solved, truth)


@pytest.mark.parametrize("reach", [0.02, 0.3])
@pytest.mark.parametrize("kind", ["gpus", "side", "everything"])
def test_options_of_good_decisions_are_tried_first_and_prove_no_more_than_is_true(
    kind: str, reach: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = LadderParams(reach=reach, reach_from=1, core=CoreParams(partial_choices=1))
    exact, tried = climb.Climb._exact, list[float]()

    def noted(
        self: climb.Climb, at: Any, kept: Any, nodes: Any = None, least: float = -np.inf
    ) -> None:
        tried.append(least)
        exact(self, at, kept, nodes, least)

    monkeypatch.setattr(climb.Climb, "_exact", noted)
    for at in range(15):
        draw = np.random.default_rng((at, 35))
        problem = unpromised(random_round(draw, SIZES[kind]))
        level = random_level(draw, problem)
        truth = oracle.best(problem, [level]).value(level)
        solved = climbed(problem, level, params=params)
        assert solved.outcome.status is Status.OPTIMAL, (kind, at)
        kept_to(problem, level, solved, truth)
    assert np.isfinite(tried).any()


@pytest.mark.parametrize("block", range(16))
def test_promises_and_goals_against_the_exact_rounds(block: int) -> None:
    draw = np.random.default_rng((block, 32))
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
    if len(solved.levels) == 2:
        best = exact.selection.value(levels[-1])
        assert solved.outcome.bound >= best - 1e-5 * abs(best)


def test_rounds_with_pairs_are_solved_exactly() -> None:
    for seed in range(10):
        draw = np.random.default_rng((seed, 33))
        problem = packed_round(draw, PACKED)
        level = packed_level(draw, problem)
        solved = climbed(unpromised(problem), level)
        assert solved.selection is not None
        truth = best_value(problem, level)
        assert solved.selection.value(level) == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_residual_rounds_leave_the_others_alone(seed: int) -> None:
    """Few jobs and nodes at a time, no exact round: what comes is feasible, and no worse."""
    few = replace(EVERY_STEP, exact_columns=0, sub=SubRoundParams(jobs=3, nodes=4))
    draw = np.random.default_rng((seed, 34))
    problem = unpromised(random_round(draw, LARGER))
    level = random_level(draw, problem)
    best = RoundSolver(HighsSolver(), replace(LIMITS, gap=0.0)).ranked(problem, (level,))
    assert best.selection is not None
    with_residuals = climbed(problem, level, params=few)
    if with_residuals.selection is None:
        return  # must_run rows that no dealing met; nothing is claimed
    kept_to(problem, level, with_residuals, best.selection.value(level))
    without = climbed(problem, level, params=replace(few, sub=SubRoundParams(jobs=0, nodes=4)))
    assert without.selection is not None
    assert with_residuals.selection.value(level) >= without.selection.value(level)


@pytest.mark.parametrize("seed", range(12))
def test_small_rounds_go_from_prices_to_the_exact_round(seed: int) -> None:
    params = LadderParams(core=CoreParams(additions=0))
    draw = np.random.default_rng((seed, 35))
    problem = unpromised(random_round(draw, LARGER))
    level = random_level(draw, problem)
    assert problem.candidates.count < params.small
    best = RoundSolver(HighsSolver(), replace(LIMITS, gap=0.0)).ranked(problem, (level,))
    assert best.selection is not None
    solved = climbed(problem, level, params=params)
    kept_to(problem, level, solved, best.selection.value(level))
    assert solved.step in ("prices", "exact")
    assert solved.outcome.status is Status.OPTIMAL


SENDS = (0.0, 0.0, 2.0)
COMPACTED = {
    # 4 + 4 on two nodes of 6 leaves no node with 4 free; 6 + 2, left out, does.
    "slots": (6, Candidate(0, (4, 4)), Candidate(0, (6, 2)), Candidate(1, (4,))),
    # Each job takes the network of both nodes; in the plan that was left out job 0 takes none.
    "network": (
        4,
        Candidate(0, (2, 2), side=SENDS),
        Candidate(0, (2, 2)),
        Candidate(1, (2, 2), side=SENDS),
    ),
}
"""GPUs of each of two nodes, what a compact round has of job 0, what it left out, and job 1."""


@pytest.mark.parametrize("short", COMPACTED)
def test_prices_of_what_compact_rounds_left_out_bound_nothing(short: str) -> None:
    """Two jobs, each worth its GPUs, run at once if one takes a shape that the round has not."""
    gpus, kept, left_out, other = COMPACTED[short]
    compact, whole = (
        tiny([gpus, gpus], [one, other], side=(9.0, 9.0, 4.0)) for one in (kept, left_out)
    )
    level = Level("worth", "GPUs", compact.candidates.gpus.astype(float))
    truth = oracle.best(whole, [level]).value(level)
    assert oracle.best(compact, [level]).value(level) < truth
    posed = Posed(compact, (level,), compact=True)
    never = replace(EVERY_STEP, whole=0, whole_shaped=0)
    solved = Ladder(HighsSolver(), never).solve(posed, LIMITS)  # type: ignore[arg-type]
    assert solved.outcome.bound >= truth - 1e-9
    assert solved.outcome.status is Status.FEASIBLE


@pytest.mark.parametrize("seed", range(3))
def test_a_climb_ends_by_counts_however_much_time_there_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No gap is small enough, and every residual round counts as a gain."""
    freed, exact = [], []
    choose, solve = climb.freed_for, RoundSolver.ranked

    def noted(*given: object) -> object:
        found = choose(*given)  # type: ignore[arg-type]
        freed.append(int(found[1].sum()))
        return found

    def counted(self: RoundSolver, problem: RoundProblem, *levels: object) -> Solved:
        exact.append(self._limits.nodes)
        return solve(self, problem, *levels)  # type: ignore[arg-type]

    monkeypatch.setattr(climb, "freed_for", noted)
    monkeypatch.setattr(RoundSolver, "ranked", counted)
    monkeypatch.setattr(climb.Climb, "_done", lambda *_: False)
    params = replace(EVERY_STEP, shaped_gap=np.inf, sub=SubRoundParams(much=0.0))
    draw = np.random.default_rng((seed, 36))
    problem = unpromised(random_round(draw, LARGER))
    solved = climbed(problem, random_level(draw, problem), params=params)
    assert solved.selection is not None
    assert sum(freed[:-1]) <= params.sub.turns * problem.nodes.count
    assert None not in exact
    # Half as large each time, and a round has no more than so many candidates.
    assert len(exact) - len(freed) <= 1 + problem.candidates.count.bit_length()


def test_twice_the_same_bit_by_bit() -> None:
    draw = np.random.default_rng(35)
    problem = random_round(draw, LARGER)
    level = random_level(draw, problem)
    one, two = climbed(problem, level), climbed(problem, level)
    assert one.selection is not None
    assert two.selection is not None
    assert one.selection.choice.tobytes() == two.selection.choice.tobytes()
    assert one.selection.nodes == two.selection.nodes
    assert one.outcome.bound == two.outcome.bound


@pytest.mark.parametrize(("gpus", "types", "leaves"), [(256, 3, 1), (256, 1, 4)])
def test_rounds_of_twins_one_after_the_other(gpus: int, types: int, leaves: int) -> None:
    """A cold round and two that follow: within the gap, and the exact value within the bound."""
    state = cold_round(gpus, types, leaves)
    poser = RoundPoser(speeds_of(state.cluster), Throughput())
    limits = Limits(gap=1e-3, time_s=600.0)
    for at in range(3):
        posed = poser.pose(state)
        solved = Ladder(HighsSolver(), EVERY_STEP).solve(posed, limits)
        assert solved.selection is not None
        check(posed.problem, solved.selection)
        assert solved.outcome.status is Status.OPTIMAL, at
        if at == 2:
            exact = ExactMip(HighsSolver()).solve(posed, limits)
            assert exact.selection is not None
            assert exact.selection.value(posed.worth) <= solved.outcome.bound * (1 + 1e-9)
        state = round_after(state, place(posed, solved.selection))
