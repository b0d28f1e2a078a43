"""Properties of whole replays under policies that do everything that is allowed."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import Cluster, InputError, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.events.log import (
    Completed,
    Ended,
    EndReason,
    Event,
    Preempted,
    RoundDecided,
    Started,
    StartKind,
    Submitted,
    event_from_line,
    event_to_line,
)
from morph_opt.simulation.runs.result import ReplayResult
from tests.engine.toys import Fifo, Scripted, Shuffler, ToySpeeds, cluster, hold, job, random_trace
from tests.metrics.logs import rounds_over_capacity

SPEEDS = ToySpeeds({"m": 8.0}, counts=(1, 2, 4))


def shuffled(seed: int, jobs: int = 12, **config: float) -> tuple[Trace, ReplayResult]:
    trace = random_trace(seed, jobs)
    settings = ReplayConfig(restart_s=24.0, **config)  # type: ignore[arg-type]
    return trace, replay(trace, cluster(2, 4), Shuffler(seed), SPEEDS, settings)


@pytest.mark.parametrize("seed", range(12))
def test_work_done_is_work_asked_and_gpu_seconds_add_up(seed: int) -> None:
    trace, result = shuffled(seed)
    assert result.summary["completed"] == len(trace.jobs)
    for record in result.history.jobs:
        assert sum(s.iterations for s in record.segments) == pytest.approx(record.job.iterations)
        turnaround_s = record.turnaround_s
        assert turnaround_s is not None
        assert record.held_s <= turnaround_s + 1e-9
    # GPU-seconds from the jobs = GPU-seconds from the cluster's side, boundary by boundary
    assert sum(r.gpu_s for r in result.history.jobs) == pytest.approx(_held_by_sweep(result.events))
    assert result.summary["gpu_s_held"] == pytest.approx(_held_by_sweep(result.events))
    assert result.summary["rounds_over_capacity"] == 0


def _held_by_sweep(events: tuple[Event, ...]) -> float:
    """Integral over time of the GPUs held, from the log as a stream."""
    held: dict[str, int] = {}
    now_s, total = 0.0, 0.0
    for event in events:
        total += sum(held.values()) * (event.time_s - now_s)
        now_s = event.time_s
        if isinstance(event, Started):
            held[event.job] = event.placement.gpus
        elif isinstance(event, Preempted | Completed):
            held.pop(event.job)
    return total


def test_lost_work_is_the_difference_between_done_and_asked() -> None:
    trace, result = shuffled(3, lost_work_s=30.0)
    done = sum(s.iterations for r in result.history.jobs for s in r.segments)
    kept = sum(j.iterations for j in trace.jobs)
    lost = sum(e.iterations_lost for e in result.events if isinstance(e, Preempted))
    changes_lost = 0.0
    for record in result.history.jobs:
        for before, after in zip(record.segments, record.segments[1:], strict=False):
            changes_lost += before.iterations_from + before.iterations - after.iterations_from
    assert lost > 0.0
    assert done == pytest.approx(kept + changes_lost)


@pytest.mark.parametrize("seed", range(8))
def test_second_by_second_oracle(seed: int) -> None:
    """A simulator that only knows how to let one second pass gives the same instants."""
    trace, result = shuffled(seed, jobs=8)
    decisions = _decisions(result.events)
    assert _by_seconds(trace, decisions, 24) == {
        record.job.name: Fraction(record.finish_s or 0.0) for record in result.history.jobs
    }


def _decisions(events: tuple[Event, ...]) -> dict[float, list[Event]]:
    found: dict[float, list[Event]] = {}
    for event in events:
        if isinstance(event, Started | Preempted):
            found.setdefault(event.time_s, []).append(event)
    return found


def _by_seconds(
    trace: Trace, decisions: dict[float, list[Event]], restart_s: int
) -> dict[str, Fraction]:
    """Completion instants; exact, because 8 s / (1, 2, 4) GPUs are whole seconds."""
    left = {j.name: Fraction(j.iterations) for j in trace.jobs}
    running: dict[str, list[int]] = {}  # job -> [start-up seconds left, GPUs]
    finished: dict[str, Fraction] = {}
    second = 0
    while len(finished) < len(trace.jobs):
        for event in decisions.get(float(second), []):
            if isinstance(event, Preempted):
                running.pop(event.job, None)
            elif isinstance(event, Started):
                running[event.job] = [restart_s, event.placement.gpus]
        for name in list(running):
            if running[name][0] > 0:
                running[name][0] -= 1
                continue
            left[name] -= Fraction(running[name][1], 8)
            if left[name] <= 0:
                overshoot = -left[name] * Fraction(8, running[name][1])
                finished[name] = second + 1 - overshoot
                del running[name]
        second += 1
        assert second < 200_000
    return finished


def test_progress_does_not_drift_over_many_rounds() -> None:
    trace = Trace.of("one", [job("a", 0.0, 100_003)])
    speeds = ToySpeeds({"m": 0.1}, counts=(1,))
    config = ReplayConfig(interval_s=0.7, restart_s=0.3)
    result = replay(trace, cluster(1, 1), Fifo(), speeds, config)
    # one rounding per operation of start + restart + iterations * pace, whatever the rounds
    assert result.history.jobs[0].finish_s == 0.7 + 0.3 + 100_003 * 0.1
    assert len(result.rounds) > 14_000


def test_littles_law_on_a_long_run() -> None:
    """Time average of active jobs = arrival rate x mean time in the system."""
    trace = random_trace(5, 160, span_s=160_000, iterations=2000)
    result = replay(trace, cluster(2, 4), Fifo(), SPEEDS, ReplayConfig())
    end_s = float(result.summary["makespan_s"] or 0.0)
    first_s = trace.jobs[0].submission_s
    # the number in the system, integrated from the log alone
    marks = [(e.time_s, 1) for e in result.events if type(e).__name__ == "Submitted"]
    marks += [(e.time_s, -1) for e in result.events if isinstance(e, Completed)]
    marks.sort()
    area, number, now_s = 0.0, 0, first_s
    for at_s, step in marks:
        area += number * (at_s - now_s)
        number, now_s = number + step, at_s
    mean_jct_s = float(result.summary["avg_jct_s"] or 0.0)
    assert area / end_s == pytest.approx(len(trace.jobs) / end_s * mean_jct_s, rel=1e-9)
    # and the same from samples at boundaries (PASTA-like, up to the sampling)
    sampled = sum(row.jobs for row in result.rounds) * 60.0 / end_s
    assert sampled == pytest.approx(area / end_s, rel=0.02)


def test_reruns_give_the_same_bytes() -> None:
    first, second = (
        "\n".join(map(event_to_line, shuffled(4, lost_work_s=7.0)[1].events)) for _ in range(2)
    )
    assert first == second


def test_events_read_back_equal() -> None:
    _, result = shuffled(2)
    assert tuple(event_from_line(event_to_line(e)) for e in result.events) == result.events


@given(st.floats(0.001, 1e7), st.floats(0.1, 1e4))
def test_boundary_is_the_first_not_before(time_s: float, interval_s: float) -> None:
    config = ReplayConfig(interval_s=interval_s)
    number = config.boundary_at_or_after(time_s)
    assert number >= 1
    assert number * interval_s >= time_s
    assert number == 1 or (number - 1) * interval_s < time_s


def test_stretches_without_jobs_cost_nothing_and_are_not_recorded() -> None:
    trace = Trace.of("gap", [job("a", 0.0, 1), job("b", 6e9, 1)])
    result = replay(trace, cluster(1, 1), Fifo(), ToySpeeds(counts=(1,)), ReplayConfig())
    indices = [e.index for e in result.events if isinstance(e, RoundDecided)]
    assert indices == [0, 1, 2, 3, 4, *range(100_000_000 - 1, 100_000_000 + 4)]


def test_a_policy_that_never_starts_anything_stalls() -> None:
    trace = Trace.of("one", [job("a")])
    config = ReplayConfig(stall_rounds=7)
    result = replay(trace, cluster(1, 1), Scripted({}), ToySpeeds(counts=(1,)), config)
    assert result.events[-1] == Ended(7 * 60.0, EndReason.STALLED)
    assert len(result.rounds) == 7
    assert result.summary["completed"] == 0
    assert result.summary["avg_jct_s"] is None
    assert result.summary["makespan_s"] is None


def test_an_arrival_begins_the_stall_anew() -> None:
    """b arrives at 250, seen at 300: the seventh idle round since then is at 300 + 6 * 60."""
    trace = Trace.of("two", [job("a"), job("b", 250.0)])
    config = ReplayConfig(stall_rounds=7)
    result = replay(trace, cluster(1, 1), Scripted({}), ToySpeeds(counts=(1,)), config)
    assert result.events[-1] == Ended(660.0, EndReason.STALLED)


def test_horizon_cuts_inside_a_round() -> None:
    trace = Trace.of("two", [job("a", 0.0, 100), job("b", 95.0, 1), job("c", 101.0, 1)])
    speeds = ToySpeeds({"m": 1.0}, counts=(1,))
    config = ReplayConfig(restart_s=10.0, until_s=100.0)
    result = replay(trace, cluster(1, 2), Fifo(), speeds, config)
    a, b, c = result.history.jobs
    assert (a.segments[0].held_s, a.segments[0].iterations) == (40.0, 30.0)
    assert (b.submitted, c.submitted) == (True, False)
    assert result.events[-1] == Ended(100.0, EndReason.HORIZON)


def test_change_keeps_a_job_in_its_kind() -> None:
    trace = Trace.of("one", [job("a", 0.0, 1000)])
    stay = hold("a", {0: [0]})
    policy = Scripted({0: [stay], 1: [hold("a", {0: [0]})], 2: [hold("a", {0: [1]})]})
    result = replay(
        trace, cluster(1, 2), policy, ToySpeeds({"m": 1.0}, (1,)), ReplayConfig(until_s=240.0)
    )
    kinds = [(e.time_s, e.kind) for e in result.events if isinstance(e, Started)]
    assert kinds == [(60.0, StartKind.FIRST), (180.0, StartKind.CHANGE)]


def test_engine_refuses_a_step_out_of_turn() -> None:
    trace = Trace.of("one", [job("a")])
    engine = Engine(trace, cluster(1, 1), ToySpeeds(counts=(1,)), ReplayConfig())
    state = engine.advance()
    assert state is not None
    with pytest.raises(RuntimeError, match="has not been decided"):
        engine.advance()
    engine.apply(Decision(state.held))
    with pytest.raises(RuntimeError, match="no round to decide"):
        engine.apply(Decision(state.held))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("interval_s", 0.0),
        ("interval_s", math.nan),
        ("restart_s", -1.0),
        ("restart_s", math.inf),
        ("lost_work_s", -0.5),
        ("checkpoint_s", math.nan),
        ("until_s", 0.0),
        ("stall_rounds", 0),
        ("restart_s_by_model", {"m": -2.0}),
    ],
)
def test_bad_settings_are_refused(field: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        ReplayConfig(**{field: value})  # type: ignore[arg-type]
    assert field.split("_by", maxsplit=1)[0] in str(caught.value)


def test_metrics_find_over_capacity_in_a_faulty_log() -> None:
    two = cluster(1, 2)
    twice = [hold("a", {0: [0, 1]}), hold("b", {0: [1]})]
    started = [
        Started(60.0, a.job, StartKind.FIRST, a.plan, a.placement, 1.0, 0.0, 0.0) for a in twice
    ]

    def decided(index: int) -> RoundDecided:
        return RoundDecided(60.0 * index, index, 2, 2, 3, "heuristic", None, 0, 0.0, None)

    log: list[Event] = [*started, decided(1), Completed(90.0, "a"), decided(2)]
    submitted = [Submitted(0.0, name) for name in "ab"]
    trace = Trace.of("two", [job("a", gpus=2), job("b")])

    def over(events: list[Event], nodes: Cluster) -> int:
        return rounds_over_capacity([*submitted, *events], trace, nodes, ToySpeeds())

    assert over(log, two) == 1
    assert over([started[0], decided(1)], two) == 0
    assert over([started[0], decided(1)], cluster(1, 1)) == 1
