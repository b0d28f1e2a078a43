"""Numbers that differ by many orders of magnitude: every policy against fractions, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from formulations.shares.problem import (
    PairTable,
    ShareProblem,
    check_shares,
    equal_share_rates,
    isolated_rates,
)
from morph_opt.scheduling.shares.cli import main
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.request import (
    LEXICOGRAPHIC,
    SHARE_POLICIES,
    ShareRequest,
    measured,
    shares_of,
)
from morph_opt.scheduling.shares.water_filling import Entities
from tests.shares.exact import ExactShares

SOLVE = lp_solver()
MODELS = ("fairness", "fairness-agnostic", "makespan", "ftf", "max_throughput", "cost")


def request(seed: int, spread: float, *, jobs: int = 4, packed: bool = False) -> ShareRequest:
    """Every number of every job is drawn from ``10 ** -spread`` to ``10 ** spread``."""
    rng = np.random.default_rng(seed)
    ten = lambda n: 10.0 ** rng.uniform(-spread, spread, n)  # noqa: E731
    speed = ten((jobs, 1)) * 10.0 ** rng.uniform(-1, 1, (jobs, 2))
    if seed % 3 == 1:
        speed *= ten((jobs, 2))
    speed[:, 1:] *= rng.random((jobs, 1)) > 0.2
    pairs = PairTable()
    if packed:
        one, two = np.triu_indices(jobs, 1)
        part = np.clip(rng.normal(0.75, 0.2, (one.size, 2, 2)), 0, 1)
        pairs = PairTable(one, two, part * np.stack([speed[one], speed[two]], axis=2))
    capacity = rng.choice([4.0, 5.0, 8.0], 2)
    sometimes = lambda other: np.where(rng.random(jobs) < 0.5, other, ten(jobs))  # noqa: E731
    return ShareRequest(
        ShareProblem(speed, rng.choice([1, 2, 4], jobs), capacity, pairs=pairs),
        weight=ten(jobs),
        steps_left=ten(jobs),
        since_s=sometimes(0.0),
        isolated_s=sometimes(0.0),
        arrival=np.arange(jobs),
        entity=np.arange(jobs) % 2,
        slo_s=sometimes(np.inf),
        price=ten(2),
        entity_weight=ten(2),
    )


def fractions(values) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def require_optimal(policy: str, q: ShareRequest, found) -> None:
    """The objective is the optimum in fractions; for ftf a slack less is out of reach."""
    p = q.problem.agnostic() if policy == "fairness-agnostic" else q.problem
    exact, nothing, steps = ExactShares(p), [Fraction(0)] * p.jobs, fractions(q.steps_left)
    if policy == "ftf":
        fair, since = fractions(q.fair_s()), fractions(q.since_s)
        for part, reached in ((1 + 1e-6, True), (1 - 1e-6, False)):
            ratio = Fraction(found.objective * part)
            left = [ratio * f - t for f, t in zip(fair, since, strict=True)]
            late = min(left) <= 0
            demand = None if late else [r / s for r, s in zip(steps, left, strict=True)]
            assert (not late and exact.level(nothing, demand) >= 1) is reached
        return
    if policy.startswith("fairness"):
        value = exact.level(nothing, fractions(q.weight * equal_share_rates(p) / p.gang))
    elif policy == "makespan":
        value = 1 / exact.level(nothing, steps)
    elif policy == "max_throughput":
        value = exact.best(lambda gains, _kind: sum(gains.values()), nothing)
    else:
        floor = fractions(np.where(np.isfinite(q.slo_s), q.steps_left / q.slo_s, 0.0))
        for job in found.dropped:
            floor[job] = Fraction(0)
        slack = 1 - Fraction(1, 10**6) * bool(found.dropped)
        price = fractions(q.price)
        worth = lambda gains, kind: sum(gains.values()) / price[kind]  # noqa: E731
        value = exact.best(worth, [f * slack for f in floor])
    assert float(value) == pytest.approx(found.objective, rel=1e-6)


@pytest.mark.parametrize("policy", MODELS)
@pytest.mark.parametrize("spread", [1, 5, 10, 25])
def test_optimal_whatever_the_size_of_the_numbers(policy: str, spread: float) -> None:
    for seed in range(5):
        q = request(seed, spread, packed=seed % 2 == 1)
        found = shares_of(policy, q, SOLVE)
        own = q.problem.agnostic() if policy == "fairness-agnostic" else q.problem
        check_shares(own, found.x, found.pair_x if own.pairs.count else None)
        assert found.objective == measured(policy, q, found.x, found.pair_x)
        assert found.bound == pytest.approx(found.objective, rel=1e-6)
        require_optimal(policy, q, found)


def levels(q: ShareRequest, entities: Entities) -> np.ndarray:
    """Water filling by its definition, in fractions."""
    p = q.problem
    exact, unit = ExactShares(p), fractions(equal_share_rates(p) / p.gang)
    level, frozen = [Fraction(0)] * p.jobs, np.zeros(p.jobs, dtype=bool)
    while not frozen.all():
        rate = fractions(entities.rates(frozen))
        base = [a * u for a, u in zip(level, unit, strict=True)]
        gain = exact.level(base, [r * u for r, u in zip(rate, unit, strict=True)])
        level = [a + gain * r for a, r in zip(level, rate, strict=True)]
        base = [a * u for a, u in zip(level, unit, strict=True)]
        for job in np.flatnonzero([r > 0 for r in rate]):
            alone = [unit[job] if job == other else Fraction(0) for other in range(p.jobs)]
            frozen[job] = exact.level(base, alone) == 0
    return np.asarray([float(a) for a in level])


@pytest.mark.parametrize("policy", LEXICOGRAPHIC)
@pytest.mark.parametrize("spread", [1, 5, 9])
def test_water_filling_whatever_the_size_of_the_numbers(policy: str, spread: float) -> None:
    for seed in range(4):
        q = request(seed, spread)
        p = q.problem
        entities = Entities(np.arange(p.jobs), q.weight, np.ones(p.jobs))
        if policy != "water-filling":
            below = "fairness" if policy == "hierarchical" else "fifo"
            entities = Entities(q.entity, q.weight_of_entities(), q.weight, below)
        found = shares_of(policy, q, SOLVE)
        reached = p.rates(found.x) / (equal_share_rates(p) / p.gang)
        assert reached == pytest.approx(levels(q, entities), rel=5e-5, abs=5e-6)


@pytest.mark.parametrize("policy", MODELS)
def test_many_jobs_of_very_different_size_are_proven(policy: str) -> None:
    # Above the size from which most patterns are fixed; the proof is the bound's.
    q = request(1, 5, jobs=230)
    q = replace(q, slo_s=np.full(230, np.inf))
    found = shares_of(policy, q, SOLVE)
    assert found.bound == pytest.approx(found.objective, rel=1e-6)


@pytest.mark.parametrize("policy", MODELS)
def test_an_answer_that_is_not_proven_is_refused(policy: str) -> None:
    def lie(model):
        outcome = SOLVE(model)
        return outcome if outcome.x is None else replace(outcome, x=outcome.x * 0.999)

    with pytest.raises(ValueError, match=f"{policy}: the shares have the value"):
        shares_of(policy, replace(request(2, 0.5), slo_s=np.full(4, np.inf)), lie)


def instance(**fields):
    return {"worker_types": ["a"], "cluster": {"a": 4}} | fields


def answer(tmp_path, capsys, policy, content):
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(content))
    assert main([str(path), "--policy", policy]) == 0
    return json.loads(capsys.readouterr().out)


def test_weights_that_differ_by_1e10_by_hand(tmp_path, capsys) -> None:
    # 1 + 2 + 1 GPUs are all there: all run all the time, and the weight of 1e5 decides:
    # s thr / (w p) = 1 / 1e5, as p is the throughput on the only type.
    content = instance(
        throughputs=[[1.0], [1.0], [1.0]], scale_factors=[1, 2, 1], weights=[1e-5, 1.0, 1e5]
    )
    found = answer(tmp_path, capsys, "fairness", content)
    assert found["objective"] == pytest.approx(1e-5, rel=1e-6)
    assert found["bound"] == pytest.approx(1e-5, rel=1e-9)
    assert np.asarray(found["shares"]) == pytest.approx(np.ones((3, 1)), rel=1e-6)


def test_steps_that_differ_by_1e9_by_hand(tmp_path, capsys) -> None:
    # One GPU at 1 step/s: 1e9 + 1 steps take 1e9 + 1 s, whoever goes first.
    content = instance(cluster={"a": 1}, throughputs=[[1.0], [1.0]], num_steps_remaining=[1.0, 1e9])
    assert answer(tmp_path, capsys, "makespan", content)["objective"] == pytest.approx(1e9 + 1)
    # Fair: 2 s and 2e9 s. The ratio r is the same for both where 1/(2r) + 1/(2r) = 1: r = 1.
    assert answer(tmp_path, capsys, "ftf", content)["objective"] == pytest.approx(1.0)


def test_a_job_that_waited_long_and_is_almost_done(tmp_path, capsys) -> None:
    # Alone on its GPU: (1e9 + 1e-3 / 1) / (1e9 + 1e-3) = 1, and the other's (1 / 1) / (1 / 1).
    content = instance(
        throughputs=[[1.0], [1.0]],
        num_steps_remaining=[1e-3, 1.0],
        times_since_start=[1e9, 0.0],
        cumulative_isolated_time=[1e9, 0.0],
    )
    found = answer(tmp_path, capsys, "ftf", content)
    assert found["objective"] == pytest.approx(1.0, rel=1e-9)
    assert found["bound"] == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("weight", [1e308, 1e-308, 1e31])
def test_sizes_beyond_the_range_are_refused(weight, tmp_path, capsys) -> None:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance(throughputs=[[1.0]], weights=[weight])))
    assert main([str(path)]) == 2
    assert "weights[0]: must be 0 or of a size between 1e-30 and 1e+30" in capsys.readouterr().err


@pytest.mark.parametrize("policy", SHARE_POLICIES)
def test_gangs_larger_than_a_type_have_no_share_there(policy, tmp_path, capsys) -> None:
    content = {
        "worker_types": ["a", "b"], "cluster": {"a": 4, "b": 1},
        "throughputs": [[1.0, 9.0], [1.0, 2.0]], "scale_factors": [2, 1],
        "num_steps_remaining": [10, 10], "entities": ["x", "y"], "costs": {"a": 1, "b": 1},
    }  # fmt: skip
    found = answer(tmp_path, capsys, policy, content)
    assert found["shares"][0][1] == 0.0
    if policy == "isolated":
        # Half of every type: 2 of 4 GPUs for the gang of 2; 2/1 + 1/2, scaled down to 1.
        assert np.asarray(found["shares"]) == pytest.approx(np.array([[1.0, 0.0], [0.8, 0.2]]))
    path = tmp_path / "instance.json"
    assert main([str(path), "--policy", policy, "--oversize"]) == 0


def test_isolated_rates_match_hand_computation() -> None:
    p = ShareProblem(np.array([[1.0, 9.0]]), np.array([2]), np.array([4.0, 1.0]))
    assert isolated_rates(p).tolist() == [1.0]
