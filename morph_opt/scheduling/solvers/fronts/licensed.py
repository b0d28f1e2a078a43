"""Adapters of Gurobi, COPT and Xpress through pulp, for users with a licence.

pulp returns neither bound nor nodes, drops a gap of 0, and has no values of COPT after a limit.
These are read from the library's own model (`docs/decisions/0041-one-way-to-licensed-solvers.md`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pulp

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.fronts.pulp import build
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits

STATUSES: dict[int, Meaning] = {
    pulp.LpStatusOptimal: Meaning.PROVED,
    pulp.LpStatusInfeasible: Meaning.INFEASIBLE_OR_UNBOUNDED,  # pulp files both under it
    pulp.LpStatusUnbounded: Meaning.UNBOUNDED,
    pulp.LpStatusNotSolved: Meaning.LIMIT,
    pulp.LpStatusUndefined: Meaning.LIMIT,  # Xpress with an incumbent that is not proven
}
"""Meaning of every code of pulp's ``status``."""

_OPEN = 1e20
"""Absolute value from which a bound of these libraries means infinity."""


class _Licensed(Adapter):
    """Base class: pulp builds the model, the library's own model is read."""

    capabilities = Capabilities(mip_start=True, node_limit=True)

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        problem, columns = build(model, start)
        mip = bool(model.integer.any())
        solver = self._solver(limits, start is not None and mip)
        solver.buildSolverModel(problem)
        clock.hand_over_done()
        solver.callSolver(problem)
        status = solver.findSolutionValues(problem)
        x, bound, nodes = self._read(problem.solverModel, columns, mip)
        if not mip and status != pulp.LpStatusOptimal:
            bound = np.inf  # the value of whatever point it stopped at
        return Answer(
            Meaning.UNBOUNDED if self._unbounded(problem.solverModel) else STATUSES[status],
            f"{self.name} (pulp {pulp.__version__})",
            x,
            bound + model.offset if abs(bound) < _OPEN else np.inf,
            nodes=nodes,
            message=str(pulp.LpStatus[status]),
        )

    @abstractmethod
    def _solver(self, limits: Limits, warm: bool) -> Any:
        """Make a solver of pulp with these limits; with ``warm`` it takes the start."""

    def _unbounded(self, _native: Any) -> bool:
        """Return whether the library found the model unbounded where pulp hides it."""
        return False

    @abstractmethod
    def _read(self, native: Any, columns: list[Any], mip: bool) -> tuple[Floats | None, float, int]:
        """Read incumbent, bound and nodes, column by column because pulp sorts them by name."""


class GurobiSolver(_Licensed):
    """Adapter of Gurobi (gurobipy); without a licence it stops at 2,000 rows or columns."""

    name = "gurobi"

    def _solver(self, limits: Limits, warm: bool) -> Any:
        return pulp.GUROBI(
            msg=False,
            OutputFlag=0,  # first, or the settings that follow are printed
            timeLimit=limits.time_s,
            warmStart=warm,
            MIPGap=limits.gap,
            MIPGapAbs=1e-9,
            Threads=limits.threads,
            Seed=limits.seed % 2_000_000_000,
            NodeLimit=np.inf if limits.nodes is None else limits.nodes,
        )

    def _read(self, native: Any, columns: list[Any], mip: bool) -> tuple[Floats | None, float, int]:
        found = native.SolCount > 0
        x = np.array([column.solverVar.X for column in columns]) if found else None
        if mip:
            return x, float(native.ObjBound), int(native.NodeCount)
        return x, float(native.ObjVal) if found else np.inf, 0


class CoptSolver(_Licensed):
    """Adapter of COPT (coptpy); without a licence it takes small models only."""

    name = "copt"

    def _solver(self, limits: Limits, warm: bool) -> Any:
        nodes = {} if limits.nodes is None else {"NodeLimit": limits.nodes}
        return pulp.COPT(
            msg=False,
            timeLimit=limits.time_s,
            warmStart=warm,
            RelGap=limits.gap,
            AbsGap=1e-9,
            Threads=limits.threads,
            **nodes,
        )

    def _read(self, native: Any, columns: list[Any], mip: bool) -> tuple[Floats | None, float, int]:
        found = native.hasmipsol if mip else native.haslpsol
        x = np.array([column.solverVar.x for column in columns]) if found else None
        if mip:
            return x, float(native.bestbnd), int(native.nodecnt)
        return x, float(native.lpobjval) if found else np.inf, 0


class XpressSolver(_Licensed):
    """Adapter of Xpress; without a licence it takes small models only."""

    name = "xpress"

    def _solver(self, limits: Limits, warm: bool) -> Any:
        options = [
            ("TIMELIMIT", limits.time_s),  # pulp's MAXTIME is no limit to Xpress 9.9
            ("MIPABSSTOP", 1e-9),
            ("THREADS", limits.threads),
            ("RANDOMSEED", limits.seed % 2**31),
        ]
        if limits.nodes is not None:
            options.append(("MAXNODE", limits.nodes))
        solver = pulp.XPRESS_PY(msg=False, gapRel=limits.gap, warmStart=warm, options=options)
        if not solver.available():  # which is what imports the library
            raise RuntimeError("pulp cannot load xpress")
        return solver

    def _unbounded(self, native: Any) -> bool:
        return bool(native.attributes.mipstatus == 7 or native.attributes.lpstatus == 5)

    def _read(self, native: Any, columns: list[Any], mip: bool) -> tuple[Floats | None, float, int]:
        facts = native.attributes
        found = facts.mipsols > 0 if mip else facts.lpstatus == 1
        x = np.array(native.getSolution([column._xprs[1] for column in columns])) if found else None
        if mip:
            return x, float(facts.bestbound), int(facts.nodes)
        return x, float(facts.lpobjval) if found else np.inf, 0
