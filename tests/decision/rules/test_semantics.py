"""What the rules mean when they meet: leads, borrowing, ranks, guarantees, the fallback."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from formulations.round.check import check
from formulations.round.tables import NONE, Level
from morph_opt.core.domain import Allocation, InputError, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.rules.audit import BrokenRuleError, audit
from morph_opt.scheduling.decision.rules.compile import apply_rules
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
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, RunningLimit
from morph_opt.scheduling.decision.rules.ranks import ranks_below
from morph_opt.scheduling.decision.rules.recheck import require_kept
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.decision.rules.worlds import plain_view, ruled_world
from tests.formulations.worlds.solving import EXACT
from tests.policies.worlds import (
    LINEAR,
    FakeSolver,
    cluster,
    counts,
    grants,
    queued,
    running,
    speeds,
    state,
)

NOW_S = 180.0


def decide(
    before: RoundState,
    *rules: Rule,
    table: SpeedModel = LINEAR,
    objective: str = "jct",
    fewer_moves: bool = False,
    tighter_packing: bool = False,
) -> Decision:
    policy = MilpPolicy.of(
        table,
        make_objective(objective),
        HighsSolver(),
        EXACT,
        rules=OperatorRules(rules, fewer_moves, tighter_packing),
    )
    return policy.decide(before)


def test_a_borrower_has_what_the_owner_cannot_use_and_gives_it_back_at_once() -> None:
    quotas = (TenantQuota("mine", 4, borrow_gpus=None), TenantQuota("theirs", 4))
    away = decide(state(cluster(8), queued("a", tenant="mine")), *quotas).allocation
    assert counts(away) == {"a": 8}
    held = replace(running("a", {0: range(8)}, tenant="mine"), restart_s=1e4)
    back = decide(state(cluster(8), held, queued("b", tenant="theirs")), *quotas).allocation
    assert counts(back) == {"a": 4, "b": 4}


def test_a_borrower_that_may_not_be_moved_yet_gives_back_when_it_may() -> None:
    quotas = (TenantQuota("mine", 4, borrow_gpus=None), TenantQuota("theirs", 4))
    held = replace(running("a", {0: range(8)}, tenant="mine"), last_start_s=NOW_S - 60.0)
    before = state(cluster(8), held, queued("b", tenant="theirs"))
    assert counts(decide(before, *quotas, MinimumRun(61.0)).allocation) == {"a": 8}
    assert counts(decide(before, *quotas, NonPreemptible(("a",))).allocation) == {"a": 8}
    assert counts(decide(before, *quotas, MinimumRun(60.0)).allocation) == {"a": 4, "b": 4}


@pytest.mark.parametrize(
    "limit", [GangLimit(("b",), most=1), RunningLimit("user", gpus=1, queues=("theirs",))]
)
def test_gpus_kept_from_an_owner_by_a_limit_can_be_borrowed(limit: Rule) -> None:
    quotas = (TenantQuota("mine", 4, borrow_gpus=None), TenantQuota("theirs", 4))
    before = state(cluster(8, 8), queued("a", tenant="mine"), queued("b", tenant="theirs"))
    elastic = decide(before, *quotas).allocation
    assert counts(elastic) == {"a": 4, "b": 4}
    limited = decide(before, *quotas, limit).allocation
    # Four of mine and three of theirs: a job has 1, 2, 4 or 8 GPUs.
    assert counts(limited) == {"a": 4, "b": 1}
    two = state(cluster(8, 8), *before.jobs, queued("c", tenant="mine"))
    assert sum(counts(decide(two, *quotas, limit).allocation).values()) == 7


def test_tenants_without_quota_are_not_limited() -> None:
    before = state(cluster(8), queued("a", tenant="other"))
    assert counts(decide(before, TenantQuota("mine", 0)).allocation) == {"a": 8}


@pytest.mark.parametrize("start_s", [3000.0, 3001.0, 3030.0, 3059.0])
@pytest.mark.parametrize("seconds", [45.0, 300.0, 310.0])
def test_a_lead_of_the_minimum_run_is_enough_for_both(start_s: float, seconds: float) -> None:
    """The last round that may still place a job there is at least a minimum run before."""
    rules = OperatorRules((Maintenance(("n0",), start_s, 9e3, lead_s=seconds),))
    builder = CandidateBuilder(LINEAR)
    placed_s = left_s = None
    for boundary in range(70):
        now_s = 60.0 * boundary
        known = replace(running("a", {0: [0]}), last_start_s=0.0)
        before = replace(state(cluster(8, 8), known), time_s=now_s)
        problem = apply_rules(builder.view(before), before, rules).problem
        if problem.nodes.open[0]:
            placed_s = now_s
        if left_s is None and "maintenance" in problem.rules.name:
            left_s = now_s
    assert placed_s is not None
    assert left_s is not None
    assert left_s <= start_s < left_s + 60.0
    assert left_s - placed_s >= seconds


def test_a_window_that_has_ended_is_over() -> None:
    before = state(cluster(8), queued("a"))
    assert not counts(decide(before, Maintenance(("n0",), 0.0, NOW_S + 0.5)).allocation)
    assert counts(decide(before, Maintenance(("n0",), 0.0, NOW_S)).allocation) == {"a": 8}


def test_rules_that_contradict_each_other_are_an_error() -> None:
    before = state(cluster(8, 8), running("a", {0: [0]}))
    with pytest.raises(InfeasibleRoundError, match="contradict each other in the round at 180 s"):
        decide(before, NonPreemptible(("*",)), Maintenance(("n0",), NOW_S, 9e3))


def test_a_node_that_the_cluster_does_not_have_is_found_by_the_policy() -> None:
    with pytest.raises(InputError, match=r"maintenance\.nodes: 'n7' matches nothing"):
        decide(state(cluster(8), queued("a")), Maintenance(("n7",), 0.0, 1.0))


def test_a_job_may_stay_on_a_drained_node_unless_a_rule_says_otherwise() -> None:
    before = state(cluster(8, 8), replace(running("a", {0: range(8)}), restart_s=1e4), closed=[0])
    assert grants(decide(before).allocation)["a"].keys() == {0}
    assert grants(decide(before, NodeRule(("a",), not_nodes=("n0",))).allocation)["a"].keys() == {1}


def test_rules_come_before_guarantees() -> None:
    before = state(cluster(8), queued("a", 8, guaranteed=True))
    decision = decide(before, GangLimit(("a",), most=4))
    assert counts(decision.allocation) == {"a": 4}
    assert decision.report.guarantees_short == 1
    assert decision.report.guarantees_possible is False


def test_a_job_that_lost_its_gpus_comes_back_within_the_hour() -> None:
    known = replace(
        queued("a"), first_start_s=0.0, last_start_s=120.0, recent_starts_s=(60.0, 120.0)
    )
    before = state(cluster(8), known)
    for later_s, runs in ((0.0, False), (3479.0, False), (3480.0, True)):
        now = replace(before, time_s=NOW_S + later_s)
        assert bool(counts(decide(now, RestartLimit(2)).allocation)) is runs


def test_the_first_start_is_free() -> None:
    assert counts(decide(state(cluster(8), queued("a")), RestartLimit(1)).allocation) == {"a": 8}


def test_a_least_gang_keeps_configurations_that_smaller_ones_dominate() -> None:
    flat = speeds({"m": {"1": 2.0, "4": 2.0, "8": 2.5}})
    before = state(cluster(8), queued("a"))
    assert counts(decide(before, table=flat).allocation) == {"a": 1}
    assert counts(decide(before, GangLimit(("a",), least=2), table=flat).allocation) == {"a": 4}


def test_fewer_moves_breaks_a_tie_for_staying() -> None:
    """Of two equal jobs that start up for nothing, either may have the node."""
    free = replace(running("a", {0: range(4)}), restart_s=0.0)
    before = state(cluster(4), free, replace(queued("b", 4), restart_s=0.0))
    problem = CandidateBuilder(speeds({"m": {"4": 2.0}})).view(before).problem
    level = make_objective("throughput").levels(problem)[0]
    ranks = ranks_below(problem, OperatorRules(fewer_moves=True))
    solver = RoundSolver(HighsSolver(), EXACT)
    stayed = solver.ranked(problem, (level, *ranks)).selection
    assert stayed is not None
    assert stayed.choice[0] == problem.options.stay[0]
    moves = Level("more_moves", "jobs", -ranks[0].value)
    moved = solver.ranked(problem, (level, moves)).selection
    assert moved is not None
    assert moved.choice[0] != problem.options.stay[0]
    assert moved.value(level) == pytest.approx(stayed.value(level), rel=1e-9)


def test_tighter_packing_breaks_a_tie_for_fewer_nodes() -> None:
    """In either order of the two: a solver that is not asked takes the first of equals, or not."""
    before = state(cluster(2, 2), queued("a"))
    for first, second in (("2", "1+1"), ("1+1", "2")):
        table = speeds({"m": {first: 2.0, second: 2.0}})
        problem = CandidateBuilder(table, prune=False).view(before).problem
        level = make_objective("throughput").levels(problem)[0]
        (rank,) = ranks_below(problem, OperatorRules(tighter_packing=True))
        # 2 - 1 for one node, 2 - 2 for two; the other way round the rank must say the opposite.
        assert sorted(rank.value.tolist()) == [0.0, 1.0]
        wider = replace(rank, name="wider", value=-rank.value)
        for goal, parts in ((rank, (2,)), (wider, (1, 1))):
            found = RoundSolver(HighsSolver(), EXACT).ranked(problem, (level, goal)).selection
            assert found is not None
            assert problem.candidates.parts(int(found.choice[0])) == parts


def test_tighter_packing_never_pays_for_stopping_a_job() -> None:
    """A value below the slack of the rank above must not be given away for fewer nodes."""
    table = speeds({"m": {"2+2": 1.0}, "w": {"2": 1.0}})
    long = queued("long", model="w", iterations=10**12)
    wide = replace(running("wide", {0: [0, 1], 1: [0, 1]}), restart_s=30.0)
    before = state(cluster(4, 4), wide, long)
    assert set(counts(decide(before, tighter_packing=True, table=table).allocation)) == {
        "wide",
        "long",
    }
    stays = replace(running("long", {0: [2, 3]}, model="w", iterations=10**12))
    before = state(cluster(4, 4), wide, stays)
    assert len(counts(decide(before, tighter_packing=True, table=table).allocation)) == 2


def test_ranks_below_are_no_part_of_the_objective() -> None:
    before = state(cluster(8), running("a", {0: [0, 1]}), queued("b"))
    plain, ranked = decide(before), decide(before, fewer_moves=True, tighter_packing=True)
    assert ranked.report.objective == pytest.approx(plain.report.objective, rel=1e-6)


def fallback(before: RoundState, *rules: Rule) -> dict[str, int]:
    policy = MilpPolicy.of(
        LINEAR, make_objective("jct"), FakeSolver("nothing"), EXACT, rules=OperatorRules(rules)
    )
    decision = policy.decide(before)
    assert decision.report.status == "fallback"
    return counts(decision.allocation)


def test_the_fallback_keeps_the_rules() -> None:
    a, b = running("a", {0: [0, 1, 2, 3]}), running("b", {0: [4, 5, 6, 7]})
    assert fallback(state(cluster(8, 8), a), Maintenance(("n0",), NOW_S, 9e3)) == {"a": 8}
    assert fallback(state(cluster(8), a, b), TenantQuota("default", 4)) in ({"a": 4}, {"b": 4})
    assert fallback(state(cluster(8), queued("c")), GangLimit(("c",), 2, 2)) == {"c": 2}


def test_the_fallback_evicts_nobody_but_whom_the_rule_concerns() -> None:
    worth = replace(running("mine", {0: [0, 1]}, tenant="mine"), iterations_done=99.0)
    poor = running("poor", {1: range(8)}, tenant="theirs", weight=0.01)
    before = state(cluster(8, 8), worth, poor)
    for rule in (GangLimit(("mine",), most=1), TenantQuota("mine", 1)):
        view = apply_rules(CandidateBuilder(LINEAR).view(before), before, OperatorRules((rule,)))
        level = make_objective("jct").levels(view.problem)[0]
        selection = keep_and_fill(view.problem, level)
        assert selection.choice[1] == view.problem.options.stay[1]
        assert view.problem.candidates.gpus[selection.choice[0]] == 1


def test_the_fallback_evicts_borrowers_when_owners_are_back() -> None:
    quotas = (TenantQuota("mine", 4, borrow_gpus=None), TenantQuota("theirs", 4))
    poor = running("poor", {1: [0]}, tenant="other", weight=1e-3)
    a = running("a", {0: range(8)}, tenant="mine")
    before = state(cluster(8, 8), a, poor, queued("b", tenant="theirs"))
    assert fallback(before, *quotas) == {"a": 4, "poor": 8, "b": 4}


@pytest.mark.parametrize("block", range(3))
def test_the_fallback_keeps_random_rules(block: int) -> None:
    kept = 0
    for i in range(60):
        draw = np.random.default_rng((80, block, i))
        table, before, rules = ruled_world(draw)
        keeping = NonPreemptible | MinimumRun | PriorityClass
        if any(isinstance(rule, keeping) for rule in rules.rules):
            rules = OperatorRules(tuple(r for r in rules.rules if not isinstance(r, keeping)))
        view = apply_rules(plain_view(table, before, rules), before, rules)
        level = make_objective("jct").levels(view.problem)[0]
        selection = keep_and_fill(view.problem, level)
        check(view.problem, selection)
        kept += bool((selection.choice != NONE).any())
    assert kept > 20


def test_the_audit_knows_more_with_sizes_than_without() -> None:
    """Borrowed while the owner's job waits: seen only by who knows what that job could use."""
    quotas = (TenantQuota("mine", 4, borrow_gpus=None), TenantQuota("theirs", 4))
    before = state(cluster(8), queued("a", tenant="mine"), queued("b", tenant="theirs"))
    greedy = decide(state(cluster(8), queued("a", tenant="mine"))).allocation
    assert audit(before, greedy, OperatorRules(quotas)) == ()
    breaches = audit(
        before, greedy, OperatorRules(quotas), lambda _: [("x8", n) for n in (1, 2, 4, 8)]
    )
    assert [breach.word for breach in breaches] == ["borrow"]
    assert "4 GPUs are borrowed in all, owners leave 0" in str(breaches[0])


@pytest.mark.parametrize("limit", [GangLimit(("b",), most=3), RunningLimit("job", gpus=3)])
def test_a_decision_is_checked_by_the_largest_size_within_limits(limit: Rule) -> None:
    """The owner's job could use 2 of its 4 GPUs: of sizes 1, 2, 4 and 8 its limit leaves two."""
    rules = OperatorRules(
        (TenantQuota("mine", 0, borrow_gpus=None), TenantQuota("theirs", 4), limit)
    )
    greedy = [running(f"a{i}", {0: [i]}, tenant="mine") for i in range(3)]
    waits = (replace(known, running=None) for known in greedy)
    before = state(cluster(8), *waits, queued("b", tenant="theirs"))
    view = plain_view(LINEAR, before, rules)
    for borrowed, outcome in (
        (2, nullcontext()),
        (3, pytest.raises(BrokenRuleError, match="3 GPUs are borrowed in all, owners leave 2")),
    ):
        held = [known.running for known in greedy[:borrowed] if known.running is not None]
        with outcome:
            require_kept(before, Allocation(tuple(held)), rules, view)
