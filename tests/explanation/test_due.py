"""Prices of due jobs, and jobs that are late, in what is said of a round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import InputError, JobState
from morph_opt.round.decide import decide_round
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.explanation.text import explanation_text, job_text
from morph_opt.scheduling.policies.options import PolicyOptions
from tests.policies.worlds import LINEAR, cluster, queued, running, state

RULES = OperatorRules((StartBy(3600.0),))
OPTIONS = PolicyOptions(objective="jct", gap=0.0)
# Six short jobs on a node of four; a long one is due, another was due when it started.
DUE = replace(queued("due", iterations=90_000), queued_s=4000.0)
HELD = replace(running("held", {0: [0]}, iterations=90_000), queued_s=5000.0, executed_s=60.0)
SHORT = tuple(queued(f"s{i}", iterations=10) for i in range(6))


def snapshot(*jobs: JobState, rules: OperatorRules | None = RULES) -> Snapshot:
    return Snapshot(state(cluster(4), *jobs), LINEAR, rules)


def test_the_price_of_a_row_is_the_value_of_the_round_without_it() -> None:
    decided = decide_round(snapshot(DUE, HELD, *SHORT), OPTIONS, explain=Effort())
    assert decided.explanation is not None
    prices = {one.job: one for one in decided.explanation.due}
    assert {name: one.row for name, one in prices.items()} == {"due": "due", "held": "held"}
    # Without the rule about one of them, the other keeps its row.
    for name, other in (("due", "held"), ("held", "due")):
        only = OperatorRules((StartBy(3600.0, jobs=(other,)),))
        free = decide_round(snapshot(DUE, HELD, *SHORT, rules=only), OPTIONS)
        gained = free.decision.report.objective - decided.decision.report.objective
        assert gained > 0.0
        assert prices[name].price == pytest.approx(gained, rel=1e-6)
    text = explanation_text(decided.explanation)
    assert "due: due since -220 s, has to start for" in text
    assert "held: due since -1280 s, keeps running for" in text
    assert "has to start" in job_text(decided.explanation, "due")


def test_a_round_without_due_jobs_says_nothing_of_them() -> None:
    decided = decide_round(snapshot(*SHORT), OPTIONS, explain=Effort())
    document = decided.to_json()
    assert "late" not in document
    assert "due" not in document["explanation"]


def test_late_jobs_are_in_the_decision() -> None:
    wide = replace(queued("wide", 4, iterations=90_000), queued_s=4500.0)
    whole = running("whole", {0: [0, 1, 2, 3]}, iterations=90_000)
    whole = replace(whole, queued_s=9000.0, executed_s=60.0)
    decided = decide_round(snapshot(wide, DUE, whole), OPTIONS)
    late = decided.to_json()["late"]
    assert [(one["job"], one["since_s"]) for one in late] == [("wide", -720.0), ("due", -220.0)]
    assert "late: wide, due since -720 s: its GPUs do not fit" in decided.to_text()


def test_a_baseline_refuses_the_rule() -> None:
    with pytest.raises(InputError, match="start_by is a rule of policy milp only"):
        decide_round(snapshot(*SHORT), PolicyOptions(), policy="fifo")
