"""Metrics on logs written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from morph_opt.core.domain import Cluster, InputError, Placement, Trace
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.simulation.events.log import (
    Begun,
    Completed,
    Ended,
    EndReason,
    Event,
    NodeChanged,
    NodeStatus,
    Preempted,
    RoundDecided,
    Started,
    StartKind,
    StopCause,
    Submitted,
)
from morph_opt.simulation.metrics.promises import PromiseCount, promise_metrics
from morph_opt.simulation.metrics.schedule import metrics_of, quantile
from tests.engine.toys import DP, ToySpeeds, cluster, job
from tests.metrics.logs import read_history, rounds_over_capacity

TRACE = Trace.of(
    "hand",
    [job("a", 10.0, 100), job("b", 20.0, 50, guaranteed=True), job("c", 30.0, 10)],
)
BEGUN = Begun(0.0, "hand", "", "hand", 3, 2, 4, 60.0, "")


TRUTH = ToySpeeds({"m": 2.0})


def schedule_metrics(events: list[Event], trace: Trace, nodes: Cluster) -> dict[str, Any]:
    """All metrics of the replay whose log this is."""
    history = read_history(events, trace)
    promises = PromiseCount(trace, GangSpeeds.on(nodes, ToySpeeds()))
    for event in events:
        promises.read(event)
    over = rounds_over_capacity(events, trace, nodes, TRUTH)
    return metrics_of(history, nodes, over, promises)


def start(
    at: float, name: str, kind: StartKind, parts: dict[int, list[int]], done: float = 0.0
) -> Started:
    return Started(at, name, kind, DP, Placement.of(parts), 2.0, 10.0, done)


def decided(at: float, index: int, **other: object) -> RoundDecided:
    plain = RoundDecided(at, index, 2, 2, 3, "optimal", None, 0, 0.0, None)
    return replace(plain, **other)  # type: ignore[arg-type]


LOG: list[Event] = [
    BEGUN,
    Submitted(10.0, "a"),
    Submitted(20.0, "b"),
    Submitted(30.0, "c"),
    start(60.0, "a", StartKind.FIRST, {0: [0]}),
    start(60.0, "b", StartKind.FIRST, {0: [1], 1: [0]}),
    decided(60.0, 0, gap=0.01, guarantees_short=1, guarantee_shortfall=0.5),
    start(120.0, "a", StartKind.CHANGE, {1: [1]}, 25.0),
    decided(120.0, 1, status="fallback", gap=0.2, guarantees_short=1, guarantees_possible=True),
    NodeChanged(150.0, "node-1", NodeStatus.FAILED),
    Preempted(150.0, "a", StopCause.NODE_FAILURE, 30.0, 5.0),
    Preempted(150.0, "b", StopCause.NODE_FAILURE, 40.0, 0.0),
    NodeChanged(170.0, "node-1", NodeStatus.UP),
    start(180.0, "b", StartKind.RESUME, {1: [0]}, 40.0),
    decided(180.0, 2),
    Completed(210.0, "b"),
    start(240.0, "a", StartKind.RESUME, {0: [0, 1]}, 30.0),
    decided(240.0, 3),
    Preempted(300.0, "a", StopCause.POLICY, 55.0, 0.0),
    start(300.0, "c", StartKind.FIRST, {0: [0]}),
    decided(300.0, 4),
    Completed(330.0, "c"),
    Ended(360.0, EndReason.HORIZON),
]


@pytest.fixture(scope="module")
def metrics() -> dict[str, Any]:
    return schedule_metrics(LOG, TRACE, cluster(2, 2))


def test_completion_times(metrics: dict[str, Any]) -> None:
    assert (metrics["jobs"], metrics["completed"]) == (3, 2)
    assert metrics["avg_jct_s"] == (190.0 + 300.0) / 2  # b and c; a is unfinished
    assert metrics["median_jct_s"] == 245.0
    assert metrics["max_jct_s"] == 300.0
    assert metrics["p99_jct_s"] == pytest.approx(190.0 + 0.99 * 110.0)
    assert metrics["makespan_s"] is None


def test_queueing_counts_all_seconds_without_gpus(metrics: dict[str, Any]) -> None:
    # b: 20-60 and 150-180; c: 30-300
    assert metrics["avg_queue_s"] == (40.0 + 30.0 + 270.0) / 2
    assert metrics["p95_queue_s"] == pytest.approx(70.0 + 0.95 * 200.0)
    assert metrics["p99_queue_s"] == pytest.approx(70.0 + 0.99 * 200.0)
    # b has GPUs for 120 of 190 s, and c for 30 of 300 s.
    assert metrics["bounded_slowdown"] == pytest.approx((190.0 / 120.0 + 300.0 / 30.0) / 2)


def test_gpu_seconds(metrics: dict[str, Any]) -> None:
    a, b, c = 60 + 30 + 2 * 60, 2 * 90 + 30, 30
    assert metrics["gpu_s_held"] == a + b + c
    assert metrics["gpu_utilization"] == (a + b + c) / (4 * (360.0 - 10.0))
    startup = (10 + 10 + 20) + (20 + 10) + 10
    assert metrics["gpu_productive_share"] == 1 - startup / (a + b + c)


def test_lost_gpu_hours_by_cause(metrics: dict[str, Any]) -> None:
    """In GPU-seconds. moved: a's start-up at 120. failed: the 5 iterations of a at 2 s each, its
    start-up on 2 GPUs at 240, and b's at 180."""
    lost = {name: 3600.0 * value for name, value in metrics.items() if "_lost" in name}
    assert lost == pytest.approx(
        {
            "gpu_hours_lost": 10 + 40,
            "gpu_hours_lost_preempted": 0,
            "gpu_hours_lost_moved": 10,
            "gpu_hours_lost_failed": 10 + 2 * 10 + 10,
            "gpu_hours_lost_limit": 0,
        }
    )


