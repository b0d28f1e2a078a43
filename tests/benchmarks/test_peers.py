"""Methods of others on our rounds: projections against their definition, decisions by the check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.instances.scaled import busy_round, cold_round, speeds_of
from benchmarks.scale.measure import RESTATED, Row
from benchmarks.scale.page import distances, page
from benchmarks.scale.peers import Pop, onto_jobs, onto_row
from formulations.round.check import check
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver
from tests.waiting import PATIENCE_S

ROUNDS = {"cold": cold_round(48, 3), "busy": busy_round(48, 3)}


def nearest(wanted: np.ndarray, use: np.ndarray, limit: float) -> np.ndarray:
    """The nearest point of ``x >= 0``, ``use x <= limit``, by a solver that knows no projection."""
    return minimize(
        lambda x: ((x - wanted) ** 2).sum(),
        np.zeros(wanted.size),
        jac=lambda x: 2 * (x - wanted),
        bounds=[(0.0, None)] * wanted.size,
        constraints={"type": "ineq", "fun": lambda x: limit - use @ x},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    ).x


def test_projections_are_the_nearest_points() -> None:
    draw = np.random.default_rng(7)
    for _ in range(20):
        wanted = draw.normal(0.3, 0.6, 9)
        use = draw.integers(1, 5, 9).astype(float)
        limit = float(draw.uniform(0.5, 4.0))
        assert onto_row(wanted, use, limit) == pytest.approx(nearest(wanted, use, limit), abs=1e-5)
        found = onto_jobs(wanted, np.asarray([0, 2, 3]))
        expected = [nearest(wanted[a:b], np.ones(b - a), 1.0) for a, b in ((0, 2), (2, 3), (3, 9))]
        assert found == pytest.approx(np.concatenate(expected), abs=1e-5)


@pytest.mark.parametrize("state", ROUNDS.values(), ids=ROUNDS)
def test_decisions_are_possible_and_none_is_better_than_the_bound(state: RoundState) -> None:
    posed = RoundPoser(speeds_of(state.cluster), OBJECTIVES["throughput"]()).pose(state)
    limits = Limits(gap=1e-3, time_s=PATIENCE_S)
    bound = Ladder(make_solver("highs")).solve(posed, limits).outcome.bound
    for name, make in RESTATED.items():
        found = make().solve(posed, limits).selection
        assert found is not None, name
        check(posed.problem, found)
        # Each is a method and no random choice: of rounds as small as these it gets most.
        assert 0.8 * bound <= found.value(posed.worth) <= bound * (1 + 1e-9), name


def test_parts_of_pop_share_no_job_and_no_node() -> None:
    posed = RoundPoser(speeds_of(ROUNDS["busy"].cluster), OBJECTIVES["throughput"]()).pose(
        ROUNDS["busy"]
    )
    problem = posed.problem
    jobs, nodes, count = Pop(make_solver("highs"), 16)._split(problem)
    assert count == 3
    assert (jobs[problem.holds.job] == nodes[problem.holds.node]).all()
    assert set(nodes.tolist()) <= set(range(count))
    assert np.ptp(np.bincount(jobs[~problem.jobs.running], minlength=count)) <= 1
    one = Pop(make_solver("highs"), 10_000)
    assert one._split(problem)[2] == 1


def test_loss_is_measured_against_the_best_bound_of_the_round() -> None:
    row = Row(
        64, 3, 1, "ordinary", "throughput", 0, "ladder", 40, 0, 9, 1.0, 2.0, 0.0, "", "",
        90.0, 110.0, 0.2, 0.0, 1.0,
    )  # fmt: skip
    inf = float("inf")
    rows = [
        row,
        replace(row, method="highs", value=95.0, bound=100.0),
        replace(row, method="cvx", value=80.0, bound=inf, solve_s=0.5),
        replace(row, round=1),  # no peer decided it
        replace(row, gpus=8192, value=100.0),
        replace(row, gpus=8192, method="cvx", value=99.0, bound=inf),
    ]
    found = distances(rows)
    assert found["cold", 64, 3, "ordinary"] == {
        "ladder": (pytest.approx(0.1), 3.0),
        "highs": (pytest.approx(0.05), 3.0),
        "cvx": (pytest.approx(0.2), 1.5),
    }
    assert found["cold", 8192, 3, "ordinary"]["cvx"][0] == pytest.approx(0.1)
    assert len(found) == 2
    text = page(rows)
    # HiGHS misses less in as much time; cvx misses more in less: the ladder had nothing by then.
    assert (
        "* cold, ordinary nodes, 64 GPUs, 3 types: The exact MIP by HiGHS (5.000 % in 3.00 s); "
        in text
    )
    assert "* CvxCluster's two stages: 1 round, 20.00 to 20.00 % missed." in text
    assert "8,192 GPUs, 3 types: " not in text
