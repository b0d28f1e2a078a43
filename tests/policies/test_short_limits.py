"""Answers of rounds whose time ended: contradictions are proven, kept promises are settled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import RoundMethod, Solved
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.promises import Promises
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.decision.rules.model import MinimumRun, OperatorRules, TenantQuota
from morph_opt.scheduling.decision.unsettled import with_promises_settled
from morph_opt.scheduling.policies.milp import InfeasibleRoundError, MilpPolicy, UndecidedRoundError
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from tests.policies.worlds import LINEAR, FakeSolver, cluster, queued, running, state

NO_TIME = Limits(gap=1e-4, time_s=0.0)
METHODS = {"ladder": Ladder(HighsSolver()), "exact": ExactMip(HighsSolver())}


def contradiction() -> tuple[RoundState, OperatorRules]:
    """A job must stay on more GPUs than its tenant may have."""
    held = replace(running("a", {0: [0, 1]}), last_start_s=120.0, first_start_s=120.0)
    rules = OperatorRules((MinimumRun(600.0), TenantQuota("default", 1)))
    return state(cluster(4), held, queued("b")), rules


@pytest.mark.parametrize("method", METHODS)
def test_a_contradiction_is_proven_without_time(method: str) -> None:
    before, rules = contradiction()
    poser = RoundPoser(LINEAR, OBJECTIVES["throughput"](), rules)
    with pytest.raises(InfeasibleRoundError, match="contradict each other"):
        MilpPolicy(poser, METHODS[method], NO_TIME).decide(before)


def test_rules_that_nobody_settled_in_time_are_no_defect() -> None:
    """The solver has no answer, and the fallback breaks a rule."""
    before, rules = contradiction()
    poser = RoundPoser(LINEAR, OBJECTIVES["throughput"](), rules)
    policy = MilpPolicy(poser, ExactMip(FakeSolver("nothing")), NO_TIME)
    with pytest.raises(UndecidedRoundError, match="within 0 s in the round at 180 s"):
        policy.decide(before)


def test_a_start_on_the_gpus_that_a_job_holds_is_valued_as_a_stay() -> None:
    """The fallback starts the job where it runs; the decision is printed and valued as a stay."""
    before = state(cluster(8), running("a", {0: [6, 7]}))

    def started(problem: RoundProblem, level: Level) -> Selection:
        two = np.flatnonzero(problem.candidates.gpus == 2)
        return Selection(two[:1].astype(np.int64), ((0,),))

    poser = RoundPoser(LINEAR, OBJECTIVES["throughput"]())
    method: RoundMethod = ExactMip(FakeSolver("nothing"))
    decision = MilpPolicy(poser, method, NO_TIME, started).decide(before)
    posed = poser.pose(before)
    stay = Selection(posed.problem.options.stay.copy(), ((),))
    assert dict(decision.allocation.assignments[0].placement.parts) == {0: (6, 7)}
    assert decision.report.objective == pytest.approx(stay.value(posed.worth))
    assert decision.report.objective > started(posed.problem, posed.worth).value(posed.worth)


def unsettled(promises: Promises) -> tuple[PosedRound, Solved]:
    """Two jobs, one with a promise of all GPUs; the answer leaves the question open."""
    before = state(cluster(4), queued("a", 4, guaranteed=True), queued("b", 1))
    poser = RoundPoser(LINEAR, OBJECTIVES["throughput"](), promises=promises)
    posed = poser.pose(before)
    selection = keep_and_fill(posed.problem, posed.worth)
    outcomes = tuple(
        Outcome(
            Status.OPTIMAL,
            Stop.PROVED,
            "fake",
            objective=selection.value(level),
            bound=selection.value(level),
            gap=0.0,
        )
        for level in posed.fallback_levels
    )
    return posed, Solved(selection, outcomes, posed.fallback_levels, kept_bounds=(50.0,))


@pytest.mark.parametrize("promises", [Promises(), Promises(3.0)])
def test_a_decision_that_keeps_all_promises_settles_them(promises: Promises) -> None:
    posed, solved = unsettled(promises)
    options, job = posed.problem.options, posed.problem.options.members.job
    gpus = options.gpus[options.members.option]
    whole = int(options.members.option[(job == 0) & (gpus == 4)][0])
    kept = Selection(np.asarray([whole, NONE]), ((0,), ()))
    solved = replace(solved, selection=kept)
    found = with_promises_settled(posed, solved, kept, 1e-4)
    assert found.promised is True
    assert found.levels == posed.levels
    assert found.outcome.objective == kept.value(posed.worth)
    assert found.outcome.bound == 50.0
    assert found.outcome.status is Status.FEASIBLE
    close = replace(solved, kept_bounds=(kept.value(posed.worth),))
    assert with_promises_settled(posed, close, kept, 1e-4).outcome.status is Status.OPTIMAL


def test_a_bound_covers_decisions_that_keep_promises_until_that_is_settled() -> None:
    """By rank the bound is that of both cases, and nothing is optimal; by weight it is one goal."""
    posed, solved = unsettled(Promises())
    idle = Selection(np.full(2, NONE, dtype=np.int64), ((), ()))
    solved = replace(solved, selection=idle)
    found = with_promises_settled(posed, solved, idle, 1e-4)
    assert found.promised is None
    assert found.outcome.bound == 50.0
    assert {one.status for one in found.outcomes} == {Status.FEASIBLE}
    unknown = with_promises_settled(posed, replace(solved, kept_bounds=()), idle, 1e-4)
    assert unknown.outcome.bound == np.inf

    posed, solved = unsettled(Promises(3.0))
    solved = replace(solved, selection=idle)
    found = with_promises_settled(posed, solved, idle, 1e-4)
    assert found.outcome.bound == solved.outcome.bound
    assert found.outcome.status is Status.FEASIBLE


def test_settled_promises_stay_settled() -> None:
    posed, solved = unsettled(Promises())
    assert solved.selection is not None
    for known in (replace(solved, promised=False), replace(solved, promised=True)):
        assert with_promises_settled(posed, known, solved.selection, 1e-4) is known
