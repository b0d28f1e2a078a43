"""Water filling against the definition, phase by phase, and what keeps its models small."""

import numpy as np
import pytest

from formulations.shares.kernel import Demands, forced_patterns
from formulations.shares.model import headroom_model
from formulations.shares.patterns import price
from formulations.shares.problem import ShareProblem, check_shares, equal_share_rates
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.water_filling import Entities, hierarchical
from tests.shares.share_oracle import Polytope
from tests.shares.worlds import random_problem

SOLVE = lp_solver()


def raised(stated, base, slope):
    """The level; a slack below the bases where the solver calls them infeasible."""
    for slack in (1e-9, 1e-8, 1e-7):
        found = stated.raise_level(base * (1 - slack), slope)
        if found is not None:
            return found
    raise AssertionError("levels that were reached are infeasible")


def levels_by_definition(problem, entities):
    """Phase by phase with whole models only: raise all who ask, freeze who cannot rise alone."""
    stated = Polytope(problem.speed, problem.gang, problem.capacity, problem.allowed)
    unit = equal_share_rates(problem) / problem.gang
    level, frozen = np.zeros(problem.jobs), np.zeros(problem.jobs, dtype=bool)
    for _ in range(2 * problem.jobs):
        if frozen.all():
            return level
        rate = entities.rates(frozen)
        level = level + max(0.0, raised(stated, level * unit, rate * unit)) * rate
        asks, rooms = np.flatnonzero(rate > 0), []
        for job in asks:
            alone = np.zeros(problem.jobs)
            alone[job] = unit[job]
            rooms.append(raised(stated, level * unit, alone))
        stuck = asks[np.array(rooms) <= 1e-6 * np.maximum(1.0, level[asks])]
        # One is; where the slack hides it, that with the least room.
        frozen[stuck if stuck.size else asks[np.argmin(rooms)]] = True
    raise AssertionError("a phase froze nobody")


@pytest.mark.parametrize("below", ["fairness", "fifo"])
@pytest.mark.parametrize("seed", range(16))
def test_filling_reaches_the_levels_of_the_definition(seed, below):
    jobs = 10 + seed
    problem = random_problem(seed, jobs=jobs, scale=(0.1, 0.3, 0.6, 1.5)[seed % 4])
    rng = np.random.default_rng(seed)
    entities = Entities(rng.integers(0, 3, jobs), np.array([1.0, 2.0, 5.0]), np.ones(jobs), below)
    found = hierarchical(problem, entities, solve=SOLVE)
    unit = equal_share_rates(problem) / problem.gang
    expected = levels_by_definition(problem, entities)
    assert problem.rates(found.x) / unit == pytest.approx(expected, rel=5e-5, abs=5e-5)
    check_shares(problem, found.x)


def test_a_cluster_with_room_for_all_needs_at_most_one_model():
    problem = random_problem(3, jobs=40, scale=20.0)
    entities = Entities(np.arange(40) % 4, np.ones(4), np.ones(40))
    found = hierarchical(problem, entities, solve=SOLVE)
    assert problem.rates(found.x) == pytest.approx(problem.speed.max(axis=1), rel=1e-6)
    assert found.solves <= 1


def test_one_gpu_type_needs_no_model_without_shortage():
    problem = ShareProblem(np.ones((5, 1)), np.ones(5, dtype=np.int64), np.array([8.0]))
    found = hierarchical(problem, Entities(np.arange(5), np.ones(5), np.ones(5)), solve=SOLVE)
    assert found.solves == 0
    assert found.x[:, 0] == pytest.approx(np.ones(5), rel=1e-6)


def test_jobs_with_forced_patterns_are_found():
    speed = np.array([[4.0, 1.0], [4.0, 1.0], [4.0, 3.9], [4.0, 1.0], [4.0, 1.0]])
    base = np.array([0.0, 4.0, 4.0, 2.0, 4.0])
    slope = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    demands = Demands(speed, np.ones(5, dtype=np.int64), np.array([8.0, 8.0]), base, slope)
    assert forced_patterns(demands).tolist() == [0, 1, -1, -1, -1]


def test_shares_have_no_level_where_a_job_that_asks_for_no_more_lacks_what_it_has():
    base, slope = np.array([2.0, 1.0]), np.array([0.0, 2.0])
    demands = Demands(np.full((2, 1), 4.0), np.ones(2, int), np.array([1.0]), base, slope)
    assert demands.level(np.array([[0.5], [0.5]])) == 0.5
    assert demands.level(np.array([[0.25], [0.75]])) == -np.inf


def test_a_job_without_demand_takes_nothing_also_where_it_cannot_run():
    # 0 demand over 0 speed is no number, and must not be taken for the cheapest.
    found = price(np.array([[0.0, 2.0]]), np.array([1]), np.array([1.0, 1.0]), np.array([0.0]))
    assert found.best.tolist() == [0]
    assert found.cost.tolist() == [0.0]


def test_headroom_with_known_shares_taken_out_is_the_same():
    problem = ShareProblem(np.array([[2.0], [2.0], [2.0]]), np.ones(3, int), np.array([2.0]))
    floor, room = np.array([2.0, 1.0, 0.0]), np.array([0.0, 1.0, 2.0])
    whole = SOLVE(headroom_model(problem, floor, room).model)
    small = SOLVE(headroom_model(problem, floor, room, np.array([1, -1, -1])).model)
    # Half a GPU is left: job 1 goes all the way to its top with it.
    assert whole.objective == pytest.approx(1.0)
    assert small.objective == pytest.approx(1.0)
    assert small.x.size == whole.x.size - 2
