"""Every rule on a tiny round: forced decisions in both models, the check, and the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from formulations import node_assignment, node_pattern
from formulations.round.check import RuleError, check
from formulations.round.tables import NONE, Level, Selection
from morph_opt.core.domain import Allocation, Assignment
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.rules import recheck as recheck_module
from morph_opt.scheduling.decision.rules.audit import BrokenRuleError, audit
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Status
from tests.decision.rules.cases import CASES, OTHER_PLAN, TWO, Case, Grants, allocation
from tests.formulations.worlds import oracle
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import LINEAR, queued, speeds, state

BUILD = {"node_pattern": node_pattern.build, "node_assignment": node_assignment.build}
SPEEDS = speeds({"m": {"1": 8.0, "2": 4.0, "1+1": 4.1, "4": 2.0, "8": 1.0}})
GOOD = [(name, i) for name, case in CASES.items() for i in range(len(case.good))]
BAD = [(name, i) for name, case in CASES.items() for i in range(len(case.bad))]
NODE_WORDS = {"node_rule": "node_set", "maintenance": "node_open"}
"""Starts that these rules forbid are refused by what they do to the round: sets, closed nodes."""


def view_of(case: Case) -> RoundView:
    view = CandidateBuilder(SPEEDS, prune=False).view(case.before)
    return apply_rules(view, case.before, OperatorRules(case.rules))


def selection_of(case: Case, grants: Grants) -> Selection | None:
    """The decision in the problem's indices; None where it has no such candidate."""
    view = view_of(case)
    table = view.problem.candidates
    choice = np.full(view.problem.jobs.count, NONE, dtype=np.int64)
    nodes: list[tuple[int, ...]] = [()] * view.problem.jobs.count
    for job, known in enumerate(view.states):
        parts = grants.get(known.job.name)
        if parts is None:
            continue
        placed = allocation(case.before, {known.job.name: parts}).assignments[0]
        if placed == known.running:
            choice[job] = view.problem.options.stay[job]
            continue
        order = sorted(parts, key=lambda node: (-len(parts[node]), node))
        shape = tuple(len(parts[node]) for node in order)
        own = np.flatnonzero(table.job == job).tolist()
        found = [k for k in own if table.parts(k) == shape]
        if not found:
            return None
        choice[job], nodes[job] = found[0], tuple(order)
    return Selection(choice, tuple(nodes))


def sizes(case: Case) -> Callable[[str], list[tuple[str, int]]]:
    view = view_of(case)
    table = view.problem.candidates
    names = [known.job.name for known in view.states]
    types = [kind.name for kind in case.before.cluster.node_types]

    def of(name: str) -> list[tuple[str, int]]:
        mine = np.flatnonzero(table.job == names.index(name)).tolist()
        return [(types[table.node_class[k]], int(table.gpus[k])) for k in mine]

    return of


@pytest.mark.parametrize(("name", "i"), GOOD)
def test_a_decision_that_keeps_the_rules_passes_everywhere(name: str, i: int) -> None:
    case = CASES[name]
    granted = allocation(case.before, case.good[i])
    assert audit(case.before, granted, OperatorRules(case.rules), sizes(case)) == ()
    assert audit(case.before, granted, OperatorRules(case.rules)) == ()
    selection = selection_of(case, case.good[i])
    assert selection is not None
    problem = view_of(case).problem
    check(problem, selection)
    assert oracle.feasible(problem, selection)


@pytest.mark.parametrize(("name", "i"), BAD)
def test_the_check_names_the_rule_that_a_decision_breaks(name: str, i: int) -> None:
    case = CASES[name]
    selection = selection_of(case, case.bad[i])
    if selection is None:
        pytest.fail("the case needs a configuration that the speeds do not have")
    problem = view_of(case).problem
    assert not oracle.feasible(problem, selection)
    with pytest.raises(RuleError) as caught:
        check(problem, selection)
    starts = any(selection.nodes)
    expected = NODE_WORDS.get(case.word, case.word) if starts else case.word
    assert caught.value.rule == expected
    check(CandidateBuilder(SPEEDS, prune=False).view(case.before).problem, selection)


