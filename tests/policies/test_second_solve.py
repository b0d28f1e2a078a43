"""Second solves: honest claims agree, false ones are found, nothing unproved agrees."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from formulations.round.tables import NONE, Selection
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.policies.second_solve import (
    Comparison,
    SecondSolve,
    SecondSolveParams,
    Verdict,
)
from morph_opt.scheduling.solvers.base import Capabilities
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from tests.policies.worlds import LINEAR, FakeSolver, cluster, queued, running, state

GAP = 1e-4
HERE = state(cluster(4), running("a", {0: [0, 1]}), queued("b"), queued("c", 2))
PROMISED = state(cluster(4), queued("a", 2, guaranteed=True), queued("b", 4))


def decided(here: RoundState = HERE, objective: str = "throughput") -> Decision:
    return make_policy("milp", LINEAR, PolicyOptions(objective=objective)).decide(here)


def second(solver: object = None, **params: float) -> SecondSolve:
    return SecondSolve(solver or HighsSolver(), GAP, 0, SecondSolveParams(**params))  # type: ignore[arg-type]


def worse(decision: Decision, level: int = -1) -> Decision:
    """The decision without its last job, which claims to be optimal in one of its goals."""
    found = decision.evidence
    assert found is not None
    jobs = np.flatnonzero(found.selection.choice != NONE)
    choice = found.selection.choice.copy()
    choice[jobs[-1]] = NONE
    nodes = tuple(() if job == jobs[-1] else own for job, own in enumerate(found.selection.nodes))
    selection = Selection(choice, nodes)
    outcomes = [
        replace(one, objective=selection.value(goal), bound=selection.value(goal), gap=0.0)
        for goal, one in zip(found.solved.levels, found.solved.outcomes, strict=True)
    ]
    solved = replace(found.solved, selection=selection, outcomes=tuple(outcomes))
    value = selection.value(found.posed.worth_of(solved.levels))
    report = replace(decision.report, objective=value, bound=value, gap=0.0)
    return replace(
        decision, report=report, evidence=replace(found, solved=solved, selection=selection)
    )


@pytest.mark.parametrize("objective", ["throughput", "jct", "las", "lookahead"])
@pytest.mark.parametrize("named_parts", [0, 60_000], ids=["counted", "named"])
def test_an_honest_decision_agrees(objective: str, named_parts: int) -> None:
    found = second(named_parts=named_parts).compared(decided(objective=objective))
    assert found.verdict is Verdict.AGREES, found
    assert found.exact_value == pytest.approx(found.value, rel=1e-6)
    assert not found.reason


@pytest.mark.parametrize("objective", ["throughput", "las"])
def test_a_decision_made_worse_on_purpose_is_found(objective: str) -> None:
    found = second().compared(worse(decided(objective=objective)))
    assert found.verdict is Verdict.DISAGREES
    assert found.exact_value > found.bound == found.value
    assert "worth more than the bound" in found.reason
    if objective == "las":  # the first goal is at fault, not the last
        assert found.goal != decided(objective=objective).evidence.solved.levels[-1].name  # type: ignore[union-attr]


def test_a_worse_decision_with_an_honest_bound_agrees_with_what_it_claims() -> None:
    """The gap is stated, so nothing false was claimed."""
    best, poor = decided(), worse(decided())
    report = replace(poor.report, bound=best.report.bound, status="feasible")
    assert second().compared(replace(poor, report=report)).verdict is Verdict.AGREES


def test_a_value_that_the_decision_does_not_have_is_found() -> None:
    one = decided()
    found = second().compared(one, replace(one.report, objective=1.1 * one.report.objective))
    assert found.verdict is Verdict.DISAGREES
    assert "its decision has" in found.reason


@dataclass
class LowBound:
    """HiGHS with a bound below its value, called proved or not."""

    stop: Stop
    name: str = "low"
    capabilities: Capabilities = field(default_factory=Capabilities)

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        best = HighsSolver().solve(model, limits, start)
        return replace(
            best, status=Status.FEASIBLE, stop=self.stop, objective=0.8 * best.objective,
            bound=0.9 * best.bound, x=None,
        )  # fmt: skip


def test_a_proved_bound_below_the_claimed_value_is_found() -> None:
    found = second(LowBound(Stop.TIME_LIMIT)).compared(decided())
    assert found.verdict is Verdict.DISAGREES
    assert found.exact_bound < found.value
    assert "bound below the value" in found.reason


@pytest.mark.parametrize(
    ("lie", "reason"),
    [("nothing", "not settled in 7 s"), ("stopped", "not settled in 7 s"), ("error", "failed")],
)
def test_an_answer_without_a_proof_settles_nothing(lie: str, reason: str) -> None:
    found = second(FakeSolver(lie), time_s=7.0).compared(decided())
    assert found.verdict is Verdict.OPEN
    assert reason in found.reason


def test_a_round_that_proved_nothing_or_is_too_large_is_not_settled() -> None:
    one = decided()
    nothing = replace(one, report=replace(one.report, bound=float("inf")))
    assert second().compared(nothing).reason == "the round proved no bound"
    assert "too many" in second(candidates=1).compared(one).reason
    assert second().compared(replace(one, evidence=None)).verdict is Verdict.OPEN


def test_another_decision_of_the_round_can_be_disproved_but_not_confirmed() -> None:
    one = decided()
    assert second().compared(one, one.report, same=False).verdict is Verdict.OPEN
    low = 0.5 * one.report.objective
    claimed = replace(one.report, objective=low, bound=low)
    assert second().compared(one, claimed, same=False).verdict is Verdict.DISAGREES
    unknown = replace(one.report, objective=float("nan"), bound=float("nan"))
    assert second().compared(one, unknown, same=False).verdict is Verdict.OPEN


def test_promises_called_impossible_are_tried() -> None:
    one = decided(PROMISED)
    assert one.evidence is not None
    assert one.evidence.solved.promised
    assert second().compared(one).verdict is Verdict.AGREES
    solved = replace(one.evidence.solved, promised=False)
    found = second().compared(replace(one, evidence=replace(one.evidence, solved=solved)))
    assert found == Comparison(Verdict.DISAGREES, "promises", reason=found.reason)
    solved = replace(solved, promised=None)
    found = second().compared(replace(one, evidence=replace(one.evidence, solved=solved)))
    assert found.verdict is Verdict.OPEN


def test_promises_that_cannot_all_be_kept_are_confirmed() -> None:
    short = state(
        cluster(4), queued("a", 4, guaranteed=True), queued("b", 4, guaranteed=True), queued("c")
    )
    one = decided(short)
    assert one.evidence is not None
    assert one.evidence.solved.promised is False
    assert second().compared(one).verdict is Verdict.AGREES
