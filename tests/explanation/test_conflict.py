"""Smallest conflicts: against enumeration, for abstract sets and for operator's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest

from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.explanation.case import Case
from morph_opt.scheduling.explanation.conflict import (
    Conflict,
    RuleConflictError,
    rules_in_conflict,
    smallest_conflict,
)
from morph_opt.scheduling.policies.objectives.plain import Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.decision.rules.worlds import best_by_audit, plain_view, ruled_world
from tests.policies.worlds import EXACT, LINEAR, cluster, queued, running, state


def smallest_size(items: Sequence[int], conflicts: Callable[[tuple[int, ...]], bool]) -> int | None:
    """By enumeration of all subsets."""
    for size in range(len(items) + 1):
        if any(conflicts(subset) for subset in combinations(items, size)):
            return size
    return None


@pytest.mark.parametrize("seed", range(60))
def test_smallest_among_random_conflicts(seed: int) -> None:
    draw = np.random.default_rng(seed)
    items = tuple(range(int(draw.integers(1, 9))))
    cores = [
        frozenset(draw.choice(items, int(draw.integers(1, len(items) + 1)), replace=False).tolist())
        for _ in range(int(draw.integers(0, 5)))
    ]
    asked = 0

    def conflicts(subset: tuple[int, ...]) -> bool:
        nonlocal asked
        asked += 1
        return any(core <= set(subset) for core in cores)

    found = smallest_conflict(items, conflicts)
    assert asked <= 2 ** len(items)
    if found is None:
        assert not cores
        return
    assert found.smallest
    assert conflicts(found.items)
    assert len(found.items) == smallest_size(items, conflicts)
    assert not any(conflicts(s) for s in combinations(found.items, len(found.items) - 1))


def test_a_deletion_filter_alone_would_not_be_smallest() -> None:
    """Dropping from the front leaves {2, 3, 4}; {0, 1} is smaller."""
    cores = [{0, 1}, {2, 3, 4}]
    found = smallest_conflict(range(5), lambda s: any(core <= set(s) for core in cores))
    assert found == Conflict((0, 1), smallest=True)


def test_a_search_that_is_cut_short_says_so() -> None:
    cores = [{0, 1}, {2, 3, 4}]
    found = smallest_conflict(range(5), lambda s: any(core <= set(s) for core in cores), most=3)
    assert found == Conflict((2, 3, 4), smallest=False)


def test_no_rules_give_a_conflict_without_members() -> None:
    """A conflict of no rules at all: the question is impossible whatever is dropped."""
    assert smallest_conflict(range(3), lambda _: True) == Conflict((), smallest=True)
    assert smallest_conflict(range(3), lambda _: False) is None


# ---------------------------------------------------------------- operator's rules


def test_a_proven_conflict_is_one_however_little_is_settled() -> None:
    """Nothing is known of smaller sets, or of some: what is left out is never wrong."""
    nothing = smallest_conflict(range(4), lambda _: None, proven=True)
    assert nothing == Conflict((0, 1, 2, 3), smallest=False, irreducible=False)
    assert smallest_conflict(range(4), lambda _: None) is None

    def some(subset: tuple[int, ...]) -> bool | None:
        return None if 3 in subset and len(subset) < 3 else {1, 3} <= set(subset)

    found = smallest_conflict(range(4), some, proven=True)
    assert found is not None
    assert {1, 3} <= set(found.items)
    assert not found.irreducible
    assert "not all of them may be needed" in str(RuleConflictError(found))  # type: ignore[arg-type]


def conflict_of(
    speeds: SpeedModel, before: RoundState, rules: OperatorRules
) -> Conflict[Rule] | None:
    posed = RoundPoser(speeds, Throughput(), rules).pose(before)
    return rules_in_conflict(posed, Case(HighsSolver(), EXACT))


def test_random_rules_against_enumeration() -> None:
    """Every subset of the rules is tried by brute force over all decisions, without the rows."""
    seen: dict[int, int] = {}
    for seed in range(160):
        speeds, before, rules = ruled_world(np.random.default_rng(seed))
        view = plain_view(speeds, before, rules)
        level = Throughput().levels(view.problem)[0]

        def impossible(
            kept: tuple[Rule, ...], view=view, before=before, level=level, rules=rules
        ) -> bool:
            return best_by_audit(view, before, rules.only(kept), level) is None

        found = conflict_of(speeds, before, rules)
        assert (found is not None) == impossible(rules.rules)
        if found is None:
            seen[0] = seen.get(0, 0) + 1
            continue
        size = len(found.items)
        seen[size] = seen.get(size, 0) + 1
        assert impossible(found.items)
        for smaller in range(size):
            assert not any(impossible(s) for s in combinations(rules.rules, smaller))
    assert seen[0] > 10
    assert sum(count for size, count in seen.items() if size) > 5


MUST_STAY = NonPreemptible(("a",))
CASES: list[tuple[str, tuple[Rule, ...]]] = [
    ("quota", (TenantQuota("default", 1),)),
    ("maintenance", (Maintenance(("n0",), 0.0, 600.0),)),
    ("node_rule", (NodeRule(("*",), not_nodes=("n0",)),)),
    ("gang_limit", (GangLimit(("a",), most=1),)),
]


@pytest.mark.parametrize(("word", "against"), CASES, ids=[word for word, _ in CASES])
@pytest.mark.parametrize("stays", [MUST_STAY, MinimumRun(600.0)])
def test_conflict_of_each_rule_kind_with_a_job_that_must_stay(
    word: str, against: tuple[Rule, ...], stays: Rule
) -> None:
    """Job a holds two GPUs of n0; rules about others are no part of the conflict."""
    from dataclasses import replace

    held = replace(running("a", {0: [0, 1]}), last_start_s=120.0, first_start_s=120.0)
    before = state(cluster(4, 4), held, queued("b"))
    innocent = (GangLimit(("b",), most=2), NodeRule(("b",), only_nodes=("n1",)))
    rules = OperatorRules((innocent[0], stays, *against, innocent[1]))
    found = conflict_of(LINEAR, before, rules)
    assert found is not None
    assert found.items == (stays, *against)
    assert found.smallest
    assert word in {rule.words.partition(":")[0] for rule in found.items}
    assert conflict_of(LINEAR, before, rules.without(stays)) is None


def test_three_rules_at_once() -> None:
    """Two jobs must stay on four GPUs in all; their quota is three: any two of the rules agree."""
    before = state(cluster(4), running("a", {0: [0, 1]}), running("b", {0: [2, 3]}))
    rules = (NonPreemptible(("a",)), NonPreemptible(("b",)), TenantQuota("default", 3))
    found = conflict_of(LINEAR, before, OperatorRules(rules))
    assert found == Conflict(rules, smallest=True)
