"""No claim is believed: points, bounds, infeasibility and unboundedness are tested."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.linear_model import ModelBuilder
from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers.base import box_bound
from morph_opt.scheduling.solvers.outcome import Limits, Status, Stop, relative_gap
from morph_opt.scheduling.solvers.recheck import judge, violated
from tests.solvers import faulty, models

SMALL = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))


def test_a_point_that_violates_a_row_is_an_error_that_names_it() -> None:
    outcome = faulty.Lying().solve(SMALL, Limits())
    assert outcome.status is Status.ERROR
    assert outcome.x is None
    assert "r[0]" in outcome.message


def test_infeasible_is_refuted_by_a_feasible_start() -> None:
    model = models.single(0, 3, (1, 1), (1, 4), (2, 1))
    assert faulty.Pessimist().solve(model, Limits()).status is Status.INFEASIBLE
    refuted = faulty.Pessimist().solve(model, Limits(), np.ones(2))
    assert refuted.status is Status.ERROR
    assert "start" in refuted.message
    # A start that is itself infeasible refutes nothing.
    assert faulty.Pessimist().solve(model, Limits(), np.full(2, 3.0)).status is Status.INFEASIBLE


def test_unbounded_is_refuted_by_the_column_bounds() -> None:
    assert box_bound(SMALL) == 9.0
    refuted = faulty.Optimist().solve(SMALL, Limits())
    assert refuted.status is Status.ERROR
    assert "bounds" in refuted.message
    assert box_bound(models.unbounded()) == np.inf


def test_an_exception_ends_the_solve_not_the_caller() -> None:
    outcome = faulty.Throwing().solve(SMALL, Limits())
    assert (outcome.status, outcome.stop) == (Status.ERROR, Stop.FAILED)
    assert "no such luck" in outcome.message


def test_a_bound_below_the_incumbent_is_disproved() -> None:
    outcome = judge(SMALL, np.array([3.0, 1.0]), 6.0, Stop.PROVED, 1e-3, solver="s")
    assert outcome.status is Status.FEASIBLE
    assert outcome.bound == np.inf
    assert "below its own incumbent" in outcome.message
    exact = judge(SMALL, np.array([3.0, 1.0]), 7.0 - 1e-9, Stop.PROVED, 0.0, solver="s")
    assert exact.status is Status.OPTIMAL


def test_the_gap_decides_not_the_stop() -> None:
    x = np.array([3.0, 0.0])
    assert judge(SMALL, x, 7.0, Stop.PROVED, 0.2, solver="s").status is Status.OPTIMAL
    assert judge(SMALL, x, 7.0, Stop.PROVED, 0.1, solver="s").status is Status.FEASIBLE
    assert judge(SMALL, x, 7.0, Stop.TIME_LIMIT, 0.2, solver="s").status is Status.OPTIMAL


def test_integers_are_rounded_before_the_check() -> None:
    outcome = judge(SMALL, np.array([2.9999999, 1.0000001]), 7.0, Stop.PROVED, 0.0, solver="s")
    assert outcome.x is not None
    assert outcome.x.tolist() == [3.0, 1.0]
    assert outcome.objective == 7.0


@pytest.mark.parametrize("bad", [np.array([np.nan, 0.0]), np.array([np.inf, 0.0]), np.zeros(3)])
def test_a_point_of_nonsense_is_an_error(bad: np.ndarray) -> None:
    assert judge(SMALL, bad, 7.0, Stop.PROVED, 0.0, solver="s").status is Status.ERROR


def test_the_tolerance_of_a_row_is_its_own() -> None:
    builder = ModelBuilder("two")
    x = builder.add_columns("x", np.arange(2)[:, None], 1e9, integer=False)
    builder.add_rows("big", np.zeros((1, 1), int), -np.inf, 1e8, [(np.zeros(1, int), x[:1], 1.0)])
    builder.add_rows("gpu", np.zeros((1, 1), int), -np.inf, 8.0, [(np.zeros(1, int), x[1:], 1.0)])
    model = builder.build(np.ones(2))
    assert violated(model, np.array([1e8 + 50.0, 8.0])) == ""
    assert violated(model, np.array([1e8 + 500.0, 8.0])) == "big[0]"
    assert violated(model, np.array([0.0, 9.0])) == "gpu[0]"


def test_integrality_has_no_relative_tolerance() -> None:
    model = models.single(0, 1e6, (1, 1), (-np.inf, 2e6), (1, 1))
    assert violated(model, np.array([1e5 + 0.01, 0.0])) == "x[0]"


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [(10, 10, 0), (10, 11, 0.1), (-10, -9, 0.1), (0, 0, 0), (10, np.inf, np.inf), (5, 4, 0)],
)
def test_relative_gap(objective: float, bound: float, gap: float) -> None:
    assert relative_gap(objective, bound) == pytest.approx(gap)


@pytest.mark.parametrize(
    ("field", "value"),
    [("gap", -1), ("time_s", -1), ("nodes", -1), ("threads", 0), ("seed", -1), ("gap", np.nan)],
)
def test_limits_refuse_nonsense(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Limits(**{field: value})  # type: ignore[arg-type]
