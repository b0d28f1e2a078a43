"""The virtual EASY schedule, and due instants after its starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import morph_opt as mo
from benchmarks.checks.no_later import RESTART_S, ROUND_S, easy_starts
from benchmarks.streams import Row
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.decision.shadow import Shadow
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import make_policy
from tests.engine.toys import ToySpeeds, cluster, job

RULE = StartBy(no_later_than="easy + 90 min", restart_s=30.0)


def test_it_starts_jobs_as_a_restatement_that_counts_gpus() -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        rows: list[Row] = [
            (f"j{at}", *map(int, draw.integers((1, 1, 60), (9_000, 9, 6_000)))) for at in range(24)
        ]
        rows.sort(key=lambda row: (row[1], row[0]))
        shadow, at_s = Shadow(RESTART_S), 0.0
        jobs = {row[0]: JobState(job(row[0], float(row[1]), 8, row[2])) for row in rows}
        # Some rounds are skipped, as the policy is not asked while nothing changes.
        while len(shadow.starts_s) < len(rows):
            at_s += ROUND_S * (1 if at_s < 9_600.0 else int(draw.integers(1, 50)))
            here = [row for row in rows if row[1] <= at_s]
            state = RoundState(0, at_s, ROUND_S, cluster(1, 8), tuple(jobs[row[0]] for row in here))
            asked = np.array([float(row[3]) for row in here]), np.ones((len(here), 1), dtype=bool)
            shadow.see(state, lambda asked=asked: asked)
        assert shadow.starts_s == easy_starts(rows, 8)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({}, "either wait_s or no_later_than"),
        ({"wait_s": 1.0, "no_later_than": "easy + 1h", "restart_s": 1.0}, "either wait_s or"),
        ({"no_later_than": "fifo + 1h", "restart_s": 1.0}, 'must be "easy \\+ TIME", such as'),
        ({"no_later_than": "easy + 1h"}, "needs restart_s as well"),
        ({"wait_s": 1.0, "restart_s": 1.0}, "goes with no_later_than only"),
        ({"no_later_than": "easy + 1h", "restart_s": 1.0, "per_run_second": 1.0}, "has neither"),
    ],
)
def test_rules_that_say_too_little_or_too_much_are_refused(fields, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        StartBy(**fields)


def test_units_of_the_time_after_easy() -> None:
    assert RULE.after_easy_s == 5_400.0
    assert replace(RULE, no_later_than="easy + 1.5h").after_easy_s == 5_400.0
    assert StartBy(60.0).after_easy_s is None


@pytest.mark.parametrize("durations", ["blind", "limits:learnt"])
def test_guessed_run_times_are_refused(durations: str) -> None:
    options = PolicyOptions(rules=OperatorRules((RULE,)), durations=durations)
    with pytest.raises(InputError, match="guessed from completed jobs"):
        make_policy("milp", ToySpeeds(), options)


def test_a_round_with_a_past_is_refused() -> None:
    policy = make_policy("milp", ToySpeeds(), PolicyOptions(rules=OperatorRules((RULE,))))
    waited = JobState(job("a", 0.0, 80, 8), queued_s=600.0)
    state = RoundState(0, 600.0, 60.0, cluster(1, 8), (waited,))
    with pytest.raises(InputError, match="every round since the first, and these jobs have a past"):
        policy.decide(state)


def test_a_single_round_is_refused() -> None:
    given = json.loads((Path(__file__).parents[2] / "docs/schema/example-state.json").read_text())
    given["rules"] = {"start_by": [{"no_later_than": "easy + 8h", "restart_s": 260.0}]}
    with pytest.raises(InputError, match="every round since the first, which only a replay has"):
        mo.decide(given)
