"""Jobs of workers in the engine: steps on mixed types, whole replays, bounds, refusals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from morph_opt.core.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    InputError,
    Job,
    Placement,
    PlanFamily,
    Trace,
)
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.strict.facts import RunLookup
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.events.log import Completed, Started
from morph_opt.simulation.metrics.bounds.demands import impossible_jobs, job_demands

SPEEDS = ElasticTable({"m": {"V100": "0.1", "P100": "0.3"}})
NODES = load_cluster("1x2:V100+2x2:P100")


def job(name: str, level: str = "d2", workers: int = 4, iterations: int = 1000) -> Job:
    plan = ExecutionPlan.ests(workers, level, "V100")
    return Job(name, "m", 0.0, iterations, workers, plan)


def test_a_step_is_as_long_as_the_turns_on_all_gpus_take() -> None:
    lookup = RunLookup(SPEEDS, NODES)

    def seconds(parts: dict[int, list[int]]) -> float:
        held = Assignment("a", job("a").requested_plan, Placement.of(parts))
        facts = lookup.facts("m", held)
        assert facts is not None
        return facts.iteration_s

    # Three turns of 0.1 s beside one of 0.3 s; wherever the second P100 is, two V100 alone take
    # two turns of 0.1 s; all six GPUs cannot be faster than a turn of 0.1 s on four of V100.
    assert seconds({0: [0], 1: [0]}) == pytest.approx(0.3)
    assert seconds({0: [0, 1]}) == pytest.approx(0.2)
    assert seconds({1: [0], 2: [1]}) == seconds({1: [0, 1]}) == pytest.approx(0.6)
    assert seconds({0: [0, 1], 1: [0, 1], 2: [0, 1]}) == pytest.approx(0.2)


def run(jobs: list[Job], objective: str, policy: str = "milp", nodes: Cluster = NODES) -> list:
    trace = Trace.of("t", jobs)
    engine = Engine(trace, nodes, SPEEDS, ReplayConfig(interval_s=60.0, restart_s=5.0))
    made = make_policy(policy, SPEEDS, PolicyOptions(objective=objective))
    events = []
    while (state := engine.advance()) is not None:
        engine.apply(made.decide(state))
    events += engine.take_events()
    return events


@pytest.mark.parametrize("objective", ["throughput", "jct", "lookahead", "makespan"])
def test_replays_use_all_types_and_complete(objective: str) -> None:
    jobs = [job("a"), job("b", "d1", 2), job("c", workers=8), job("d", "d0", 2, 300)]
    events = run(jobs, objective)
    done = {event.job for event in events if isinstance(event, Completed)}
    assert done == {"a", "b", "c", "d"}
    mixed = 0
    for event in events:
        if isinstance(event, Started):
            types = {NODES.nodes[node].type.gpu_type.name for node in event.placement.nodes}
            mixed += len(types) > 1
            if event.job in "bd":
                assert types == {"V100"}
            if event.job == "d":
                assert event.placement.gpus == 2
    assert mixed or objective != "throughput"


def test_rigid_policies_give_whole_gangs_of_the_type() -> None:
    events = run([job("a", workers=2), job("b", workers=2)], "auto", "fifo")
    starts = Counter(event.placement.nodes for event in events if isinstance(event, Started))
    assert starts == {(0,): 2}


def test_bounds_hold_for_any_numbers_of_gpus() -> None:
    """Whatever S(n) is, shares of the bound's entries do the work in no more time and GPUs."""
    draw = np.random.default_rng(4)
    nodes = load_cluster("1x3:V100+1x4:P100")
    one = job("a", workers=5, iterations=100)
    demands = job_demands(Trace.of("t", [one]), nodes, SPEEDS, ReplayConfig(restart_s=7.0))
    (known,) = demands.jobs
    lookup = RunLookup(SPEEDS, nodes)
    for _ in range(40):
        n = draw.integers(0, [4, 5])
        if not n.any():
            continue
        parts = {k: range(count) for k, count in enumerate(n.tolist()) if count}
        facts = lookup.facts("m", Assignment("a", one.requested_plan, Placement.of(parts)))
        assert facts is not None
        whole_s = 7.0 + 100 * facts.iteration_s
        assert known.floor_s <= whole_s + 1e-9
        turns = [facts.iteration_s / tau + 1e-9 for tau in (0.1, 0.3)]
        most = [int(t) * int(count) for t, count in zip(turns, n, strict=True)]
        share = np.asarray([min(most[0], 5), max(0, 5 - most[0])]) / 5
        work = share * known.gpus * known.duration_s
        assert (work <= n * whole_s + 1e-9).all()


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (job("a", "d0", 3), "need at least 3, cluster .* has room on 2 GPUs of its V100"),
        (Job("a", "m", 0.0, 1, 1, ExecutionPlan.ests(1, "d1", "T4")), "know no times .* on T4"),
    ],
)
def test_job_that_no_number_of_gpus_serves_is_refused_in_one_line(one: Job, rule: str) -> None:
    ((found, why),) = impossible_jobs([one], SPEEDS, NODES)
    assert found is one
    with pytest.raises(AssertionError, match=rule):
        raise AssertionError(why)


