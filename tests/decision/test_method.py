"""A round method of another kind; rounds posed otherwise; the injected fallback."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip, RoundSolver
from morph_opt.scheduling.decision.rules.model import Maintenance, NodeRule, OperatorRules
from morph_opt.scheduling.policies.milp import ClaimError, MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from tests.policies.worlds import EXACT, LINEAR, cluster, queued, state


@dataclass(frozen=True)
class Greedy:
    """Fills greedily and claims what the caller says; builds no model."""

    claim: float
    name: str = "greedy"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        found = keep_and_fill(posed.problem, posed.worth)
        outcome = Outcome(
            Status.FEASIBLE, Stop.NODE_LIMIT, self.name, objective=self.claim, bound=2.0, gap=1.0
        )
        return Solved(found, (outcome,), posed.levels)


def poser(rules: OperatorRules | None = None) -> RoundPoser:
    return RoundPoser(LINEAR, Throughput(), rules)


def test_a_method_without_a_model_decides_rounds() -> None:
    """One job on its four requested GPUs: 60 / (60 + 30) = 2/3.

    The method claims a bound of 2; at 1/6 a GPU the job earns nothing and four GPUs cost 2/3.
    """
    decision = MilpPolicy(poser(), Greedy(2 / 3), EXACT).decide(state(cluster(4), queued("a", 4)))
    report = decision.report
    assert (report.status, report.rows, report.columns) == ("optimal", 0, 0)
    assert report.objective == pytest.approx(2 / 3)
    assert report.bound == pytest.approx(2 / 3)
    assert (report.bound_by, report.gap) == ("prices", 0.0)
    assert decision.evidence is not None
    assert decision.evidence.solved.model is None


def test_a_methods_claim_is_compared_with_its_decision() -> None:
    with pytest.raises(ClaimError, match=r"claims 0\.7"):
        MilpPolicy(poser(), Greedy(0.7), EXACT).decide(state(cluster(4), queued("a", 4)))


def test_the_fallback_is_the_callers() -> None:
    """A method without an answer: the injected fallback leaves all jobs in the queue."""

    @dataclass(frozen=True)
    class Silent:
        name: str = "silent"

        def solve(self, posed: PosedRound, limits: Limits) -> Solved:
            nothing = Outcome(Status.NO_SOLUTION, Stop.TIME_LIMIT, self.name)
            return Solved(None, (nothing,), posed.levels)

    def idle(problem: RoundProblem, level: Level) -> Selection:
        del level
        return Selection(np.full(problem.jobs.count, NONE), ((),) * problem.jobs.count)

    here = state(cluster(4), queued("a", 4))
    assert MilpPolicy(poser(), Silent(), EXACT).decide(here).allocation.assignments
    decision = MilpPolicy(poser(), Silent(), EXACT, idle).decide(here)
    assert decision.report.status == "fallback"
    assert not decision.allocation.assignments


def test_outcomes_are_found_by_their_level() -> None:
    """Two goals, the second not answered: what is reported is the second's, so none."""
    posed = poser(OperatorRules(fewer_moves=True)).pose(state(cluster(4), queued("a", 4)))
    solved = ExactMip(HighsSolver()).solve(posed, EXACT)
    assert [level.name for level in solved.levels] == ["throughput", "fewer_moves"]
    assert solved.complete
    assert solved.outcome_of(posed.worth) is solved.outcomes[0]
    short = replace(solved, outcomes=solved.outcomes[:1])
    assert not short.complete
    assert short.outcome_of(posed.ranks[0]) is None


def test_one_more_node_is_one_for_every_rule_and_every_candidate() -> None:
    """Two nodes of 4 GPUs under rules that name n1: a third is like n1, and 4+4+4 can be had.

    Node rules of job a allow n1 alone, hence n1 and the new one; the window closes n1 and with it
    the new one, though its own name matches no pattern.
    """
    rules = OperatorRules((NodeRule(("a",), only_nodes=("n[1]",)),))
    here = state(cluster(4, 4), queued("a", 4), queued("b"))
    more = poser(rules).pose(here).with_one_more_node(1)
    assert more.problem.nodes.count == 3
    assert more.problem.nodes.sets[1].tolist() == [False, True, True]
    other = poser(rules).pose(here).with_one_more_node(0)
    assert other.problem.nodes.sets[1].tolist() == [False, True, False]
    window = OperatorRules((Maintenance(("n1",), 0.0, 10_000.0),))
    assert poser(window).pose(here).with_one_more_node(1).problem.nodes.open.tolist() == [
        True,
        False,
        False,
    ]


def test_rounds_are_assembled_in_pose_alone(project_root: Path) -> None:
    """Rules on tables, and goals of tables: in `pose`; ruled baselines and moves have no goals."""
    found = {
        (path.relative_to(project_root).as_posix(), word)
        for room in ("morph_opt", "benchmarks")
        for path in (project_root / room).rglob("*.py")
        for word in ("apply_rules(", "ranks_below(", "goals_of(")
        if word in path.read_text("utf-8").replace(f"def {word}", "")
    }
    pose = "morph_opt/scheduling/decision/pose.py"
    assert found == {
        (pose, "apply_rules("),
        (pose, "ranks_below("),
        (pose, "goals_of("),
        ("morph_opt/scheduling/policies/ruled.py", "apply_rules("),
        ("morph_opt/moves/pose.py", "apply_rules("),
    }


def test_a_round_posed_under_other_rules_has_the_same_goals() -> None:
    rules = OperatorRules((NodeRule(("a",), only_nodes=("n1",)),))
    here = state(cluster(4, 4), queued("a", 4), queued("b"))
    posed, free = poser(rules).pose(here), poser().pose(here)
    freed = posed.under(OperatorRules())
    assert freed.problem.candidates.node_set.tolist() == free.problem.candidates.node_set.tolist()
    assert freed.worth.value.tolist() == free.worth.value.tolist()


class Slow:
    """HiGHS on a clock by which every solve takes 4,000 s; it keeps how long each was given."""

    def __init__(self) -> None:
        self._highs = HighsSolver()
        self.name, self.capabilities = self._highs.name, self._highs.capabilities
        self.given_s: list[float] = []
        self.now_s = 0.0

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        self.given_s.append(limits.time_s)
        self.now_s += 4_000.0
        return self._highs.solve(model, limits, start)


def test_the_solves_of_a_round_share_its_time() -> None:
    """Four levels within 10,000 s: all, 6,000, 2,000, and then what a late solve gets."""
    posed = poser().pose(state(cluster(4), queued("a", 4), queued("b", 2)))
    solver = Slow()
    levels = posed.levels[-1:] * 4
    deadline = Deadline(10_000.0, lambda: solver.now_s)
    rounds = RoundSolver(solver, Limits(gap=0.0, time_s=10_000.0), deadline=deadline)
    rounds.ranked(posed.problem, levels)
    assert solver.given_s == [10_000.0, 6_000.0, 2_000.0, DEFAULTS.late_s]
