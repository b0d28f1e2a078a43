"""Two jobs on one node with two GPUs, every instant worked out by hand.

One GPU needs 2 s per iteration, two GPUs 1 s; rounds of 60 s, start-up 20 s.
"""

from __future__ import annotations

import pytest

from morph_opt.core.domain import Trace
from morph_opt.replay.run import replay
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import (
    Completed,
    Ended,
    EndReason,
    Preempted,
    RoundDecided,
    Started,
    StartKind,
    StopCause,
    Submitted,
)
from morph_opt.simulation.runs.result import ReplayResult
from tests.engine.toys import Scripted, ToySpeeds, cluster, hold, job

TRACE = Trace.of("two", [job("a", 0.0, 100), job("b", 70.0, 30)])
SPEEDS = ToySpeeds({"m": 2.0}, counts=(1, 2))
SCRIPT = {
    0: [hold("a", {0: [0, 1]})],  # t = 60: a on both GPUs
    1: [hold("a", {0: [0]}), hold("b", {0: [1]})],  # t = 120: a shrinks, b starts
    3: [],  # t = 240: a is preempted
    4: [hold("a", {0: [0, 1]})],  # t = 300: a resumes
}


@pytest.fixture(scope="module")
def policy() -> Scripted:
    return Scripted(SCRIPT)


@pytest.fixture(scope="module")
def result(policy: Scripted) -> ReplayResult:
    config = ReplayConfig(interval_s=60.0, restart_s=20.0)
    return replay(TRACE, cluster(1, 2), policy, SPEEDS, config)


def test_events_of_two_jobs_have_the_expected_times(result: ReplayResult) -> None:
    both, left, right = (hold("a", {0: [0, 1]}), hold("a", {0: [0]}), hold("b", {0: [1]}))

    def started(at: float, what: object, kind: StartKind, pace: float, done: float) -> Started:
        return Started(at, what.job, kind, what.plan, what.placement, pace, 20.0, done)  # type: ignore[attr-defined]

    expected = [
        Submitted(0.0, "a"),
        started(60.0, both, StartKind.FIRST, 1.0, 0.0),
        Submitted(70.0, "b"),
        # 20 s of start-up, then 40 s at 1 iteration per second
        started(120.0, left, StartKind.CHANGE, 2.0, 40.0),
        started(120.0, right, StartKind.FIRST, 2.0, 0.0),
        # b: start-up until 140, 30 iterations of 2 s
        Completed(200.0, "b"),
        # a: start-up until 140, then 100 s at half an iteration per second
        Preempted(240.0, "a", StopCause.POLICY, 90.0, 0.0),
        started(300.0, both, StartKind.RESUME, 1.0, 90.0),
        # start-up until 320, ten iterations of 1 s
        Completed(330.0, "a"),
        Ended(330.0, EndReason.COMPLETE),
    ]
    kept = [e for e in result.events[1:] if not isinstance(e, RoundDecided)]
    assert kept == expected


def test_policy_sees_progress_service_and_starts(policy: Scripted, result: ReplayResult) -> None:
    del result
    seen = {
        (state.time_s, s.job.name): (
            s.iterations_done,
            s.restart_left_s,
            s.attained_gpu_s,
            s.executed_s,
            s.queued_s,
            s.starts,
        )
        for state in policy.seen
        for s in state.jobs
    }
    assert seen == {
        (60.0, "a"): (0.0, 0.0, 0.0, 0.0, 60.0, 0),
        (120.0, "a"): (40.0, 0.0, 120.0, 60.0, 60.0, 1),
        (120.0, "b"): (0.0, 0.0, 0.0, 0.0, 50.0, 0),
        (180.0, "a"): (60.0, 0.0, 180.0, 120.0, 60.0, 2),
        (180.0, "b"): (20.0, 0.0, 60.0, 60.0, 50.0, 1),
        (240.0, "a"): (90.0, 0.0, 240.0, 180.0, 60.0, 2),
        (300.0, "a"): (90.0, 0.0, 240.0, 180.0, 120.0, 2),
    }


def test_instants_that_the_policy_sees(policy: Scripted, result: ReplayResult) -> None:
    del result
    a = {state.time_s: state.jobs[0] for state in policy.seen}
    assert (a[60.0].first_start_s, a[60.0].last_start_s, a[60.0].last_stop_s) == (None, None, None)
    assert (a[180.0].first_start_s, a[180.0].last_start_s) == (60.0, 120.0)
    assert (a[300.0].running, a[300.0].last_stop_s) == (None, 240.0)


