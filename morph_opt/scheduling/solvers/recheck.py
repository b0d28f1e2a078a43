"""Recheck of incumbents, from which the status of an outcome follows."""

from __future__ import annotations

import time

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.outcome import Outcome, Status, Stop, relative_gap
from morph_opt.scheduling.solvers.units import Units

FEASIBILITY_TOLERANCE = 1e-6
"""Largest violation of a row, relative to `row_sizes`; the usual tolerance of libraries."""

BOUND_TOLERANCE = 1e-6
"""Largest relative distance of a valid bound below a rechecked incumbent, by rounding."""


def rounded(model: LinearModel, x: Floats) -> Floats:
    """Round the integer columns of a point and move every column into its bounds."""
    point = np.where(model.integer, np.round(x), x)
    return np.clip(point, model.column_lower, model.column_upper)


def violated(model: LinearModel, x: Floats) -> str:
    """Return the name of the row or column that ``x`` violates worst; "" if none.

    The tolerance of a row is relative to that row's side, not to the largest of the model.
    """
    if x.shape != model.cost.shape or not np.isfinite(x).all():
        return "the shape of the model, or has a value that is not finite"
    whole = np.where(model.integer, np.abs(x - np.round(x)), 0.0)
    outside = np.maximum(model.column_lower - x, x - model.column_upper)
    columns = np.maximum(whole, outside / np.maximum(1.0, np.abs(x)))
    worst_column = float(columns.max(initial=0.0))
    activity = model.activity(x)
    rows = np.maximum(
        (model.row_lower - activity) / row_sizes(model, model.row_lower),
        (activity - model.row_upper) / row_sizes(model, model.row_upper),
    )
    worst_row = float(rows.max(initial=0.0))
    if max(worst_row, worst_column) <= FEASIBILITY_TOLERANCE:
        return ""
    if worst_row >= worst_column:
        return model.row_name(int(rows.argmax()))
    return model.column_name(int(columns.argmax()))


def row_sizes(model: LinearModel, sides: Floats) -> Floats:
    """Return the size of each row, to which its tolerance is relative, shape (rows,).

    It is that of the side and at least 1, or the row's unit if all its entries are tiny.
    """
    units = np.minimum(1.0, Units.of(model).rows)
    return np.maximum(units, np.abs(np.where(np.isfinite(sides), sides, 0.0)))


def judge(
    model: LinearModel,
    x: Floats | None,
    bound: float,
    stop: Stop,
    gap: float,
    *,
    solver: str,
    nodes: int = 0,
    build_s: float = 0.0,
    solve_s: float = 0.0,
    cpu_s: float = 0.0,
    message: str = "",
    row_duals: Floats | None = None,
    unit: float = 1.0,
) -> Outcome:
    """Return the outcome of a solve that claims neither infeasible nor unbounded.

    Parameters
    ----------
    x
        The library's incumbent, unrounded; None if it has none.
    bound
        The library's dual bound in the sense of the model (an upper bound); inf if unknown.
        One that lies below the rechecked incumbent is disproved and dropped.
    stop
        Why the library stopped.
    gap
        Requested relative gap.
    unit
        Unit of the objective, at most 1: smaller differences than 1e-9 of it are none.
    """
    began = time.perf_counter()
    point, culprit = _sound(model, x)
    value = float("nan") if point is None else model.objective(point)
    if point is None:
        failed = bool(culprit) or stop in (Stop.PROVED, Stop.FAILED)
        status = Status.ERROR if failed else Status.NO_SOLUTION
        stop = Stop.FAILED if failed else stop
        message = f"incumbent violates {culprit}; {message}" if culprit else message
    else:
        if bound < value - BOUND_TOLERANCE * max(unit, abs(value)):
            message = f"the library's bound {bound:g} is below its own incumbent; {message}"
            bound = float("inf")
        bound = max(bound, value)
        met = relative_gap(value, bound, unit) <= gap + 1e-9
        status = Status.OPTIMAL if met else Status.FEASIBLE
    return Outcome(
        status=status,
        stop=stop,
        solver=solver,
        x=point,
        objective=value,
        bound=bound,
        gap=relative_gap(value, bound, unit),
        nodes=nodes,
        build_s=build_s,
        solve_s=solve_s,
        cpu_s=cpu_s,
        check_s=time.perf_counter() - began,
        message=message,
        row_duals=None if point is None else row_duals,
    )


def sound(model: LinearModel, x: Floats) -> bool:
    """Return whether a library's incumbent holds all rows once its integers are rounded."""
    return _sound(model, x)[0] is not None


def _sound(model: LinearModel, x: Floats | None) -> tuple[Floats | None, str]:
    """Return the rounded incumbent, or None and the name of the row or column that it violates."""
    if x is None:
        return None, ""
    shaped = x.shape == model.cost.shape and bool(np.isfinite(x).all())
    point = rounded(model, x) if shaped else x
    culprit = violated(model, point)
    return (None if culprit else point), culprit
