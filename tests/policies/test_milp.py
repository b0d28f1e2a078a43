"""The MILP policy: optimal, guarantees first, honest about what it did not get from its solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from formulations.objectives import favoured, guarantee, relative_speed
from formulations.round.check import check
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.core.domain import Allocation, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import RoundMethod
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.promises import Promises
from morph_opt.scheduling.decision.ranked import ExactMip, RoundSolver
from morph_opt.scheduling.decision.rules.model import GangLimit, OperatorRules
from morph_opt.scheduling.policies.milp import ClaimError, MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from tests.campaigns import blocks
from tests.formulations.worlds import oracle
from tests.formulations.worlds.rounds import Candidate, tiny
from tests.policies.worlds import (
    EXACT,
    LINEAR,
    FakeSolver,
    cluster,
    counts,
    grants,
    queued,
    random_world,
    running,
    speeds,
    state,
    verify,
)


def weighing(
    factor: float,
    belief: SpeedModel = LINEAR,
    objective: str = "throughput",
    method: Callable[[Solver], RoundMethod] = ExactMip,
) -> MilpPolicy:
    """The policy under which promises that cannot all be kept count by weight."""
    poser = RoundPoser(belief, OBJECTIVES[objective](), promises=Promises(factor))
    return MilpPolicy(poser, method(HighsSolver()), Limits(gap=1e-7, time_s=600.0))


def policy(
    belief: SpeedModel = LINEAR,
    objective: str = "throughput",
    solver: Solver | None = None,
    formulation: str = "node_pattern",
    limits: Limits = EXACT,
) -> MilpPolicy:
    return MilpPolicy.of(
        belief, OBJECTIVES[objective](), solver or HighsSolver(), limits, formulation
    )


# ---------------------------------------------------------------- against brute force


@pytest.mark.parametrize("formulation", RoundSolver.FORMULATIONS)
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
@pytest.mark.parametrize("block", range(blocks(1)))
def test_decisions_are_optimal_and_guarantees_come_first(
    block: int, objective: str, formulation: str
) -> None:
    kinds = {None: 0, True: 0, False: 0}
    for i in range(30):
        belief, before = random_world(np.random.default_rng((5, block, i)))
        limits = Limits(gap=1e-7, time_s=600.0)
        decision = policy(belief, objective, formulation=formulation, limits=limits).decide(before)
        verify(before, decision.allocation)
        report = decision.report
        # Values that spread are stated with what the solver cannot see, up to a gap of 1e-6.
        assert report.status == "optimal" or (report.status, report.step) == ("feasible", "exact")
        # Dominated candidates are in this problem: their removal must not matter either.
        problem = CandidateBuilder(belief, prune=False).view(before).problem
        goal = OBJECTIVES[objective]().levels(problem)[0]
        promised = int(problem.jobs.guaranteed.sum())
        all_kept = oracle.best(problem, [keeping(problem)]).value(keeping(problem)) == promised
        possible = all_kept if promised else None
        kinds[possible] += 1
        assert report.guarantees_possible is possible
        best = oracle.best(problem, [keeping(problem) if all_kept else guarantee(problem), goal])
        assert report.guarantee_shortfall == pytest.approx(
            shortfall(belief, before, decision.allocation), abs=1e-9
        )
        assert (report.guarantees_short == 0) is (not promised or all_kept)
        assert report.objective == pytest.approx(best.value(goal), rel=1e-6, abs=1e-12)
        assert report.bound >= report.objective * (1 - 1e-9)
        assert report.gap <= 1e-6
    assert min(kinds.values()) >= 3, kinds


def keeping(problem: RoundProblem) -> Level:
    """One for every guaranteed job at its promised speed or above."""
    promised = problem.jobs.guaranteed[problem.options.members.job]
    enough = promised & (relative_speed(problem) >= 1 - 1e-9)
    return Level.of(problem, "kept", "jobs", enough.astype(np.float64))


def shortfall(belief: SpeedModel, before: RoundState, after: Allocation) -> float:
    """Missing fractions of promised speed, from the allocation alone."""
    builder = CandidateBuilder(belief)
    missing = 0.0
    for one in (s.job for s in before.jobs if s.job.guaranteed):
        held = after.by_job().get(one.name)
        pace = None if held is None else builder.speed(one, held, before.cluster)
        granted = builder.request_iteration_s(one, before.cluster) / pace if pace else 0.0
        missing += max(0.0, 1.0 - granted) if granted < 1 - 1e-9 else 0.0
    return missing


# ---------------------------------------------------------------- guarantees by hand


def test_a_guarantee_outranks_any_best_effort_gain() -> None:
    """Four GPUs for the promised job, though eight best-effort jobs would gain more."""
    others = [queued(f"b{i}", 1, weight=100.0) for i in range(8)]
    before = state(cluster(8), *others, queued("promised", 4, guaranteed=True))
    decision = policy().decide(before)
    assert counts(decision.allocation)["promised"] >= 4
    assert decision.report.guarantees_possible is True
    assert decision.report.guarantees_short == 0


def test_an_impossible_guarantee_is_reported_and_as_many_as_possible_are_kept() -> None:
    """Two jobs were promised all eight GPUs: one gets them, half a promise for each is none."""
    jobs = [queued("a", 8, guaranteed=True), queued("b", 8, guaranteed=True), queued("c", 1)]
    decision = policy().decide(state(cluster(8), *jobs))
    assert decision.report.guarantees_possible is False
    assert decision.report.guarantees_short == 1
    assert decision.report.guarantee_shortfall == pytest.approx(1.0)
    assert sorted(counts(decision.allocation).values()) == [8]
    assert "c" not in counts(decision.allocation)


def test_shorter_of_two_exclusive_guarantees_is_kept() -> None:
    jobs = [queued("long", 8, guaranteed=True), queued("brief", 8, guaranteed=True, iterations=50)]
    decision = policy().decide(state(cluster(8), *jobs))
    assert counts(decision.allocation) == {"brief": 8}


@pytest.mark.parametrize("method", [ExactMip, Ladder])
@pytest.mark.parametrize("objective", ["jct", "lookahead"])
def test_promises_by_weight_are_rows_or_a_higher_worth(
    objective: str, method: Callable[[Solver], RoundMethod]
) -> None:
    """Against brute force: where all can be kept nothing changes, elsewhere one weighted goal."""
    kinds = {None: 0, True: 0, False: 0}
    for i in range(40):
        belief, before = random_world(np.random.default_rng((6, i)))
        decision = weighing(3.0, belief, objective, method).decide(before)
        verify(before, decision.allocation)
        report = decision.report
        problem = CandidateBuilder(belief, prune=False).view(before).problem
        goals = OBJECTIVES[objective]().levels(problem)
        promised = int(problem.jobs.guaranteed.sum())
        all_kept = oracle.best(problem, [keeping(problem)]).value(keeping(problem)) == promised
        kinds[all_kept if promised else None] += 1
        assert report.guarantees_possible is (all_kept if promised else None)
        assert (report.guarantees_short == 0) is (not promised or all_kept)
        if all_kept:
            best = oracle.best(problem, [keeping(problem), *goals]).value(goals[-1])
        else:
            (goal,) = favoured(problem, goals, 3.0)
            best = oracle.best(problem, [goal]).value(goal)
        assert report.status == "optimal"
        assert report.objective == pytest.approx(best, rel=1e-6, abs=1e-12)
        assert report.bound >= best * (1 - 1e-6)
    assert min(kinds.values()) >= 3, kinds


def test_half_a_promise_by_weight_by_hand() -> None:
    """Eight GPUs, two jobs that were promised all of them, one that asked for a single GPU.

    Speeds are linear and relative to the request: a GPU is worth 1/8 to the former, twice that by
    its weight, and 1 to the latter, which gets them all: 8 in sum, times 60 / (60 + 30).
    """
    jobs = [queued("a", 8, guaranteed=True), queued("b", 8, guaranteed=True), queued("c", 1)]
    before = state(cluster(8), *jobs)
    decision = weighing(2.0).decide(before)
    assert decision.report.guarantees_possible is False
    assert counts(decision.allocation) == {"c": 8}
    assert decision.report.objective == pytest.approx(8.0 * 60 / 90)
    # By 100 it is 100 / 8 to a promise: all GPUs are theirs, in whichever halves.
    decision = weighing(100.0).decide(before)
    assert set(counts(decision.allocation)) <= {"a", "b"}
    assert decision.report.objective == pytest.approx(100.0 * 60 / 90)


def test_a_worth_below_nothing_is_not_made_worse_by_a_promise() -> None:
    """2 and -3 of a guaranteed job become 6 and stay -3; what others are worth stays as it is."""
    rows = [Candidate(0, (1,)), Candidate(0, (2,)), Candidate(1, (1,))]
    problem = tiny([4], rows, guaranteed=[0])
    level = Level("worth", "", np.asarray([2.0, -3.0, 5.0]))
    (found,) = favoured(problem, (level,), 3.0)
    assert found.value.tolist() == [6.0, -3.0, 5.0]


def test_a_running_job_that_keeps_its_promise_may_stay() -> None:
    before = state(cluster(8), running("a", {0: [4, 5, 6, 7]}, guaranteed=True), queued("b", 4))
    decision = policy().decide(before)
    assert grants(decision.allocation)["a"] == {0: (4, 5, 6, 7)}
    assert counts(decision.allocation) == {"a": 4, "b": 4}


def test_report_without_promises_omits_them() -> None:
    report = policy().decide(state(cluster(8), queued("a"))).report
    assert (report.guarantees_possible, report.guarantees_short) == (None, 0)


# ---------------------------------------------------------------- what the solver may do to us


@pytest.mark.parametrize("lie", ["nothing", "error"])
@pytest.mark.parametrize("guaranteed", [False, True])
def test_the_fallback_is_worth_no_less_than_keeping_and_filling(lie: str, guaranteed: bool) -> None:
    before = state(cluster(8), running("old", {0: [6, 7]}, guaranteed=guaranteed), queued("new", 2))
    decision = policy(solver=FakeSolver(lie)).decide(before)
    report, evidence = decision.report, decision.evidence
    assert evidence is not None
    assert report.status == "fallback"
    assert report.bound_by == "prices"
    assert report.gap == pytest.approx((report.bound - report.objective) / report.objective)
    kept = keep_and_fill(evidence.posed.problem, evidence.posed.worth)
    assert report.objective >= kept.value(evidence.posed.worth)
    verify(before, decision.allocation)
    best = policy().decide(before).report
    assert best.status == "optimal"
    assert best.bound_by == "solver"
    assert report.objective <= best.objective <= report.bound


def test_a_fallback_settles_promises_only_by_keeping_them() -> None:
    """One promise of eight GPUs is kept, which proves it; of two that exclude each other one is."""
    old = running("old", {0: [6, 7]}, 8, guaranteed=True)
    decision = policy(solver=FakeSolver("nothing")).decide(state(cluster(8), old, queued("new", 2)))
    assert decision.report.status == "fallback"
    assert decision.report.guarantees_possible is True
    assert decision.report.guarantees_short == 0
    both = state(cluster(8), old, queued("new", 8, guaranteed=True))
    decision = policy(solver=FakeSolver("nothing")).decide(both)
    assert decision.report.guarantees_possible is None
    assert decision.report.guarantees_short == 1
    assert decision.report.guarantee_shortfall == pytest.approx(1.0)


def test_an_incumbent_without_proof_is_filled_and_called_feasible() -> None:
    """The solver stops with nothing running; what is left free goes to the jobs that wait."""
    before = state(cluster(8), running("old", {0: [6, 7]}), queued("new", 2))
    decision = policy(solver=FakeSolver("stopped")).decide(before)
    assert decision.report.status == "feasible"
    assert {held.job for held in decision.allocation.assignments} == {"old", "new"}
    assert decision.report.bound > decision.report.objective > 0.0
    assert decision.report.gap > 0.1


def test_a_later_level_without_answer_keeps_the_optimum_of_the_earlier() -> None:
    """Guarantees impossible (1), least shortfall (2), then nothing: the shortfall stays least."""
    jobs = [queued("a", 8, guaranteed=True), queued("b", 8, guaranteed=True)]
    decision = policy(solver=FakeSolver("nothing", honest=2)).decide(state(cluster(8), *jobs))
    assert decision.report.status == "fallback"
    assert decision.report.guarantees_possible is False
    assert decision.report.guarantee_shortfall == pytest.approx(1.0)


def test_claim_that_contradicts_the_decision_is_an_error() -> None:
    with pytest.raises(ClaimError, match="objective throughput: the solver claims"):
        policy(solver=FakeSolver("boast")).decide(state(cluster(8), queued("a")))


@dataclass
class Hurried(FakeSolver):
    """Runs out of time whenever it is asked to place a choice, and only then."""

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        if model.name == "node_assignment placed":
            return Outcome(Status.NO_SOLUTION, Stop.TIME_LIMIT, self.name)
        return HighsSolver().solve(model, limits, start)


def jigsaw() -> RoundProblem:
    """Six jobs that fill two nodes, but not by best fit: only the exact placement finds it."""
    return tiny([8, 8], [Candidate(job, (part,)) for job, part in enumerate((4, 3, 3, 2, 2, 2))])


def test_a_choice_that_was_not_placed_in_time_still_bounds_the_round() -> None:
    """Giving up is no proof: the choice may be left out, its value stays in the bound."""
    problem = jigsaw()
    level = Level("l", "GPUs", problem.candidates.gpus.astype(float))
    solved = RoundSolver(Hurried("nothing"), EXACT).ranked(problem, (level,))
    assert solved.selection is not None
    assert solved.selection.value(level) < 16
    assert solved.outcome.bound >= 16
    assert solved.outcome.gap >= 16 / 15 - 1
    assert solved.outcome.status is Status.FEASIBLE


def test_unplaced_promises_are_not_called_impossible_at_the_limit() -> None:
    """All six were promised to run; that this was not shown to fail must not be said to fail."""
    parts = (4, 3, 3, 2, 2, 2)
    belief = speeds({f"m{part}": {str(part): 1.0} for part in parts})
    jobs = [queued(f"j{i}", p, model=f"m{p}", guaranteed=True) for i, p in enumerate(parts)]
    before = state(cluster(8, 8), *jobs)
    assert policy(belief).decide(before).report.guarantees_possible is True
    hurried = policy(belief, solver=Hurried("nothing")).decide(before).report
    assert hurried.guarantees_possible is None


# ---------------------------------------------------------------- ranked levels


def both(first: list[float], second: list[float]) -> tuple[Level, Level]:
    return Level("first", "a", np.asarray(first)), Level("second", "b", np.asarray(second))


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1.0, 1e6])
@pytest.mark.parametrize("formulation", RoundSolver.FORMULATIONS)
def test_lower_level_does_not_change_a_higher_one_in_any_unit(
    scale: float, formulation: str
) -> None:
    """Room for one of two jobs: the first level prefers job 0 by one per mille, in any unit."""
    problem = tiny([4], [Candidate(0, (4,)), Candidate(1, (4,))])
    levels = both([1.001 * scale, 1.0 * scale], [0.0, 1e6])
    solved = RoundSolver(HighsSolver(), EXACT, formulation).ranked(problem, levels)
    assert solved.selection is not None
    assert solved.selection.choice.tolist() == [0, -1]


def test_ties_of_the_first_level_are_the_second_level_s_to_decide() -> None:
    problem = tiny([4], [Candidate(0, (4,)), Candidate(1, (4,))])
    solved = RoundSolver(HighsSolver(), EXACT).ranked(problem, both([1.0, 1.0], [1.0, 2.0]))
    assert solved.selection is not None
    assert solved.selection.choice.tolist() == [-1, 1]


# ---------------------------------------------------------------- the rest of the contract


def test_empty_round_is_not_solved() -> None:
    fake = FakeSolver("error")
    decision = policy(solver=fake).decide(state(cluster(8)))
    assert (decision.report.status, decision.allocation, fake.calls) == ("idle", Allocation(), 0)


def test_the_same_state_gives_the_same_decision_whatever_came_before() -> None:
    belief, first = random_world(np.random.default_rng(11))
    seasoned = policy(belief)
    for seed in range(5):
        seasoned.decide(random_world(np.random.default_rng(seed))[1])
    assert seasoned.decide(first).allocation == policy(belief).decide(first).allocation


def test_a_job_that_runs_where_the_belief_knows_nothing_is_moved() -> None:
    before = state(cluster(4), running("a", {0: [0, 1, 2]}, 2))
    assert counts(policy().decide(before).allocation) == {"a": 4}


def test_the_report_has_the_sizes_of_the_problem() -> None:
    belief = speeds({"m": {"4": 2.0, "2": 4.0, "2 dp+gc": 5.0}})
    report = policy(belief).decide(state(cluster(8), queued("a"), queued("b"))).report
    assert report.candidates == 4  # the slower plan on as many GPUs is dominated
    assert report.rows > 0
    assert report.columns >= report.candidates


def test_a_rule_may_ask_for_what_would_otherwise_be_dominated() -> None:
    """Four GPUs are slower than two here, but the operator wants gangs of at least four."""
    belief = speeds({"m": {"2": 1.0, "4": 1.5}})
    before = state(cluster(8), queued("a", 2))
    assert counts(policy(belief).decide(before).allocation) == {"a": 2}
    ruled = MilpPolicy.of(
        belief,
        OBJECTIVES["throughput"](),
        HighsSolver(),
        EXACT,
        rules=OperatorRules((GangLimit(("*",), least=4),)),
    )
    assert counts(ruled.decide(before).allocation) == {"a": 4}


# ---------------------------------------------------------------- greedy filling


@pytest.mark.parametrize("block", range(2))
def test_greedy_filling_is_feasible_and_keeps_running_jobs(block: int) -> None:
    for i in range(60):
        belief, before = random_world(np.random.default_rng((8, block, i)))
        problem = CandidateBuilder(belief).view(before).problem
        level = OBJECTIVES["jct"]().levels(problem)[0]
        found = keep_and_fill(problem, level)
        check(problem, found)
        running = problem.jobs.running
        assert (found.choice[running] == problem.options.stay[running]).all()
        assert found.value(level) <= oracle.best(problem, [level]).value(level) + 1e-12
        assert not left_over(problem, found), (block, i)


def left_over(problem: RoundProblem, found: Selection) -> bool:
    """Whether a queued job could still be started in the room that is left."""
    choice, table = found.choice.tolist(), problem.candidates
    room = oracle.room_after_stays(problem, choice)
    assert room is not None
    for picked, nodes in zip(choice, found.nodes, strict=True):
        if oracle.starts(problem, picked):
            room = oracle.take(problem, picked, nodes, room)
            assert room is not None
    return any(
        oracle.take(problem, k, where, room) is not None
        for k in range(table.count)
        if choice[int(table.job[k])] == NONE
        for where in oracle.spots(problem, k)
    )


def test_greedy_takes_the_best_value_per_gpu_first_and_skips_what_does_not_fit() -> None:
    problem = tiny(
        [4], [Candidate(0, (4,)), Candidate(1, (2,)), Candidate(2, (3,)), Candidate(3, (1,))]
    )
    level = Level("l", "u", np.asarray([4.0, 6.0, 3.3, 0.5]))
    found = keep_and_fill(problem, level)
    assert found.choice.tolist() == [-1, 1, -1, 3]


def test_objective_protocol_is_what_the_policy_takes() -> None:
    own: Objective = OBJECTIVES["jct"]()
    assert own.name == "jct"