def test_a_change_loses_what_it_does_not_start_from_and_a_limit_all() -> None:
    """a moves at 120 back to 20 of its 25 iterations; b is ended by its limit after 2 GPUs x 90 s
    and 30 s more, of which 10 s are the start-up after the failure."""
    log = [
        replace(one, iterations_done=20.0)
        if isinstance(one, Started) and one.kind is StartKind.CHANGE
        else one
        for one in LOG
    ]
    jobs = [replace(j, times_out=True) if j.name == "b" else j for j in TRACE.jobs]
    found = schedule_metrics(log, Trace.of("hand", jobs), cluster(2, 2))
    assert 3600.0 * found["gpu_hours_lost_moved"] == pytest.approx(10 + 5 * 2)
    assert 3600.0 * found["gpu_hours_lost_limit"] == pytest.approx(2 * 90 + 30 - 10)
    jobs = [replace(one, checkpoint_s=8.0) for one in jobs]  # b makes 20 s of progress at last
    saved = schedule_metrics(log, Trace.of("hand", jobs), cluster(2, 2))
    assert 3600.0 * saved["gpu_hours_lost_limit"] == pytest.approx(20 - 16)


def test_counts(metrics: dict[str, Any]) -> None:
    assert metrics["restarts_per_job"] == (2 + 1 + 0) / 3
    assert (metrics["preemptions"], metrics["node_failure_stops"]) == (3, 2)
    assert (metrics["rounds"], metrics["fallback_rounds"], metrics["gap_max"]) == (5, 1, 0.2)
    assert metrics["rounds_over_capacity"] == 0


def test_a_promised_end_allows_for_a_start_up_and_two_rounds() -> None:
    """b asked for 1 GPU of 8 s an iteration: 10 + 50 x 8 + 2 x 60 = 530 s are promised, 190 taken.

    With 9 iterations, 10 + 72 + 120 = 202 s, it is 12 s early; with 7, 10 + 56 + 120 = 186 s, 4 s
    late. a, with a promise of 10 + 100 x 8 + 120 = 930 s, is unfinished 350 s after submission;
    of 20 iterations, 10 + 160 + 120 = 290 s, it would be 60 s late then.
    """
    asked = GangSpeeds.on(cluster(2, 2), ToySpeeds())
    for iterations, late_s in ((50, 0.0), (9, 0.0), (7, 4.0)):
        history = read_history(LOG, TRACE)
        record = history.jobs[1]
        record.job = replace(record.job, iterations=iterations)
        found = promise_metrics(history, asked, lambda _: 10.0)
        assert found["guaranteed_late_jobs"] == (late_s > 0.0)
        assert found["guaranteed_late_s"] == late_s
        assert found["guaranteed_avg_jct_s"] == 190.0
        assert found["best_effort_avg_jct_s"] == 300.0
    record = history.jobs[0]
    for iterations, late_s in ((100, 4.0), (20, 64.0)):
        record.job = replace(record.job, iterations=iterations, guaranteed=True)
        found = promise_metrics(history, asked, lambda _: 10.0)
        assert found["guaranteed_late_s"] == late_s


