"""Ladder: tables first, then prices, parts of the round, the exact round, until the gap is reached.

=============  =====================================================================================
step           what it does
=============  =====================================================================================
``knapsack``   solve the round as a knapsack over GPUs: its bound, its choice on nodes, or branch
               and bound by its tables; left out if the tables are too large
``prices``     prove a bound by prices, round a choice from their cuts, find nodes for it
``slots``      the same with a price per size of slot on nodes, if shapes make the gap; rounds that
               left shapes out for their size are posed whole for it
``residual``   decide the jobs that lose most, or whose choice is close, anew on some nodes, as an
               exact round, the others unchanged; again, and larger, while that helps
``exact``      solve the exact round without the options that the bound shows to be in no better
               decision; in large rounds with many rows over several jobs, solve blocks of jobs
               without nodes
=============  =====================================================================================

A level ends in one of the following ways. A bound that was proven before always stays; the table
states which endings may add one.

====================================  ================  ===========================================
situation (`Climb._level`)            ending            may the ending prove?
====================================  ================  ===========================================
tables or prices find no decision     infeasible        yes: every relaxation that is infeasible
                                                        proves that the round is
gap reached                           at once           it has
``returns``: a start may cost less    exact, all        yes: every option is in the model. Prices
on the job's own nodes                options           may not follow: they know no nodes, on
                                                        which such an option's value depends
tables, small, not compact, value     exact, options    yes: theorem 4 of knapsack.md, options out
>= ``left_out``                       in reach          of reach are in no better decision
tiny, not compact                     exact, all        yes: every option is in the model
                                      options
value < ``left_out``                  prices            not by the options in reach: items that the
                                                        core left out may be in a better decision
compact                               prices, residual  no exact model may: options that the round
                                      rounds            leaves out are not in it. Tables and prices
                                                        may, as their bounds cover those options
many rows over several jobs, large    prices, blocks    yes: blocks have every option, and only lack
                                                        nodes
all others                            prices .. exact   yes: the exact round has all options that
                                                        lose at most bound - value at prices
residual round                        continue          never: it holds the other jobs as they are
====================================  ================  ===========================================

docs/formulations/knapsack.md and prices.md have the mathematics. `LadderParams` has the numbers.
Deterministic but for the time limit, which ends the ladder between two steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from formulations.round.rules import with_promises
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.scheduling.decision.climb import Climb
from morph_opt.scheduling.decision.deadline import Clock, Deadline
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.steps.known import Known
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Status


@dataclass(frozen=True, slots=True)
class Ladder:
    """Round method that climbs from tables over prices and residual rounds to the exact round.

    Parameters
    ----------
    solver
        Adapter for the exact parts.
    params
        Sizes and counts of the steps.
    clock
        Clock by which time limits hold.
    """

    solver: Solver
    params: LadderParams = DEFAULTS
    clock: Clock = time.perf_counter

    @property
    def name(self) -> str:
        """``"ladder"``."""
        return "ladder"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """Solve a round, one with pairs exactly."""
        deadline = Deadline(limits.time_s, self.clock)
        if posed.problem.shared.count:
            rounds = RoundSolver(
                self.solver, limits, "either", params=self.params, deadline=deadline
            )
            exact = rounds.guaranteed(posed.problem, posed.levels, posed.fallback_levels)
            return _no_worse_than_filled(posed, exact, limits)
        found = self._climbed(posed, limits, deadline, None)
        wide = posed.view.compact and found.outcome.gap > limits.gap and not deadline.passed()
        shaped = found.outcome.gap > self.params.shaped_gap
        if not (wide and self.params.may_be_whole(posed.problem.candidates.count, shaped)):
            return found
        # Shapes that were left out may close the gap, and only with them is a proof possible.
        whole = posed.whole()
        known = None
        if found.selection is not None and not posed.problem.jobs.guaranteed.any():
            known = posed.view.numbered_in(whole.view, found.selection)
        again = self._climbed(whole, limits, deadline, known)
        better = again.complete and again.outcome.gap < found.outcome.gap
        return replace(again, posed=whole) if better else found

    def _climbed(
        self, posed: PosedRound, limits: Limits, deadline: Deadline, known: Selection | None
    ) -> Solved:
        """Solve the round as it is posed, starting from decision ``known`` if there is one.

        With promises there are two climbs: one with promises as rows, and one with the fallback
        levels if the first has no decision. The first ends early without one, so that there is time
        for the second.
        """
        problem, compact = posed.problem, posed.view.compact

        def climbed(
            under: RoundProblem,
            levels: tuple[Level, ...],
            settle: Deadline = deadline,
            by_rank: bool = True,
        ) -> Solved:
            again = known is not None
            climb = Climb(
                self.solver, self.params, limits, compact, again, deadline, settle, by_rank
            )
            return climb.ranked(under, levels, known)

        if not problem.jobs.guaranteed.any():
            return climbed(problem, posed.levels)
        settle = deadline.after(self.params.promised_share)
        kept = climbed(with_promises(problem), posed.levels, settle)
        if kept.selection is not None:
            return replace(kept, promised=True)
        impossible = kept.outcomes[0].status is Status.INFEASIBLE
        ranked = climbed(problem, posed.fallback_levels, by_rank=False)
        if impossible:
            return replace(ranked, promised=False)
        return replace(ranked, promised=None, kept_bounds=tuple(o.bound for o in kept.outcomes))


def _no_worse_than_filled(posed: PosedRound, solved: Solved, limits: Limits) -> Solved:
    """Return an answer that is worth at least what keeping and filling is, if it is open."""
    problem, outcome = posed.problem, solved.outcome
    if outcome.status in (Status.OPTIMAL, Status.INFEASIBLE) or problem.jobs.guaranteed.any():
        return solved
    if len(posed.levels) > 1:
        return solved
    (level,) = posed.levels
    value = -np.inf if solved.selection is None else solved.selection.value(level)
    known = Known(solved.selection, value, outcome.bound, "solver", "exact")
    # No job is worth more than by its best option: the bound of prices that are all 0.
    most, members = np.zeros(problem.jobs.count), problem.options.members
    np.maximum.at(most, members.job, level.worth)
    known.bounded(float(most.sum()), "prices")
    known.better(problem, level, keep_and_fill(problem, level))
    return replace(
        solved,
        selection=known.selection,
        outcomes=(known.outcome(limits.gap),),
        bound_by=known.bound_by,
    )
