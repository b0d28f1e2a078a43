"""Adapter of HiGHS through cvxpy in matrix form, its fastest way.

On a limit cvxpy states ``user_limit`` and returns the solver's arrays, with or without an
incumbent. HiGHS's own flag and the recheck decide.
"""

from __future__ import annotations

from typing import Any

import cvxpy
import highspy
import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.highs import claim_thread_pool
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits

CODES: dict[str, Meaning] = {
    cvxpy.settings.OPTIMAL: Meaning.PROVED,
    cvxpy.settings.OPTIMAL_INACCURATE: Meaning.FAILED,
    cvxpy.settings.INFEASIBLE: Meaning.INFEASIBLE,
    cvxpy.settings.INFEASIBLE_INACCURATE: Meaning.FAILED,
    cvxpy.settings.UNBOUNDED: Meaning.UNBOUNDED,
    cvxpy.settings.UNBOUNDED_INACCURATE: Meaning.FAILED,
    cvxpy.settings.INFEASIBLE_OR_UNBOUNDED: Meaning.INFEASIBLE_OR_UNBOUNDED,
    cvxpy.settings.USER_LIMIT: Meaning.LIMIT,
    cvxpy.settings.SOLVER_ERROR: Meaning.FAILED,
}
"""Meaning of every value of ``cvxpy.Problem.status``."""


class CvxpyHighsSolver(Adapter):
    """Adapter of HiGHS through cvxpy."""

    name = "cvxpy-highs"
    capabilities = Capabilities(node_limit=True)

    def _attempt(
        self, model: LinearModel, limits: Limits, _start: Floats | None, clock: Clock
    ) -> Answer:
        claim_thread_pool(limits.threads)
        version = f"HiGHS {highspy.Highs().version()} (cvxpy {cvxpy.__version__})"
        problem, x = _problem(model)
        options = {
            "threads": limits.threads,
            "random_seed": limits.seed,
            "mip_rel_gap": limits.gap,
            "mip_abs_gap": 1e-9,
            "time_limit": limits.time_s,
            "mip_max_nodes": 2**31 - 1 if limits.nodes is None else limits.nodes,
        }
        # Compiling is cvxpy's part of handing over; the rest is the solve.
        data, chain, inverse = problem.get_problem_data(cvxpy.HIGHS)
        clock.hand_over_done()
        raw = chain.solve_via_data(
            problem, data, warm_start=False, verbose=False, solver_opts={"highs_options": options}
        )
        problem.unpack_results(raw, chain, inverse)
        info = raw["info"]
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        mip = bool(model.integer.any())
        bound = -float(info.mip_dual_bound) if mip else -float(info.objective_function_value)
        if not mip and problem.status != cvxpy.settings.OPTIMAL:
            bound = float("inf")
        point = None if x.value is None or not feasible else np.asarray(x.value, dtype=np.float64)
        return Answer(
            CODES[problem.status],
            version,
            point,
            bound + model.offset,
            nodes=max(0, int(info.mip_node_count)) if mip else 0,
            message=str(problem.status),
        )


def _problem(model: LinearModel) -> tuple[Any, Any]:
    integers = np.flatnonzero(model.integer)
    x = cvxpy.Variable(
        model.columns,
        bounds=[model.column_lower, model.column_upper],
        **({"integer": [integers]} if integers.size else {}),
    )
    matrix = model.matrix()
    equal = model.row_lower == model.row_upper
    upper = np.isfinite(model.row_upper) & ~equal
    lower = np.isfinite(model.row_lower) & ~equal
    rows = []
    if equal.any():
        rows.append(matrix[equal] @ x == model.row_upper[equal])
    if upper.any():
        rows.append(matrix[upper] @ x <= model.row_upper[upper])
    if lower.any():
        rows.append(matrix[lower] @ x >= model.row_lower[lower])
    return cvxpy.Problem(cvxpy.Maximize(model.cost @ x), rows), x
