"""Turns of wide due jobs: who is served when, for how long, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from morph_opt.core.domain import JobState, RoundState, Trace
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.due import DueRows
from morph_opt.scheduling.decision.params import TURNS
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    Rule,
)
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.policies.auto import turns_for
from morph_opt.scheduling.policies.objectives.plain import Jct
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Event, LateStart, Preempted, RoundDecided, Started
from tests.decision.test_due import AN_HOUR, LONG, since, waited
from tests.engine.toys import ToySpeeds, job
from tests.engine.toys import cluster as toy_cluster
from tests.policies.worlds import cluster, running, speeds, state
from tests.replay.test_standing import Asked

WIDE, NARROW = speeds({"m": {"4+4": 1.0}}), speeds({"m": {"1": 8.0, "4+4": 1.0}})
SIX = speeds({"m": {"3+3": 1.0}})
HOUR_S = 3600.0
TURN_S, EVERY_S = TURNS.turn_s, TURNS.every_s


def gang(name: str, seconds: float, **other: object) -> JobState:
    """A job of all GPUs that has waited since its submission."""
    return waited(name, 8, seconds, **{**LONG, **other})


def at(before: RoundState, time_s: float, *rules: Rule, belief: SpeedModel = WIDE) -> DueRows:
    """Rows at an instant if the objective promises an hour."""
    poser = RoundPoser(belief, Jct(), OperatorRules(rules), start_by=(AN_HOUR,), turns=TURNS)
    return poser.pose(replace(before, time_s=time_s)).due


NARROWS = state(cluster(4, 4), *(waited(f"s{i}", 8, 9000.0 - i, **LONG) for i in range(6)))


def names(before: RoundState, found: DueRows) -> list[str]:
    """Jobs with rows, in their order."""
    return [before.jobs[row.job].job.name for row in found.rows]


def test_several_wide_jobs_wait_for_a_turn_and_that_is_said() -> None:
    before = state(cluster(4, 4), gang("a", 5000.0), gang("b", 3600.0))
    for time_s in (EVERY_S, 2 * EVERY_S + TURN_S - 60.0):
        found = at(before, time_s)
        assert names(before, found) == ["a"]
        assert found.next_s == time_s // EVERY_S * EVERY_S + TURN_S
    for time_s in (EVERY_S + TURN_S, 2 * EVERY_S - 60.0):
        found = at(before, time_s)
        assert found.rows == ()
        assert [one.job for one in found.late] == ["a", "b"]
        assert {one.from_s for one in found.late} == {time_s // EVERY_S * EVERY_S + EVERY_S}
        assert all("turn" in one.why for one in found.late)
        assert found.next_s == found.late[0].from_s
        # The operator's own promise knows no turns.
        asked = at(before, time_s, StartBy(4000.0))
        assert names(before, asked) == ["a"]


def test_a_wide_job_alone_starts_when_it_becomes_due_or_in_a_turn() -> None:
    between_s = EVERY_S + TURN_S + HOUR_S
    for seconds, starts in ((3599.0, False), (3600.0, True), (3650.0, True), (3660.0, False)):
        before = state(cluster(4, 4), gang("a", seconds))
        assert bool(at(before, between_s).rows) is starts
    barred = NodeRule(("no",), not_nodes=("n0", "n1"))
    before = state(cluster(4, 4), gang("a", 3600.0), gang("no", 9000.0))
    assert names(before, at(before, between_s)) == []
    found = at(before, between_s, barred)
    assert names(before, found) == ["a"]
    assert "rules" in found.late[0].why


def test_a_job_that_can_start_on_few_gpus_has_no_turns() -> None:
    found = at(NARROWS, EVERY_S - 60.0, belief=NARROW)
    assert names(NARROWS, found) == ["s0", "s1", "s2", "s3"]


def test_due_jobs_hold_half_of_the_gpus_and_more_only_by_the_operators_promise() -> None:
    found = at(NARROWS, EVERY_S - 60.0, belief=NARROW)
    assert [one.job for one in found.late] == ["s4", "s5"]
    assert all("share" in one.why for one in found.late)
    asked = at(NARROWS, EVERY_S - 60.0, StartBy(4000.0, jobs=("s5",)), belief=NARROW)
    assert names(NARROWS, asked) == ["s0", "s1", "s2", "s3", "s5"]
    # The first may need more; what it leaves is for others.
    before = state(cluster(4, 4), gang("a", 9999.0), waited("b", 6, 9000.0))
    assert names(before, at(before, EVERY_S, belief=SIX)) == ["a"]


@pytest.mark.parametrize(
    ("ran_s", "time_s", "other", "held"),
    [
        (TURN_S - 60.0, EVERY_S + TURN_S, {}, True),
        (TURN_S, EVERY_S + TURN_S, {}, False),
        (TURN_S, EVERY_S + TURN_S, {"restart_s": 100.0}, True),
        # A stop would lose what it did since the last checkpoint.
        (TURN_S, EVERY_S + TURN_S, {"checkpointed_s": EVERY_S + TURN_S - 90.0}, True),
        # It would have its next turn at once.
        (2 * TURN_S, EVERY_S + HOUR_S, {}, True),
        # It ends soon: 1,000 iterations at a second.
        (TURN_S, EVERY_S + TURN_S, {"iterations_done": 99_000.0}, True),
    ],
)
def test_a_wide_job_is_held_for_its_turn(
    ran_s: float, time_s: float, other: dict[str, Any], held: bool
) -> None:
    held_gpus = {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}
    known = since(running("a", held_gpus, iterations=100_000), 9000.0, ran_s)
    before = state(cluster(4, 4), replace(known, **{"restart_s": 0.0, **other}))
    found = at(before, time_s)
    assert [row.held for row in found.rows] == ([True] if held else [])
    assert found.late == ()
    assert found.next_s > time_s


def test_rounds_longer_than_a_turn_miss_none() -> None:
    before = replace(state(cluster(4, 4), gang("a", 9000.0)), interval_s=5 * HOUR_S)
    served = [bool(at(before, 5 * HOUR_S * i).rows) for i in range(7)]
    assert served == [True, True, True, True, True, True, True]


def test_only_the_default_has_turns_and_not_where_jobs_must_run_on() -> None:
    assert turns_for(PolicyOptions(objective="auto")) is TURNS
    assert turns_for(PolicyOptions(objective="jct")) is None
    for rule in (NonPreemptible(("x",)), MinimumRun(60.0, ("x",))):
        options = PolicyOptions(objective="auto", rules=OperatorRules((rule,)))
        assert turns_for(options) is None


SPEEDS = ToySpeeds(counts=(2, 8))
STREAM = Trace.of(
    "stream",
    (
        *(job(f"gang{i}", 60.0 + i, 21_600, 8) for i in range(2)),
        *(job(f"s{i:02}", 1500.0 * i, 1350, 2) for i in range(150)),
    ),
)


def test_gangs_that_are_due_together_take_turns_with_all_others() -> None:
    """Gangs of six hours, rounds of an hour; skipped rounds decide as asked ones do."""
    logs: list[tuple[Event, ...]] = []
    for every in (False, True):
        options = PolicyOptions(objective="auto", rules=OperatorRules((GangLimit(("gang*",), 8),)))
        policy = Asked(make_policy("milp", SPEEDS, options), every)
        config = ReplayConfig(interval_s=3600.0, restart_s=300.0)
        logs.append(replay(STREAM, toy_cluster(1, 8), policy, SPEEDS, config).events)
    assert logs[0] == logs[1]
    log = logs[0]
    assert sum(isinstance(event, RoundDecided) for event in log) > 40
    begun = [e for e in log if isinstance(e, Started) and e.job.startswith("gang")]
    due_s = min(e.since_s for e in log if isinstance(e, LateStart))
    turns = [e for e in begun if due_s <= e.time_s]
    assert len(turns) >= 4
    assert all(e.time_s % EVERY_S < TURN_S for e in turns)
    stopped = [e.time_s for e in log if isinstance(e, Preempted) and e.job == turns[0].job]
    assert min(t for t in stopped if t > turns[0].time_s) >= turns[0].time_s + TURN_S
