"""Shares on one GPU type, in closed form, against the linear programs for several types."""

from dataclasses import replace

import numpy as np
import pytest

from formulations.shares.problem import ShareProblem
from formulations.tolerances import CLAIM
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.request import ShareRequest, measured, shares_of

SOLVE = lp_solver()
POLICIES = (
    "fairness", "fairness-agnostic", "water-filling", "hierarchical", "hierarchical-fifo", "ftf",
    "makespan", "max_throughput", "cost",
)  # fmt: skip


def request_of(seed: int) -> ShareRequest:
    """A request of 2 to 12 jobs of three tenants on one type, from GPUs for all to very few."""
    draw = np.random.default_rng((seed, 7))
    jobs = int(draw.integers(2, 13))
    gang = draw.choice([1, 2, 4, 8], jobs)
    speed = draw.lognormal(0.0, 1.0, (jobs, 1))
    speed[1], gang[1] = speed[0], gang[0]
    gpus = max(8.0, np.floor(gang.sum() * draw.choice([0.3, 0.6, 1.0, 1.5])))
    steps_left = draw.lognormal(6.0, 1.0, jobs)
    alone_s = steps_left / speed[:, 0]
    return ShareRequest(
        problem=ShareProblem(speed, gang, np.array([gpus])),
        weight=draw.choice([0.5, 1.0, 2.0], jobs),
        steps_left=steps_left,
        since_s=draw.uniform(0.0, 1e3, jobs),
        isolated_s=draw.uniform(0.0, 1e3, jobs),
        arrival=np.arange(jobs),
        entity=draw.integers(0, 3, jobs),
        slo_s=np.where(draw.random(jobs) < 0.6, alone_s * draw.uniform(0.8, 5.0, jobs), np.inf),
        price=np.array([2.0]),
        entity_weight=np.array([1.0, 2.0, 1.0]),
    )


def beside_an_empty_type(request: ShareRequest) -> ShareRequest:
    """The same request with a second type that has no GPUs, for which models are solved."""
    p = request.problem
    wider = ShareProblem(
        np.hstack([p.throughput, np.zeros((p.jobs, 1))]), p.gang, np.append(p.capacity, 0.0)
    )
    return replace(request, problem=wider, price=np.array([2.0, 2.0]))


@pytest.mark.parametrize("policy", POLICIES)
def test_values_are_those_of_the_linear_programs(policy: str) -> None:
    solved = 0
    for seed in range(25):
        request = request_of(seed)
        modelled = beside_an_empty_type(request)
        found, same = shares_of(policy, request, SOLVE), shares_of(policy, modelled, SOLVE)
        assert found.dropped == same.dropped
        assert found.objective == pytest.approx(same.objective, rel=2 * CLAIM)
        assert found.bound == pytest.approx(same.bound, rel=2 * CLAIM)
        none = np.zeros((0, 1))
        assert measured(policy, request, found.x, none) == pytest.approx(found.objective)
        assert request.problem.gang @ found.x <= request.problem.capacity * (1 + 1e-12)
        assert found.x == pytest.approx(np.clip(found.x, 0.0, 1.0), abs=1e-12)
        if policy in ("water-filling", "hierarchical", "hierarchical-fifo"):
            # Levels are unique here, not only the least one.
            assert found.x[:, 0] == pytest.approx(same.x[:, 0], abs=1e-5)
        solved += found.solves < same.solves
    assert solved
