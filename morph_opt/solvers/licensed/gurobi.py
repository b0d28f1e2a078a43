"""Gurobi (gurobipy), where it is installed; without a licence it stops at 2,000 rows or columns."""

from __future__ import annotations

import gurobipy
import numpy as np

from formulations.arrays import Floats, Ints
from formulations.linear_model import LinearModel
from morph_opt.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.solvers.meaning import Meaning
from morph_opt.solvers.outcome import Limits

CODES: dict[int, Meaning] = {
    1: Meaning.FAILED,  # LOADED
    2: Meaning.PROVED,  # OPTIMAL
    3: Meaning.INFEASIBLE,
    4: Meaning.INFEASIBLE_OR_UNBOUNDED,
    5: Meaning.UNBOUNDED,
    6: Meaning.LIMIT,  # CUTOFF
    7: Meaning.LIMIT,  # ITERATION_LIMIT
    8: Meaning.NODE_LIMIT,
    9: Meaning.TIME_LIMIT,
    10: Meaning.LIMIT,  # SOLUTION_LIMIT
    11: Meaning.TIME_LIMIT,  # INTERRUPTED
    12: Meaning.FAILED,  # NUMERIC
    13: Meaning.FAILED,  # SUBOPTIMAL
    14: Meaning.FAILED,  # INPROGRESS
    15: Meaning.LIMIT,  # USER_OBJ_LIMIT
    16: Meaning.WORK_LIMIT,
    17: Meaning.MEMORY_LIMIT,
    18: Meaning.FAILED,  # LOCALLY_OPTIMAL, of nonlinear models
    19: Meaning.FAILED,  # LOCALLY_INFEASIBLE
}
"""Every code of ``gurobipy.GRB.Status``."""

_OPEN = 1e20


class GurobiSolver(Adapter):
    """Gurobi in matrix form; its environment (the licence) is kept from solve to solve."""

    name = "gurobi"
    capabilities = Capabilities(mip_start=True, node_limit=True, work_limit=True, lp_duals=True)

    def __init__(self) -> None:
        self._environment: gurobipy.Env | None = None

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        if self._environment is None:
            self._environment = gurobipy.Env(params={"OutputFlag": 0})
        version = "Gurobi " + ".".join(map(str, gurobipy.gurobi.version()))
        with gurobipy.Model(env=self._environment) as problem:
            columns, sides = _fill(problem, model)
            for name, setting in (
                ("MIPGap", limits.gap),
                ("MIPGapAbs", 1e-9),
                ("TimeLimit", limits.time_s),
                ("Threads", limits.threads),
                ("Seed", limits.seed % 2_000_000_000),
                ("NodeLimit", float("inf") if limits.nodes is None else limits.nodes),
                ("WorkLimit", float("inf") if limits.work is None else limits.work),
            ):
                problem.setParam(name, setting)
            if start is not None and model.integer.any():
                columns.Start = start
            clock.hand_over_done()
            problem.optimize()
            found = problem.SolCount > 0
            mip = bool(problem.IsMIP)
            bound = float("inf")
            if mip and problem.Status not in (3, 4, 5):
                bound = float(problem.ObjBound)
            elif not mip and problem.Status == gurobipy.GRB.OPTIMAL:
                bound = float(problem.ObjVal)
            return Answer(
                CODES[problem.Status],
                version,
                np.asarray(columns.X) if found else None,
                bound if bound < _OPEN else float("inf"),
                nodes=int(problem.NodeCount),
                message=f"status {problem.Status}",
                row_duals=_duals(model, sides) if found and not mip else None,
            )


def _fill(
    problem: gurobipy.Model, model: LinearModel
) -> tuple[gurobipy.MVar, list[tuple[Ints, gurobipy.MConstr]]]:
    kinds = np.where(model.integer, gurobipy.GRB.INTEGER, gurobipy.GRB.CONTINUOUS)
    columns = problem.addMVar(
        model.columns, lb=model.column_lower, ub=model.column_upper, obj=model.cost, vtype=kinds
    )
    problem.ModelSense = gurobipy.GRB.MAXIMIZE
    problem.ObjCon = model.offset
    matrix = model.matrix()
    equal = model.row_lower == model.row_upper
    upper = np.isfinite(model.row_upper) & ~equal
    lower = np.isfinite(model.row_lower) & ~equal
    sides = []
    for chosen, sense, side in (
        (equal, "=", model.row_upper),
        (upper, "<", model.row_upper),
        (lower, ">", model.row_lower),
    ):
        if chosen.any():
            rows = problem.addMConstr(matrix[chosen], columns, sense, side[chosen])
            sides.append((np.flatnonzero(chosen), rows))
    problem.update()
    return columns, sides


def _duals(model: LinearModel, sides: list[tuple[Ints, gurobipy.MConstr]]) -> Floats:
    duals = np.zeros(model.rows)
    for chosen, rows in sides:
        duals[chosen] += np.asarray(rows.Pi)
    return duals
