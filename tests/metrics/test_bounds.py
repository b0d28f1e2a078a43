"""Lower bounds: never above what a schedule reaches, equal where one can reach them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morph_opt.core.domain import Allocation, Cluster, InputError, SideDemand, Span, Trace
from morph_opt.inputs.clusters import load_cluster
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES, PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.engine.node_events import random_failures
from morph_opt.simulation.events.log import Begun, Completed
from morph_opt.simulation.metrics.bounds import completion as lower
from morph_opt.simulation.metrics.bounds.completion import JobDemand, completion_jct_s
from morph_opt.simulation.metrics.bounds.deadline import deadline_makespan_s
from morph_opt.simulation.metrics.bounds.demands import (
    job_demands,
    reachable_spans,
    speed_curve,
    why_impossible,
)
from morph_opt.simulation.metrics.bounds.lower import (
    Demands,
    avg_jct_lower_bound,
    floor_jct_s,
    floor_makespan_s,
    fluid_schedule,
    makespan_lower_bound,
    srpt_finish_s,
    srpt_jct_s,
    weighted_jct_lower_bound,
    work_makespan_s,
)
from tests.engine.toys import Fifo, Scripted, Shuffler, ToySpeeds, cluster, hold, job, random_trace
from tests.metrics.logs import read_history


def demand(name: str, release_s: float, *ways: tuple[float, float], at: float = 0.0) -> JobDemand:
    gpus, duration_s = np.array([w[0] for w in ways]), np.array([w[1] for w in ways])
    return JobDemand(name, at, release_s, gpus, duration_s, np.zeros(len(ways), dtype=np.int64))


def completion(demands: Sequence[JobDemand], gpus: int) -> float:
    return completion_of(Demands(tuple(demands), (gpus,)))


def completion_of(workload: Demands) -> float:
    value_s = completion_jct_s(workload.jobs, workload.gpus, *fluid_schedule(workload))
    assert value_s is not None
    return value_s


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("restart_s", [0.0, 90.0])
def test_no_replay_beats_a_bound(seed: int, restart_s: float) -> None:
    trace = random_trace(seed, 14, span_s=900)
    nodes = cluster(1 + seed % 2, 4)
    config = ReplayConfig(restart_s=restart_s, lost_work_s=float(seed % 3))
    policy = Fifo() if seed % 4 == 0 else Shuffler(seed, keep=0.5 + 0.05 * (seed % 10))
    failures = random_failures(nodes, mtbf_s=5000.0, mttr_s=100.0, seed=seed)
    events = failures if seed % 3 == 0 else ()
    result = replay(trace, nodes, policy, ToySpeeds(), config, node_events=events)
    workload = job_demands(trace, nodes, ToySpeeds(), config)
    demands = workload.jobs
    avg_jct_s = float(result.summary["avg_jct_s"] or 0.0)
    makespan_s = float(result.summary["makespan_s"] or 0.0)
    for value_s in (
        floor_jct_s(demands),
        srpt_jct_s(demands, nodes.gpus),
        completion(demands, nodes.gpus),
    ):
        assert value_s <= avg_jct_s * (1.0 + 1e-9)
    for value_s in (
        floor_makespan_s(demands),
        work_makespan_s(demands, nodes.gpus),
        deadline_makespan_s(demands, workload.gpus),
    ):
        assert value_s <= makespan_s * (1.0 + 1e-9)
    assert result.summary["avg_jct_lower_bound_s"] == avg_jct_lower_bound(workload).value_s


FOR_ANY_JOBS = {name for name, spec in POLICIES.items() if spec.workers != "only"}


@pytest.mark.parametrize(
    "policy", [*sorted(FOR_ANY_JOBS - {"milp"}), *(f"milp {o}" for o in sorted(OBJECTIVES))]
)
def test_no_policy_beats_a_bound(policy: str) -> None:
    """Weights and promises included; two GPU types, of which one is slow, where that is known."""
    speeds = SlowType(counts=(1, 2, 4))
    jobs = [replace(j, weight=1.0 + i % 3, guaranteed=i == 2, tenant="ab"[i % 2])
            for i, j in enumerate(random_trace(5, 6, span_s=600).jobs)]  # fmt: skip
    jobs = [replace(j, requested_gpus=min(2, j.requested_gpus)) for j in jobs]
    if policy in POLICIES and POLICIES[policy].limits:
        jobs = [replace(j, time_limit_s=1e6) for j in jobs]
    jobs = jobs[:3] if policy == "pollux" else jobs  # its search takes seconds a round
    trace = Trace.of("zoo", jobs)
    alike = policy.startswith("pollux")
    nodes = load_cluster("2x4:V100" if alike else "1x4:V100+1x4:K80")
    nodes = nodes.with_prices({"V100": 2.0} if alike else {"V100": 2.0, "K80": 1.0})
    name, _, objective = policy.partition(" ")
    options = PolicyOptions(objective=objective or "auto")
    decider = make_policy(name, speeds, options)
    config = ReplayConfig(interval_s=120.0, restart_s=20.0)
    summary = replay(trace, nodes, decider, speeds, config).summary
    assert summary["completed"] == len(jobs)
    for figure in ("avg_jct", "weighted_avg_jct", "makespan"):
        bound_s, reached_s = summary[f"{figure}_lower_bound_s"], summary[f"{figure}_s"]
        assert isinstance(bound_s, float)
        assert isinstance(reached_s, float)
        assert 0.0 < bound_s <= reached_s * (1.0 + 1e-9), figure


class SlowType(ToySpeeds):
    """On a K80 everything takes three times as long."""

    def iteration_s(self, model, node_type, shape, plan, span):  # type: ignore[no-untyped-def]
        alone = super().iteration_s(model, node_type, shape, plan, span)
        return alone if alone is None or node_type.gpu_type.name == "V100" else 3.0 * alone


# --- all schedules of tiny instances -----------------------------------------------------------


WAYS = (
    ("0", "1"),
    ("01", ""),
    ("", "01"),
    ("0", ""),
    ("", "1"),
    ("", ""),
)
"""All ways to share a node with two GPUs between two jobs, up to the names of the GPUs."""


Measure = Callable[[Sequence[float]], float]
"""Of the completions of the two jobs, in their order; falls with none of them."""


def best_possible(
    trace: Trace, nodes: Cluster, speeds: ToySpeeds, config: ReplayConfig, measure: Measure
) -> float:
    """Smallest measure of any schedule of two jobs, by trying them all.

    A branch is cut when even the fastest iterations without start-up come too late.
    """
    best_s, pace_s = float("inf"), speed_curve(speeds, "m", nodes)[1].min()
    names = [j.name for j in trace.jobs]

    def explore(script: list[Decision]) -> None:
        nonlocal best_s
        engine = Engine(trace, nodes, speeds, config)
        state = engine.advance()
        for decision in script:
            engine.apply(decision)
            state = engine.advance()
        if state is None:
            begun = Begun(0.0, trace.name, "", "all", 2, 1, 2, config.interval_s, "")
            history = read_history([begun, *engine.take_events()], trace)
            if all(record.finish_s is not None for record in history.jobs):
                best_s = min(best_s, measure([r.finish_s or 0.0 for r in history.jobs]))
            return
        finished_s = {e.job: e.time_s for e in engine.take_events() if isinstance(e, Completed)}
        left_s = {
            s.job.name: state.time_s
            + s.iterations_left * pace_s
            + (s.restart_left_s if s.running else s.restart_s)
            for s in state.jobs
        }
        ends_s = left_s | finished_s
        if measure([ends_s.get(j.name, j.submission_s) for j in trace.jobs]) >= best_s:
            return
        for gpus in WAYS:
            given_gpus = {n: g for n, g in zip(names, gpus, strict=True) if g}
            if set(given_gpus) <= set(left_s):
                held = tuple(hold(n, {0: list(map(int, g))}) for n, g in given_gpus.items())
                explore([*script, Decision(Allocation(held))])

    explore([])
    return best_s


class Uneven(ToySpeeds):
    """Two GPUs are only a quarter faster than one."""

    def iteration_s(self, model, node_type, shape, plan, span):  # type: ignore[no-untyped-def]
        alone = super().iteration_s(model, node_type, shape, plan, Span.NODE)
        return None if alone is None else alone * (1.0 if shape.gpus == 1 else 1.6)


@pytest.mark.parametrize("restart_s", [0.0, 15.0])
@pytest.mark.parametrize(
    "jobs",
    [[(0.0, 6), (0.0, 6)], [(0.0, 8), (30.0, 4)], [(0.0, 5), (70.0, 7)]],
)
@pytest.mark.parametrize("kind", [ToySpeeds, Uneven])
def test_no_schedule_at_all_beats_a_bound(
    kind: type[ToySpeeds], jobs: list[tuple[float, int]], restart_s: float
) -> None:
    trace = Trace.of("tiny", [job(f"j{i}", at, n) for i, (at, n) in enumerate(jobs)])
    nodes, speeds = cluster(1, 2), kind({"m": 10.0}, counts=(1, 2))
    config = ReplayConfig(restart_s=restart_s, stall_rounds=3)
    at = [j.submission_s for j in trace.jobs]
    weights = [1.0, 5.0]

    def optimum_s(measure: Measure) -> float:
        return best_possible(trace, nodes, speeds, config, measure)

    workload = job_demands(trace, nodes, speeds, config)
    demands = workload.jobs
    bounds = [floor_jct_s(demands), srpt_jct_s(demands, 2), completion(demands, 2)]
    best_s = optimum_s(lambda ends: float(np.mean(np.subtract(ends, at))))
    assert max(bounds) <= best_s * (1.0 + 1e-9)
    assert max(bounds) >= 0.6 * best_s  # and they are worth something
    uneven = tuple(replace(d, weight=w) for d, w in zip(demands, weights, strict=True))
    weighted_s = weighted_jct_lower_bound(replace(workload, jobs=uneven)).value_s
    best_s = optimum_s(lambda ends: float(np.average(np.subtract(ends, at), weights=weights)))
    assert 0.6 * best_s <= weighted_s <= best_s * (1.0 + 1e-9)
    best_s = optimum_s(max) - min(at)
    assert 0.6 * best_s <= deadline_makespan_s(demands, (2,)) <= best_s * (1.0 + 1e-9)


# --- reached -----------------------------------------------------------------------------------


def test_floor_is_reached_by_a_job_alone_at_its_best() -> None:
    trace = Trace.of("one", [job("a", 7.0, 33)])
    config = ReplayConfig(restart_s=20.0)
    policy = Scripted({0: [hold("a", {0: [0, 1, 2, 3]})]})
    result = replay(trace, cluster(1, 4), policy, ToySpeeds(), config)
    s = result.summary
    assert s["avg_jct_s"] == s["makespan_s"] == 60.0 - 7.0 + 20.0 + 33 * 2.0
    assert s["avg_jct_lower_bound_s"] == s["avg_jct_s"]
    assert s["makespan_lower_bound_s"] == s["makespan_s"]


def test_srpt_and_work_are_reached_on_one_gpu_in_whole_rounds() -> None:
    trace = Trace.of("three", [job("a", 0.0, 3), job("b", 0.0, 1), job("c", 0.0, 2)])
    order = [[hold("b", {0: [0]})], *[[hold("c", {0: [0]})]] * 2, *[[hold("a", {0: [0]})]] * 3]
    policy = Scripted(dict(enumerate(order)))
    speeds = ToySpeeds({"m": 60.0}, counts=(1,))
    result = replay(trace, cluster(1, 1), policy, speeds, ReplayConfig(restart_s=0.0))
    s = result.summary
    assert s["avg_jct_s"] == (120.0 + 240.0 + 420.0) / 3
    assert s["avg_jct_lower_bound_s"] == s["avg_jct_s"]
    assert s["avg_jct_lower_bound_by"] == "srpt"
    assert s["makespan_lower_bound_s"] == s["makespan_s"] == 420.0
    assert s["makespan_lower_bound_by"] == "work"


# --- the formulas, on numbers worked out by hand -------------------------------------------------


def test_floor_and_srpt_by_hand() -> None:
    demands = [
        demand("long", 60.0, (1, 100.0), (4, 50.0)),  # work 100 GPU-s
        demand("short", 80.0, (2, 20.0), at=70.0),  # work 40 GPU-s
    ]
    assert floor_jct_s(demands) == ((60 + 50) + (10 + 20)) / 2
    # on 2 GPUs the fluid machine needs 50 s and 20 s: 60-80 long, 80-100 short, 100-130 long
    assert srpt_finish_s(demands, 2) == [130.0, 100.0]
    assert srpt_jct_s(demands, 2) == (130.0 + 30.0) / 2
    assert floor_makespan_s(demands) == 110.0
    assert work_makespan_s(demands, 2) == 60.0 + 140.0 / 2


def test_work_bound_sees_a_late_burst() -> None:
    early, late = demand("e", 60.0, (1, 10.0)), demand("l", 1000.0, (1, 500.0))
    assert work_makespan_s([early, late], 1) == 1500.0


def test_completion_equals_the_floor_without_contention() -> None:
    demands = [demand(f"j{i}", 60.0 * (1 + i), (1, 300.0), (2, 200.0)) for i in range(5)]
    assert completion(demands, 100) == pytest.approx(floor_jct_s(demands), rel=1e-3)


def test_completion_sees_queues() -> None:
    """Two equal jobs on one GPU: one after the other, (D + 2 D) / 2."""
    demands = [demand("a", 0.0, (1, 100.0)), demand("b", 0.0, (1, 100.0))]
    assert 0.99 * 150.0 < completion(demands, 1) <= 150.0


def test_deadline_charges_what_a_late_end_asks_for() -> None:
    """One GPU-second costs 1, four GPUs. Two jobs take 100 s on 1 GPU, 50 s on 4, from 0.

    A job that runs y of its T seconds on four GPUs, the rest on one, is complete when
    1 = (T - y) / 100 + y / 50, so y = 100 - T, and holds T + 3 y = 300 - 2 T GPU-seconds. Both hold
    600 - 4 T, and there are 4 T: T = 75.
    """
    two = [demand(name, 0.0, (1.0, 100.0), (4.0, 50.0)) for name in "ab"]
    assert deadline_makespan_s(two, (4,)) == pytest.approx(75.0)
    assert work_makespan_s(two, 4) == 50.0
    assert floor_makespan_s(two) == 50.0


def test_deadline_knows_that_slow_types_are_slow() -> None:
    """A job takes 10 s on the fast GPU, 40 s on the slow one: eight take T (1/10 + 1/40) = 8, 64 s.

    In GPU-seconds alone, 8 x 10 / 2 = 40 s would be enough.
    """
    gpus, seconds = np.array([1.0, 1.0]), np.array([10.0, 40.0])
    jobs = [JobDemand(str(i), 0.0, 0.0, gpus, seconds, np.array([0, 1])) for i in range(8)]
    assert deadline_makespan_s(jobs, (1, 1)) == pytest.approx(64.0, rel=1e-3)
    assert deadline_makespan_s(jobs, (1, 1)) <= 64.0
    assert work_makespan_s(jobs, 2) == 40.0


def test_deadline_sees_a_late_burst() -> None:
    """Ten seconds of a GPU at 0 and five such jobs at 100: work after 100 is 50 s."""
    jobs = [demand("a", 0.0, (1.0, 10.0))] + [demand(str(i), 100.0, (1.0, 10.0)) for i in range(5)]
    assert deadline_makespan_s(jobs, (1,)) == pytest.approx(150.0)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_deadline_is_never_above_a_list_schedule(data: st.DataObject) -> None:
    """Random jobs of two types, each at its first way, one after the other on the whole type."""
    count = data.draw(st.integers(1, 6))
    number = st.floats(1.0, 50.0)
    ends_s, jobs = [0.0, 0.0], []
    for i in range(count):
        at = data.draw(st.floats(0.0, 60.0))
        kinds = np.array([0, 0, 1, 1])
        gpus = np.array([1.0, 2.0, 1.0, 4.0])
        seconds = np.array([data.draw(number) for _ in kinds])
        jobs.append(JobDemand(str(i), at, at, gpus, seconds, kinds))
        way = data.draw(st.integers(0, 3))
        kind = int(kinds[way])
        ends_s[kind] = max(ends_s[kind], at) + seconds[way]
    first_s = min(job.submission_s for job in jobs)
    assert deadline_makespan_s(jobs, (2, 4)) <= (max(ends_s) - first_s) * (1.0 + 1e-9)


def test_weights_of_one_size_are_no_weights() -> None:
    """Scaling all of them changes nothing, and the heavy job counts for its weight."""
    jobs = [demand(str(i), 0.0, (1.0, 10.0 + i)) for i in range(4)]
    plain = completion(jobs, 1)
    for weight in (1e-3, 1.0, 1e3):
        same = tuple(replace(job, weight=weight) for job in jobs)
        assert completion(same, 1) == pytest.approx(plain, rel=1e-6)
    heavy = (jobs[0], jobs[1], jobs[2], replace(jobs[3], weight=1e4))
    # It goes first, 13 s; the others cost next to nothing.
    assert completion(heavy, 1) == pytest.approx(13.0, rel=0.02)


def test_completion_sees_the_queue_of_each_gpu_type() -> None:
    """Both jobs need the one GPU of type 0; three idle ones of type 1 are of no use to them."""
    demands = [
        JobDemand(name, 0.0, 0.0, np.array([1.0]), np.array([100.0]), np.array([0]))
        for name in "ab"
    ]
    assert 0.99 * 150.0 < completion_of(Demands(tuple(demands), (1, 3))) <= 150.0
    assert completion_of(Demands(tuple(demands), (4,))) <= 100.0


def test_completion_takes_the_slower_type_rather_than_wait() -> None:
    """One fast GPU (100 s) and one slow one (150 s): 100 and 150, not 100 and 200."""
    ways = np.array([1.0, 1.0]), np.array([100.0, 150.0]), np.array([0, 1])
    demands = [JobDemand(name, 0.0, 0.0, *ways) for name in "ab"]
    # 1/100 + 1/150 jobs a second, so that the relaxation may end them after 60 to 100 and 120 s.
    assert 105.0 < completion_of(Demands(tuple(demands), (1, 1))) <= 125.0


def test_completion_beats_both_where_speed_up_is_poor() -> None:
    """Three jobs on two GPUs, 100 s on one GPU or 80 s on two."""
    demands = [demand(f"j{i}", 0.0, (1, 100.0), (2, 80.0)) for i in range(3)]
    assert completion(demands, 2) > 1.1 * max(floor_jct_s(demands), srpt_jct_s(demands, 2))


@settings(max_examples=25)
@given(st.data())
def test_completion_is_never_above_a_schedule_of_equal_rigid_jobs(data: st.DataObject) -> None:
    """n equal one-GPU jobs on g GPUs, all at once: in batches of g is the best there is."""
    jobs, gpus = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    duration_s = data.draw(st.floats(1.0, 1000.0))
    demands = [demand(f"j{i}", 10.0, (1, duration_s)) for i in range(jobs)]
    best_s = 10.0 + duration_s * sum(1 + i // gpus for i in range(jobs)) / jobs
    assert completion(demands, gpus) <= best_s * (1.0 + 1e-9)
    assert srpt_jct_s(demands, gpus) <= best_s * (1.0 + 1e-9)


def test_too_many_jobs_go_without_the_expensive_bound() -> None:
    demands = [demand("a", 0.0, (1, 1.0))] * 5001
    assert completion_jct_s(demands, [1], [0.0] * 5001, [0] * 5001) is None
    workload = Demands(tuple(demands), (1,))
    assert avg_jct_lower_bound(workload).relaxation == "srpt"
    assert makespan_lower_bound(workload).value_s == 5001.0


@pytest.mark.parametrize(
    ("gpus", "duration_s", "kind", "release_s"),
    [
        ([], [], [], 1.0),
        ([1.0], [1.0, 2.0], [0], 1.0),
        ([1.0], [1.0], [0, 0], 1.0),
        ([0.0], [1.0], [0], 1.0),
        ([1.0], [-1.0], [0], 1.0),
        ([1.0], [1.0], [0], -1.0),
    ],
)
def test_bad_demands(
    gpus: list[float], duration_s: list[float], kind: list[int], release_s: float
) -> None:
    with pytest.raises(InputError, match="a"):
        JobDemand("a", 0.0, release_s, np.array(gpus), np.array(duration_s), np.array(kind))


# --- demands -------------------------------------------------------------------------------------


def test_speed_curve_is_the_fastest_of_what_fits() -> None:
    gpus, iteration_s = speed_curve(ToySpeeds(), "m", cluster(2, 4))
    assert gpus.tolist() == [1, 2, 4, 8]
    assert iteration_s.tolist() == [8.0, 4.0, 2.0, 1.5]  # eight GPUs are on two nodes
    gpus, _ = speed_curve(ToySpeeds(), "m", cluster(1, 4))
    assert gpus.tolist() == [1, 2, 4]


def test_speed_curve_minds_cpu_threads() -> None:
    gpus, iteration_s = speed_curve(ToySpeeds(), "m", cluster(2, 4, cpus=10), SideDemand(cpus=5))
    assert gpus.tolist() == [1, 2, 4]  # at most two GPUs per node
    assert iteration_s.tolist() == [8.0, 4.0, 3.0]


def test_spans() -> None:
    assert reachable_spans(cluster(1, 4)) == (Span.LEAF,)
    assert reachable_spans(cluster(3, 4)) == (Span.LEAF,)


def test_why_impossible() -> None:
    nodes = cluster(2, 2)
    assert why_impossible(job("a", 0.0, 1, 4), ToySpeeds(), nodes) is None
    assert "requests 8 GPUs" in (why_impossible(job("a", 0.0, 1, 8), ToySpeeds(), nodes) or "")
    unknown = why_impossible(job("a", model="x"), ToySpeeds(), nodes)
    assert unknown == "unknown model 'x'; known are m"
    greedy = why_impossible(job("a", cpus_per_gpu=97), ToySpeeds(), nodes)
    assert greedy == "no configuration of m fits cluster '2x2 A800-80GB'"


def test_the_expensive_bound_is_computed_once_for_what_it_depends_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names and identity of values do not matter; every number does."""
    computed: list[object] = []
    original = lower._computed

    def counted(*told: Any) -> float:
        computed.append(told)
        return original(*told)

    monkeypatch.setattr(lower, "_computed", counted)
    monkeypatch.setattr(lower, "_found", {})

    def bound(gpus: int = 4, **changes: Any) -> float:
        one = demand("a", 60.0, (1.0, 90.0), (2.0, 50.0), at=1.0)
        jobs = (one, replace(one, job="b", **changes))
        return avg_jct_lower_bound(Demands(jobs, (gpus,))).value_s

    first = bound()
    assert bound() == first
    assert len(computed) == 1
    others: list[dict[str, Any]] = [
        {"gpus": 3}, {"submission_s": 2.0}, {"release_s": 61.0},
        {"duration_s": np.array([90.0, 51.0])},
    ]  # fmt: skip
    for number, changes in enumerate(others, start=2):
        bound(**changes)
        bound(**changes)
        assert len(computed) == number, changes
