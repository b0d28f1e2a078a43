"""Why a job got what it got: every reason by hand, displacement against brute force."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from formulations.round.tables import Selection
from morph_opt.core.domain import A800_NODE, Cluster, JobState, RoundState
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.tables.table import MeasuredTable
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StartBy,
    StrictOrder,
)
from morph_opt.scheduling.decision.rules.spec import KINDS
from morph_opt.scheduling.explanation.explainer import as_granted
from morph_opt.scheduling.explanation.report import EXPLAIN, Effort
from morph_opt.scheduling.explanation.text import _REASONS, explanation_text
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.explanation.worlds import ONE, builder, by_job, explained
from tests.formulations.worlds import oracle
from tests.policies.worlds import (
    EXACT,
    LINEAR,
    cluster,
    queued,
    random_world,
    running,
    speeds,
    state,
)


def ran(known: JobState, **other: object) -> JobState:
    """The job was restarted a minute ago."""
    past: dict[str, object] = {"first_start_s": 60.0, "last_start_s": 120.0, "starts": 2}
    past["recent_starts_s"] = (60.0, 120.0)
    return replace(known, **(past | other))  # type: ignore[arg-type]


HOLDER = ran(running("a", {0: [0]}))
"""Holds one GPU of four, would be four times as fast on all."""
WIDE = speeds({"m": {"4": 2.0}, "s": {"1": 8.0}})
"""Model m takes a node of four, model s one GPU."""
SMALL = ran(running("a", {0: [0]}, model="s", weight=0.001))
RULES: dict[str, tuple[object, RoundState, Rule, str]] = {
    "quota": (LINEAR, state(cluster(4), queued("b", 1)), TenantQuota("default", 2), "b"),
    "minimum_run": (WIDE, state(cluster(4), SMALL, queued("b", 4)), MinimumRun(600.0), "b"),
    "restart_limit": (LINEAR, state(cluster(4), HOLDER), RestartLimit(1), "a"),
    "no_preemption": (WIDE, state(cluster(4), SMALL, queued("b", 4)), NonPreemptible(("a",)), "b"),
    "node_rule": (LINEAR, state(cluster(4), queued("b")), NodeRule(("b",), not_nodes=("n*",)), "b"),
    "gang_limit": (LINEAR, state(cluster(4), queued("b")), GangLimit(("b",), most=2), "b"),
    "maintenance": (
        LINEAR,
        state(cluster(4), queued("b")),
        Maintenance(("n0",), 100.0, 900.0),
        "b",
    ),
    "cohort_quota": (
        LINEAR,
        state(cluster(4), queued("b", 1)),
        CohortQuota("q", 2.0, tenants=("default",)),
        "b",
    ),
    "queue": (
        LINEAR,
        state(cluster(4), queued("b", 1)),
        Queue("default", nominal={"*": 2}),
        "b",
    ),
    "limit": (LINEAR, state(cluster(4), queued("b", 1)), RunningLimit("user", gpus=2), "b"),
    "strict_order": (
        WIDE,
        state(cluster(4), queued("a", 4, weight=0.001), queued("b", 4)),
        StrictOrder(("a", "b")),
        "b",
    ),
}
GOALS = {Priority, PriorityClass, NodePreference, StartBy}
"""Rules that rank or demand what jobs get and forbid nothing."""


TAKES = {
    "quota": "0 of 2 GPUs of tenant default are in use; 4 more take 2 beyond that",
    "minimum_run": "jobs within their minimum run: 1; the first may be moved in 540 s",
    "restart_limit": "restarts of a within an hour: 1; the next in 3540 s",
    "no_preemption": "it takes waiting until a ends",
    "node_rule": "it may use 0 of 1 nodes, and needs 4 free GPUs there or other nodes",
    "gang_limit": "the option has 4 GPUs, and from 1 to 2 are allowed",
    "maintenance": "nodes n0 take jobs again in 720 s, when the window ends",
    "cohort_quota": "0 of 2 GPUs of q are in use; 4 more take 2 beyond that",
    "queue": "queue default holds 0 of its 2 GPUs; 4 more take 2 as nominal",
    "limit": "0 of 2 GPUs of user without a name are in use; 4 more take 2 beyond that",
    "strict_order": "a have to start before b",
}
"""What the blocked option of each case takes."""


def test_every_kind_of_rule_has_its_case() -> None:
    assert TAKES.keys() == RULES.keys()
    assert {type(rule) for _, _, rule, _ in RULES.values()} == set(KINDS.values()) - GOALS
    for word, (_, _, rule, _) in RULES.items():
        assert rule.words.startswith(f"{word.removeprefix('cohort_')}:")


@pytest.mark.parametrize("word", RULES)
def test_the_blocking_rule_is_named(word: str) -> None:
    """Between two innocent rules; without the rule nothing blocks, and the job gets its best."""
    speed, here, rule, job = RULES[word]
    innocent = (GangLimit(("z*",), most=1), NodeRule(("z*",), only_nodes=("n0",)))
    rules = OperatorRules((innocent[0], rule, innocent[1]))
    found = by_job(explained(speed, here, rules))[job]  # type: ignore[arg-type]
    assert found.reason == "rule"
    assert found.blocked_by == (rule.words,)
    assert found.takes == (TAKES[word],)
    assert found.best is not None
    free = by_job(explained(speed, here, rules.without(rule)))[job]  # type: ignore[arg-type]
    assert (free.reason, free.blocked_by) == ("best", ())
    assert free.granted is not None
    assert free.granted.shape == found.best.shape


LONG = ran(running("a", {0: range(4)}, weight=0.001, priority=5.0))


@pytest.mark.parametrize(
    ("rules", "priority", "words"),
    [
        (
            (PriorityClass("low", (0, 9)),),
            5.0,
            'class low stops none of its own: it takes waiting until a ends, or preempts = "own"',
        ),
        (
            (PriorityClass("low", (0, 9), preemptible=False), PriorityClass("high", (10, 19))),
            10.0,
            "jobs of class low are not stopped: it takes waiting until a ends",
        ),
        (
            (PriorityClass("low", (0, 9)), PriorityClass("high", (10, 19), "nothing")),
            10.0,
            "class high stops no others: it takes waiting until a ends",
        ),
    ],
)
def test_the_class_in_the_way_is_named(
    rules: tuple[PriorityClass, ...], priority: float, words: str
) -> None:
    here = state(cluster(4), LONG, queued("b", 4, priority=priority))
    found = by_job(explained(WIDE, here, OperatorRules(rules)))["b"]
    assert found.reason == "rule"
    assert words in found.takes


def test_the_queue_in_the_way_is_named_with_what_it_holds_and_may_borrow() -> None:
    """b owns 2 and may borrow 1; x, which may not be stopped, holds one of them."""
    tree = (
        Queue("all", nominal={"*": 8}),
        Queue("a", "all", {"*": 6}),
        Queue("b", "all", {"*": 2}, borrow={"*": 1}),
    )
    x = ran(running("x", {0: [0]}, model="s", tenant="b", weight=0.001))
    here = state(cluster(4, 4), x, queued("y", 4, tenant="all.b"))
    rules = OperatorRules((*tree, NonPreemptible(("x",))))
    found = by_job(explained(WIDE, here, rules))["y"]
    assert found.reason == "rule"
    assert "queue all.b holds 1 of its 2 GPUs and may borrow 1" in found.takes[0]
    assert "4 more take 3 as nominal or lent by other queues" in found.takes[0]


def test_two_rules_that_block_together_are_both_named() -> None:
    rules = (GangLimit(("b",), most=2), TenantQuota("default", 2))
    found = by_job(explained(LINEAR, state(cluster(4), queued("b")), OperatorRules(rules)))["b"]
    assert found.reason == "rule"
    assert found.granted is not None
    assert found.granted.gpus == 2
    assert set(found.blocked_by) <= {rule.words for rule in rules}
    assert found.blocked_by


def test_reasons_by_hand() -> None:
    """Four GPUs: a is worth most there; c is short of one GPU; d has no configuration."""
    table = speeds({"m": {"1": 8.0, "4": 2.0}, "big": {"8": 1.0}})
    jobs = (queued("a", weight=5.0), queued("c"), queued("d", model="big"))
    found = by_job(explained(table, state(cluster(4), *jobs)))
    assert found["a"].reason == "best"
    assert found["c"].reason == "price"
    assert found["c"].displaces is not None
    assert [loss.job for loss in found["c"].displaces.losses] == ["a"]
    assert (found["d"].reason, found["d"].best) == ("no_configuration", None)


def test_a_guarantee_excludes_what_is_worth_more() -> None:
    """Job a has a promise of one GPU and little weight; b would be worth more there."""
    jobs = (queued("a", guaranteed=True, weight=0.1), queued("b"))
    found = by_job(explained(ONE, state(cluster(1), *jobs)))
    assert found["a"].granted is not None
    waiting = found["b"]
    assert waiting.reason == "earlier_goal"
    assert waiting.displaces is not None
    assert waiting.displaces.cost < 0


def test_beyond_the_effort_nothing_is_examined() -> None:
    """Integrality: one job of 3 GPUs fits, its price in the relaxation is below its value."""
    table = speeds({"m": {"3": 1.0}})
    jobs = [queued(name, 3) for name in "abc"]
    here = state(cluster(4, 4), *jobs)
    lazy = explained(table, here, effort=Effort(jobs=0, rules=0))
    assert {job.displaces for job in lazy.jobs} == {None}
    found = explained(table, here)
    assert sum(job.reason == "tie" for job in found.jobs) == 1


def plain_world(seed: int, rows: int = 5) -> tuple[MeasuredTable, RoundState]:
    """Without promises; start-up that is left is never more than a start-up."""
    table, here = random_world(np.random.default_rng(seed), rows=rows)
    jobs = tuple(
        replace(
            known,
            job=replace(known.job, guaranteed=False),
            restart_left_s=min(known.restart_left_s, known.restart_s),
        )
        for known in here.jobs
    )
    return table, replace(here, jobs=jobs)


@pytest.mark.parametrize("seed", range(30))
def test_displacement_is_that_of_brute_force(seed: int) -> None:
    table, here = plain_world(seed, rows=3)
    view = builder(table).view(here)
    problem = view.problem
    level = Throughput().levels(problem)[0]
    rows = oracle.combinations(problem).tolist()
    worth = {tuple(row): oracle.value(row, level) for row in rows if oracle.place(problem, row)}
    best = max(worth.values())
    found = explained(table, here)
    assert found.value == pytest.approx(best, rel=1e-9)
    for j, job in enumerate(found.jobs):
        if job.best is None:
            continue
        same = [
            k
            for k in range(int(view.offset[j]), int(view.offset[j + 1]))
            if level.value[k] == pytest.approx(job.best.value)
            and view.configuration(j, k).shape.label == job.best.shape
            and view.configuration(j, k).plan.label == job.best.plan
        ]
        forced = [value for row, value in worth.items() if row[j] in same]
        if job.displaces is None:
            assert (job.reason, forced) == ("placement", [])
            continue
        assert job.displaces.cost == pytest.approx(best - max(forced), abs=1e-6)
        assert (job.reason == "tie") == (job.displaces.cost <= 1e-6 * max(best, 1e-300))
        lost = sum(loss.loses for loss in job.displaces.losses)
        assert lost >= job.displaces.cost - 1e-6


def test_explained_choices_equal_the_decision() -> None:
    """Choices as granted, a start in place as the stay it comes to, are worth what is reported."""
    for seed in range(40):
        table, here = plain_world(seed)
        decision = MilpPolicy.of(table, Throughput(), HighsSolver(), EXACT).decide(here)
        evidence = decision.evidence
        assert evidence is not None
        choice = as_granted(evidence.posed, evidence.selection, decision.allocation)
        value = Selection(choice, tuple(() for _ in here.jobs)).value(evidence.posed.worth)
        assert value == pytest.approx(decision.report.objective)


def test_refused_plans_are_told_with_the_reason() -> None:
    """LLaMA-30B in plain data parallelism fits no A800; the reason says what is short."""
    where = Cluster.uniform(2, A800_NODE)
    job = queued("a", 8, model="llama30")
    found = explained(builtin_model(), state(where, job), effort=Effort(0))
    by_plan = {refused.plan: refused for refused in found.refusals}
    assert "GiB per GPU" in by_plan["dp"].reason
    assert by_plan["dp"].shapes[0] == "1"
    assert f"llama30 on {A800_NODE.name}: dp on 1 and" in explanation_text(found)


def test_prices_and_solves_do_not_contradict_each_other() -> None:
    """Three jobs want a GPU on each of two nodes of three: the relaxation runs half a job more."""
    pairs = speeds({"m": {"1+1": 4.0}})
    jobs = (queued("a", 2), queued("b", 2), queued("c", 2))
    found = explained(pairs, state(cluster(1, 1, 1), *jobs), effort=Effort(0))
    assert found.optimum is not None
    assert found.relaxation > 1.2 * found.optimum
    text = explanation_text(found)
    assert "above the optimum: estimates, but for what was solved" in text
    assert "at these prices" in text
    solved = explanation_text(explained(pairs, state(cluster(1, 1, 1), *jobs), effort=Effort(9)))
    assert "at these prices" not in solved
    tight = explained(pairs, state(cluster(1, 1), *jobs), effort=Effort(9))
    assert "above the optimum" not in explanation_text(tight)


def test_text_and_json_agree() -> None:
    jobs = (running("a", {0: [0, 1]}), queued("b", 4), queued("c", 2))
    found = explained(LINEAR, state(cluster(4), *jobs), effort=Effort(nodes=True))
    plain = found.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    text = explanation_text(found)
    for job in plain["jobs"]:
        assert any(line.startswith(f"{job['job']} ") for line in text.splitlines())
        assert job["reason"] in {*_REASONS, "price"}
    assert all(line == line.rstrip() for line in text.splitlines())


def test_every_reason_has_a_text() -> None:
    from morph_opt.scheduling.explanation.report import JobExplanation

    text = JobExplanation.__doc__ or ""
    for reason in _REASONS:
        assert f"``{reason}``" in text


def test_a_what_if_ends_by_counting_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock decides: after so many models the solver answers that it does not know."""
    here = state(cluster(1), queued("a"), queued("b"))
    monkeypatch.setattr("morph_opt.scheduling.explanation.case.EXPLAIN", replace(EXPLAIN, solves=1))
    found = by_job(explained(ONE, here))
    assert {job.reason for job in found.values()} == {"best", "tie"}
    monkeypatch.setattr("morph_opt.scheduling.explanation.case.EXPLAIN", replace(EXPLAIN, solves=0))
    found = by_job(explained(ONE, here))
    assert {job.reason for job in found.values()} == {"best", "not_examined"}
