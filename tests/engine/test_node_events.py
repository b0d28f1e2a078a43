"""Failures, drains and returns."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError, RoundState, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.strict.rules import AllocationError
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import (
    NodeEvent,
    merged,
    random_failures,
    read_node_events,
)
from morph_opt.simulation.events.log import NodeChanged, NodeStatus, Preempted, Started, StopCause
from tests.engine.toys import Fifo, Scripted, Shuffler, ToySpeeds, cluster, hold, job, random_trace

ONE_SECOND = ToySpeeds({"m": 1.0}, counts=(1, 2, 4))
FAIL, DRAIN, BACK = NodeStatus.FAILED, NodeStatus.DRAINED, NodeStatus.UP


def test_failure_stops_at_once_and_costs_work_since_the_checkpoint() -> None:
    trace = Trace.of("one", [job("a", 0.0, 300)])
    config = ReplayConfig(restart_s=20.0, checkpoint_s=50.0)
    events = [NodeEvent(207.5, 0, FAIL)]
    result = replay(trace, cluster(2, 1), Fifo(), ONE_SECOND, config, node_events=events)
    # started at 60, progress from 80; at 207.5 it has 127.5 iterations, 100 of them saved
    stop = next(e for e in result.events if isinstance(e, Preempted))
    assert stop == Preempted(207.5, "a", StopCause.NODE_FAILURE, 100.0, 27.5)
    again = [e for e in result.events if isinstance(e, Started)][1]
    assert (again.time_s, again.placement.nodes, again.iterations_done) == (240.0, (1,), 100.0)
    record = result.history.jobs[0]
    assert record.finish_s == 240.0 + 20.0 + 200.0
    assert record.gpu_s == (207.5 - 60.0) + 220.0
    assert (record.node_failures, record.preemptions, record.restarts) == (1, 0, 1)
    assert result.summary["preemptions"] == 1
    assert result.summary["node_failure_stops"] == 1


@pytest.mark.parametrize(("checkpoint_s", "kept"), [(0.0, 127.5), (1000.0, 0.0), (127.5, 127.5)])
def test_checkpoint_interval(checkpoint_s: float, kept: float) -> None:
    trace = Trace.of("one", [job("a", 0.0, 300)])
    config = ReplayConfig(restart_s=20.0, checkpoint_s=checkpoint_s)
    events = [NodeEvent(207.5, 0, FAIL)]
    result = replay(trace, cluster(2, 1), Fifo(), ONE_SECOND, config, node_events=events)
    stop = next(e for e in result.events if isinstance(e, Preempted))
    assert stop.iterations_done == kept


def test_completion_wins_over_a_failure_at_the_same_instant() -> None:
    trace = Trace.of("one", [job("a", 0.0, 40)])
    config = ReplayConfig(restart_s=20.0)
    events = [NodeEvent(120.0, 0, FAIL)]
    result = replay(trace, cluster(1, 1), Fifo(), ONE_SECOND, config, node_events=events)
    assert result.history.jobs[0].finish_s == 120.0
    assert result.history.jobs[0].node_failures == 0


def test_drained_node_keeps_its_job_but_takes_no_other() -> None:
    trace = Trace.of("two", [job("a", 0.0, 200), job("b", 100.0, 10)])
    config = ReplayConfig(restart_s=0.0)
    events = [NodeEvent(90.0, 0, DRAIN), NodeEvent(300.0, 0, BACK)]
    result = replay(trace, cluster(1, 2), Fifo(), ONE_SECOND, config, node_events=events)
    a, b = result.history.jobs
    assert a.finish_s == 260.0  # undisturbed
    assert b.starting_s == 300.0  # first boundary with the node back


def test_moving_within_a_drained_node_is_a_violation() -> None:
    trace = Trace.of("one", [job("a", 0.0, 500)])
    policy = Scripted({0: [hold("a", {0: [0]})], 1: [hold("a", {0: [1]})]})
    events = [NodeEvent(90.0, 0, DRAIN)]
    with pytest.raises(AllocationError, match=r"round 1 at 120 s: node_available: node node-0"):
        replay(trace, cluster(1, 2), policy, ONE_SECOND, ReplayConfig(), node_events=events)


def test_a_job_on_two_nodes_stops_when_one_fails_and_the_other_is_free_again() -> None:
    trace = Trace.of("two", [job("a", 0.0, 500), job("b", 61.0, 10)])
    policy = Scripted({0: [hold("a", {0: [0], 1: [0]})], 1: [hold("b", {1: [0]})]})
    events = [NodeEvent(70.0, 0, FAIL)]
    result = replay(
        trace,
        cluster(2, 1),
        policy,
        ONE_SECOND,
        ReplayConfig(restart_s=0.0, until_s=240.0),
        node_events=events,
    )
    a, b = result.history.jobs
    assert a.segments[0].held_s == 10.0
    assert (b.starting_s, b.finish_s) == (120.0, 130.0)
    assert policy.seen[1].failed == frozenset({0})
    assert policy.seen[1].jobs[0].running is None


def test_failure_and_return_inside_one_round() -> None:
    trace = Trace.of("one", [job("a", 0.0, 100)])
    events = [NodeEvent(70.0, 0, FAIL), NodeEvent(80.0, 0, BACK)]
    config = ReplayConfig(restart_s=0.0, checkpoint_s=0.0)
    result = replay(trace, cluster(1, 1), Fifo(), ONE_SECOND, config, node_events=events)
    assert result.history.jobs[0].finish_s == 120.0 + 90.0


@pytest.mark.parametrize("seed", range(5))
def test_random_failures_lose_no_job_and_break_no_rule(seed: int) -> None:
    trace = random_trace(seed, 15)
    nodes = cluster(3, 4)
    events = random_failures(nodes, mtbf_s=3000.0, mttr_s=600.0, seed=seed)
    config = ReplayConfig(restart_s=30.0, checkpoint_s=120.0)
    result = replay(trace, nodes, Shuffler(seed), ToySpeeds(), config, node_events=events)
    assert result.summary["completed"] == 15
    assert result.summary["rounds_over_capacity"] == 0
    assert any(isinstance(e, NodeChanged) for e in result.events)
    for record in result.history.jobs:
        kept = [b.iterations_from for b in record.segments[1:]] + [float(record.job.iterations)]
        for segment, after in zip(record.segments, kept, strict=True):
            done = segment.iterations_from + segment.iterations
            assert segment.iterations_from - 1e-9 <= after <= done + 1e-6


class Rebuilding(Shuffler):
    """A shuffler that makes every state anew, with its checks."""

    def decide(self, state: RoundState) -> Decision:
        again = replace(state, jobs=tuple(replace(known) for known in reversed(state.jobs)))
        assert again == state
        for known in state.jobs:
            waited_s = state.time_s - known.job.submission_s - known.executed_s
            assert known.queued_s == pytest.approx(waited_s)
        return super().decide(state)


@pytest.mark.parametrize("seed", range(3))
def test_states_of_the_engine_pass_their_checks(seed: int) -> None:
    trace, nodes = random_trace(seed, 15, span_s=300), cluster(3, 4)
    events = random_failures(nodes, mtbf_s=3000.0, mttr_s=600.0, seed=seed)
    prices = ReplayConfig(restart_s=30.0, resume_s=10.0, migrate_s=20.0)
    replay(trace, nodes, Rebuilding(seed), ToySpeeds(), prices, node_events=events)


def test_random_failures_are_seeded_sorted_and_alternate() -> None:
    nodes = cluster(4, 1)

    def first(seed: int) -> list[NodeEvent]:
        return list(islice(random_failures(nodes, mtbf_s=100.0, mttr_s=10.0, seed=seed), 400))

    assert first(1) == first(1)
    assert first(1) != first(2)
    times = [e.time_s for e in first(1)]
    assert times == sorted(times)
    for node in range(4):
        mine = [e.status for e in first(1) if e.node == node]
        assert mine == [FAIL, BACK] * (len(mine) // 2) + [FAIL] * (len(mine) % 2)
    fails = [e for e in first(1) if e.status is FAIL]
    assert times[-1] * 4 / len(fails) == pytest.approx(110.0, rel=0.2)  # MTBF + MTTR


def test_merged_streams_stay_sorted() -> None:
    left = [NodeEvent(1.0, 0, FAIL), NodeEvent(5.0, 0, BACK)]
    right = [NodeEvent(3.0, 1, DRAIN)]
    assert [e.time_s for e in merged(left, right)] == [1.0, 3.0, 5.0]


def test_files_of_both_kinds(tmp_path: Path) -> None:
    jsonl, csv = tmp_path / "e.jsonl", tmp_path / "e.csv"
    jsonl.write_text(
        '{"time_s": 20, "node": "node-1", "event": "return"}\n\n'
        '{"time_s": 10.5, "node": "node-1", "event": "fail"}\n'
    )
    csv.write_text("node,time_s,event\nnode-1,20,return\nnode-1,10.5,fail\n")
    expected = (NodeEvent(10.5, 1, FAIL), NodeEvent(20.0, 1, BACK))
    assert read_node_events(jsonl, cluster(2, 1)) == expected
    assert read_node_events(csv, cluster(2, 1)) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.jsonl", '{"time_s": 1, "node": "node-9", "event": "fail"}', "line 1, node: 'node-9'"),
        ("e.jsonl", '{"time_s": -1, "node": "node-0", "event": "fail"}', "line 1, time_s: must"),
        (
            "e.jsonl",
            '{"time_s": NaN, "node": "node-0", "event": "fail"}',
            "line 1, time_s: must be a finite",
        ),
        ("e.jsonl", '\n{"time_s": 1, "node": "node-0", "event": "boom"}', "line 2, event: must"),
        ("e.jsonl", '{"time_s": 1, "node": "node-0"}', "line 1, event: is missing"),
        ("e.jsonl", "{", "line 1: is not JSON"),
        ("e.csv", "time,node,event\n", "line 1, time_s: column is missing"),
        ("e.csv", "time_s,node,event\n1,node-0\n", "line 2: must have 3 cells"),
        ("e.csv", "time_s,node,event\nx,node-0,fail\n", "line 2, time_s: must be a finite number"),
        ("e.csv", "", "line 1: is empty"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_node_events(path, cluster(2, 1))
    assert str(caught.value).startswith(f"{path}, {message}")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read \(No such file"):
        read_node_events(tmp_path / "none.csv", cluster(1, 1))


@pytest.mark.parametrize(("mtbf_s", "mttr_s"), [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_bad_means(mtbf_s: float, mttr_s: float) -> None:
    with pytest.raises(InputError, match="must be a number above 0"):
        random_failures(cluster(1, 1), mtbf_s=mtbf_s, mttr_s=mttr_s, seed=0)
