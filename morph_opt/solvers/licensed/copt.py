"""COPT (coptpy), where it is installed; without a licence it stops at 2,000 rows or columns."""

from __future__ import annotations

import coptpy
import numpy as np
from scipy import sparse

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.solvers.meaning import Meaning
from morph_opt.solvers.outcome import Limits

CODES: dict[int, Meaning] = {
    0: Meaning.FAILED,  # UNSTARTED
    1: Meaning.PROVED,  # OPTIMAL
    2: Meaning.INFEASIBLE,
    3: Meaning.UNBOUNDED,
    4: Meaning.INFEASIBLE_OR_UNBOUNDED,
    5: Meaning.FAILED,  # NUMERICAL
    6: Meaning.NODE_LIMIT,
    7: Meaning.FAILED,  # IMPRECISE
    8: Meaning.TIME_LIMIT,
    9: Meaning.FAILED,  # UNFINISHED
    10: Meaning.TIME_LIMIT,  # INTERRUPTED
    11: Meaning.LIMIT,  # ITERLIMIT
    20: Meaning.FAILED,  # LOCAL_OPTIMAL, of nonlinear models
    21: Meaning.FAILED,  # LOCAL_INFEASIBLE
}
"""Every status code of COPT."""

_OPEN = 1e20


class CoptSolver(Adapter):
    """COPT; takes the matrix in one call. Its environment is kept from solve to solve."""

    name = "copt"
    capabilities = Capabilities(mip_start=True, node_limit=True)

    def __init__(self) -> None:
        self._environment: coptpy.Envr | None = None

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        if self._environment is None:
            settings = coptpy.EnvrConfig()
            settings.set("nobanner", "1")
            self._environment = coptpy.Envr(settings)
        problem = self._environment.createModel("model")
        try:
            problem.setParam("Logging", 0)
            _fill(problem, model)
            # COPT divides by the larger of objective and bound, we by the objective.
            problem.setParam("RelGap", limits.gap / (1 + limits.gap))
            problem.setParam("AbsGap", 1e-9)
            problem.setParam("TimeLimit", limits.time_s)
            problem.setParam("Threads", limits.threads)
            if limits.nodes is not None:
                problem.setParam("NodeLimit", limits.nodes)
            mip = bool(model.integer.any())
            if start is not None and mip:
                problem.setMipStart(problem.getVars(), start.tolist())
                problem.loadMipStart()
            clock.hand_over_done()
            problem.solve()
            return _read(problem, mip)
        finally:
            problem.dispose()


def _fill(problem: coptpy.Model, model: LinearModel) -> None:
    infinity = coptpy.COPT.INFINITY
    problem.loadMatrix(
        model.cost,
        sparse.csc_matrix(model.matrix()),
        np.maximum(model.row_lower, -infinity),
        np.minimum(model.row_upper, infinity),
        np.maximum(model.column_lower, -infinity),
        np.minimum(model.column_upper, infinity),
        [coptpy.COPT.INTEGER if whole else coptpy.COPT.CONTINUOUS for whole in model.integer],
    )
    problem.setObjSense(coptpy.COPT.MAXIMIZE)
    problem.setObjConst(model.offset)


def _read(problem: coptpy.Model, mip: bool) -> Answer:
    found = bool(problem.hasmipsol) if mip else bool(problem.haslpsol)
    bound = float("inf")
    if mip:
        bound = float(problem.bestbnd)
    elif problem.status == coptpy.COPT.OPTIMAL:
        bound = float(problem.objval)
    version = coptpy.COPT
    return Answer(
        CODES[problem.status],
        f"COPT {version.VERSION_MAJOR}.{version.VERSION_MINOR}.{version.VERSION_TECHNICAL}",
        np.asarray(problem.getValues(), dtype=np.float64) if found else None,
        bound if bound < _OPEN else float("inf"),
        nodes=int(problem.nodecnt) if mip else 0,
        message=f"status {problem.status}",
    )
