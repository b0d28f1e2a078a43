"""Adapter of CP-SAT (ortools), on the integer form of `scheduling.solvers.cpsat.scaling`."""

from __future__ import annotations

import numpy as np
import ortools
from ortools.sat.python import cp_model

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.cpsat.scaling import IntegerModel, ScalingError, to_integers
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits

CODES: dict[str, Meaning] = {
    "UNKNOWN": Meaning.LIMIT,
    "MODEL_INVALID": Meaning.FAILED,
    "FEASIBLE": Meaning.LIMIT,
    "INFEASIBLE": Meaning.INFEASIBLE,
    "OPTIMAL": Meaning.PROVED,
}
"""Meaning of every code of CP-SAT's ``CpSolverStatus``."""


class CpSatSolver(Adapter):
    """Adapter of CP-SAT, which fills the proto row by row without expression objects."""

    name = "cpsat"
    capabilities = Capabilities(mip_start=True, work_limit=True, continuous=False)

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        version = f"CP-SAT {ortools.__version__}"
        try:
            whole = to_integers(model)
        except ScalingError as error:
            return Answer(Meaning.FAILED, version, message=str(error))
        if whole.empty:  # to CP-SAT such a row or column is an invalid model, not an infeasible one
            message = f"{whole.empty} has no integer point"
            return Answer(Meaning.INFEASIBLE, version, message=message)
        problem = _problem(model, whole, start)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = limits.time_s
        solver.parameters.num_workers = limits.threads
        solver.parameters.random_seed = limits.seed
        solver.parameters.relative_gap_limit = limits.gap
        if limits.work is not None:
            solver.parameters.max_deterministic_time = limits.work
        clock.hand_over_done()
        status = solver.solve(problem)
        meaning = CODES[status.name]
        has_point = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        x = np.asarray(solver.response_proto.solution, dtype=np.float64) if has_point else None
        bound = float("inf")
        if has_point:  # without one the response carries a 0 that proves nothing
            bound = _bound(solver.best_objective_bound, whole, model)
        return Answer(
            meaning,
            version,
            x,
            bound,
            nodes=solver.num_branches,
            message=f"{status.name} {solver.solution_info()}".strip(),
        )


def _bound(scaled: float, whole: IntegerModel, model: LinearModel) -> float:
    """Return the bound in the model's unit, plus the error of rounding the costs."""
    return scaled / whole.cost_factor + whole.cost_error + model.offset


def _problem(model: LinearModel, whole: IntegerModel, start: Floats | None) -> cp_model.CpModel:
    problem = cp_model.CpModel()
    proto = problem.proto
    for low, high in zip(whole.column_lower.tolist(), whole.column_upper.tolist(), strict=True):
        proto.variables.add().domain.extend([low, high])
    columns, values, ends = model.index.tolist(), whole.value.tolist(), model.start.tolist()
    for row, (low, high) in enumerate(
        zip(whole.row_lower.tolist(), whole.row_upper.tolist(), strict=True)
    ):
        span = slice(ends[row], ends[row + 1])
        linear = proto.constraints.add().linear
        linear.vars.extend(columns[span])
        linear.coeffs.extend(values[span])
        linear.domain.extend([low, high])
    # CP-SAT minimises; with a factor of -1 it reports objective and bound of the maximisation.
    priced = np.flatnonzero(whole.cost)
    proto.objective.vars.extend(priced.tolist())
    proto.objective.coeffs.extend((-whole.cost[priced]).tolist())
    proto.objective.scaling_factor = -1.0
    if start is not None:
        proto.solution_hint.vars.extend(range(model.columns))
        proto.solution_hint.values.extend(np.round(start).astype(np.int64).tolist())
    return problem
