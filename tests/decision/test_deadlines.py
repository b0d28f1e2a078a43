"""Time limits hold by looks at the clock, which is a counter here: no test measures a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.knapsack import Tables, best_decision, find_items
from formulations.round.check import check
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.params import CoreParams, LadderParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Status
from tests.decision.test_giving_up import hard_cases
from tests.decision.worlds import Posed, unpromised
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round
from tests.formulations.worlds.rounds import Candidate, tiny


class Ticks:
    """A clock on which a second passes at every look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the seconds so far."""
        self.now_s += 1.0
        return self.now_s


def no_nodes() -> tuple[RoundProblem, Level]:
    """Sixteen gangs of two nodes' halves, of which few combinations have distinct nodes."""
    gangs = [Candidate(job, (5, 5)) for job in range(16)]
    problem = tiny([8] * 10, gangs)
    return problem, Level("worth", "", 1.0 + 0.01 * np.arange(problem.options.count))


def test_a_deadline_passes_and_shares_what_is_left() -> None:
    clock = Ticks()
    deadline = Deadline(3.0, clock)  # now 1, ends at 4
    assert deadline.left_s() == 2.0  # now 2
    assert not deadline.passed()  # now 3
    assert deadline.passed()  # now 4
    assert Deadline(10.0, clock).after(0.5).left_s() < 5.0


@pytest.mark.parametrize("looks", [1, 5, 40])
def test_the_search_over_partial_choices_stops_when_it_is_late(looks: int) -> None:
    """Its bound holds all the same: what was not tried counts in it."""
    problem, level = no_nodes()
    tables = Tables(find_items(problem, level))
    asked = 0

    def late() -> bool:
        nonlocal asked
        asked += 1
        return asked > looks

    found = best_decision(problem, level, tables, lambda _: (None, False), 10**6, None, late)
    assert found.nodes <= looks
    whole = best_decision(problem, level, tables, lambda _: (None, False), 10**6)
    assert whole.nodes > found.nodes
    assert found.bound >= whole.value


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("time_s", [0.0, 2.0, 6.0, 20.0])
def test_whenever_the_time_ends_the_answer_holds(seed: int, time_s: float) -> None:
    draw = np.random.default_rng((seed, 71))
    problem = random_round(draw, EVERYTHING)
    problem = problem if seed % 2 else unpromised(problem)
    level = random_level(draw, problem)
    truth = oracle.best(unpromised(problem), [level]).value(level)
    params = LadderParams(small=0, core=CoreParams(additions=0 if seed % 4 else 10**6))
    ladder = Ladder(HighsSolver(), params, Ticks())
    posed = Posed(problem, (level,))
    solved = ladder.solve(posed, Limits(gap=1e-6, time_s=time_s))  # type: ignore[arg-type]
    if solved.selection is not None:
        check(problem, solved.selection)
    if not problem.jobs.guaranteed.any():
        assert solved.outcome.bound >= truth - 1e-6 * abs(truth)
        assert solved.outcome.status is not Status.INFEASIBLE


def test_no_cut_follows_the_end_of_the_time() -> None:
    """The first choice has no nodes, and there is no time for another model."""
    asked = []

    class Counting(HighsSolver):
        def solve(self, model, limits, start=None):  # type: ignore[no-untyped-def]
            asked.append(model.name)
            return super().solve(model, limits, start)

    problem, level = hard_cases(1)[0]
    limits = Limits(gap=0.0, time_s=600.0)
    clock = Ticks()
    late = RoundSolver(Counting(), limits, deadline=Deadline(0.5, clock)).ranked(problem, (level,))
    assert len(asked) == 1
    assert late.selection is None
    assert late.outcome.status is Status.NO_SOLUTION
    best = RoundSolver(HighsSolver(), limits).ranked(problem, (level,))
    assert best.selection is not None
    assert late.outcome.bound >= best.selection.value(level)


def test_a_small_share_for_promises_leaves_time_for_the_rest() -> None:
    problem = replace_promises(tiny([4], [Candidate(0, (2,)), Candidate(1, (2,))]))
    level = Level("worth", "", np.asarray([1.0, 2.0]))
    params = LadderParams(promised_share=0.0)
    solved = Ladder(HighsSolver(), params).solve(
        Posed(problem, (level,)),  # type: ignore[arg-type]
        Limits(gap=0.0, time_s=600.0),
    )
    assert solved.selection is not None


def replace_promises(problem: RoundProblem) -> RoundProblem:
    """Return the round in which every job has a promise."""
    promised = np.ones(problem.jobs.count, dtype=bool)
    return replace(problem, jobs=replace(problem.jobs, guaranteed=promised))