def test_metrics(result: ReplayResult) -> None:
    s = result.summary
    assert (s["jobs"], s["completed"], s["rounds"], s["preemptions"]) == (2, 2, 5, 1)
    assert s["avg_jct_s"] == (330.0 + 130.0) / 2
    assert s["makespan_s"] == 330.0
    assert s["avg_queue_s"] == (120.0 + 50.0) / 2
    assert s["gpu_s_held"] == (2 * 60 + 120 + 2 * 30) + 80
    assert s["gpu_utilization"] == 380.0 / (2 * 330.0)
    assert s["gpu_productive_share"] == pytest.approx(1.0 - (2 * 20 + 20 + 2 * 20 + 20) / 380.0)
    assert s["restarts_per_job"] == 1.0  # a: one change, one resumption; b: none
    # floors: a 60 + 20 + 100 = 180, b 120 - 70 + 20 + 30 = 100
    assert float(s["avg_jct_lower_bound_s"]) >= 140.0  # type: ignore[arg-type]


def test_start_up_left_is_seen_and_not_paid_twice() -> None:
    policy = Scripted({0: [hold("a", {0: [0, 1]})]})
    config = ReplayConfig(interval_s=60.0, restart_s=100.0)
    result = replay(Trace.of("one", [job("a", 0.0, 100)]), cluster(1, 2), policy, SPEEDS, config)
    assert [s.jobs[0].restart_left_s for s in policy.seen] == [0.0, 40.0, 0.0, 0.0]
    assert result.history.jobs[0].finish_s == 60.0 + 100.0 + 100.0


@pytest.mark.parametrize(
    "other",
    [
        hold("a", {0: [1]}),  # another GPU of the same node
        hold("a", {1: [0]}),  # another node
        hold("a", {0: [0, 1]}),  # another shape
        hold(
            "a",
            {0: [0]},
            ToySpeeds().configurations("m", cluster(1, 2).nodes[0].type, 1, 0)[1].plan,
        ),  # type: ignore[arg-type]
    ],
    ids=["gpu", "node", "shape", "plan"],
)
def test_every_change_costs_a_start_up(other: object) -> None:
    policy = Scripted({0: [hold("a", {0: [0]})], 1: [other]})  # type: ignore[list-item]
    config = ReplayConfig(interval_s=60.0, restart_s=20.0, until_s=120.0)
    trace = Trace.of("one", [job("a", 0.0, 1000)])
    result = replay(trace, cluster(2, 2), policy, SPEEDS, config)
    starts = [e for e in result.events if isinstance(e, Started)]
    assert [(e.kind, e.restart_s) for e in starts] == [
        (StartKind.FIRST, 20.0),
        (StartKind.CHANGE, 20.0),
    ]


def test_lost_work_is_never_more_than_the_segment_made() -> None:
    trace = Trace.of("one", [job("a", 0.0, 1000)])
    policy = Scripted({0: [hold("a", {0: [0]})], 2: [], 3: [hold("a", {0: [0]})], 4: []})
    config = ReplayConfig(interval_s=60.0, restart_s=20.0, lost_work_s=50.0, until_s=300.0)
    result = replay(trace, cluster(1, 2), policy, SPEEDS, config)
    stops = [e for e in result.events if isinstance(e, Preempted)]
    # 100 s of progress less 50; then 40 s of progress, all of it lost, nothing before it
    assert [(e.iterations_done, e.iterations_lost) for e in stops] == [(25.0, 25.0), (25.0, 20.0)]


def test_restart_of_a_model_overrides_the_general_one() -> None:
    trace = Trace.of("two", [job("a", 0.0, 10), job("b", 0.0, 10, model="n")])
    speeds = ToySpeeds({"m": 1.0, "n": 1.0}, counts=(1,))
    policy = Scripted({0: [hold("a", {0: [0]}), hold("b", {0: [1]})]})
    config = ReplayConfig(restart_s=20.0, restart_s_by_model={"n": 5.0})
    result = replay(trace, cluster(1, 2), policy, speeds, config)
    assert [r.finish_s for r in result.history.jobs] == [90.0, 75.0]


def test_arrival_on_a_boundary_is_seen_there_and_later_ones_not() -> None:
    trace = Trace.of("three", [job("a", 60.0), job("b", 60.5), job("c", 600.0)])
    policy = Scripted({})
    config = ReplayConfig(until_s=600.0, stall_rounds=5)
    replay(trace, cluster(1, 2), policy, SPEEDS, config)
    assert [(s.time_s, [j.job.name for j in s.jobs]) for s in policy.seen[:2]] == [
        (60.0, ["a"]),
        (120.0, ["a", "b"]),
    ]
