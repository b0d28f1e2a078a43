"""NVIDIA cuOpt, where it is installed (``cuopt-cu12`` or ``cuopt-cu13``) and a GPU is there.

Written against NVIDIA's public Python interface (cuOpt 25.08 to 26.08); no machine of this
project has the GPU that running it takes, so only its tables are tested.
"""

from __future__ import annotations

from importlib import metadata

import numpy as np
from cuopt import linear_programming

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.solvers.licensed.cuopt_codes import meaning_of
from morph_opt.solvers.meaning import Meaning
from morph_opt.solvers.outcome import Limits


class CuOptSolver(Adapter):
    """cuOpt; takes the matrix in compressed rows as it is."""

    name = "cuopt"
    capabilities = Capabilities(threads=False, deterministic=False)

    def _attempt(
        self, model: LinearModel, limits: Limits, _start: Floats | None, clock: Clock
    ) -> Answer:
        problem = linear_programming.DataModel()
        problem.set_csr_constraint_matrix(
            model.value, model.index.astype(np.int32), model.start.astype(np.int32)
        )
        problem.set_constraint_lower_bounds(model.row_lower)
        problem.set_constraint_upper_bounds(model.row_upper)
        problem.set_objective_coefficients(model.cost)
        problem.set_objective_offset(model.offset)
        problem.set_maximize(True)
        problem.set_variable_lower_bounds(model.column_lower)
        problem.set_variable_upper_bounds(model.column_upper)
        problem.set_variable_types(np.where(model.integer, "I", "C").astype("S1"))
        settings = linear_programming.SolverSettings()
        settings.set_parameter("time_limit", limits.time_s)
        settings.set_parameter("log_to_console", False)
        mip = bool(model.integer.any())
        if mip:
            settings.set_parameter("mip_relative_gap", limits.gap)
        clock.hand_over_done()
        solution = linear_programming.Solve(problem, settings)
        reason = solution.get_termination_reason()
        meaning = meaning_of(reason, mip)
        point = solution.get_primal_solution()
        holds = meaning is Meaning.PROVED or reason in ("FeasibleFound", "PrimalFeasible")
        x = np.asarray(point, dtype=np.float64) if holds and len(point) else None
        bound = float("inf")
        if mip:
            bound = float(solution.get_milp_stats()["solution_bound"])
        elif meaning is Meaning.PROVED:
            bound = float(solution.get_dual_objective())
        return Answer(
            meaning,
            f"cuOpt {_version()}",
            x,
            bound,
            nodes=int(solution.get_milp_stats().get("num_nodes", 0)) if mip else 0,
            message=str(reason),
        )


def _version() -> str:
    for package in ("cuopt-cu13", "cuopt-cu12"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "of unknown version"
