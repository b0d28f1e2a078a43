"""Price large rounds with the relaxation, then solve the MILP over what the prices leave.

Let y be the duals of the linear relaxation, z its optimum and d = c - A'y the reduced costs (at
most 0 for columns at their lower bound 0 in a maximisation). A solution that uses column i is
worth at most z + d[i]. So the candidates with the best reduced costs are where good solutions
are; the MILP over these alone gives a feasible solution of the round, and z stays a valid bound
for all of them. Where the two are within the requested gap, the restriction has proven itself;
otherwise the MILP is solved without columns that no better solution uses (z + d[i] below the value
found), starting from that solution if the solver takes one.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from formulations.alike import counted
from formulations.arrays import Ints
from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, relative_gap


def solve_priced(
    solver: Solver, built: RoundModel, limits: Limits, params: LadderParams = DEFAULTS
) -> Outcome:
    """Solve a round's model: small ones directly, large ones with equal jobs counted together."""
    model, starts, jobs = built.model, built.layout.starts, built.layout.jobs
    named = built.distinct is None and model.columns <= params.tiny.distinct_columns
    if named or starts.size < params.pricing.counted_from:
        return solver.solve(model, limits)
    began = time.perf_counter()
    fewer = counted(built)
    if fewer is None:
        return _priced(solver, model, starts, jobs, limits, params)
    spent_s = time.perf_counter() - began
    less = _less(limits, spent_s=spent_s)
    outcome = _priced(solver, fewer.model, fewer.starts, jobs, less, params)
    x = None if outcome.x is None else fewer.expanded(outcome.x)
    return replace(outcome, x=x, row_duals=None, build_s=outcome.build_s + spent_s)


def _priced(
    solver: Solver,
    model: LinearModel,
    x: Ints,
    jobs: int,
    limits: Limits,
    params: LadderParams,
) -> Outcome:
    """Solve a model whose starts are columns ``x``: small ones directly, large ones priced."""
    pricing = params.pricing
    if x.size < pricing.priced_from or not solver.capabilities.lp_duals:
        return solver.solve(model, limits)
    relaxed = solver.solve(model.relaxed(), limits)
    if relaxed.status is not Status.OPTIMAL or relaxed.row_duals is None:
        return solver.solve(model, _less(limits, relaxed))
    reduced = model.cost - model.matrix().T @ relaxed.row_duals
    kept = min(x.size, max(pricing.kept_least, pricing.kept_per_job * jobs))
    worst = np.partition(reduced[x], x.size - kept)[x.size - kept]
    small = solver.solve(_without(model, x[reduced[x] < worst]), _less(limits, relaxed))
    if small.x is None:
        return _timed(solver.solve(model, _less(limits, relaxed, small)), relaxed, small)
    gap = relative_gap(small.objective, relaxed.bound, 1.0)
    if gap <= limits.gap + 1e-9:
        proven = replace(
            small, status=Status.OPTIMAL, bound=max(relaxed.bound, small.objective), gap=gap
        )
        return _timed(proven, relaxed)
    start = small.x if solver.capabilities.mip_start else None
    least = small.objective - relaxed.bound - params.tolerances.sure * model.scale
    fewer = _without(model, x[reduced[x] < least])
    whole = solver.solve(fewer, _less(limits, relaxed, small), start)
    if whole.x is not None and whole.objective >= small.objective:
        return _timed(whole, relaxed, small)
    bound = max(min(relaxed.bound, whole.bound), small.objective)
    reached = relative_gap(small.objective, bound, 1.0)
    fitting = replace(
        small,
        bound=bound,
        gap=reached,
        stop=whole.stop,
        status=Status.OPTIMAL if reached <= limits.gap + 1e-9 else Status.FEASIBLE,
    )
    return _timed(fitting, relaxed, whole)


def _without(model: LinearModel, columns: Ints) -> LinearModel:
    """Return the model with some columns fixed at 0."""
    upper = model.column_upper.copy()
    upper[columns] = 0.0
    return replace(model, column_upper=upper)


def _less(limits: Limits, *spent: Outcome, spent_s: float = 0.0) -> Limits:
    """Return the limits less the time already spent."""
    used = spent_s + sum(outcome.build_s + outcome.solve_s for outcome in spent)
    return replace(limits, time_s=max(0.1, limits.time_s - used))


def _timed(outcome: Outcome, *others: Outcome) -> Outcome:
    """Return the outcome with the times of the other solves added."""
    return replace(
        outcome,
        build_s=outcome.build_s + sum(other.build_s for other in others),
        solve_s=outcome.solve_s + sum(other.solve_s for other in others),
        check_s=outcome.check_s + sum(other.check_s for other in others),
    )
