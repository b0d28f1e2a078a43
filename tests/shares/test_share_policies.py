"""Every share policy against an independent statement, on random instances and by hand."""

import numpy as np
import pytest

from benchmarks.fairness.kernel import raise_model
from formulations.shares.kernel import Demands
from formulations.shares.problem import (
    ShareProblem,
    check_shares,
    equal_share_rates,
    isolated_rates,
)
from morph_opt.scheduling.shares.max_min import lp_solver, raise_level
from morph_opt.scheduling.shares.packed_max_min import packed_raise
from morph_opt.scheduling.shares.policies import (
    cost,
    finish_time,
    in_order,
    makespan,
    max_min,
    srpt_order,
    total_throughput,
)
from morph_opt.scheduling.shares.request import SHARE_POLICIES, ShareRequest, shares_of
from morph_opt.scheduling.shares.water_filling import Entities, hierarchical
from tests.shares.share_oracle import (
    Polytope,
    fewest_dropped,
    finish_time_ratio,
    lexicographic_levels,
)
from tests.shares.worlds import random_problem, with_pairs

SOLVE = lp_solver()
SEEDS = range(12)


def polytope(problem):
    given, runs = problem.pairs, problem.pair_allowed
    pairs = [
        (int(a), int(b), np.where(runs[i][:, None], given.throughput[i], 0.0).tolist())
        for i, (a, b) in enumerate(zip(given.first, given.second, strict=True))
    ]
    return Polytope(problem.speed, problem.gang, problem.capacity, problem.allowed, pairs)


def weights(seed, jobs):
    return np.random.default_rng(seed + 100).choice([0.5, 1.0, 2.0, 5.0], jobs)


@pytest.mark.parametrize("seed", SEEDS)
def test_max_min(seed):
    problem = random_problem(seed)
    weight = weights(seed, problem.jobs)
    for aware, own in ((True, problem), (False, problem.agnostic())):
        found = max_min(problem, weight, aware=aware, solve=SOLVE)
        slope = weight * equal_share_rates(own) / own.gang
        expected = polytope(own).raise_level(np.zeros(own.jobs), slope)
        assert found.objective == pytest.approx(expected, rel=1e-6)
        assert found.bound == pytest.approx(found.objective, rel=1e-7)
        check_shares(own, found.x)


@pytest.mark.parametrize("seed", SEEDS)
def test_makespan_and_total_throughput(seed):
    problem = random_problem(seed)
    steps = np.random.default_rng(seed).lognormal(8, 1, problem.jobs)
    found = makespan(problem, steps, solve=SOLVE)
    level = polytope(problem).raise_level(np.zeros(problem.jobs), steps)
    assert found.objective == pytest.approx(1 / level, rel=1e-6)
    total = total_throughput(problem, solve=SOLVE)
    expected = polytope(problem).best(np.ones(problem.throughput.shape), np.zeros(problem.jobs))
    assert total.objective == pytest.approx(expected, rel=1e-6)
    check_shares(problem, found.x)
    check_shares(problem, total.x)


@pytest.mark.parametrize("seed", SEEDS)
def test_finish_time_fairness(seed):
    problem = random_problem(seed, scale=0.3 + 0.1 * (seed % 4))
    rng = np.random.default_rng(seed)
    steps = problem.throughput.max(axis=1) * rng.lognormal(8, 1, problem.jobs)
    since = rng.exponential(5000, problem.jobs) * (seed % 3 > 0)
    isolated = since * rng.uniform(0.1, 1, problem.jobs)
    found = finish_time(problem, steps, since, isolated, solve=SOLVE)
    fair = isolated + steps / isolated_rates(problem)
    assert found.objective == pytest.approx(
        finish_time_ratio(polytope(problem), steps, since, fair), rel=1e-6
    )
    assert found.bound == pytest.approx(found.objective, rel=1e-7)
    check_shares(problem, found.x)


