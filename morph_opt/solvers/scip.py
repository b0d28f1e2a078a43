"""SCIP through pyscipopt, the interface that its users take."""

from __future__ import annotations

import numpy as np
import pyscipopt

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.solvers.meaning import Meaning
from morph_opt.solvers.outcome import Limits

CODES: dict[str, Meaning] = {
    "unknown": Meaning.FAILED,
    "userinterrupt": Meaning.TIME_LIMIT,
    "nodelimit": Meaning.NODE_LIMIT,
    "totalnodelimit": Meaning.NODE_LIMIT,
    "stallnodelimit": Meaning.NODE_LIMIT,
    "timelimit": Meaning.TIME_LIMIT,
    "memlimit": Meaning.MEMORY_LIMIT,
    "gaplimit": Meaning.PROVED,
    "primallimit": Meaning.LIMIT,
    "duallimit": Meaning.LIMIT,
    "sollimit": Meaning.LIMIT,
    "bestsollimit": Meaning.LIMIT,
    "restartlimit": Meaning.LIMIT,
    "optimal": Meaning.PROVED,
    "infeasible": Meaning.INFEASIBLE,
    "unbounded": Meaning.UNBOUNDED,
    "inforunbd": Meaning.INFEASIBLE_OR_UNBOUNDED,
    "terminate": Meaning.TIME_LIMIT,
}
"""Every word of pyscipopt's ``Model.getStatus``."""


class ScipSolver(Adapter):
    """SCIP; rows are added one by one, as pyscipopt's expressions demand."""

    name = "scip"
    capabilities = Capabilities(mip_start=True, node_limit=True, threads=False)

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        scip, columns = _problem(model)
        scip.setParam("limits/time", limits.time_s)
        scip.setParam("limits/gap", limits.gap)
        scip.setParam("randomization/randomseedshift", limits.seed % 2**31)
        if limits.nodes is not None:
            scip.setParam("limits/totalnodes", limits.nodes)
        if start is not None and model.columns:
            solution = scip.createSol()
            for column, value in zip(columns, start.tolist(), strict=True):
                scip.setSolVal(solution, column, value)
            scip.addSol(solution)
        clock.hand_over_done()
        scip.optimize()
        word = scip.getStatus()
        x = None
        if scip.getNSols() > 0:
            best = scip.getBestSol()
            x = np.array([scip.getSolVal(best, column) for column in columns], dtype=np.float64)
        bound = float(scip.getDualbound())
        return Answer(
            CODES[word],
            f"SCIP {scip.version()}",
            x,
            bound if abs(bound) < scip.infinity() else float("inf"),
            nodes=int(scip.getNTotalNodes()),
            message=word,
        )


def _problem(model: LinearModel) -> tuple[pyscipopt.Model, list[pyscipopt.Variable]]:
    scip = pyscipopt.Model(model.name)
    scip.hideOutput()
    columns = [
        scip.addVar(
            vtype="I" if whole else "C",
            lb=low if np.isfinite(low) else None,
            ub=high if np.isfinite(high) else None,
            obj=cost,
        )
        for whole, low, high, cost in zip(
            model.integer.tolist(),
            model.column_lower.tolist(),
            model.column_upper.tolist(),
            model.cost.tolist(),
            strict=True,
        )
    ]
    infinity = scip.infinity()
    index, value, ends = model.index.tolist(), model.value.tolist(), model.start.tolist()
    for row, (low, high) in enumerate(
        zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)
    ):
        entries = range(ends[row], ends[row + 1])
        total = pyscipopt.quicksum(value[k] * columns[index[k]] for k in entries)
        scip.addCons(
            pyscipopt.scip.ExprCons(total + 0.0, lhs=max(low, -infinity), rhs=min(high, infinity))
        )
    scip.setMaximize()
    scip.addObjoffset(model.offset)
    return scip, columns
