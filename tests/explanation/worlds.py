"""Rounds for explanations, and explaining them."""

from __future__ import annotations

from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.explanation.explainer import Explainer
from morph_opt.scheduling.explanation.report import Effort, JobExplanation, RoundExplanation
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from tests.policies.worlds import EXACT, speeds

UNIT = 60.0 / 90.0
"""Value of a start at the requested speed: rounds of 60 s, start-ups of 30 s."""

ONE = speeds({"m": {"1": 8.0}})
"""Every job runs on one GPU."""


def explained(
    speed: SpeedModel,
    here: RoundState,
    rules: OperatorRules | None = None,
    effort: Effort | None = None,
    objective: Throughput | Jct | None = None,
) -> RoundExplanation:
    """Decide to a gap of 0 and explain."""
    goal = objective or Throughput()
    policy = MilpPolicy.of(speed, goal, HighsSolver(), EXACT, rules=rules)
    explainer = Explainer(HighsSolver(), EXACT, effort or Effort(20, 20))
    decision = policy.decide(here)
    assert decision.evidence is not None
    return explainer.explain(decision.evidence, decision.allocation)


def by_job(found: RoundExplanation) -> dict[str, JobExplanation]:
    return {job.job: job for job in found.jobs}


def builder(speed: SpeedModel) -> CandidateBuilder:
    return CandidateBuilder(speed)
