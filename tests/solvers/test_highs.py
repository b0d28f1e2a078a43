"""HiGHS itself: threads, reuse, starts; the rest is in test_adapters."""

from __future__ import annotations

import pickle

import highspy
import numpy as np
import pytest

from morph_opt.scheduling.solvers import highs as adapter
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status, Stop
from morph_opt.scheduling.solvers.parameters import HIGHS
from tests.solvers import models

SMALL = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))


def test_the_thread_pool_is_reset_when_the_number_changes() -> None:
    one, two = HighsSolver(), HighsSolver()
    for threads in (1, 2, 1, 3):
        for solver in (one, two):
            outcome = solver.solve(models.hard(40, 3), Limits(gap=0.05, threads=threads))
            assert outcome.status is Status.OPTIMAL, outcome


def test_a_pool_made_by_somebody_else_is_replaced() -> None:
    ours = HighsSolver()
    assert ours.solve(SMALL, Limits()).status is Status.OPTIMAL
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", 3)
    adapter.hand_over(other, models.hard(40, 3))
    other.setOptionValue("mip_rel_gap", 0.1)
    other.run()
    assert ours.solve(SMALL, Limits()).status is Status.OPTIMAL


def test_solver_keeps_nothing_between_solves() -> None:
    solver = HighsSolver()
    model = models.hard(24, 4)
    limits = Limits(gap=0.01, time_s=600.0)  # slow machines must not end it
    fresh = solver.solve(model, limits)
    solver.solve(models.infeasible(), Limits(gap=0.5, time_s=0.1, nodes=0, seed=7))
    solver.solve(model.relaxed(), limits)
    again = solver.solve(model, limits)
    assert fresh.x is not None
    assert again.x is not None
    np.testing.assert_array_equal(fresh.x, again.x)
    assert (fresh.bound, fresh.nodes) == (again.bound, again.nodes)


def test_the_clock_starts_anew_with_every_solve() -> None:
    """After a solve of all of 2 s one of milliseconds: a clock that ran on would leave no time."""
    solver = HighsSolver()
    limits = Limits(gap=0.0, time_s=2.0)
    assert solver.solve(models.hard(), limits).stop is Stop.TIME_LIMIT
    outcome = solver.solve(models.hard(12, 2), limits)
    assert outcome.status is Status.OPTIMAL


def test_a_start_is_taken_up() -> None:
    model = models.hidden()
    solver = HighsSolver()
    limits = Limits(gap=0.0, nodes=0, time_s=600.0)
    assert solver.solve(model, limits).status is Status.NO_SOLUTION
    rng = np.random.default_rng(3)
    point = (rng.random(model.columns) < 0.5).astype(float)
    side = model.matrix() @ point
    fields = {f: getattr(model, f) for f in model.__slots__}
    reachable = type(model)(**fields | {"row_lower": side, "row_upper": side})
    outcome = solver.solve(reachable, limits, point)
    assert outcome.usable
    assert outcome.objective >= model.objective(point) - 1e-9


def test_a_start_that_is_infeasible_does_no_harm() -> None:
    outcome = HighsSolver().solve(SMALL, Limits(gap=0.0), np.full(2, 3.0))
    assert (outcome.status, outcome.objective) == (Status.OPTIMAL, 7.0)


def test_a_refused_model_is_an_error() -> None:
    fields = {f: getattr(SMALL, f) for f in SMALL.__slots__}
    broken = type(SMALL)(**fields | {"index": np.array([0, 9])})
    outcome = HighsSolver().solve(broken, Limits())
    assert outcome.status is Status.ERROR
    assert "refused" in outcome.message


def test_it_can_be_pickled_after_use() -> None:
    solver = HighsSolver()
    solver.solve(SMALL, Limits())
    assert pickle.loads(pickle.dumps(solver)).solve(SMALL, Limits()).objective == 7.0


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_are_optional(rows: int) -> None:
    model = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))
    if not rows:
        fields = {f: getattr(model, f) for f in model.__slots__}
        model = type(model)(
            **fields
            | {
                "row_lower": np.zeros(0),
                "row_upper": np.zeros(0),
                "start": np.zeros(1, int),
                "index": np.zeros(0, int),
                "value": np.zeros(0),
                "row_blocks": (),
            }
        )
    assert HighsSolver().solve(model, Limits()).objective == (7.0 if rows else 9.0)


def test_options_by_size_are_reset_from_solve_to_solve() -> None:
    assert dict(adapter.round_options(SMALL))["presolve"] == "off"
    assert [name for name, _ in adapter.round_options(SMALL.relaxed())] == ["small_matrix_value"]
    large = models.hard(HIGHS.presolve_columns, 1)
    assert dict(adapter.round_options(large))["presolve"] == "choose"
    solver = HighsSolver()
    solver.solve(SMALL, Limits())
    solver.solve(SMALL.relaxed(), Limits())
    assert solver._highs is not None
    assert solver._highs.getOptionValue("presolve")[1] == "choose"