def test_fewer_gpus_than_workers_are_no_hindrance() -> None:
    assert impossible_jobs([job("a", workers=64), job("b", "d1", 64)], SPEEDS, NODES) == ()


def test_speed_of_a_gang_is_one_turn_on_each_type() -> None:
    gangs = GangSpeeds(SPEEDS)
    gangs.use(NODES)
    assert gangs.row(job("a", workers=64)).tolist() == pytest.approx([10.0, 1 / 0.3])
    assert gangs.row(job("a", "d1")).tolist() == pytest.approx([10.0, 0.0])


def test_workers_get_the_promised_speed() -> None:
    """0.1 s per worker on V100, of which there are 2; 0.3 s on P100."""
    gangs = GangSpeeds(SPEEDS)
    gangs.use(NODES)
    assert gangs.iteration_s(job("a", workers=2)) == pytest.approx(0.1)
    assert gangs.iteration_s(job("a", workers=8)) == pytest.approx(0.1 * 4)
    gangs.use(Cluster.uniform(1, NODES.node_types[1]))
    assert gangs.iteration_s(job("a", workers=4)) == pytest.approx(0.3 * 4)


@pytest.mark.parametrize("label", ["est16-d2-V100", "est1-d0-A800-80GB"])
def test_labels_are_read_back(label: str) -> None:
    plan = ExecutionPlan.parse(label)
    assert plan.family is PlanFamily.EST
    assert plan.label == label


@pytest.mark.parametrize(
    ("label", "rule"),
    [
        ("est16-d3-V100", "unknown determinism level 'd3'; known are d0, d1, d2"),
        ("est16-V100", "unknown plan"),
        ("est0-d1-V100", "unknown plan"),
        ("est5000-d1-V100", "at most 4096"),
        ("est", "unknown plan"),
    ],
)
def test_malformed_worker_labels_are_refused(label: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        ExecutionPlan.parse(label)


def test_more_gpus_than_workers_are_refused() -> None:
    with pytest.raises(InputError, match="requested_gpus: must be at most 4"):
        Job("a", "m", 0.0, 1, 5, ExecutionPlan.ests(4, "d1", "V100"))


def test_a_level_that_nobody_knows_is_told_with_its_place(tmp_path: Path) -> None:
    header = "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla,weight,"
    row = "a,100,gpt2,8,64,est8-d3-V100,900,0,1,t,-1"
    (tmp_path / "t.csv").write_text(f"{header}tenant,deadline\n{row}\n")
    with pytest.raises(InputError, match=r"line 2, exec_plan: unknown determinism level 'd3'"):
        load_trace(str(tmp_path / "t.csv"))
