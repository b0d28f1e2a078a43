"""Random rounds under random rules: both models, brute force on the rows, and the audit agree."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from formulations.round.check import check
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy
from morph_opt.scheduling.policies.registry import make_objective
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Status
from tests.campaigns import blocks
from tests.decision.rules.worlds import best_by_audit, plain_view, ruled_world, sizes_in
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import random_level
from tests.formulations.worlds.solving import EXACT, FORMULATIONS
from tests.policies.worlds import verify

BLOCKS, ROUNDS_PER_BLOCK = blocks(2), 40
_highs = HighsSolver()


def same(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_rows_mean_what_the_rules_say(block: int) -> None:
    for i in range(ROUNDS_PER_BLOCK):
        draw = np.random.default_rng((77, block, i))
        table, before, rules = ruled_world(draw)
        plain = plain_view(table, before, rules)
        problem = apply_rules(plain, before, rules).problem
        level = make_objective(str(draw.choice(["jct", "throughput"]))).levels(problem)[0]
        expected = best_by_audit(plain, before, rules, level)
        if expected is None:
            with pytest.raises(AssertionError, match="contradict"):
                oracle.best(problem, [level])
        else:
            truth = oracle.best(problem, [level])
            check(problem, truth)
            assert same(truth.value(level), expected), (block, i, rules)
        for formulation in FORMULATIONS:
            solved = RoundSolver(_highs, EXACT, formulation).ranked(problem, (level,))
            if expected is None:
                assert solved.outcome.status is Status.INFEASIBLE, (block, i, formulation)
                continue
            assert solved.outcome.status is Status.OPTIMAL, (block, i, formulation)
            assert solved.selection is not None
            check(problem, solved.selection)
            assert same(solved.selection.value(level), expected), (block, i, formulation, rules)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_brute_force_on_the_rows_agrees_under_any_values(block: int) -> None:
    decided = 0
    for i in range(ROUNDS_PER_BLOCK):
        draw = np.random.default_rng((78, block, i))
        table, before, rules = ruled_world(draw)
        problem = apply_rules(plain_view(table, before, rules), before, rules).problem
        level = random_level(draw, problem)
        try:
            truth = oracle.best(problem, [level]).value(level)
        except AssertionError:
            continue
        decided += 1
        for formulation in FORMULATIONS:
            solved = RoundSolver(_highs, EXACT, formulation).ranked(problem, (level,))
            assert solved.selection is not None
            assert same(solved.selection.value(level), truth), (block, i, formulation, rules)
    assert decided > ROUNDS_PER_BLOCK // 2


@pytest.mark.parametrize("block", range(blocks(1)))
def test_every_decision_of_the_policy_passes_the_audit(block: int) -> None:
    for i in range(ROUNDS_PER_BLOCK):
        draw = np.random.default_rng((79, block, i))
        table, before, rules = ruled_world(draw)
        policy = MilpPolicy.of(table, make_objective("jct"), _highs, EXACT, rules=rules)
        try:
            allocation = policy.decide(before).allocation
        except InfeasibleRoundError:
            continue
        verify(before, allocation)
        sizes = sizes_in(plain_view(table, before, rules), before, rules)
        assert audit(before, allocation, rules) == ()
        assert audit(before, allocation, rules, sizes.__getitem__) == ()


def test_random_rounds_are_of_every_kind() -> None:
    kinds: Counter[type[Rule]] = Counter()
    words: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for i in range(150):
        draw = np.random.default_rng((77, i % BLOCKS, i // BLOCKS))
        table, before, rules = ruled_world(draw)
        kinds.update({type(rule) for rule in rules.rules})
        plain = plain_view(table, before, rules)
        view = apply_rules(plain, before, rules)
        words.update(set(view.problem.rules.name))
        level = make_objective("jct").levels(plain.problem)[0]
        free = best_by_audit(plain, before, rules.only(()), level)
        ruled = best_by_audit(plain, before, rules, level)
        seen["contradiction"] += ruled is None
        seen["binding"] += ruled is not None and ruled < (free or 0.0) * (1 - 1e-9)
        seen["slack"] += ruled is not None and ruled >= (free or 0.0) * (1 - 1e-9)
        seen["borrowed"] += "borrow" in view.problem.rules.name
        seen["running"] += bool(view.problem.jobs.running.any())
    assert min(kinds.values()) >= 20, kinds
    assert len(kinds) == 12
    assert min(words.values()) >= 5, words
    assert len(words) == 12
    assert min(seen.values()) >= 5, seen
