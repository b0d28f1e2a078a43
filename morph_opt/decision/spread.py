"""Values that differ by more than a solver's tolerances: what an answer says, and what is solved.

A solver keeps reduced costs to about 1e-7 *absolutely*, so an answer in units of the largest cost
says nothing about decisions that are worth a millionth of it. That matters only where the largest
values cannot be had: what can happen by itself is no more than the optimum. So an answer that is
far below its largest cost is taken for what it is sure to say, options that it rules out are taken
away, and the rest is solved again in its own units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.layout import RoundModel
from formulations.round.tables import Level, RoundProblem
from morph_opt.solvers.outcome import Outcome, Status, relative_gap

WIDE = 16.0
"""Largest value over the answer's from which on the answer is looked at again."""

SURE = 1e-6
"""An answer holds to this share of the largest cost, or to `DUAL` of it for each job and node."""

DUAL = 1e-7
"""What solvers take for a reduced cost of 0, in units of the largest cost."""

FLOOR = 1e-7
"""What a goal may lose to those that rank below it, in units of its largest value in reach."""

ROUNDING = 1e-12
"""Of the absolute values in a sum: what rounding may have taken from it."""


def unsure(problem: RoundProblem, scale: float) -> float:
    """What the bound of an answer in units of ``scale`` may lie below the truth."""
    return scale * max(SURE, DUAL * (problem.jobs.count + problem.nodes.count))


def reachable(
    problem: RoundProblem, value: Floats, may: Bools, bound: float, least: float
) -> Bools:
    """Options that may be in a decision worth ``least`` to ``bound``, shape (O,).

    Parameters
    ----------
    value
        Of each option, shape (O,).
    may
        Options that are in question, shape (O,).
    bound
        No decision is worth more; then no option is in one that makes it so whatever the others do.
    least
        Decisions worth less do not count.
    """
    members = problem.options.members
    # What every job may add at worst, or at best; nothing is among its options. Twice, as what is
    # too much may have been made up for by what is too little.
    for side in (-1.0, 1.0, -1.0, 1.0):
        others = np.zeros(problem.jobs.count)
        np.maximum.at(others, members.job, side * np.where(may, value, 0.0)[members.option])
        rest = others.sum() - problem.options.total(others[members.job])
        slack = ROUNDING * (others.sum() + np.abs(value))
        total = value + side * rest
        may = may & (total - slack <= bound if side < 0 else total + slack >= least)
    return may


def narrowed(
    problem: RoundProblem, built: RoundModel, outcome: Outcome, gap: float
) -> tuple[RoundModel | None, Outcome]:
    """The model without what an answer rules out, where its costs are too large for the answer.

    Without such a model the answer is final: as it is where its costs are of its size, with the
    bound raised by what the solver cannot see where they are not.
    """
    model, x = built.model, built.layout.x
    largest = _largest(model.cost, model.column_upper)
    size = max(abs(outcome.objective), abs(outcome.bound))
    if not np.isfinite(size) or largest <= WIDE * size:
        return None, outcome
    slack = unsure(problem, largest)
    may = model.column_upper[x] > 0
    fine = reachable(problem, model.cost[x], may, outcome.bound + slack, outcome.objective - slack)
    upper = model.column_upper.copy()
    upper[x[~fine]] = 0.0
    outcome = widened(outcome, slack, gap)
    if _largest(model.cost, upper) > 0.5 * largest:
        return None, outcome
    return replace(built, model=replace(model, column_upper=upper)), outcome


def floor_of(
    problem: RoundProblem, level: Level, value: float, bound: float
) -> tuple[Level, float]:
    """A goal that ranks higher as a row: its values in reach, and the least that is asked for.

    What no decision of that worth contains is left out, or is no better than what breaks the row,
    so that the row is in units of what decisions are worth.
    """
    slack = SURE * max(abs(value), abs(bound))
    may = reachable(problem, level.value, problem.options.possible, bound + slack, value - slack)
    unit = float(np.abs(level.value).max(initial=0.0, where=may)) or 1.0
    never = np.clip(level.value, -3.0 * problem.jobs.count * unit, 0.0)
    worth = np.where(may, level.value, never)
    return replace(level, value=worth), value - FLOOR * max(unit, abs(value))


def _largest(cost: Floats, upper: Floats) -> float:
    return float(np.abs(cost).max(initial=0.0, where=upper > 0))


def widened(outcome: Outcome, slack: float, gap: float) -> Outcome:
    """An outcome whose bound is raised by ``slack``, with the gap and the status that it leaves."""
    if not np.isfinite(outcome.bound):
        return outcome
    bound = outcome.bound + slack
    if outcome.x is None:
        return replace(outcome, bound=bound)
    reached = relative_gap(outcome.objective, bound)
    status = Status.OPTIMAL if reached <= gap else Status.FEASIBLE
    return replace(outcome, bound=bound, gap=reached, status=status)
