"""``auto``: what the default takes, that it says so, and that it is what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import morph_opt as mo
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.replay import cli
from morph_opt.replay.prepare import prepare
from morph_opt.replay.scenario import read_scenario
from morph_opt.scheduling.decision.promises import FACTOR, Promises
from morph_opt.scheduling.policies.auto import OnGuesses, chosen, objective_for, promises_for
from morph_opt.scheduling.policies.objectives.plain import SavedTime
from morph_opt.scheduling.policies.options import PolicyOptions, Scheduler
from morph_opt.scheduling.policies.registry import make_policy
from tests.policies.worlds import LINEAR, cluster, queued, random_world, state

STATE = Path(__file__).parents[2] / "docs/schema/example-state.json"


def granted(belief: SpeedModel, before: RoundState, options: PolicyOptions) -> object:
    return make_policy("milp", belief, options).decide(before).allocation


@pytest.mark.parametrize(
    ("durations", "same"),
    [
        ("true", {"objective": "saved-time"}),
        ("noisy:0.7", {"objective": "saved-time"}),
        ("blind", {"objective": "jct-blind", "durations": "true"}),
    ],
)
def test_auto_decides_as_the_objective_it_picks(durations: str, same: dict[str, str]) -> None:
    for seed in range(20):
        belief, before = random_world(np.random.default_rng((37, seed)))
        by_default = PolicyOptions(durations=durations)
        named = replace(by_default, promises="weight", **same)
        assert granted(belief, before, by_default) == granted(belief, before, named)


def test_the_default_is_not_what_it_was() -> None:
    """Two jobs for one GPU: by speed they are alike, by time the short one is first."""
    before = state(cluster(1), queued("long", 1, iterations=10**6), queued("short", 1))
    found = make_policy("milp", LINEAR, PolicyOptions()).decide(before)
    assert set(found.allocation.by_job()) == {"short"}


def test_promises_are_weighed_by_default_under_auto() -> None:
    assert promises_for(PolicyOptions()) == Promises(FACTOR)
    assert promises_for(PolicyOptions(promises="rank")) == Promises()
    assert promises_for(PolicyOptions(promises="weight:3")) == Promises(3.0)
    assert promises_for(PolicyOptions(objective="throughput")) == Promises()
    assert promises_for(PolicyOptions(objective="jct", promises="weight")) == Promises(FACTOR)


def test_auto_states_its_choice_with_the_reason() -> None:
    promised = [queued("a", 1, guaranteed=True).job, queued("b", 1).job]
    plain = promised[1:]
    known = "auto: saved-time, because durations are known"
    assert chosen("milp", PolicyOptions(), plain) == known
    assert chosen("milp", PolicyOptions(), promised) == (
        f"{known}; promises by weight 2, because 1 is guaranteed"
    )
    asked = chosen("milp", PolicyOptions(promises="rank"), promised)
    assert asked == f"{known}; promises by rank, as asked"
    blind = chosen("milp", PolicyOptions(durations="blind"), plain)
    assert blind == "auto: lookahead on guesses, as in jct-blind, because durations are unknown"
    assert "are estimated" in str(chosen("milp", PolicyOptions(durations="noisy:1"), plain))
    assert chosen("milp", PolicyOptions(objective="jct"), plain) is None
    assert chosen("fifo", PolicyOptions(), plain) is None
    assert isinstance(objective_for(PolicyOptions()), SavedTime)
    assert isinstance(objective_for(PolicyOptions(durations="blind")), OnGuesses)


def test_auto_on_guesses_picks_completions_for_workers_and_saved_time_for_others() -> None:
    """And the line says it, of workers alone, of others alone, and where both may come."""
    prepared = prepare(mo.Scenario("easyscale-twin"))
    workers, others = prepared.trace.jobs, [queued("a", 1).job]
    blind = PolicyOptions(durations="blind", promises="rank")
    lines = [chosen("milp", blind, jobs) for jobs in (workers, others, (*workers, *others), ())]
    assert [str(line).partition(" on guesses")[0] for line in lines] == [
        "auto: jct",
        *["auto: lookahead"] * 3,
    ]
    assert lines[2] == lines[3] != lines[1]
    waiting = (JobState(job, restart_s=260.0) for job in workers[:20])
    before = state(prepared.scenario.cluster, *waiting)
    auto, jct, lookahead = (
        granted(prepared.truth, before, replace(blind, objective=name))
        for name in ("auto", "jct", "lookahead")
    )
    assert auto == jct != lookahead


def test_replay_prints_and_records_the_choice_of_auto(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert cli.main(["--trace", "mt", "--until-s", "600", "--out", str(out)]) == 0
    scheduler = read_scenario(out / "config.toml").scheduler
    assert scheduler.objective == "auto"
    line = "auto: saved-time, because durations are known; promises by weight 2, because 194 are"
    assert str(scheduler.chosen).startswith(line)
    assert str(scheduler.chosen) in capsys.readouterr().err
    assert cli.main(["--policy", "fifo", "--until-s", "600", "--out", str(tmp_path / "two")]) == 0
    assert read_scenario(tmp_path / "two" / "config.toml").scheduler.chosen is None
    assert "auto" not in capsys.readouterr().err


def test_a_recorded_choice_is_not_believed() -> None:
    """It is computed again, so that a run that is resumed cannot tell another story."""
    scenario = mo.Scenario("naive", scheduler=Scheduler(chosen="auto: at random"))
    assert prepare(scenario).scenario.scheduler.chosen == chosen("milp", PolicyOptions(), ())


def test_round_prints_the_choice_of_auto() -> None:
    decided, line = mo.decide(STATE), "auto: saved-time, because durations are known"
    document = decided.to_json()
    assert (document["objective"], document["chosen"]) == ("auto", line)
    assert decided.to_text().splitlines()[1] == line
    named = mo.decide(STATE, objective="throughput")
    assert "chosen" not in named.to_json()
    assert "auto" not in named.to_text()
