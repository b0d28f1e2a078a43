"""Due jobs in replays: on time after steady rounds, and alike in a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from morph_opt.core.domain import Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision import reserving
from morph_opt.scheduling.decision.rules.model import GangLimit, NonPreemptible, OperatorRules, Rule
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Event, LateStart, RoundDecided, Started
from tests.engine.toys import ToySpeeds, cluster, job, random_trace
from tests.replay.test_standing import Asked

RIGID = ToySpeeds(counts=(2, 8))
SMALL = ToySpeeds(counts=(2,))
CONFIG = ReplayConfig(restart_s=30.0)


def made(speeds: ToySpeeds, *rules: Rule, durations: str = "true") -> Policy:
    """The MILP under these rules."""
    options = PolicyOptions(objective="jct", rules=OperatorRules(rules), durations=durations)
    return make_policy("milp", speeds, options)


def policy(speeds: ToySpeeds, *rules: Rule, every: bool = False, durations: str = "true") -> Asked:
    """The same; ``every``: asked in every round."""
    return Asked(made(speeds, *rules, durations=durations), every)


def started(events: tuple[Event, ...], name: str) -> float:
    """Instant of a job's first start."""
    return next(e.time_s for e in events if isinstance(e, Started) and e.job == name)


GANGS = GangLimit(("gang*",), 8), GangLimit(("s*",), 2, 2)

# Gangs of 8 among jobs of 2: each of them is worth more, and one comes every two minutes.
STREAM = Trace.of(
    "stream",
    (
        job("gang", 30.0, 2000, 8, time_limit_s=7200.0),
        job("gang2", 100.0, 2000, 8, time_limit_s=7200.0),
        *(job(f"s{i:02}", 40.0 + 120.0 * i, 120, 2, time_limit_s=3600.0) for i in range(16)),
    ),
)


def test_a_gang_starts_at_the_first_boundary_after_its_due_instant() -> None:
    where = cluster(1, 8)
    without = replay(STREAM, where, policy(RIGID, *GANGS), RIGID, CONFIG).events
    due = replay(STREAM, where, policy(RIGID, *GANGS, StartBy(1200.0)), RIGID, CONFIG).events
    assert started(without, "gang") > 1500.0
    assert started(due, "gang") == 1260.0
    # It is not stopped again.
    assert sum(isinstance(e, Started) and e.job == "gang" for e in due) == 1


@pytest.mark.parametrize("durations", ["true", "limits", "easy"])
def test_an_interrupted_run_with_due_jobs_is_finished_as_if_it_had_not_been(
    durations: str, tmp_path: Path
) -> None:
    """With limits nothing is stopped, and reservations go by what jobs have used of theirs."""
    where, rules = cluster(1, 8), (*GANGS, StartBy(1200.0))
    if durations == "limits":
        rules = *rules, NonPreemptible(("*",))
    if durations == "easy":
        rules = *GANGS, StartBy(no_later_than="easy + 5min", restart_s=30.0)
        durations = "true"
    whole, part = tmp_path / "whole", tmp_path / "part"

    def run(out: Path, **how: Any) -> tuple[Event, ...]:
        decides = made(RIGID, *rules, durations=durations)
        return replay(STREAM, where, decides, RIGID, CONFIG, out=out, **how).events

    log = run(whole)
    assert any(isinstance(event, LateStart) for event in log) or StartBy(1200.0) not in rules

    class Stop(Exception):
        pass

    def stop(event: RoundDecided, _: int) -> None:
        if event.index == 24:
            raise Stop

    with pytest.raises(Stop):
        run(part, progress=stop)
    run(part, resume=True)
    assert (part / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()


def test_steady_rounds_end_at_the_next_due_instant() -> None:
    """All GPUs are held by a job that stays: nothing can start, and that is said in time."""
    trace = Trace.of("two", (job("a", 0.0, 2000, 2), job("b", 70.0, 10, 2)))
    rules = NonPreemptible(("*",)), StartBy(1000.0)
    logs = []
    for every in (False, True):
        asked = policy(SMALL, *rules, every=every)
        logs.append(replay(trace, cluster(1, 2), asked, SMALL, CONFIG).events)
        rounds = sum(isinstance(event, RoundDecided) for event in logs[-1])
        assert (asked.asked < rounds // 2) is not every
    assert logs[0] == logs[1]
    late = [event for event in logs[0] if isinstance(event, LateStart)]
    assert [(one.time_s, one.job, one.since_s) for one in late] == [(1080.0, "b", 1070.0)]


@pytest.mark.parametrize("durations", ["true", "noisy:0.7"])
def test_steady_rounds_with_reservations_equal_decided_ones(durations: str) -> None:
    rules = NonPreemptible(("*",)), StartBy(300.0)
    trace = random_trace(3, 12, iterations=900)
    logs = []
    for every in (False, True):
        asked = policy(ToySpeeds(), *rules, every=every, durations=durations)
        logs.append(replay(trace, cluster(2, 4), asked, ToySpeeds(), CONFIG).events)
    assert logs[0] == logs[1]
    assert any(isinstance(event, LateStart) for event in logs[0])


def test_where_nothing_is_stopped_a_gang_starts_when_that_was_first_said() -> None:
    rules = *GANGS, NonPreemptible(("*",)), StartBy(600.0)
    log = replay(STREAM, cluster(1, 8), policy(RIGID, *rules), RIGID, CONFIG).events
    late = [e for e in log if isinstance(e, LateStart) and e.job == "gang"]
    assert len(late) == 1
    from_s = late[0].from_s
    assert from_s is not None
    assert 660.0 < from_s <= started(log, "gang") < from_s + 60.0
    free = replay(STREAM, cluster(1, 8), policy(RIGID, *rules[:-1]), RIGID, CONFIG).events
    assert started(free, "gang") > started(log, "gang") + 600.0


def test_whole_nodes_are_kept_for_a_gang_until_running_jobs_leave_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts alone leave it to chance whether two nodes are empty at the instant of its start."""
    speeds = ToySpeeds(counts=(2, 16), across=1.0)
    draw = np.random.default_rng(1)
    small = [
        job(f"s{i:02}", float(draw.integers(0, 2000)), int(draw.integers(25, 375)), 2)
        for i in range(70)
    ]
    gang = job("gang", 700.0, 800, 16)
    trace = Trace.of("nodes", sorted((*small, gang), key=lambda one: one.submission_s))
    due = StartBy(600.0, jobs=("gang",))
    rules = NonPreemptible(("*",)), GangLimit(("gang",), 16), GangLimit(("s*",), 2, 2), due
    start_s, expected = {}, {}

    def no_nodes(*args: Any) -> tuple[float, np.ndarray]:
        return args[-1], np.zeros(0, dtype=np.int64)

    for kept in (True, False):
        if not kept:
            monkeypatch.setattr(reserving, "_kept", no_nodes)
        events = replay(trace, cluster(3, 8), policy(speeds, *rules), speeds, CONFIG).events
        start_s[kept] = started(events, "gang")
        late = [e.from_s for e in events if isinstance(e, LateStart) and e.job == "gang"]
        expected[kept] = [at_s for at_s in late if at_s is not None]
    assert len(expected[True]) == 1
    assert start_s[True] == CONFIG.interval_s * np.ceil(expected[True][0] / CONFIG.interval_s)
    assert start_s[False] > 1.5 * start_s[True]
