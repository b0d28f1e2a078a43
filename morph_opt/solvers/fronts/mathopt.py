"""MathOpt (ortools) as its users take it: variables, sums and rows as objects, then a solver.

Two adapters on one model: ``mathopt-scip`` and ``mathopt-cpsat``.
"""

from __future__ import annotations

import datetime

import numpy as np
import ortools
from ortools.math_opt.python import mathopt

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.solvers.meaning import Meaning
from morph_opt.solvers.outcome import Limits

CODES: dict[str, Meaning] = {
    "OPTIMAL": Meaning.PROVED,
    "INFEASIBLE": Meaning.INFEASIBLE,
    "UNBOUNDED": Meaning.UNBOUNDED,
    "INFEASIBLE_OR_UNBOUNDED": Meaning.INFEASIBLE_OR_UNBOUNDED,
    "IMPRECISE": Meaning.FAILED,
    "FEASIBLE": Meaning.LIMIT,
    "NO_SOLUTION_FOUND": Meaning.LIMIT,
    "NUMERICAL_ERROR": Meaning.FAILED,
    "OTHER_ERROR": Meaning.FAILED,
}
"""Every ``TerminationReason``; `LIMITS` refines the two that a limit ends in."""

LIMITS: dict[str, Meaning] = {
    "UNDETERMINED": Meaning.LIMIT,
    "ITERATION": Meaning.LIMIT,
    "TIME": Meaning.TIME_LIMIT,
    "NODE": Meaning.NODE_LIMIT,
    "SOLUTION": Meaning.LIMIT,
    "MEMORY": Meaning.MEMORY_LIMIT,
    "OBJECTIVE": Meaning.LIMIT,
    "NORM": Meaning.LIMIT,
    "INTERRUPTED": Meaning.TIME_LIMIT,
    "SLOW_PROGRESS": Meaning.LIMIT,
    "OTHER": Meaning.LIMIT,
}
"""Every ``Limit``."""


def meaning_of(reason: str, limit: str | None) -> Meaning:
    """Meaning of a termination; the limit is named where a limit ended the solve."""
    meaning = CODES[reason]
    return LIMITS[limit] if meaning is Meaning.LIMIT and limit is not None else meaning


class _MathOptSolver(Adapter):
    _type: mathopt.SolverType

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        problem, columns = _problem(model)
        can = self.capabilities
        params = mathopt.SolveParameters(
            time_limit=datetime.timedelta(seconds=limits.time_s),
            threads=limits.threads if can.threads else None,
            random_seed=limits.seed,
            relative_gap_tolerance=limits.gap,
            node_limit=limits.nodes if can.node_limit else None,
        )
        if can.work_limit and limits.work is not None:
            params.cp_sat.max_deterministic_time = limits.work
        hints = mathopt.ModelSolveParameters()
        if start is not None and can.mip_start:
            values = dict(zip(columns, start.tolist(), strict=True))
            hints.solution_hints.append(mathopt.SolutionHint(variable_values=values))
        clock.hand_over_done()
        result = mathopt.solve(problem, self._type, params=params, model_params=hints)
        end = result.termination
        x = None
        if result.has_primal_feasible_solution():
            x = np.asarray(result.variable_values(columns), dtype=np.float64)
        return Answer(
            meaning_of(end.reason.name, None if end.limit is None else end.limit.name),
            f"{self._type.name} (MathOpt {ortools.__version__})",
            x,
            float(end.objective_bounds.dual_bound),
            nodes=int(result.solve_stats.node_count),
            message=f"{end.reason.name} {end.detail}".strip(),
        )


class MathOptScipSolver(_MathOptSolver):
    """SCIP through MathOpt."""

    name = "mathopt-scip"
    _type = mathopt.SolverType.GSCIP
    capabilities = Capabilities(mip_start=True, node_limit=True, threads=False)


class MathOptCpSatSolver(_MathOptSolver):
    """CP-SAT through MathOpt, which scales to integers by rules of its own.

    It also rounds continuous columns to integers and calls the result optimal, so it is not
    offered any.
    """

    name = "mathopt-cpsat"
    _type = mathopt.SolverType.CP_SAT
    capabilities = Capabilities(mip_start=True, work_limit=True, continuous=False)


def _problem(model: LinearModel) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    problem = mathopt.Model(name=model.name)
    columns = [
        problem.add_variable(lb=low, ub=high, is_integer=whole)
        for low, high, whole in zip(
            model.column_lower.tolist(),
            model.column_upper.tolist(),
            model.integer.tolist(),
            strict=True,
        )
    ]
    index, value, ends = model.index.tolist(), model.value.tolist(), model.start.tolist()
    for row, (low, high) in enumerate(
        zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)
    ):
        entries = range(ends[row], ends[row + 1])
        total = mathopt.fast_sum(value[k] * columns[index[k]] for k in entries)
        problem.add_linear_constraint(lb=low, ub=high, expr=total)
    problem.maximize(
        mathopt.fast_sum(
            cost * column for cost, column in zip(model.cost.tolist(), columns, strict=True) if cost
        )
        + model.offset
    )
    return problem, columns
