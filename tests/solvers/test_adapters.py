"""Every adapter against the same models; those that are not installed say how to install them."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

from formulations.linear_model import ModelBuilder
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from morph_opt.scheduling.solvers.recheck import violated
from morph_opt.scheduling.solvers.registry import make_solver, solver_names, unavailable
from tests.solvers import models

EXACT = Limits(gap=0.0, time_s=600.0)


@cache
def made(name: str) -> Solver:
    return make_solver(name)


@pytest.fixture(params=solver_names())
def solver(request: pytest.FixtureRequest) -> Solver:
    missing = unavailable()
    if request.param in missing:
        pytest.skip(f"{request.param} is not installed: {missing[request.param]}")
    with warnings.catch_warnings():
        # Old protobuf and SWIG bindings warn when a library is first imported; not ours to mend.
        warnings.simplefilter("ignore")
        return made(request.param)


def consistent(outcome: Outcome) -> None:
    """What must hold of every outcome, whatever the solver."""
    assert outcome.solver
    assert (outcome.x is not None) == outcome.usable
    if outcome.usable:
        assert outcome.bound >= outcome.objective
        assert outcome.gap >= 0


def test_agrees_with_brute_force(solver: Solver) -> None:
    rng = np.random.default_rng(20)
    seen = set()
    for _ in range(60):
        model = models.random_small(rng)
        best = models.brute_force(model)
        outcome = solver.solve(model, EXACT)
        consistent(outcome)
        if best is None:
            assert outcome.status is Status.INFEASIBLE, outcome
        else:
            # Some libraries stop at an absolute gap of their own: feasible, but never a lie.
            assert outcome.usable, outcome
            assert outcome.objective == pytest.approx(best, abs=1e-4)
            assert outcome.bound >= best - 1e-6 * max(1, abs(best))
            assert violated(model, outcome.x) == ""
            if outcome.status is Status.OPTIMAL:
                assert outcome.objective == pytest.approx(best, abs=1e-6)
        seen.add(outcome.status)
    assert {Status.OPTIMAL, Status.INFEASIBLE} <= seen


@pytest.mark.parametrize("make", [models.infeasible, models.integer_infeasible])
def test_infeasible(solver: Solver, make: object) -> None:
    outcome = solver.solve(make(), EXACT)  # type: ignore[operator]
    assert (outcome.status, outcome.stop) == (Status.INFEASIBLE, Stop.PROVED)


def test_unbounded(solver: Solver) -> None:
    outcome = solver.solve(models.unbounded(), EXACT)
    if not solver.capabilities.continuous:  # CP-SAT knows bounded integers only, and says so
        assert outcome.status in (Status.ERROR, Status.UNBOUNDED)
        assert "bounds" in outcome.message or outcome.status is Status.UNBOUNDED
    else:
        assert (outcome.status, outcome.stop) == (Status.UNBOUNDED, Stop.PROVED)


def test_infeasible_is_told_from_unbounded(solver: Solver) -> None:
    outcome = solver.solve(models.infeasible_and_open(), EXACT)
    if solver.capabilities.continuous and solver.name != "cbc":
        assert outcome.status is Status.INFEASIBLE
    else:  # CP-SAT knows bounded columns only; CBC without preprocessing crashes here
        assert outcome.status in (Status.INFEASIBLE, Status.ERROR)


def test_unproved_incumbent_is_feasible_not_optimal(solver: Solver) -> None:
    """At once on a quiet machine; a busy one is given more until there is one."""
    model = models.hard()
    for time_s in (0.25, 1.0, 10.0, 100.0):
        outcome = solver.solve(model, Limits(gap=0.0, time_s=time_s))
        if outcome.x is not None:
            break
    consistent(outcome)
    assert outcome.status is Status.FEASIBLE
    assert outcome.stop is Stop.TIME_LIMIT
    assert violated(model, outcome.x) == ""


def test_outcome_without_an_incumbent(solver: Solver) -> None:
    outcome = solver.solve(models.hidden(), Limits(gap=0.0, time_s=0.2))
    consistent(outcome)
    assert outcome.status is Status.NO_SOLUTION, outcome
    assert outcome.stop is Stop.TIME_LIMIT
    assert outcome.objective != outcome.objective


def test_node_limit(solver: Solver) -> None:
    if not solver.capabilities.node_limit:
        pytest.skip(f"{solver.name} has no node limit")
    outcome = solver.solve(models.hard(), Limits(gap=0.0, time_s=600.0, nodes=3))
    consistent(outcome)
    assert outcome.stop is Stop.NODE_LIMIT
    assert outcome.status in (Status.FEASIBLE, Status.NO_SOLUTION)


def test_work_limit(solver: Solver) -> None:
    if not solver.capabilities.work_limit:
        pytest.skip(f"{solver.name} has no deterministic work limit")
    outcome = solver.solve(models.hard(), Limits(gap=0.0, time_s=600.0, work=0.02))
    assert outcome.stop is Stop.WORK_LIMIT
    assert outcome.status in (Status.FEASIBLE, Status.NO_SOLUTION)


def test_a_limit_that_is_not_honoured_is_not_blamed(solver: Solver) -> None:
    if solver.capabilities.node_limit:
        pytest.skip(f"{solver.name} honours the node limit")
    outcome = solver.solve(models.hard(), Limits(gap=0.0, time_s=0.5, nodes=1))
    assert outcome.stop is Stop.TIME_LIMIT


def test_gap_is_that_of_our_definition(solver: Solver) -> None:
    outcome = solver.solve(models.hard(40, 4), Limits(gap=0.05, time_s=600.0))
    assert outcome.status is Status.OPTIMAL
    assert outcome.gap <= 0.05


def test_start_is_used_or_ignored_never_harmful(solver: Solver) -> None:
    model = models.hard(40, 3)
    start = np.zeros(model.columns)
    with_start = solver.solve(model, Limits(gap=0.02, time_s=600.0), start)
    assert with_start.status is Status.OPTIMAL


def test_same_input_same_answer(solver: Solver) -> None:
    if not solver.capabilities.deterministic:
        pytest.skip(f"{solver.name} is not deterministic")
    limits = Limits(gap=0.02, time_s=600.0)
    first, second = (solver.solve(models.hard(40, 3), limits) for _ in range(2))
    assert first.x is not None
    assert second.x is not None
    np.testing.assert_array_equal(first.x, second.x)
    assert first.bound == second.bound


def test_relaxation(solver: Solver) -> None:
    model = models.hard(40, 3)
    outcome = solver.solve(model.relaxed(), EXACT)
    if not solver.capabilities.continuous:
        assert outcome.status is Status.ERROR
        assert "x[0] is continuous" in outcome.message
        return
    assert outcome.status is Status.OPTIMAL
    whole = solver.solve(model, Limits(gap=0.02, time_s=600.0))
    assert outcome.objective >= whole.objective - 1e-6


def test_duals_are_shadow_prices(solver: Solver) -> None:
    if not solver.capabilities.lp_duals:
        pytest.skip(f"{solver.name} gives no duals")
    model = models.hard(30, 3).relaxed()
    at = solver.solve(model, EXACT)
    assert at.row_duals is not None
    for row in range(model.rows):
        upper = model.row_upper.copy()
        upper[row] += 0.5
        moved = type(model)(
            **{f: getattr(model, f) for f in model.__slots__} | {"row_upper": upper}
        )
        gained = solver.solve(moved, EXACT).objective - at.objective
        assert at.row_duals[row] >= 0
        assert gained == pytest.approx(0.5 * at.row_duals[row], abs=1e-6)


def test_offset_is_part_of_objective_and_bound(solver: Solver) -> None:
    model = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))
    plain = solver.solve(model, EXACT)
    moved = solver.solve(model.with_objective(model.cost, 100.0), EXACT)
    assert moved.objective == plain.objective + 100
    assert moved.bound == pytest.approx(plain.bound + 100)


def test_model_without_columns(solver: Solver) -> None:
    empty = ModelBuilder("empty")
    outcome = solver.solve(empty.build(np.zeros(0), 2.0), EXACT)
    consistent(outcome)
    assert (outcome.status, outcome.objective) == (Status.OPTIMAL, 2.0)
    empty.add_rows("r", np.zeros((1, 1), int), 1.0, np.inf, [])
    assert solver.solve(empty.build(np.zeros(0)), EXACT).status is Status.INFEASIBLE


def test_column_without_a_row_gets_its_best_value(solver: Solver) -> None:
    model = models.single(0, 3, (1, 1, 0), (-np.inf, 4), (2, 1, 0))
    assert solver.solve(model, EXACT).objective == pytest.approx(7.0)
