"""Answers whose values differ by more than a solver's tolerances.

A solver keeps reduced costs to about 1e-7 *absolutely*. An answer in units of the largest cost
therefore states nothing about decisions that are worth a millionth of that cost. This matters only
where no decision has the largest values: a value that can be had is no more than the optimum. So an
answer far below its largest cost is taken for what it proves, options that it rules out are
removed, and the rest is solved again in its own units.

All of this needs values that are additive over options: an option is worth the same whatever other
jobs are given. A goal with a variable of its own (a largest wait, a count of nodes in use) is none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.layout import RoundModel
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.params import DEFAULTS, ToleranceParams
from morph_opt.scheduling.solvers.outcome import Outcome, Status, relative_gap

TOLERANCES = DEFAULTS.tolerances


def unsure(problem: RoundProblem, scale: float, params: ToleranceParams = TOLERANCES) -> float:
    """Return the largest error of a bound in units of ``scale``."""
    rows = problem.jobs.count + problem.nodes.count
    return scale * max(params.sure, params.dual * rows)


def reachable(
    problem: RoundProblem,
    value: Floats,
    may: Bools,
    bound: float,
    least: float,
    params: ToleranceParams = TOLERANCES,
) -> Bools:
    """Return whether each option may be in a decision worth ``least`` to ``bound``, shape (O,).

    Invariant: every option of a decision worth ``least`` to ``bound`` stays in ``may``. Let m_j and
    M_j be the least and the largest value of job j's options in ``may``, nothing (0) among them. A
    decision with option o of j is worth at least value_o plus the m_i of the other jobs, so o goes
    if that exceeds ``bound``; it is worth at most value_o plus the M_i of the others, so o goes if
    that is below ``least``. Removing an option tightens m and M and thereby the other test, so both
    tests are repeated. The fixed point may take as many passes as there are options; two passes of
    each are valid, as every pass keeps the invariant, and remove nearly all of it. For example, of
    values 480 and 1e-4 with ``bound`` 2e-4 the first pass removes 480, after which the least values
    of the others are in the small unit and the second pass removes what cannot reach ``least``.

    Parameters
    ----------
    value
        Value of each option, shape (O,); additive over options.
    may
        Options in question, shape (O,).
    bound
        Largest value of any decision.
    least
        Value below which decisions do not count.
    params
        Rounding error of sums.
    """
    members = problem.options.members
    for side in (-1.0, 1.0, -1.0, 1.0):
        # `side * others` is the least (-1) or largest (1) value of each job's options, or 0.
        others = np.zeros(problem.jobs.count)
        np.maximum.at(others, members.job, side * np.where(may, value, 0.0)[members.option])
        rest = others.sum() - problem.options.total(others[members.job])
        slack = params.rounding * (others.sum() + np.abs(value))
        total = value + side * rest
        may = may & (total - slack <= bound if side < 0 else total + slack >= least)
    return may


def narrowed(
    problem: RoundProblem,
    built: RoundModel,
    outcome: Outcome,
    gap: float,
    params: ToleranceParams = TOLERANCES,
) -> tuple[RoundModel | None, Outcome]:
    """Return the model without options that an answer rules out, if its costs dwarf the answer.

    The model is None if the answer is final. The bound of the outcome is raised by the solver's
    uncertainty where costs dwarf the answer.
    """
    model, x = built.model, built.layout.x
    largest = _largest(model.cost, model.column_upper)
    size = max(abs(outcome.objective), abs(outcome.bound))
    if not np.isfinite(size) or largest <= params.wide * size:
        return None, outcome
    slack = unsure(problem, largest, params)
    may = model.column_upper[x] > 0
    bounds = outcome.bound + slack, outcome.objective - slack
    fine = reachable(problem, model.cost[x], may, *bounds, params)
    upper = model.column_upper.copy()
    upper[x[~fine]] = 0.0
    outcome = widened(outcome, slack, gap)
    # Each further solve halves the largest cost at least, so there are at most some fifty.
    if _largest(model.cost, upper) > 0.5 * largest:
        return None, outcome
    return replace(built, model=replace(model, column_upper=upper)), outcome


def floor_of(
    problem: RoundProblem,
    level: Level,
    value: float,
    bound: float,
    params: ToleranceParams = TOLERANCES,
) -> tuple[Level, float]:
    """Return a goal as a row that binds later goals: its values, and their least sum.

    Options that no decision of that worth contains get at most 0, and so much less than 0 at most
    that they break the row, so that the row is in units of what decisions are worth.
    """
    slack = params.sure * max(abs(value), abs(bound))
    bounds = bound + slack, value - slack
    may = reachable(problem, level.value, problem.options.possible, *bounds, params)
    unit = float(np.abs(level.value).max(initial=0.0, where=may)) or 1.0
    never = np.clip(level.value, -3.0 * problem.jobs.count * unit, 0.0)
    worth = np.where(may, level.value, never)
    return replace(level, value=worth), value - params.floor * max(unit, abs(value))


def kept_as_is(
    level: Level, value: float, params: ToleranceParams = TOLERANCES
) -> tuple[tuple[Level, float], tuple[Level, float]]:
    """Return two goals with their least sums that keep the value of a goal: no less and no more."""
    unit = float(np.abs(level.value).max(initial=0.0)) or 1.0
    size = max(unit, abs(value))
    most = value + params.cap * size
    return (level, value - params.floor * size), (replace(level, value=-level.value), -most)


def _largest(cost: Floats, upper: Floats) -> float:
    """Return the largest absolute cost of a column that is not fixed at 0."""
    return float(np.abs(cost).max(initial=0.0, where=upper > 0))


def widened(outcome: Outcome, slack: float, gap: float) -> Outcome:
    """Return an outcome with its bound raised by ``slack``, and gap and status that follow."""
    if not np.isfinite(outcome.bound):
        return outcome
    bound = outcome.bound + slack
    if outcome.x is None:
        return replace(outcome, bound=bound)
    reached = relative_gap(outcome.objective, bound)
    status = Status.OPTIMAL if reached <= gap else Status.FEASIBLE
    return replace(outcome, bound=bound, gap=reached, status=status)
