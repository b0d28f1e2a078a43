"""Every code of every library has a meaning; one case per code."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.meaning import Meaning, stop_of
from morph_opt.scheduling.solvers.outcome import Limits, Status, Stop
from tests.solvers import models


def library(module: str, needs: str) -> object:
    """The adapter's module, or a skip that says what is missing."""
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"morph_opt.scheduling.solvers.{module}")


def test_highs() -> None:
    import highspy

    from morph_opt.scheduling.solvers.highs import CODES

    assert set(CODES) == set(highspy.HighsModelStatus.__members__.values())


def test_cpsat() -> None:
    codes = library("cpsat.adapter", "ortools").CODES  # type: ignore[attr-defined]
    from ortools.sat.python import cp_model_helper

    assert set(codes) == set(cp_model_helper.CpSolverStatus.__members__)


def test_scip_through_ortools() -> None:
    codes = library("scip", "ortools").CODES  # type: ignore[attr-defined]
    from ortools.linear_solver.python import model_builder_helper

    assert set(codes) == set(model_builder_helper.SolveStatus.__members__)


def test_pulp_pairs() -> None:
    front = library("fronts.pulp", "pulp")
    import pulp

    for status in pulp.LpStatus:
        for sol_status in pulp.LpSolution:
            assert front.meaning_of(status, sol_status) in Meaning  # type: ignore[attr-defined]
    # The trap: a solve that a limit stopped is `Optimal` to pulp.
    stopped = front.meaning_of(pulp.LpStatusOptimal, pulp.LpSolutionIntegerFeasible)  # type: ignore[attr-defined]
    assert stopped is Meaning.LIMIT
    assert front.meaning_of(pulp.LpStatusUndefined, pulp.LpSolutionOptimal) is Meaning.FAILED  # type: ignore[attr-defined]


def test_cvxpy() -> None:
    codes = library("fronts.cvxpy", "cvxpy").CODES  # type: ignore[attr-defined]
    from cvxpy import settings

    assert set(settings.SOLUTION_PRESENT) | set(settings.INF_OR_UNB) <= set(codes)
    assert set(settings.ERROR) <= set(codes)


def test_licensed_through_pulp() -> None:
    statuses = library("fronts.licensed", "pulp").STATUSES  # type: ignore[attr-defined]
    import pulp

    assert set(statuses) == set(pulp.LpStatus)


class Says(Adapter):
    """Ends with one meaning, with or without a point."""

    name = "says"
    capabilities = Capabilities(node_limit=True, work_limit=True)

    def __init__(self, meaning: Meaning, point: bool) -> None:
        self.meaning = meaning
        self.point = point

    def _attempt(self, model, limits, start, clock: Clock) -> Answer:  # type: ignore[no-untyped-def]
        clock.hand_over_done()
        x = np.zeros(model.columns) if self.point else None
        return Answer(self.meaning, "says", x, 7.0)


@pytest.mark.parametrize("point", [True, False])
@pytest.mark.parametrize("meaning", list(Meaning))
def test_every_meaning_becomes_an_outcome(meaning: Meaning, point: bool) -> None:
    model = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))  # optimum 7, the zero point is 0
    outcome = Says(meaning, point).solve(model, Limits())
    # Never optimal: the point's value is 0 and the bound 7, whatever the library says.
    if meaning in (Meaning.INFEASIBLE, Meaning.INFEASIBLE_OR_UNBOUNDED):
        assert outcome.status is Status.ERROR  # the zero point refutes it
        closed = models.single(0, 3, (1, 1), (1, 4), (2, 1))
        assert Says(meaning, point).solve(closed, Limits()).status is Status.INFEASIBLE
    elif meaning is Meaning.UNBOUNDED:
        assert outcome.status is Status.ERROR
    elif point:
        assert outcome.status is Status.FEASIBLE
        assert outcome.gap > 0
    elif meaning in (Meaning.PROVED, Meaning.FAILED):
        assert outcome.status is Status.ERROR
    else:
        assert outcome.status is Status.NO_SOLUTION


@pytest.mark.parametrize(
    ("limits", "solve_s", "stop"),
    [
        (Limits(time_s=1.0), 1.0, Stop.TIME_LIMIT),
        (Limits(time_s=1.0, nodes=5), 0.1, Stop.NODE_LIMIT),
        (Limits(time_s=1.0, nodes=5), 1.0, Stop.TIME_LIMIT),
        (Limits(time_s=1.0, work=5.0), 0.1, Stop.WORK_LIMIT),
        (Limits(time_s=1.0), 0.1, Stop.TIME_LIMIT),
    ],
)
def test_an_unnamed_limit_is_told_by_the_clock(limits: Limits, solve_s: float, stop: Stop) -> None:
    assert stop_of(Meaning.LIMIT, limits, solve_s) is stop
