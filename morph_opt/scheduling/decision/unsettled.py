"""Answers of rounds that ended before they decided whether all promises can be kept.

Such a round has one of two optima: if all promises can be kept, the best decision that keeps them,
else the best by the fallback levels. A decision that keeps them settles the question. Otherwise a
bound of the round is the larger one of both. No such answer is optimal.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.objectives import kept
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.solvers.outcome import Outcome, Status, Stop, relative_gap


def keeps_promises(problem: RoundProblem, selection: Selection) -> bool:
    """Return whether every guaranteed job has the speed of its request."""
    members = problem.options.members
    mine = members.chosen(selection.choice)
    fast = members.job[mine[kept(problem)[mine]]]
    return bool(np.isin(np.flatnonzero(problem.jobs.guaranteed), fast).all())


def with_promises_settled(
    posed: PosedRound, solved: Solved, selection: Selection, gap: float
) -> Solved:
    """Return the answer of a round whose decision is ``selection``, with promises accounted for.

    Parameters
    ----------
    posed, solved
        Round and answer of a method.
    selection
        Decision of ``solved``, or of the fallback, another object.
    gap
        Gap at which an answer counts as optimal.
    """
    if solved.promised is not None or not posed.problem.jobs.guaranteed.any():
        return solved
    if keeps_promises(posed.problem, selection):
        if selection is not solved.selection:
            return replace(solved, levels=posed.levels, promised=True)
        bounds = [*solved.kept_bounds, *(np.inf for _ in posed.levels)]
        found = [
            _outcome(level, selection, bound)
            for level, bound in zip(posed.levels, bounds, strict=False)
        ]
        single = len(found) == 1 and found[0].gap <= gap
        if single:
            found = [replace(found[0], status=Status.OPTIMAL, stop=Stop.PROVED)]
        return replace(solved, outcomes=tuple(found), levels=posed.levels, promised=True)
    if selection is not solved.selection:
        return replace(solved, levels=posed.fallback_levels)
    # The last levels are those of the posed round, unless promises are weighed.
    skipped = len(solved.levels) - len(posed.levels)
    outcomes = []
    for rank, (level, outcome) in enumerate(zip(solved.levels, solved.outcomes, strict=False)):
        bound = outcome.bound
        if rank >= skipped and level is posed.levels[rank - skipped]:
            others = solved.kept_bounds[rank - skipped :]
            bound = max(bound, others[0] if others else np.inf)
        outcomes.append(_open(outcome, bound))
    return replace(solved, outcomes=tuple(outcomes))


def _outcome(level: Level, selection: Selection, bound: float) -> Outcome:
    """Return the outcome of a level whose decision was found under other levels."""
    value = selection.value(level)
    bound = max(bound, value)
    gap = relative_gap(value, bound)
    return Outcome(
        Status.FEASIBLE, Stop.TIME_LIMIT, "ladder", objective=value, bound=bound, gap=gap
    )


def _open(outcome: Outcome, bound: float) -> Outcome:
    """Return an outcome with a larger bound and without proof of optimality."""
    if not outcome.usable:
        return replace(outcome, bound=bound)
    gap = relative_gap(outcome.objective, bound)
    return replace(outcome, status=Status.FEASIBLE, bound=bound, gap=gap)
