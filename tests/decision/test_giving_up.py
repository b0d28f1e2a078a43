"""What happens when choices cannot be placed, time and again."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from formulations import node_assignment
from formulations.arrays import Ints
from formulations.layout import forbid
from formulations.node_pattern import build
from formulations.round import decode
from formulations.round.check import check
from formulations.round.tables import NONE, Level, RoundProblem
from morph_opt.scheduling.decision import ranked
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.params import CutParams, LadderParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status, relative_gap
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round
from tests.formulations.worlds.rounds import Candidate, Hold, tiny

EXACT = Limits(gap=0.0, time_s=600.0)


def case(seed: int) -> tuple[RoundProblem, Level]:
    """A random round with every constraint, and a level for it."""
    draw = np.random.default_rng(seed)
    problem = random_round(draw, EVERYTHING)
    return problem, random_level(draw, problem)


@cache
def hard_cases(count: int) -> list[tuple[RoundProblem, Level]]:
    """Rounds in which some optimal choice of the counted model cannot be placed."""
    found = []
    for seed in range(2_000):
        problem, level = case(seed)
        solved = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
        families = {block.family for block in solved.model.model.row_blocks}
        if "not_again" in families:
            found.append((problem, level))
        if len(found) == count:
            return found
    raise AssertionError("too few rounds need a cut")


def cutting(cuts: CutParams) -> RoundSolver:
    """Return the exact solver with other numbers of cuts."""
    return RoundSolver(HighsSolver(), EXACT, params=LadderParams(cuts=cuts))


def test_search_without_proofs_ends_early_with_valid_statements() -> None:
    cases = hard_cases(6)
    best = [RoundSolver(HighsSolver(), EXACT).ranked(*_one(case)).selection for case in cases]
    params = LadderParams(cuts=CutParams(few_cuts=0))
    for (problem, level), exact in zip(cases, best, strict=True):
        soon = RoundSolver(HighsSolver(), EXACT, thorough=False, params=params)
        solved = soon.ranked(problem, (level,))
        assert exact is not None
        assert solved.selection is None
        assert solved.model.distinct is not None, "no node is named"
        assert solved.outcome.status is Status.NO_SOLUTION
        assert solved.outcome.bound >= exact.value(level) * (1 - 1e-9)


def _one(case: tuple[RoundProblem, Level]) -> tuple[RoundProblem, tuple[Level, ...]]:
    return case[0], (case[1],)


def test_nodes_enter_the_model_after_the_allowed_cuts() -> None:
    for problem, level in hard_cases(6):
        exact = RoundSolver(HighsSolver(), EXACT, "node_assignment").ranked(problem, (level,))
        solved = cutting(CutParams(cuts=0)).ranked(problem, (level,))
        assert solved.model.distinct is None
        assert solved.selection is not None
        assert exact.selection is not None
        check(problem, solved.selection)
        assert solved.selection.value(level) == pytest.approx(exact.selection.value(level))


@pytest.mark.parametrize("limit", ["proof_columns", "cut_columns"])
def test_models_without_columns_to_spare_end_in_the_same_decision(limit: str) -> None:
    """Cuts of whole choices are weaker, and fewer of them come before nodes are named."""
    for problem, level in hard_cases(6):
        known = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,)).selection
        solved = cutting(CutParams(few_cuts=0, **{limit: 0})).ranked(problem, (level,))
        assert known is not None
        assert solved.selection is not None
        assert (solved.model.distinct is None) == (limit == "cut_columns")
        assert solved.selection.value(level) == pytest.approx(known.value(level))


@pytest.mark.parametrize(("gap", "settled"), [(0.0, False), (0.5, False), (0.0, True)])
def test_no_choice_is_cut_off_once_a_known_decision_is_within_the_gap(
    gap: float, settled: bool
) -> None:
    """Infinity ends a level too: its whole round is settled then."""
    ended = 0
    for problem, level in hard_cases(6):
        best = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,)).selection
        assert best is not None
        value = best.value(level)
        limits, asked = replace(EXACT, gap=gap), list[int]()

        def known(choice: Ints, value: float = value, asked: list[int] = asked) -> float:
            asked.append(choice.size)
            return np.inf if settled else value

        solved = RoundSolver(HighsSolver(), limits, known=known).ranked(problem, (level,))
        assert solved.outcome.bound >= value * (1 - 1e-9)
        if solved.selection is None:
            ended += 1
            assert asked == [problem.jobs.count]
            assert solved.outcome.status is Status.NO_SOLUTION
            assert settled or relative_gap(value, solved.outcome.bound) <= gap
    assert (ended > 0) == (gap > 0 or settled)


def test_a_placement_question_that_is_too_large_proves_nothing() -> None:
    problem = tiny([8] * 3, [Candidate(0, (8, 8)), Candidate(1, (8, 8))])
    choice = np.arange(2, dtype=np.int64)
    assert RoundSolver(HighsSolver(), EXACT).exact_placement(problem, choice) == (None, True)
    none = CutParams(placed_columns=0)
    assert cutting(none).exact_placement(problem, choice) == (None, False)
    for case_ in hard_cases(6):
        solved = cutting(none).ranked(*_one(case_))
        known = RoundSolver(HighsSolver(), EXACT).ranked(*_one(case_)).selection
        assert known is not None
        assert solved.outcome.bound >= known.value(case_[1]) * (1 - 1e-9)


def test_many_jobs_become_the_few_that_cannot_be_together() -> None:
    """Three nodes for two gangs of two, beside sixty jobs for which there is room elsewhere."""
    alone = [Candidate(job, (1,), node_class=1) for job in range(60)]
    gangs = [Candidate(60, (8, 8)), Candidate(61, (8, 8))]
    problem = tiny([8] * 3 + [4] * 15, [*alone, *gangs])
    solver = RoundSolver(HighsSolver(), EXACT)
    part = solver._impossible_part(problem, np.arange(62, dtype=np.int64))
    assert np.flatnonzero(part != NONE).tolist() == [60, 61]
    assert solver._asked < 62 * 18  # of a question about all of them, four at most


def test_solve_ends_with_a_bound_if_nodes_make_it_too_large() -> None:
    problem, level = hard_cases(6)[0]
    exact = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
    assert exact.selection is not None
    solved = cutting(CutParams(cuts=0, named_parts=0)).ranked(problem, (level,))
    assert solved.selection is None
    assert solved.outcome.status is Status.NO_SOLUTION
    assert solved.outcome.bound >= exact.selection.value(level) - 1e-9


def test_a_cut_names_only_jobs_that_cannot_be_placed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuts = []

    def noted(built: object, choice: np.ndarray, serial: int) -> object:
        cuts.append(choice.copy())
        return forbid(built, choice, serial)  # type: ignore[arg-type]

    monkeypatch.setattr(ranked, "forbid", noted)
    for problem, level in hard_cases(6):
        cuts.clear()
        RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
        assert cuts
        for choice in cuts:
            assert decode.pack(problem, choice) is None
            small = decode.restricted(problem, choice)
            ones = Level("placed", "jobs", np.ones(small.options.count))
            placed = HighsSolver().solve(node_assignment.build(small, ones).model, EXACT)
            assert placed.objective < np.count_nonzero(choice != -1) - 0.5


def test_added_rows_move_to_the_other_formulation() -> None:
    problem, level = case(11)
    built = build(problem, level)
    job = int(problem.candidates.job[0])
    added = replace(
        built,
        model=built.model.with_row(
            "guarantee",
            [job],
            built.layout.starts[problem.candidates.job == job],
            np.ones(int((problem.candidates.job == job).sum())),
            1.0,
            np.inf,
        ),
    )
    named = node_assignment.build(problem, level).with_rows_of(added)
    assert named.model.rows == named.base_rows + 1
    assert named.model.row_name(named.base_rows) == f"guarantee[{job}]"


def test_the_fallback_gives_an_uplink_to_the_more_valuable_of_two() -> None:
    """Each holds 3 of 5 GB/s of both leaves; the second is worth more."""
    holds = [Hold(job, node, 1, (0.0, 0.0, 3.0), 3.0) for job in (0, 1) for node in (0, 1)]
    problem = tiny([4, 4], [], holds=holds, leaf=[0, 1], uplink=[5.0, 5.0])
    level = Level("worth", "points", np.asarray([1.0, 2.0]))
    kept = keep_and_fill(problem, level)
    check(problem, kept)
    assert kept.choice.tolist() == [NONE, problem.options.stay[1]]
    solved = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,)).selection
    assert solved is not None
    assert solved.choice.tolist() == [NONE, problem.options.stay[1]]