@pytest.mark.parametrize("seed", SEEDS)
def test_packed_max_min(seed):
    # crowded, so that sharing GPUs matters: with room for all no pair has a share
    problem = with_pairs(random_problem(seed, jobs=14, scale=0.05), seed)
    weight = weights(seed, problem.jobs)
    found = max_min(problem, weight, solve=SOLVE)
    slope = weight * equal_share_rates(problem) / problem.gang
    whole = raise_model(problem, np.zeros(problem.jobs), slope, scale=1 / slope.max())
    outcome = SOLVE(whole.model)
    assert found.objective == pytest.approx(outcome.objective / slope.max(), rel=1e-6)
    expected = polytope(problem).raise_level(np.zeros(problem.jobs), slope)
    assert found.objective == pytest.approx(expected, rel=1e-5)
    check_shares(problem, found.x, found.pair_x)
    assert found.pair_x.max() > 0.01


def test_identical_jobs_are_merged_without_changing_the_packed_optimum():
    base = random_problem(3, jobs=3, zeros=0.0)
    rows = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    problem = ShareProblem(base.throughput[rows], np.ones(8, dtype=np.int64), base.capacity / 2)
    one, two = np.triu_indices(8, 1)
    part = 0.6 + 0.1 * (rows[one] + rows[two])[:, None, None] / 4 * np.ones((1, 3, 2))
    alone = np.stack([problem.throughput[one], problem.throughput[two]], axis=2)
    problem = ShareProblem(
        problem.throughput,
        problem.gang,
        problem.capacity,
        pairs=type(problem.pairs)(one, two, part * alone),
    )
    slope = problem.throughput.mean(axis=1)
    bound, x, y, _ = packed_raise(problem, np.zeros(8), slope, SOLVE)
    check_shares(problem, x, y)
    assert float((problem.rates(x, y) / slope).min()) == pytest.approx(bound, rel=1e-7)
    whole = SOLVE(raise_model(problem, np.zeros(8), slope).model)
    assert bound == pytest.approx(whole.objective, rel=1e-6)


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("spread", [False, True])
def test_the_fast_path_proves_what_the_whole_model_gives(scale, spread):
    problem = random_problem(7, jobs=600, scale=scale, zeros=0.1)
    slope = equal_share_rates(problem) / problem.gang
    if spread:
        slope = slope * weights(1, 600)
    base = np.zeros(600)
    found = raise_level(Demands(problem.speed, problem.gang, problem.capacity, base, slope), SOLVE)
    whole = SOLVE(raise_model(problem, base, slope, scale=1 / slope.max()).model)
    assert found.level == pytest.approx(whole.objective / slope.max(), rel=1e-6)
    assert found.bound == pytest.approx(found.level, rel=1e-7)
    check_shares(problem, found.x)


@pytest.mark.parametrize("seed", range(8))
def test_water_filling_is_lexicographic_when_every_job_is_its_own_entity(seed):
    problem = random_problem(seed, jobs=6, scale=0.2 + 0.4 * (seed % 3))
    unit = equal_share_rates(problem) / problem.gang
    alone = Entities(np.arange(6), np.ones(6), np.ones(6))
    found = hierarchical(problem, alone, solve=SOLVE)
    expected = lexicographic_levels(polytope(problem), unit)
    assert problem.rates(found.x) / unit == pytest.approx(expected, rel=1e-5)
    check_shares(problem, found.x)


def test_entities_get_their_weights_and_split_them():
    # One type, four GPUs, one-GPU jobs; entity 0 has one job, entity 1 five jobs.
    problem = ShareProblem(np.ones((6, 1)), np.ones(6, dtype=np.int64), np.array([4.0]))
    entity = np.array([0, 1, 1, 1, 1, 1])
    fair = hierarchical(problem, Entities(entity, np.array([1.0, 1.0]), np.ones(6)), solve=SOLVE)
    # The only job of entity 0 is full at 1; the other three GPUs are split by five.
    assert fair.x[:, 0] == pytest.approx([1, 0.6, 0.6, 0.6, 0.6, 0.6], rel=1e-5)
    fifo = hierarchical(
        problem, Entities(entity, np.array([1.0, 1.0]), np.ones(6), "fifo"), solve=SOLVE
    )
    assert fifo.x[:, 0] == pytest.approx([1, 1, 1, 1, 0, 0], abs=1e-5)


