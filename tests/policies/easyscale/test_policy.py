"""EasyScale's greedy in the engine: by hand on two types, growth only, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import (
    Cluster,
    ExecutionPlan,
    InputError,
    Job,
    PlanFamily,
    RoundState,
    Trace,
)
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.traces.twins.easyscale import easyscale_twin
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus

SPEEDS = ElasticTable({"m": {"V100": "0.1", "P100": "0.3"}})
TWO = load_cluster("1x4:V100+1x4:P100")


def job(name: str, level: str = "d2", workers: int = 4, submit_s: float = 0.0) -> Job:
    plan = ExecutionPlan.ests(workers, level, "V100")
    return Job(name, "m", submit_s, 100_000, workers, plan)


def counts(state: RoundState) -> dict[str, tuple[int, int]]:
    """GPUs of each type by job."""
    found = {}
    for known in state.jobs:
        n = [0, 0]
        if known.running is not None:
            for node, gpus in known.running.placement.parts:
                n[state.cluster.nodes[node].type.gpu_type.name == "P100"] += len(gpus)
        found[known.job.name] = (n[0], n[1])
    return found


def rounds(
    rule: str,
    jobs: list[Job],
    number: int,
    *,
    events: tuple[NodeEvent, ...] = (),
    cluster: Cluster = TWO,
) -> list[dict[str, tuple[int, int]]]:
    """What each job holds after each round."""
    trace = Trace.of("t", jobs)
    engine = Engine(trace, cluster, SPEEDS, ReplayConfig(restart_s=1.0), events)
    policy = make_policy(f"easyscale:{rule}", SPEEDS, PolicyOptions())
    found = []
    for _ in range(number + 1):
        state = engine.advance()
        assert state is not None
        found.append(counts(state))
        engine.apply(policy.decide(state))
    return found[1:]


def test_heter_grows_by_the_best_score() -> None:
    # One P100 first, 1.2 s a step. A V100 more takes three turns beside it, 0.3 s: four times as
    # fast; a P100 more halves it. Then a second V100: 0.2 s, and the P100 is not needed. Two more
    # make it 0.1 s, for two GPUs; three would take 0.2 s as two do.
    held = [one["a"] for one in rounds("heter", [job("a")], 4)]
    assert held == [(0, 1), (1, 1), (2, 0), (4, 0)]


def test_homo_and_level_d1_stay_on_their_type() -> None:
    # 0.4, 0.2 and 0.1 s: twice the GPUs each time.
    for rule, level in (("homo", "d2"), ("homo", "d1"), ("heter", "d1")):
        held = [one["a"] for one in rounds(rule, [job("a", level)], 3)]
        assert held == [(1, 0), (2, 0), (4, 0)]


def test_gpus_are_not_taken_back_for_later_jobs() -> None:
    jobs = [job("a"), job("b", "d1", submit_s=250.0)]
    held = rounds("homo", jobs, 7)
    assert held[-1] == {"a": (4, 0), "b": (0, 0)}


def test_gangs_in_order_of_arrival() -> None:
    jobs = [job("a", workers=2), job("b", workers=2), job("c", workers=2)]
    fair = rounds("yarn-cs", jobs, 2)
    assert fair[-1] == {"a": (2, 0), "b": (2, 0), "c": (0, 0)}


def test_a_drained_node_keeps_what_is_there_and_gets_no_more() -> None:
    drain = NodeEvent(65.0, 0, NodeStatus.DRAINED)
    held = [one["a"] for one in rounds("homo", [job("a", "d1")], 4, events=(drain,))]
    assert held == [(1, 0)] * 4


@pytest.mark.parametrize("level", ["d0", "dp"])
def test_other_jobs_are_refused(level: str) -> None:
    plan = ExecutionPlan(PlanFamily.DP) if level == "dp" else ExecutionPlan.ests(2, "d0", "V100")
    with pytest.raises(InputError, match="must have workers on any number of GPUs"):
        rounds("heter", [Job("a", "m", 0.0, 10, 2, plan)], 1)


@pytest.mark.parametrize(
    "policy", ["milp throughput", "milp jct", "easyscale:homo", "easyscale:heter"]
)
def test_no_policy_beats_a_bound(policy: str) -> None:
    whole, speeds = easyscale_twin(3)
    jobs = [replace(job, submission_s=0.1 * job.submission_s) for job in whole.jobs[:8]]
    name, _, objective = policy.partition(" ")
    options = PolicyOptions(objective=objective or "auto")
    options = replace(options, waste_filter=0.05) if objective else options
    decider = make_policy(name, speeds, options)
    nodes = load_cluster("2x8:V100+1x8:P100+1x8:T4")
    summary = replay(
        Trace.of("t", jobs), nodes, decider, speeds, ReplayConfig(restart_s=9.0)
    ).summary
    assert summary["completed"] == len(jobs)
    for figure in ("avg_jct", "makespan"):
        assert 0.0 < summary[f"{figure}_lower_bound_s"] <= summary[f"{figure}_s"] * (1.0 + 1e-9)


def test_names_are_those_of_the_command_line() -> None:
    for rule in ("yarn-cs", "homo", "heter"):
        assert make_policy(f"easyscale:{rule}", SPEEDS, PolicyOptions()).name == f"easyscale:{rule}"