def test_kept_promises_are_counted_from_the_log(metrics: dict[str, Any]) -> None:
    """b asked for 8 s an iteration and has 2 s in every round that is decided."""
    assert metrics["guaranteed_jobs"] == 1
    assert (metrics["rounds_guarantees_short"], metrics["guarantee_shortfall_sum"]) == (0, 0.0)


def test_promises_are_counted_from_the_log() -> None:
    """b, promised 8 s an iteration, waits a round, then has 16 s for two, then 8 s."""
    slow = replace(start(120.0, "b", StartKind.FIRST, {0: [0]}), iteration_s=16.0)
    log: list[Event] = [
        *LOG[:4],
        decided(60.0, 0, guarantees_possible=False),
        slow,
        decided(120.0, 1, guarantees_possible=True),
        decided(180.0, 2),
        replace(slow, time_s=240.0, kind=StartKind.CHANGE, iteration_s=8.0),
        decided(240.0, 3, guarantees_short=1, guarantee_shortfall=1.0, guarantees_possible=True),
        Ended(300.0, EndReason.HORIZON),
    ]
    found = schedule_metrics(log, TRACE, cluster(2, 2))
    assert (found["rounds_guarantees_short"], found["rounds_guarantees_missed"]) == (3, 1)
    assert found["guarantee_shortfall_sum"] == 2.0
    unasked = [
        replace(event, guarantees_possible=None) if isinstance(event, RoundDecided) else event
        for event in log
    ]
    assert schedule_metrics(unasked, TRACE, cluster(2, 2))["rounds_guarantees_missed"] is None


def test_an_unfinished_job_is_held_until_the_end() -> None:
    log = [*LOG[:7], Ended(100.0, EndReason.HORIZON)]
    history = read_history(log, TRACE)
    assert [s.end_s for r in history.jobs for s in r.segments] == [100.0, 100.0]
    metrics = schedule_metrics(log, TRACE, cluster(2, 2))
    assert (metrics["completed"], metrics["avg_jct_s"], metrics["avg_queue_s"]) == (0, None, None)
    assert metrics["gpu_s_held"] == 3 * 40.0


def test_makespan_when_all_are_done() -> None:
    trace = Trace.of("one", [job("c", 30.0, 10)])
    log = [
        BEGUN,
        Submitted(30.0, "c"),
        start(60.0, "c", StartKind.FIRST, {0: [0]}),
        Completed(90.0, "c"),
        Ended(90.0, EndReason.COMPLETE),
    ]
    metrics = schedule_metrics(log, trace, cluster(1, 1))
    assert metrics["makespan_s"] == 60.0
    assert metrics["gpu_utilization"] == 0.5
    assert metrics["gpu_productive_share"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (LOG[1:], "no beginning or no end"),
        (LOG[:-1], "no beginning or no end"),
        ([BEGUN, Submitted(0.0, "z"), LOG[-1]], "job 'z', which is not in the trace"),
        ([BEGUN, Completed(0.0, "a"), LOG[-1]], "job 'a', which does not run"),
        ([BEGUN, Ended(0.0, EndReason.COMPLETE)], "not one of this trace"),
    ],
)
def test_impossible_event_logs_are_refused(log: list[Event], message: str) -> None:
    with pytest.raises(InputError, match=message):
        schedule_metrics(log, TRACE, cluster(2, 2))


def test_quantile_interpolates() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.99) == 3.0
    assert quantile([4.0, 1.0], 0.25) == 1.75
