"""Adapter of the SCIP in ortools, through its model builder."""

from __future__ import annotations

import numpy as np
import ortools
from ortools.linear_solver.python import model_builder_helper
from scipy import sparse

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits

_SCIP_INFINITY = 1e20

CODES: dict[str, Meaning] = {
    "OPTIMAL": Meaning.PROVED,
    "FEASIBLE": Meaning.LIMIT,
    "INFEASIBLE": Meaning.INFEASIBLE,
    "UNBOUNDED": Meaning.INFEASIBLE_OR_UNBOUNDED,  # it states it for both
    "ABNORMAL": Meaning.FAILED,
    "NOT_SOLVED": Meaning.LIMIT,
    "MODEL_IS_VALID": Meaning.FAILED,
    "CANCELLED_BY_USER": Meaning.LIMIT,
    "UNKNOWN_STATUS": Meaning.FAILED,
    "MODEL_INVALID": Meaning.FAILED,
    "INVALID_SOLVER_PARAMETERS": Meaning.FAILED,
    "SOLVER_TYPE_UNAVAILABLE": Meaning.FAILED,
    "INCOMPATIBLE_OPTIONS": Meaning.FAILED,
}
"""Meaning of every code of ortools' ``SolveStatus``."""


class ScipOrtoolsSolver(Adapter):
    """Adapter of SCIP through ortools, which takes the matrix in one call."""

    name = "scip-ortools"
    capabilities = Capabilities(mip_start=True, node_limit=True, threads=False)

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        version = f"SCIP (ortools {ortools.__version__})"
        problem = _problem(model, start)
        solver = model_builder_helper.ModelSolverHelper("scip")
        solver.set_time_limit_in_seconds(max(limits.time_s, 1e-3))
        solver.set_solver_specific_parameters(
            f"limits/gap = {limits.gap!r}\n"
            f"randomization/randomseedshift = {limits.seed % 2**31}\n"
            + ("" if limits.nodes is None else f"limits/totalnodes = {limits.nodes}\n")
        )
        clock.hand_over_done()
        solver.solve(problem)
        status = solver.status()
        feasible = solver.has_solution()
        x = np.asarray(solver.variable_values(), dtype=np.float64) if feasible else None
        bound = float(solver.best_objective_bound()) if solver.has_response() else float("inf")
        if not feasible or abs(bound) >= _SCIP_INFINITY:
            bound = float("inf")  # without a solution the response carries a 0 that proves nothing
        meaning = CODES[status.name]
        if "INFORUNBD" in solver.status_string():  # SCIP's own words
            meaning = Meaning.INFEASIBLE_OR_UNBOUNDED
        return Answer(
            meaning,
            version,
            x,
            bound,
            message=f"{status.name} {solver.status_string()}".strip(),
        )


def _problem(model: LinearModel, start: Floats | None) -> model_builder_helper.ModelBuilderHelper:
    problem = model_builder_helper.ModelBuilderHelper()
    matrix = sparse.csr_matrix(
        (model.value, model.index.astype(np.int32), model.start.astype(np.int32)),
        shape=(model.rows, model.columns),
    )
    problem.fill_model_from_sparse_data(
        model.column_lower,
        model.column_upper,
        model.cost,
        model.row_lower,
        model.row_upper,
        matrix,
    )
    for column in np.flatnonzero(model.integer).tolist():
        problem.set_var_integrality(column, True)
    problem.set_objective_offset(model.offset)
    problem.set_maximize(True)
    if start is not None:
        for column, value in enumerate(start.tolist()):
            problem.add_hint(column, value)
    return problem