@pytest.mark.parametrize(
    ("entity", "weight", "job_weight", "below", "rule"),
    [
        ([0, 2], [1.0, 1.0], [1.0, 1.0], "fairness", "job 1: unknown entity 2"),
        ([0, 1], [1.0, 0.0], [1.0, 1.0], "fairness", "above 0"),
        ([0, 1], [1.0, 1.0], [1.0, -1.0], "fairness", "above 0"),
        ([0, 1], [1.0, 1.0], [1.0, 1.0], "lottery", "below must be one of"),
    ],
)
def test_bad_entities(entity, weight, job_weight, below, rule):
    with pytest.raises(ValueError, match=rule):
        Entities(np.array(entity), np.array(weight), np.array(job_weight), below)


@pytest.mark.parametrize("seed", SEEDS)
def test_cost_drops_the_fewest_slos_and_names_them(seed):
    problem = random_problem(seed, jobs=6, scale=0.25)
    rng = np.random.default_rng(seed)
    price = np.array([1.0, 2.0, 4.0])
    steps = problem.throughput.max(axis=1) * 1000
    slo = np.where(rng.random(6) < 0.8, rng.uniform(500, 4000, 6), np.inf)
    found = cost(problem, price, steps, slo, solve=SOLVE)
    value = np.broadcast_to(1 / price, problem.throughput.shape)
    floor = np.where(np.isfinite(slo), steps / slo, 0.0)
    assert len(found.dropped) == fewest_dropped(polytope(problem), value, floor)
    kept = floor.copy()
    kept[list(found.dropped)] = 0
    rates = problem.rates(found.x)
    assert (rates >= kept * (1 - 1e-5)).all()
    assert found.objective == pytest.approx(polytope(problem).best(value, kept), rel=1e-5)
    check_shares(problem, found.x)


def test_in_order_policy_takes_the_fastest_free_type():
    problem = ShareProblem(
        np.array([[3.0, 1.0], [3.0, 2.0], [3.0, 0.0], [5.0, 4.0]]),
        np.array([2, 1, 1, 1]),
        np.array([2.0, 2.0]),
    )
    fifo = in_order(problem, np.arange(4))
    assert fifo.x.tolist() == [[1, 0], [0, 1], [0, 0], [0, 1]]
    steps = np.array([30.0, 3.0, 6.0, 100.0])
    assert srpt_order(problem, steps).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize("policy", SHARE_POLICIES)
def test_every_policy_by_name_gives_feasible_shares(policy):
    problem = random_problem(5)
    jobs = problem.jobs
    request = ShareRequest(
        problem=problem,
        weight=np.ones(jobs),
        steps_left=np.full(jobs, 1e4),
        since_s=np.full(jobs, 100.0),
        isolated_s=np.full(jobs, 50.0),
        arrival=np.arange(jobs),
        entity=np.arange(jobs) % 3,
        slo_s=np.full(jobs, np.inf),
        price=np.array([1.0, 2.0, 3.0]),
    )
    found = shares_of(policy, request, SOLVE)
    check_shares(problem.agnostic() if policy == "fairness-agnostic" else problem, found.x)
    with pytest.raises(ValueError, match="unknown share policy"):
        shares_of("lottery", request, SOLVE)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda p: max_min(p, np.array([1.0, 0.0])), "job 1: weight must be above 0"),
        (lambda p: max_min(p, np.ones(3)), "must have shape"),
        (lambda p: makespan(p, np.array([0.0, 1.0])), "job 0: steps_left"),
        (
            lambda p: cost(p, np.ones(1), np.ones(2), np.array([5.0, -1.0])),
            "job 1: its SLO is in the past",
        ),
        (lambda p: cost(p, np.zeros(1), np.ones(2), np.full(2, np.inf)), "price must be above 0"),
        (
            lambda p: hierarchical(
                with_pairs(p, 0), Entities(*([np.zeros(2, int)] + [np.ones(2)] * 2))
            ),
            "without packing",
        ),
    ],
)
def test_bad_requests_name_job_and_rule(call, rule):
    problem = ShareProblem(np.ones((2, 1)), np.ones(2, dtype=np.int64), np.array([2.0]))
    with pytest.raises(ValueError, match=rule):
        call(problem)
