"""Equal jobs are served by arrival, then name, whatever the order in which a state lists them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from morph_opt.core.domain import Cluster, ExecutionPlan, Job, JobState, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import BASELINES, OBJECTIVES, make_policy
from tests.policies.worlds import GPU, LINEAR, cluster, queued

ARRIVALS = {"d": 0.0, "b": 0.0, "a": 10.0, "c": 10.0, "e": 20.0}
IN_ORDER = ["b", "d", "a", "c", "e"]
TWO_NODES = cluster(2, 2).with_prices({GPU: 1.0})
WORKERS = ElasticTable({"m": {"V100": "0.1"}})


def gangs() -> list[JobState]:
    """Jobs that want 2 GPUs each and differ by arrival and name alone."""
    return [queued(name, 2, submission_s=at, time_limit_s=3_600.0) for name, at in ARRIVALS.items()]


def elastic() -> list[JobState]:
    """The same of workers that take turns."""
    plan = ExecutionPlan.ests(2, "d1", "V100")
    return [
        JobState(Job(name, "m", at, 100_000, 2, plan), restart_s=30.0)
        for name, at in ARRIVALS.items()
    ]


def decided(
    policy: str, objective: str, speeds: SpeedModel, nodes: Cluster, jobs: list[JobState]
) -> dict[str, int]:
    """GPUs that a fresh policy gives each job, at a boundary at which Gavel begins a round."""
    options = PolicyOptions(objective=objective)
    state = RoundState(6, 360.0, 60.0, nodes, tuple(jobs))
    held = make_policy(policy, speeds, options).decide(state).allocation.assignments
    found = {one.job: one.placement.gpus for one in held}
    return {name: found.get(name, 0) for name in IN_ORDER}


def everything(policy: str, objective: str) -> dict[str, int]:
    """The decision, which is the same in every order of input."""
    elastic_only = policy != "milp" and BASELINES[policy].workers == "only"
    world = (WORKERS, load_cluster("2x2:V100")) if elastic_only else (LINEAR, TWO_NODES)
    jobs = elastic() if elastic_only else gangs()
    found = decided(policy, objective, *world, jobs)
    for seed in range(4):
        shuffled = Random(seed).sample(jobs, len(jobs))
        assert decided(policy, objective, *world, shuffled) == found
    return found


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_objective_depends_on_the_order_of_input(objective: str) -> None:
    assert sum(everything("milp", objective).values()) == 4


@pytest.mark.parametrize("policy", BASELINES)
def test_no_earlier_job_is_passed_over_by_a_later_equal_one(policy: str) -> None:
    found = everything(policy, "auto")
    served = list(found.values())
    assert sum(served) == 4
    if BASELINES[policy].draws == "yes":
        return  # the genetic search may end anywhere of equal fitness
    assert served == sorted(served, reverse=True)


def test_a_state_lists_jobs_by_arrival_then_name() -> None:
    jobs = gangs()
    state = RoundState(0, 60.0, 60.0, TWO_NODES, tuple(reversed(jobs)))
    assert [known.job.name for known in state.jobs] == IN_ORDER
    assert [known.job.name for known in replace(state, jobs=tuple(jobs)).jobs] == IN_ORDER


@pytest.mark.parametrize("restart_s", [0.0, 30.0])
@pytest.mark.parametrize("policy", ["milp", "greedy:lookahead"])
def test_of_gangs_as_wide_as_the_class_the_one_with_least_work_left_runs(
    policy: str, restart_s: float
) -> None:
    """Each takes all GPUs, so that it saves as much as any other under `lookahead`."""
    gang, work_s = Gang(4, "m"), {"b": 6_000, "d": 3_000, "a": 600, "c": 1_200, "e": 9_000}
    jobs = [
        JobState(gang.job(name, 0.0, seconds), restart_s=restart_s)
        for name, seconds in work_s.items()
    ]
    options = PolicyOptions(objective="lookahead") if policy == "milp" else PolicyOptions()

    def first(jobs: list[JobState]) -> list[str]:
        state = RoundState(6, 360.0, 60.0, load_cluster("1x4:V100"), tuple(jobs))
        found = make_policy(policy, GangTable({gang}), options).decide(state)
        return [one.job for one in found.allocation.assignments]

    assert first(jobs) == ["a"]
    # All but 300 s of the longest are done.
    late = [
        replace(one, iterations_done=one.job.iterations * 8_700 / 9_000)
        if one.job.name == "e"
        else one
        for one in jobs
    ]
    assert first(late) == ["e"]
