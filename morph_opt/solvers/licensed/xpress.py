"""FICO Xpress, where it is installed; without a licence it stops at 5,000 rows plus columns."""

from __future__ import annotations

import numpy as np
import xpress
from scipy import sparse

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.solvers.meaning import Meaning
from morph_opt.solvers.outcome import Limits

SOLVE_CODES: dict[str, Meaning] = {
    "UNSTARTED": Meaning.FAILED,
    "STOPPED": Meaning.LIMIT,
    "FAILED": Meaning.FAILED,
    "COMPLETED": Meaning.PROVED,
}
"""Every ``SolveStatus``; what ``COMPLETED`` proves, the solution status says."""

SOLUTION_CODES: dict[str, Meaning] = {
    "NOTFOUND": Meaning.INFEASIBLE_OR_UNBOUNDED,
    "OPTIMAL": Meaning.PROVED,
    "FEASIBLE": Meaning.PROVED,
    "INFEASIBLE": Meaning.INFEASIBLE,
    "UNBOUNDED": Meaning.UNBOUNDED,
}
"""Every ``SolStatus`` of a completed solve."""

STOP_CODES: dict[str, Meaning] = {
    "NONE": Meaning.LIMIT,
    "TIMELIMIT": Meaning.TIME_LIMIT,
    "CTRLC": Meaning.TIME_LIMIT,
    "NODELIMIT": Meaning.NODE_LIMIT,
    "ITERLIMIT": Meaning.LIMIT,
    "MIPGAP": Meaning.PROVED,
    "SOLLIMIT": Meaning.LIMIT,
    "GENERICERROR": Meaning.FAILED,
    "MEMORYERROR": Meaning.MEMORY_LIMIT,
    "USER": Meaning.TIME_LIMIT,
    "SOLVECOMPLETE": Meaning.LIMIT,
    "LICENSELOST": Meaning.FAILED,
    "NUMERICALERROR": Meaning.FAILED,
    "WORKLIMIT": Meaning.WORK_LIMIT,
    "NEXTOBJECTIVE": Meaning.LIMIT,
    "MIPSTAGE": Meaning.LIMIT,
}
"""Every ``StopType`` of a stopped solve."""

_OPEN = 1e20


def meaning_of(solve: str, solution: str, stop: str) -> Meaning:
    """Three words make one: a completed solve is told by its solution, a stopped by its stop."""
    meaning = SOLVE_CODES[solve]
    if meaning is Meaning.PROVED:
        return SOLUTION_CODES[solution]
    return STOP_CODES[stop] if meaning is Meaning.LIMIT else meaning


class XpressSolver(Adapter):
    """Xpress; takes the matrix in one call."""

    name = "xpress"
    capabilities = Capabilities(mip_start=True, node_limit=True, work_limit=True)

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        problem = xpress.problem()
        problem.controls.outputlog = 0
        _fill(problem, model)
        # Xpress divides by the larger of objective and bound, we by the objective.
        problem.controls.miprelstop = limits.gap / (1 + limits.gap)
        problem.controls.mipabsstop = 1e-9
        problem.controls.mipaddcutoff = 0.0  # its default leaves a gap of 1e-5 unproven
        problem.controls.timelimit = max(limits.time_s, 1e-3)
        problem.controls.threads = limits.threads
        problem.controls.randomseed = limits.seed % 2**31
        if limits.nodes is not None:
            problem.controls.maxnode = max(limits.nodes, 1)
        if limits.work is not None:
            problem.controls.worklimit = limits.work
        mip = bool(model.integer.any())
        if start is not None and mip:
            problem.addMipSol(start.tolist())
        clock.hand_over_done()
        problem.optimize()
        seen = problem.attributes
        found = seen.solstatus in (xpress.SolStatus.OPTIMAL, xpress.SolStatus.FEASIBLE)
        bound = float("inf")
        if mip:
            bound = float(seen.bestbound)
        elif seen.solstatus == xpress.SolStatus.OPTIMAL:
            bound = float(seen.objval)
        stop = xpress.StopType(seen.stopstatus).name
        solve, solution = xpress.SolveStatus(seen.solvestatus), xpress.SolStatus(seen.solstatus)
        return Answer(
            meaning_of(solve.name, solution.name, stop),
            f"Xpress {xpress.__version__}",
            np.asarray(problem.getSolution(), dtype=np.float64) if found else None,
            bound if bound < _OPEN else float("inf"),
            nodes=int(seen.nodes) if mip else 0,
            message=f"{solve.name}, {solution.name}, {stop}",
        )


def _fill(problem: xpress.problem, model: LinearModel) -> None:
    matrix = sparse.csc_matrix(model.matrix())
    low, high = np.isfinite(model.row_lower), np.isfinite(model.row_upper)
    kind = np.select(
        [low & high & (model.row_lower == model.row_upper), low & high, high, low],
        ["E", "R", "L", "G"],
        "N",
    )
    side = np.where(high, model.row_upper, np.where(low, model.row_lower, 0.0))
    width = np.where(low & high, model.row_upper - model.row_lower, 0.0)
    integers = np.flatnonzero(model.integer)
    problem.loadMIP(
        "model",
        kind.tolist(),
        side.tolist(),
        width.tolist(),
        model.cost.tolist(),
        matrix.indptr[:-1].tolist(),
        np.diff(matrix.indptr).tolist(),
        matrix.indices.tolist(),
        matrix.data.tolist(),
        np.maximum(model.column_lower, -xpress.infinity).tolist(),
        np.minimum(model.column_upper, xpress.infinity).tolist(),
        ["I"] * integers.size,
        integers.tolist(),
    )
    problem.chgObjSense(xpress.ObjSense.MAXIMIZE)
    if model.offset:
        problem.chgObj([-1], [-model.offset])  # column -1 is the constant, with its sign turned
