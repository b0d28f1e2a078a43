"""Pricing: the restricted MILP of large rounds proves itself, or the whole one is solved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations import node_pattern
from formulations.arrays import Floats
from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from formulations.node_pattern import patterns
from formulations.parameters import PatternParams
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision import pricing
from morph_opt.scheduling.decision.params import LadderParams, PricingParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status
from tests.campaigns import blocks
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round

EXACT = Limits(gap=0.0, time_s=600.0)


class Counting(HighsSolver):
    """HiGHS that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[str] = []

    def solve(self, model: object, limits: Limits, start: Floats | None = None) -> Outcome:
        """Note whether the model is continuous, restricted, what that left open, or whole."""
        integer = model.integer.any()  # type: ignore[attr-defined]
        closed = (model.column_upper == 0.0).any()  # type: ignore[attr-defined]
        kind = "open" if start is not None else "restricted" if closed else "whole"
        self.kinds.append(kind if integer else "relaxed")
        return super().solve(model, limits, start)  # type: ignore[arg-type]


def case(seed: int) -> tuple[RoundProblem, Level]:
    """A random round with every constraint, and a level for it."""
    draw = np.random.default_rng(seed)
    problem = random_round(draw, EVERYTHING)
    return problem, random_level(draw, problem)


def built(seed: int) -> RoundModel:
    """Its model."""
    return node_pattern.build(*case(seed))


def priced(solver: Solver, model: RoundModel, limits: Limits, kept: int) -> Outcome:
    """The outcome with every round counted as large and ``kept`` candidates left standing."""
    always = PricingParams(priced_from=1, counted_from=1, kept_per_job=0, kept_least=kept)
    return pricing.solve_priced(solver, model, limits, LadderParams(pricing=always))


@pytest.mark.parametrize("block", range(blocks(1)))
def test_pricing_changes_no_optimum(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        model = built(seed)
        direct = HighsSolver().solve(model.model, EXACT)
        found = priced(HighsSolver(), model, EXACT, kept=2)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(direct.objective, rel=1e-6, abs=1e-9)
        assert found.bound >= direct.objective - 1e-6


def test_a_proven_restriction_spares_the_whole_model() -> None:
    solver = Counting()
    found = priced(solver, built(0), replace(EXACT, gap=1e6), kept=1)
    assert solver.kinds == ["relaxed", "restricted"]
    assert found.status is Status.OPTIMAL


def test_an_unproven_restriction_is_not_trusted() -> None:
    asked = []
    for seed in range(40):
        solver = Counting()
        priced(solver, built(seed), EXACT, kept=1)
        asked.append(tuple(solver.kinds))
    assert ("relaxed", "restricted", "open") in asked


class Slow(HighsSolver):
    """HiGHS that says to have taken 1,000 s for every solve, and keeps how long it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given_s: list[float] = []

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """Note the limit."""
        self.given_s.append(limits.time_s)
        return replace(super().solve(model, limits, start), build_s=0.0, solve_s=1_000.0)


def test_the_time_of_earlier_solves_counts() -> None:
    """Relaxation, restriction, whole model: each gets what is left, and all is told."""
    limits = replace(EXACT, time_s=10_000.0)
    for seed in range(40):
        solver = Slow()
        outcome = priced(solver, built(seed), limits, 1)
        assert outcome.solve_s == 1_000.0 * len(solver.given_s)
        assert solver.given_s == [10_000.0, 9_000.0, 8_000.0][: len(solver.given_s)]
        if len(solver.given_s) == 3:
            return
    raise AssertionError("no restriction was left unproven")


class Interrupted(HighsSolver):
    """HiGHS that finds nothing for the whole model, and takes 1, 2 and 4 s for the three solves."""

    def __init__(self) -> None:
        super().__init__()
        self.solves = 0

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """The third solve is that of the whole model."""
        self.solves += 1
        found = super().solve(model, limits, start)
        if self.solves == 3:
            nothing = {"x": None, "objective": None, "gap": None, "row_duals": None}
            found = replace(found, status=Status.NO_SOLUTION, **nothing)  # type: ignore[arg-type]
        return replace(found, build_s=0.0, solve_s=float(2 ** (self.solves - 1)))


def test_a_restriction_is_kept_where_the_whole_model_finds_nothing() -> None:
    """With the time of all three solves, each once."""
    for seed in range(40):
        solver = Interrupted()
        outcome = priced(solver, built(seed), EXACT, 1)
        if solver.solves == 3:
            assert outcome.x is not None
            assert outcome.solve_s == 7.0
            return
    raise AssertionError("no restriction was left unproven")


def test_small_rounds_are_not_priced() -> None:
    solver = Counting()
    pricing.solve_priced(solver, built(5), EXACT)
    assert solver.kinds == ["whole"]


def test_too_many_patterns_fall_back_to_naming_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns.maximal_patterns.cache_clear()
    monkeypatch.setattr(patterns, "PATTERNS", PatternParams(patterns=1))
    named = 0
    for seed in range(20):
        problem, level = case(seed)
        solved = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
        monkeypatch.setattr(patterns, "PATTERNS", PatternParams())
        patterns.maximal_patterns.cache_clear()
        exact = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level,))
        monkeypatch.setattr(patterns, "PATTERNS", PatternParams(patterns=1))
        patterns.maximal_patterns.cache_clear()
        assert solved.selection is not None
        assert exact.selection is not None
        check(problem, solved.selection)
        assert solved.selection.value(level) == pytest.approx(exact.selection.value(level))
        named += solved.model.model.name.startswith("node_assignment")
    assert named > 0