@pytest.mark.parametrize(("name", "i"), BAD)
def test_the_audit_names_rule_and_job(name: str, i: int) -> None:
    case = CASES[name]
    granted = allocation(case.before, case.bad[i])
    breaches = audit(case.before, granted, OperatorRules(case.rules), sizes(case))
    assert [(b.word, b.subject) for b in breaches] == [(case.word, case.subject)]
    said = str(breaches[0])
    assert said.startswith(f"{case.word}: ")
    assert case.subject in said
    if breaches[0].rule is not None:
        assert breaches[0].rule.words in said
    assert audit(case.before, granted, OperatorRules()) == ()


def _is_forced(name: str, i: int) -> bool:
    """Whether columns alone say what is bad: which node a start is on is none of node_pattern.

    Starts on forbidden nodes are for the check above and for the random rounds.
    """
    selection = selection_of(CASES[name], CASES[name].bad[i])
    assert selection is not None
    return CASES[name].word not in NODE_WORDS or not any(selection.nodes)


@pytest.mark.parametrize("formulation", BUILD)
@pytest.mark.parametrize(
    ("name", "i"), GOOD + [(name, ~i) for name, i in BAD if _is_forced(name, i)]
)
def test_both_models_allow_valid_and_forbid_invalid_decisions(
    name: str, i: int, formulation: str
) -> None:
    """Decisions are forced by bounds; ``~i`` counts bad ones."""
    case = CASES[name]
    selection = selection_of(case, case.good[i] if i >= 0 else case.bad[~i])
    assert selection is not None
    problem = view_of(case).problem
    nothing = Level("nothing", "", np.zeros(problem.options.count))
    built = BUILD[formulation](problem, nothing)
    lower, upper = built.model.column_lower.copy(), built.model.column_upper.copy()
    upper[built.layout.x] = 0.0
    picked = built.layout.picked(selection.choice)
    lower[picked] = upper[picked] = 1.0
    forced = replace(built.model, column_lower=lower, column_upper=upper)
    status = HighsSolver().solve(forced, EXACT).status
    assert status is (Status.OPTIMAL if i >= 0 else Status.INFEASIBLE)


def test_every_rule_keyword_has_a_case() -> None:
    assert {case.word for case in CASES.values()} == {
        "quota",
        "borrow",
        "cohort_quota",
        "queue",
        "limit",
        "strict_order",
        "minimum_run",
        "restart_limit",
        "no_preemption",
        "node_rule",
        "gang_limit",
        "maintenance",
    }


def test_another_plan_on_the_same_gpus_is_a_move() -> None:
    case = CASES["no_preemption"]
    old = case.before.jobs[0].running
    assert old is not None
    moved = Allocation((Assignment("old", OTHER_PLAN, old.placement),))
    assert [b.word for b in audit(case.before, moved, OperatorRules(case.rules))] == [
        "no_preemption"
    ]


def test_the_policy_refuses_a_decision_that_the_audit_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that forget a rule: the policy must not trust them."""
    import morph_opt.scheduling.decision.pose as pose

    case = CASES["quota"]
    monkeypatch.setattr(pose, "apply_rules", lambda view, *_: view)
    policy = MilpPolicy.of(
        LINEAR, make_objective("jct"), HighsSolver(), EXACT, rules=OperatorRules(case.rules)
    )
    with pytest.raises(BrokenRuleError, match=r"quota: tenant mine: holds \d+ GPUs"):
        policy.decide(case.before)


def test_decisions_without_rules_have_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> tuple[()]:
        raise AssertionError("audited")

    monkeypatch.setattr(recheck_module, "audit", never)
    policy = MilpPolicy.of(LINEAR, make_objective("jct"), HighsSolver(), EXACT)
    assert policy.decide(state(TWO, queued("a"))).allocation.gpus
