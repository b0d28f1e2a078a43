"""The Gittins index in rounds: start-up is spent for nothing, and a quantum is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import Assignment, JobState, Placement, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.policies.tiresias.policy import RigidQueues
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex
from morph_opt.simulation.engine.config import ReplayConfig
from tests.policies.worlds import DP, LINEAR, cluster, job

INDEX = GittinsIndex.of([100.0, 1000.0, 4000.0], 500.0)


def held(gpus: int, *, since_s: float, attained: float, restart_s: float = 60.0) -> JobState:
    where = Assignment("a", DP, Placement.of({0: list(range(gpus))}))
    return JobState(
        job("a", gpus),
        running=where,
        restart_s=restart_s,
        last_start_s=since_s,
        starts=1,
        attained_gpu_s=attained,
        executed_s=attained / gpus,
        first_start_s=since_s,
    )


def test_start_up_counts_as_service_spent_for_nothing() -> None:
    # From 0: one of three within 500 at a mean of (100 + 500 + 500) / 3, and 2 x 60 of start-up.
    waiting = JobState(job("a", 2), restart_s=60.0)
    assert INDEX.of_job(waiting, 0.0, 0.0) == pytest.approx((1 / 3) / (1100 / 3 + 120))
    free = JobState(job("a", 2), restart_s=0.0)
    assert INDEX.of_job(free, 0.0, 0.0) == INDEX.exact(0.0)


def test_a_job_keeps_its_index_for_the_quantum_that_it_was_started_for() -> None:
    # 200 GPU-s in: at 200 the next sample is 800 away, so its own index would be 0.
    running = held(2, since_s=0.0, attained=200.0)
    assert INDEX.exact(200.0) == 0.0
    assert INDEX.of_job(running, 100.0, 200.0) == pytest.approx(INDEX.exact(0.0))
    used_up = held(2, since_s=0.0, attained=500.0)
    assert INDEX.of_job(used_up, 250.0, 500.0) == INDEX.exact(500.0)


def test_gittins_index_is_exact_with_free_starts() -> None:
    running = held(2, since_s=0.0, attained=200.0, restart_s=0.0)
    assert INDEX.of_job(running, 100.0, 200.0) == INDEX.exact(200.0)


def test_two_jobs_do_not_take_turns_faster_than_they_can_start() -> None:
    # With 260 s per start and 60 s rounds, taking turns at every round would never end.
    jobs = [replace(job(name), iterations=100, submission_s=0.0) for name in ("a", "b")]
    policy = RigidQueues(LINEAR, index=GittinsIndex.of(range(100, 5000, 7), 3250.0))
    config = ReplayConfig(interval_s=60.0, restart_s=260.0)
    summary = replay(Trace.of("two", jobs), cluster(1), policy, LINEAR, config).summary
    assert summary["completed"] == 2
    assert summary["restarts_per_job"] <= 1


def test_the_objective_orders_a_queue_by_the_same_index() -> None:
    options = PolicyOptions(objective="gittins-rigid", gap=0.0)
    config = ReplayConfig(interval_s=60.0, restart_s=260.0)
    jobs = [replace(job(name), iterations=100, submission_s=0.0) for name in ("a", "b")]
    policy = make_policy("milp", LINEAR, options)
    summary = replay(Trace.of("two", jobs), cluster(1), policy, LINEAR, config).summary
    assert summary["completed"] == 2
    assert summary["restarts_per_job"] <= 1
