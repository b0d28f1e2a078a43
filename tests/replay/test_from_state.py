"""A replay that takes up a state goes on as the replay did from which the state was taken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.core.domain import Cluster, InputError, RoundState
from morph_opt.replay.cli import main
from morph_opt.replay.prepare import continued
from morph_opt.replay.run import replay
from morph_opt.round.snapshot import state_to_json, to_text
from morph_opt.round.speeds import table_of, table_to_json
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import random_failures
from morph_opt.simulation.events.log import (
    Completed,
    Event,
    InitialJob,
    NodeChanged,
    Preempted,
    Started,
    StartKind,
    Submitted,
)
from morph_opt.simulation.metrics.bounds.demands import initial_demands, job_demands
from morph_opt.simulation.metrics.bounds.lower import avg_jct_lower_bound, makespan_lower_bound
from tests.engine.toys import Fifo, Scripted, Shuffler, ToySpeeds, cluster, hold, job, random_trace

EXAMPLE = Path(__file__).parents[2] / "docs" / "schema" / "example-state.json"


class Seen(Policy):
    """Shuffles, and keeps the states that it was shown."""

    remembers = True

    def __init__(self, seed: int) -> None:
        self._inner = Shuffler(seed)
        self.name = self._inner.name
        self.states: list[RoundState] = []

    def decide(self, state: RoundState) -> Decision:
        self.states.append(state)
        return self._inner.decide(state)


def told(events: tuple[Event, ...], from_s: float) -> list[tuple[object, ...]]:
    """What happened from a decision on, with times and progress to a microsecond."""
    found = []
    for event in events:
        more = _more(event)
        at_start = event.time_s == from_s and not isinstance(event, Started | Preempted)
        if more and event.time_s >= from_s and not at_start and StartKind.HELD not in more:
            found.append((round(event.time_s, 6), type(event).__name__, *more))
    return sorted(found, key=repr)  # of one instant, preemptions come in the order of holding


def _more(event: Event) -> tuple[object, ...]:
    match event:
        case Started():
            done = round(event.iterations_done, 6)
            return event.job, event.kind, event.placement, event.iteration_s, done
        case Preempted():
            return event.job, round(event.iterations_done, 6), round(event.iterations_lost, 6)
        case Completed():
            return (event.job,)
        case NodeChanged():
            return event.node, event.status
        case _:
            return ()


@pytest.mark.parametrize("seed", range(3))
def test_replay_from_a_state_continues_as_the_whole_replay(seed: int) -> None:
    """At every ninth round of a replay that preempts, changes, loses work and loses nodes."""
    config = ReplayConfig(restart_s=70.0, lost_work_s=25.0 * (seed % 3), checkpoint_s=40.0)
    where, speeds, jobs = cluster(2, 4), ToySpeeds(), random_trace(seed, 14)

    def failing() -> list[object]:
        stream = random_failures(where, mtbf_s=900.0, mttr_s=200.0, seed=seed)
        return [next(stream) for _ in range(400)]

    seen = Seen(seed)
    whole = replay(jobs, where, seen, speeds, config, node_events=failing())  # type: ignore[arg-type]
    finish_s = {record.job.name: record.finish_s for record in whole.history.jobs}
    for state in seen.states[1::9]:
        trace = continued(state, jobs.jobs, jobs.name)
        events = failing()
        rest = replay(trace, where, Seen(seed), speeds, config, node_events=events, initial=state)  # type: ignore[arg-type]
        assert told(rest.events, state.time_s) == told(whole.events, state.time_s)
        for record in rest.history.jobs:
            assert record.finish_s == pytest.approx(finish_s[record.job.name], abs=1e-6)


def test_log_states_the_work_done_before_the_state() -> None:
    """By hand: 10 iterations of 8 s on one GPU, start-up 20 s; 5 are done at 60 s.

    It has held the GPU since 0 (20 s of start-up, 40 s of progress) and is complete at
    60 + 5 x 8 = 100 s. The other job waits and starts at 120 s: 120 + 20 + 8 x 2 = 156 s.
    """
    where = cluster(1, 1)
    jobs = (job("run", 0.0), job("wait", 30.0, iterations=2))
    state = RoundState(
        0,
        60.0,
        60.0,
        where,
        (
            mo_state(jobs[0], done=5.0, held=hold("run", {0: (0,)}), last_start_s=0.0),
            mo_state(jobs[1]),
        ),
    )
    trace = continued(state, (), "two")
    config = ReplayConfig(restart_s=20.0)
    found = replay(trace, where, Fifo(), ToySpeeds(), config, initial=state)
    run, wait = found.jobs
    assert (run.finish_s, wait.finish_s) == (100.0, 156.0)
    assert (run.held_s, run.start_s, run.queued_s, run.restarts) == (100.0, 0.0, 0, 0)
    assert (wait.waiting_s, wait.jct_s, wait.queued_s) == (90.0, 126.0, 90.0)
    kinds = [type(event) for event in found.events[:6]]
    assert kinds[1:5] == [Submitted, InitialJob, Started, Submitted]
    assert found.events[0].time_s == 60.0
    # Held from 60 to 100 and from 120 to 156, of 96 s on one GPU.
    assert found.summary["gpu_utilization"] == pytest.approx((40 + 36) / 96)
    # No schedule is better: the bounds are of the rest, not of whole jobs.
    assert found.summary["avg_jct_lower_bound_s"] <= (100 + 126) / 2
    assert found.summary["makespan_lower_bound_s"] <= 156.0


def mo_state(known: mo.Job, done: float = 0.0, held: object = None, **other: float):  # type: ignore[no-untyped-def]
    from morph_opt.core.domain import JobState

    executed_s = 60.0 if held is not None else 0.0
    return JobState(
        known,
        done,
        held,
        0.0,
        20.0,
        attained_gpu_s=executed_s,
        executed_s=executed_s,
        starts=int(held is not None),
        first_start_s=0.0 if held is not None else None,
        **other,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(2))
def test_bounds_from_a_state_hold(seed: int) -> None:
    """Bounds of what is left at any state are below what the same schedule reaches from there."""
    config, where, jobs = ReplayConfig(restart_s=40.0), cluster(2, 4), random_trace(seed, 12)
    seen = Seen(seed)
    whole = replay(jobs, where, seen, ToySpeeds(), config)
    for state in seen.states[::9]:
        trace = continued(state, jobs.jobs, jobs.name)
        left = initial_demands(job_demands(trace, where, ToySpeeds(), config), state, config)
        done = [r for r in whole.history.jobs if r.job in trace.jobs]
        jct_s = sum(float(r.turnaround_s or 0.0) for r in done) / len(done)
        last_s = max(float(r.finish_s or 0.0) for r in done)
        first_s = min(r.job.submission_s for r in done)
        assert avg_jct_lower_bound(left).value_s <= jct_s + 1e-6
        assert makespan_lower_bound(left).value_s <= last_s - first_s + 1e-6


def snapshot_text(state: RoundState, where: Cluster) -> str:
    rows = table_to_json(table_of(ToySpeeds(), where, ("m",), pairs=False))
    return to_text(state_to_json(state, rows))


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    seen = Scripted({0: [hold("j", {0: (0, 1)})]})
    where = cluster(1, 4)
    replay(
        mo.Trace.of("one", [job("j", gpus=2, iterations=90), job("k", 50.0, gpus=4)]),
        where,
        seen,
        ToySpeeds(),
        ReplayConfig(until_s=200.0),
    )
    path = tmp_path / "now.json"
    path.write_text(snapshot_text(seen.seen[-1], where))
    return path


def test_command_line_replays_from_a_state(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state's own cluster, jobs, speeds and interval; a resumed run is the same."""
    out = tmp_path / "run"
    words = ["--from-state", str(snapshot), "--policy", "fifo", "--quiet"]
    assert main([*words, "--json", "--out", str(out)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["jobs"], summary["completed"], summary["gpus"]) == (2, 2, 4)
    scenario = mo.Scenario(state=snapshot, policy="fifo")
    assert scenario.run().summary.avg_jct_s == summary["avg_jct_s"]
    # Cut short in the middle of the log: it is finished to the same bytes.
    whole = (out / "events.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if b'"event":"round"' in line) + 1
    (out / "events.jsonl").unlink()
    (out / "events.jsonl.partial").write_bytes(b"".join(lines[:cut]))
    rows = (out / "rounds.csv").read_bytes().splitlines(keepends=True)
    (out / "rounds.csv").unlink()
    (out / "rounds.csv.partial").write_bytes(b"".join(rows[:2]))
    assert main(["--resume", str(out), "--quiet"]) == 0
    assert (out / "events.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--until-s 10", "until_s: must be after the state"),
        ("--cluster 2x8", "cannot be combined with --from-state"),
        ("--nodes 2", "cannot be combined with --from-state"),
        ("--from-state none.json", "none.json"),
        ("--trace tests.engine.toys:trace/3", "cannot run"),
    ],
)
def test_options_that_contradict_the_state_are_refused(
    words: str,
    complaint: str,
    snapshot: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [] if "--from-state" in words else ["--from-state", str(snapshot)]
    if "toys" in words:  # a truth that cannot run what a job holds
        text = snapshot.read_text().replace('"plan":"dp"', '"plan":"dp+zero"')
        snapshot.write_text(text.replace('"requested_plan":"dp+zero"', '"requested_plan":"dp"'))
    line = [*given, *words.split(), "--policy", "fifo", "--out", str(tmp_path / "r")]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert not (tmp_path / "r").exists()
    if "toys" not in words:
        assert complaint in said


def test_a_state_of_other_jobs_is_refused(snapshot: Path) -> None:
    state = mo.read_snapshot(snapshot).state
    speeds, where = ToySpeeds(), state.cluster
    for change, complaint in (
        (lambda one: replace(one, weight=2.0), "differs from the trace's"),
        (lambda one: replace(one, name="x"), "not submitted by then in the trace"),
    ):
        jobs = [change(one.job) if one.job.name == "j" else one.job for one in state.jobs]
        with pytest.raises(InputError, match=complaint):
            replay(mo.Trace.of("t", jobs), where, Fifo(), speeds, initial=state)
    more = [*(one.job for one in state.jobs), job("late", 60.0)]
    with pytest.raises(InputError, match="late is not in the state"):
        replay(mo.Trace.of("t", more), where, Fifo(), speeds, initial=state)
    trace = continued(state, (), "t")
    with pytest.raises(InputError, match="does not begin with the state's nodes"):
        replay(trace, cluster(1, 8), Fifo(), speeds, initial=state)


def test_rules_of_a_state_hold_in_its_replay(tmp_path: Path) -> None:
    """The published example has a quota of bob's, which baselines that know no rules keep, too."""
    for policy in ("milp", "fifo:skip", "srtf"):
        found = mo.Scenario(state=EXAMPLE, policy=policy).run(tmp_path / policy[:4])
        bobs = {s.job for s in found.segments if s.job.startswith("bob")}
        assert bobs == {"bob-1", "bob-2"}
        assert max(s.gpus for s in found.segments if s.job in bobs) <= 2
