"""Jobs that wait beside GPUs that nobody takes: by brute force, and the replay that showed them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import morph_opt as mo
from formulations.round.check import RuleError, check
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.filling import completed
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.solvers.outcome import Outcome, Status, Stop
from morph_opt.simulation.events.log import Started, Submitted
from tests.formulations.worlds import oracle
from tests.formulations.worlds.packed_rounds import packed_level, packed_round
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round
from tests.formulations.worlds.rounds import Candidate, Hold, tiny


def answered(problem: RoundProblem, selection: Selection, *levels: Level) -> Solved:
    """An answer that is within its gap, as a solver would give it."""
    outcomes = tuple(
        Outcome(Status.OPTIMAL, Stop.PROVED, "", objective=value, bound=value, gap=0.0)
        for value in map(selection.value, levels)
    )
    return Solved(selection, outcomes, levels)


def kept_to(problem: RoundProblem, selection: Selection) -> bool:
    try:
        check(problem, selection)
    except RuleError:
        return False
    return True


def without(problem: RoundProblem, selection: Selection, job: int) -> Selection:
    """The decision without whatever a job chose."""
    gone = (selection.choice == selection.choice[job]) & (selection.choice != NONE)
    nodes = tuple(
        () if left else own for own, left in zip(selection.nodes, gone.tolist(), strict=True)
    )
    return Selection(np.where(gone, NONE, selection.choice), nodes)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_filling_keeps_rules_and_leaves_no_job_that_fits(block: int, packed: bool) -> None:
    """Of each decision one job is taken out; whoever waits then finds no node, by enumeration."""
    added = 0
    for seed in range(40):
        draw = np.random.default_rng((block, seed))
        problem = packed_round(draw) if packed else random_round(draw, EVERYTHING)
        level = packed_level(draw, problem) if packed else random_level(draw, problem)
        whole = keep_and_fill(problem, level)
        for job in np.flatnonzero(whole.choice != NONE).tolist():
            before = without(problem, whole, job)
            if not kept_to(problem, before):
                continue
            solved = completed(problem, answered(problem, before, level))
            after = solved.selection
            assert after is not None
            check(problem, after)
            kept = before.choice != NONE
            assert (after.choice[kept] == before.choice[kept]).all()
            fresh = np.setdiff1d(after.choice, before.choice)
            assert (level.value[fresh] > 0).all()
            assert solved.outcome.objective == pytest.approx(after.value(level))
            assert solved.outcome.bound >= solved.outcome.objective
            added += fresh.size
            assert not (problem.shared.count == 0 and _room_beside(problem, level, after))
    assert added > 20


def _room_beside(problem: RoundProblem, level: Level, after: Selection) -> bool:
    """Whether a waiting job has a candidate of one part, or its stay, that would be feasible."""
    for job in np.flatnonzero(after.choice == NONE).tolist():
        stay = int(problem.options.stay[job])
        ways = [(stay, ())] if stay != NONE else []
        for candidate in np.flatnonzero(problem.candidates.job == job).tolist():
            if len(problem.candidates.parts(candidate)) == 1:
                ways += [(candidate, (node,)) for node in range(problem.nodes.count)]
        for option, nodes in ways:
            choice, named = after.choice.copy(), list(after.nodes)
            choice[job], named[job] = option, nodes
            tried = Selection(choice, tuple(named))
            if level.value[option] > 0 and kept_to(problem, tried):
                assert oracle.feasible(problem, tried)
                return True
    return False


def test_a_running_job_goes_on_before_another_starts_on_its_gpus() -> None:
    problem = tiny([1], [Candidate(0, (1,)), Candidate(1, (1,))], holds=[Hold(1, 0, 1)])
    level = Level("worth", "", np.asarray([3.0, 2.0, 1.0]))
    nothing = Selection(np.full(2, NONE), ((), ()))
    after = completed(problem, answered(problem, nothing, level)).selection
    assert after is not None
    assert after.choice.tolist() == [NONE, problem.options.stay[1]]


def test_filling_does_not_lower_a_higher_ranked_level() -> None:
    problem = tiny([2], [Candidate(0, (1,)), Candidate(1, (1,))])
    first = Level("first", "", np.asarray([-1.0, 0.0]))
    last = Level("last", "", np.asarray([5.0, 1.0]))
    nothing = Selection(np.full(2, NONE), ((), ()))
    solved = completed(problem, answered(problem, nothing, first, last))
    assert solved.selection is not None
    assert solved.selection.choice.tolist() == [NONE, 1]
    assert [one.objective for one in solved.outcomes] == [0.0, 1.0]
    # An answer without a decision stays one.
    none = replace(solved, selection=None)
    assert completed(problem, none) is none


def test_a_job_is_not_started_and_stopped_again_and_again() -> None:
    """Rounds of 60 s are worth 1e4 s and this job 1e-4 s in them, below every gap.

    Its GPUs were free from 1,920 s on, and it was started and stopped 15 times without an
    iteration until 5,160 s.
    """
    scenario = mo.Scenario("gavel-96", objective="lookahead")
    run = scenario.replaced(interval_s=60.0, until_s=4300.0, method="exact").run()
    mine = [type(event) for event in run.events if getattr(event, "job", None) == "job-02"]
    assert mine == [Submitted, Started]
