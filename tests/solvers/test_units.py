"""Models in odd units: no library's absolute tolerance makes a false optimum, or a false proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Answer
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from morph_opt.scheduling.solvers.recheck import judge, violated
from morph_opt.scheduling.solvers.registry import installed, make_solver
from morph_opt.scheduling.solvers.units import Units, hidden_unit, is_wide
from tests.solvers import faulty, models
from tests.waiting import PATIENCE_S

EXACT = Limits(gap=0.0, time_s=PATIENCE_S)
SIZES = np.array([31, 22, 47, 15, 53, 28, 39, 44, 19, 36])
WORTH = np.array([37, 24, 51, 19, 55, 35, 41, 50, 20, 44])


def knapsack(unit: float, offset: float = 0.0) -> LinearModel:
    """Ten things of the sizes above in a third of the room that all need."""
    made = models.single(0, 1, tuple(SIZES), (-np.inf, 111), tuple(WORTH * unit))
    return replace(made, offset=offset)


BEST = max(
    int(WORTH @ chosen)
    for chosen in (np.array([(k >> j) & 1 for j in range(10)]) for k in range(2**10))
    if SIZES @ chosen <= 111
)


def with_first(model: LinearModel, cost: float, row: tuple[float, float]) -> LinearModel:
    """The same with a first column of its own cost, which a row of its own keeps at 0."""
    columns = model.columns + 1
    return replace(
        model,
        cost=np.concatenate([[cost], model.cost]),
        column_lower=np.zeros(columns),
        column_upper=np.ones(columns),
        integer=np.ones(columns, dtype=np.bool_),
        row_lower=np.concatenate([[row[0]], model.row_lower]),
        row_upper=np.concatenate([[row[1]], model.row_upper]),
        start=np.concatenate([[0], model.start + 1]),
        index=np.concatenate([[0], model.index + 1]),
        value=np.concatenate([[1.0], model.value]),
        row_blocks=models.single(0, 1, (1,), (0, 1), (1,)).row_blocks
        + tuple(replace(block, family="s", start=block.start + 1) for block in model.row_blocks),
        column_blocks=models.single(0, 1, (1,), (0, 1), (1,)).column_blocks
        + tuple(replace(b, family="y", start=b.start + 1) for b in model.column_blocks),
    )


def is_true(outcome: Outcome, best: float, unit: float) -> bool:
    """Whether bound and status say nothing false, and the optimum is found."""
    assert outcome.bound >= best - 1e-9 * unit
    return outcome.objective == pytest.approx(best, rel=1e-12, abs=1e-9 * unit)


@pytest.mark.parametrize("solver", installed())
@pytest.mark.parametrize("unit", [1e-300, 1e-12, 3e-9, 1e-7, 1e-3, 1.0, 1e6, 1e15])
def test_the_unit_of_the_objective_changes_no_optimum(solver: str, unit: float) -> None:
    outcome = make_solver(solver).solve(knapsack(unit), EXACT)
    assert outcome.status is Status.OPTIMAL, outcome
    assert is_true(outcome, BEST * unit, unit)


@pytest.mark.parametrize("solver", installed())
def test_a_cost_that_nothing_can_earn_hides_no_others(solver: str) -> None:
    model = with_first(knapsack(1e-9, offset=3.0), 1.0, (-np.inf, 0.5))
    outcome = make_solver(solver).solve(model, EXACT)
    assert outcome.usable
    assert is_true(outcome, 3.0 + BEST * 1e-9, 1e-9)


@pytest.mark.parametrize("solver", installed())
def test_a_row_of_tiny_entries_is_kept(solver: str) -> None:
    """Entries of 1e-10 are dropped by libraries: everything would be allowed, or nothing."""
    most = make_solver(solver).solve(models.single(0, 100, (1e-10,), (-np.inf, 7e-10), (1,)), EXACT)
    assert (most.status, most.objective) == (Status.OPTIMAL, 7.0)
    least = models.single(0, 1e6, (1e-10,), (1e-5, np.inf), (-1,))
    found = make_solver(solver).solve(least, EXACT)
    assert (found.status, found.objective) == (Status.OPTIMAL, -1e5)


@pytest.mark.parametrize("solver", installed())
def test_entries_of_several_sizes_prove_nothing_false(solver: str) -> None:
    """Where a library drops the small one it says infeasible, or lets the column grow."""
    needs = models.single(0, 1e6, (1e-10, 1.0), (9e-5, np.inf), (-1, 0))
    needs.column_upper[1] = 0.0
    found = make_solver(solver).solve(needs, EXACT)
    assert found.status in (Status.OPTIMAL, Status.ERROR), found
    if found.usable:
        assert found.objective == pytest.approx(-9e5, rel=0.02)  # the recheck allows 1e-6
    most = make_solver(solver).solve(
        models.single(0, 1e9, (1e-9, 1.0), (-np.inf, 1e-2), (1, 0)), EXACT
    )
    assert not (most.usable and most.objective > 1.01e7)


def test_highs_keeps_what_rounding_an_integer_opens() -> None:
    """x <= 1e7 y, max x - y / 2: y = 1e-7 counts as 0, and would allow x = 1."""
    model = models.single(0, 1, (1.0, -1e7), (-np.inf, 0.0), (1.0, -0.5))
    model.integer[0] = False
    outcome = make_solver("highs").solve(model, EXACT)
    assert (outcome.status, outcome.objective) == (Status.OPTIMAL, 0.5)


def test_units_are_powers_of_two_and_rounds_have_none() -> None:
    plain = knapsack(1.0)
    assert Units.of(plain).plain
    assert Units.of(plain).scaled(plain) is plain
    units = Units.of(replace(knapsack(1e-9, 2.0), value=knapsack(1.0).value * 1e-9))
    scaled = units.scaled(knapsack(1e-9, 2.0))
    assert 1.0 <= scaled.cost.max() < 2.0
    assert (scaled.cost * units.cost).tolist() == knapsack(1e-9).cost.tolist()
    assert scaled.offset * units.cost == 2.0
    assert np.log2(units.rows).tolist() == np.round(np.log2(units.rows)).tolist()
    # A column that stays at 0 sets no unit.
    idle = with_first(knapsack(1e-9), 1e9, (-np.inf, 1.0))
    idle.column_upper[0] = 0.0
    assert Units.of(idle).cost == Units.of(knapsack(1e-9)).cost


def test_hidden_costs_are_told_from_small_ones() -> None:
    assert hidden_unit(knapsack(1.0), 0.0) is None
    mixed = with_first(knapsack(1e-9), 1.0, (-np.inf, 0.5))
    assert hidden_unit(mixed, 1.0) is None
    assert hidden_unit(mixed, 100e-9) == 2.0**-24
    assert hidden_unit(mixed, 0.0) == 2.0**-26  # close to the least cost, 19e-9


class Repeating(faulty._Faulty):
    """Claims infeasible, and then what it is given."""

    name = "repeating"

    def __init__(self, *meanings: Meaning) -> None:
        self._meanings = list(meanings)

    def answer(self, model: LinearModel) -> Answer:
        return Answer(self._meanings.pop(0), self.name)


def test_an_easy_point_refutes_a_claim_of_infeasibility() -> None:
    for sides, point in (((-np.inf, 4.0), "smallest"), ((6.0, 6.0), "upper")):
        model = models.single(0, 3, (1, 1), sides, (2, 1))
        outcome = Repeating(Meaning.INFEASIBLE).solve(model, EXACT)
        assert (outcome.status, outcome.stop) == (Status.ERROR, Stop.FAILED)
        assert f"the point of {point}" in outcome.message
    middle = models.single(0, 3, (1, 1), (1.0, 4.0), (2, 1))
    assert Repeating(Meaning.INFEASIBLE).solve(middle, EXACT).status is Status.INFEASIBLE


@pytest.mark.parametrize(
    ("again", "status"),
    [
        (Meaning.INFEASIBLE, Status.INFEASIBLE),
        (Meaning.INFEASIBLE_OR_UNBOUNDED, Status.INFEASIBLE),
        (Meaning.PROVED, Status.ERROR),
        (Meaning.TIME_LIMIT, Status.ERROR),
    ],
)
def test_a_proof_over_numbers_of_several_sizes_is_repeated(again: Meaning, status: Status) -> None:
    wide = models.single(0, 3, (1e-7, 1.0), (1.0, 4.0), (2, 1))
    wide.column_lower[1] = -1.0
    wide = replace(wide, row_lower=np.array([2.5]), row_upper=np.array([2.75]))
    assert is_wide(wide)
    outcome = Repeating(Meaning.INFEASIBLE, again).solve(wide, EXACT)
    assert outcome.status is status
    assert ("did not confirm" in outcome.message) == (status is Status.ERROR)
    plain = models.single(0, 3, (1, 1), (1.5, 1.5), (2, 1))
    assert not is_wide(plain)
    assert Repeating(Meaning.INFEASIBLE).solve(plain, EXACT).status is Status.INFEASIBLE


def test_equality_tolerance_scales_with_costs() -> None:
    model = knapsack(1e-9)
    x = np.zeros(10)
    x[0] = 1.0  # 37e-9
    open_ = judge(model, x, 38e-9, Stop.PROVED, 0.0, solver="s", unit=1e-9)
    assert (open_.status, open_.gap) == (Status.FEASIBLE, pytest.approx(1 / 37))
    false = judge(model, x, 30e-9, Stop.PROVED, 0.0, solver="s", unit=1e-9)
    assert (false.status, false.bound) == (Status.FEASIBLE, np.inf)


def test_the_tolerance_of_a_row_of_tiny_entries_is_its_own() -> None:
    model = models.single(0, 100, (1e-10,), (-np.inf, 1e-10), (1,))
    assert violated(model, np.array([1.0])) == ""
    assert violated(model, np.array([2.0])) == "r[0]"


def test_a_side_far_above_the_entries_of_its_row_is_infeasible_not_refused() -> None:
    """In units of an entry of 1e-30 the side would be 1e30, which HiGHS takes for infinite."""
    model = models.single(0, 1, (1e-30, 1e-33), (1, np.inf), (1, 1))
    assert make_solver("highs").solve(model, EXACT).status is Status.INFEASIBLE
    assert Units.of(model).scaled(model).row_lower.max() < 1e20
