"""Explanations of random rounds against enumeration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.explanation import case
from morph_opt.scheduling.explanation.explainer import Explainer, as_granted
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.explanation.enumeration import Enumerated, complaints, random_round
from tests.formulations.worlds.solving import FORMULATIONS
from tests.policies.worlds import EXACT

ROUNDS = 24
EFFORT = Effort(jobs=99, rules=99, nodes=True)


def examined(seed: int, seen: Counter[str]) -> list[str]:
    """Complaints about the explanation of one random round; what it says is counted."""
    table, before, rules, objective = random_round(np.random.default_rng(seed))
    poser = RoundPoser(table, objective, rules)
    formulation = FORMULATIONS[seed % 4 == 3]
    explainer = Explainer(HighsSolver(), EXACT, EFFORT)
    try:
        decision = MilpPolicy(poser, ExactMip(HighsSolver(), formulation), EXACT).decide(before)
    except InfeasibleRoundError as error:
        seen["contradiction"] += 1
        found = explainer.conflict(error.posed)
        assert found is not None
        return ["a decision exists"] if Enumerated(error.posed).best else []
    evidence = decision.evidence
    assert evidence is not None
    found = explainer.explain(evidence, decision.allocation)
    seen.update(job.reason for job in found.jobs)
    seen["gains"] += sum((row.node_gain or 0.0) > 0 for row in found.prices)
    seen["gave_up"] += sum(row.node_gain is None for row in found.prices)
    choice = as_granted(evidence.posed, evidence.selection, decision.allocation)
    return list(complaints(found, evidence, choice.tolist()))


def test_explanations_are_what_enumeration_says() -> None:
    seen: Counter[str] = Counter()
    for seed in range(ROUNDS):
        assert examined(seed, seen) == [], f"round {seed}"
    reasons = {"best", "price", "rule", "placement", "no_configuration", "earlier_goal"}
    assert reasons <= set(seen), seen
    assert seen["not_examined"] == seen["gap"] == 0
    assert seen["gains"] > 10


def test_a_search_that_gives_up_leaves_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this round one more node takes more than three solves."""
    monkeypatch.setattr(case, "EXPLAIN", replace(case.EXPLAIN, solves=3))
    seen: Counter[str] = Counter()
    assert examined(86, seen) == []
    assert seen["gave_up"] == 1
