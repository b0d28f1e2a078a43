"""Nodes that are named or counted, tiny rounds, and how early the search by tables ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.checks.messy.campaign import posed_round
from formulations import node_assignment, node_pattern
from formulations.knapsack import Tables, best_decision, find_items
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision import climb
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams, NamedParams, TinyParams
from morph_opt.scheduling.decision.ranked import ExactMip, RoundSolver
from morph_opt.scheduling.solvers.highs import HighsSolver, round_options
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.parameters import HIGHS
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round

LIMITS = Limits(gap=0.0, time_s=60.0)
DISTINCT, ALIKE, PAIRED = 12, 26, 14
"""Seeds of rounds whose nodes are all distinct, nearly all alike, and with pairs."""


def solved(
    problem: RoundProblem, level: Level, params: LadderParams = DEFAULTS
) -> tuple[str, float]:
    """Name of the formulation of the last model, and value of the decision."""
    found = RoundSolver(HighsSolver(), LIMITS, "either", params=params).ranked(problem, (level,))
    assert found.model is not None
    assert found.selection is not None
    check(problem, found.selection)
    return found.model.model.name.split()[0], found.selection.value(level)


def test_columns_with_named_nodes_are_counted_without_building() -> None:
    for seed in range(40):
        draw = np.random.default_rng(seed)
        problem = random_round(draw, EVERYTHING)
        level = random_level(draw, problem)
        built = node_assignment.build(problem, level)
        assert node_assignment.column_count(problem) == built.model.columns


def test_nodes_are_named_where_few_are_alike() -> None:
    for seed, formulation in (
        (DISTINCT, "node_pattern"),
        (33, "node_assignment"),
        (ALIKE, "node_pattern"),
    ):
        _, _, posed = posed_round(seed)
        name, value = solved(posed.problem, posed.levels[0])
        assert name == formulation
        exact = ExactMip(HighsSolver()).solve(posed, LIMITS)
        assert value == pytest.approx(exact.outcome.objective, rel=1e-6)


def test_a_choice_without_nodes_has_them_named() -> None:
    _, _, posed = posed_round(17)
    problem, (level,) = posed.problem, posed.levels
    never = replace(DEFAULTS, named=NamedParams(share=1.0, cut_share=1.0, cut_columns=0))
    name, value = solved(problem, level, never)
    assert name == "node_pattern"
    named, same = solved(problem, level)
    assert named == "node_assignment"
    assert same == pytest.approx(value, rel=1e-6)


def test_a_tiny_round_needs_no_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, posed = posed_round(DISTINCT)
    value = Ladder(HighsSolver()).solve(posed, LIMITS).outcome.objective
    priced = Ladder(
        HighsSolver(), replace(DEFAULTS, tiny=TinyParams(columns=0, distinct_columns=0))
    )
    assert priced.solve(posed, LIMITS).outcome.objective == pytest.approx(value, rel=1e-6)
    monkeypatch.setattr(climb, "choose_prices", None)
    assert Ladder(HighsSolver()).solve(posed, LIMITS).step == "exact"
    with pytest.raises(TypeError):
        priced.solve(posed, LIMITS)


def test_the_search_ends_after_whole_choices_without_nodes() -> None:
    _, _, posed = posed_round(17)
    problem, (level,) = posed.problem, posed.levels
    tables = Tables(find_items(problem, level, ()))
    found = {
        most: best_decision(
            problem, level, tables, lambda _: (None, False), 2_000, None, bool, most
        )
        for most in (1, 5, None)
    }
    assert [found[most].in_vain for most in (1, 5)] == [1, 5]
    assert found[None].in_vain > 5
    assert found[1].nodes < found[5].nodes < found[None].nodes
    # A choice that was given up without a proof stays in the bound.
    assert found[1].bound >= found[5].bound >= found[None].bound


def test_an_open_round_with_pairs_is_worth_what_keeping_and_filling_is() -> None:
    _, _, posed = posed_round(PAIRED)
    problem, (level,) = posed.problem, posed.levels
    assert problem.shared.count
    found = Ladder(HighsSolver()).solve(posed, Limits(gap=0.0, time_s=60.0, nodes=0))
    assert found.selection is not None
    check(problem, found.selection)
    assert found.selection.value(level) >= keep_and_fill(problem, level).value(level) - 1e-9
    assert found.outcome.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert found.outcome.bound >= found.outcome.objective


def test_a_model_with_named_nodes_is_searched_near_its_relaxation_from_fewer_columns() -> None:
    _, _, posed = posed_round(17)
    problem, (level,) = posed.problem, posed.levels
    named, counted = (one.build(problem, level).model for one in (node_assignment, node_pattern))
    few = HIGHS.named_columns
    assert few <= min(named.columns, HIGHS.neighbour_columns)
    assert counted.columns < HIGHS.neighbour_columns
    near = [dict(round_options(model))["mip_heuristic_run_rens"] for model in (named, counted)]
    assert near == [True, False]


def test_options_are_left_out_by_the_bound_at_the_prices_of_their_losses() -> None:
    """Tables prove a tighter bound than prices; with it an option of the optimum was left out."""
    _, _, posed = posed_round(237)
    limits = Limits(gap=1e-4, time_s=60.0)
    exact = ExactMip(HighsSolver()).solve(posed, limits)
    found = Ladder(HighsSolver()).solve(posed, limits)
    assert found.outcome.bound >= exact.outcome.objective - 1e-9
    assert found.outcome.objective == pytest.approx(exact.outcome.objective, rel=1e-4)
