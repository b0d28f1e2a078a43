"""Adapters through pulp, with a variable object per column and an expression per row.

``cbc`` is the CBC program that pulp 3 includes, through MPS files; ``pulp-highs`` is HiGHS. pulp
states ``Optimal`` when a limit ended the solve, and leaves fractional values in the variables when
CBC has no incumbent. Only ``sol_status`` is read, and every point is rechecked.
"""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pulp

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits

CODES: dict[int, Meaning] = {
    pulp.LpSolutionOptimal: Meaning.PROVED,
    pulp.LpSolutionIntegerFeasible: Meaning.LIMIT,
    pulp.LpSolutionNoSolutionFound: Meaning.LIMIT,
    pulp.LpSolutionInfeasible: Meaning.INFEASIBLE_OR_UNBOUNDED,  # pulp files both under it
    pulp.LpSolutionUnbounded: Meaning.UNBOUNDED,
}
"""Meaning of every code of pulp's ``sol_status``."""


def meaning_of(status: int, sol_status: int) -> Meaning:
    """Return the meaning of ``sol_status``, with two exceptions that only ``status`` shows.

    ``Undefined`` means that pulp could not read the answer. CBC's "integer infeasible" comes as
    ``Infeasible`` with "no solution found".
    """
    if status == pulp.LpStatusUndefined:
        return Meaning.FAILED
    if status == pulp.LpStatusInfeasible:
        return Meaning.INFEASIBLE_OR_UNBOUNDED
    return CODES[sol_status]


def build(model: LinearModel, start: Floats | None) -> tuple[Any, list[Any]]:
    """Build the problem, and its variables in column order."""
    problem = pulp.LpProblem("model", pulp.LpMaximize)
    columns = [
        pulp.LpVariable(
            f"v{column}",
            low if math.isfinite(low) else None,
            high if math.isfinite(high) else None,
            pulp.LpInteger if whole else pulp.LpContinuous,
        )
        for column, (low, high, whole) in enumerate(
            zip(
                model.column_lower.tolist(),
                model.column_upper.tolist(),
                model.integer.tolist(),
                strict=True,
            )
        )
    ]
    problem.addVariables(columns)
    # Zeros stay: pulp writes bounds of a column in no row or objective, and CBC gives up.
    problem += (
        pulp.LpAffineExpression(list(zip(columns, model.cost.tolist(), strict=True))),
        "objective",
    )
    index, value, ends = model.index.tolist(), model.value.tolist(), model.start.tolist()
    for row, (low, high) in enumerate(
        zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)
    ):
        entries = range(ends[row], ends[row + 1])
        total = pulp.lpSum(value[k] * columns[index[k]] for k in entries)
        if low == high:
            problem += total == low, f"r{row}"
            continue
        if math.isfinite(high):
            problem += total <= high, f"r{row}u"
        if math.isfinite(low):
            problem += total >= low, f"r{row}l"
    if start is not None:
        for column, at in zip(columns, start.tolist(), strict=True):
            column.setInitialValue(at)
    return problem, columns


def _values(columns: list[Any]) -> Floats | None:
    values = [column.varValue for column in columns]
    return None if None in values else np.asarray(values, dtype=np.float64)


class CbcSolver(Adapter):
    """Adapter of CBC through pulp, which writes an MPS file and starts the program."""

    name = "cbc"
    capabilities = Capabilities(mip_start=True, node_limit=True)

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        problem, columns = build(model, start)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "cbc.log"
            solver = pulp.PULP_CBC_CMD(
                msg=False,
                timeLimit=limits.time_s,
                timeMode="elapsed",
                # CBC divides by the larger of objective and bound, we by the objective.
                gapRel=limits.gap / (1 + limits.gap),
                maxNodes=limits.nodes,
                threads=limits.threads if limits.threads > 1 else None,
                warmStart=start is not None and bool(model.integer.any()),
                options=[
                    # To CBC a seed of 0 is the time of day.
                    f"randomCbcSeed {limits.seed + 1}",
                    f"randomSeed {limits.seed + 1}",
                    # With it 2.10.3 calls wrong answers optimal, a few in a thousand.
                    "preprocess off",
                ],
                logPath=str(log),
            )
            solver.tmpDir = folder
            clock.hand_over_done()
            problem.solve(solver)
            text = log.read_text(errors="replace")
        meaning = meaning_of(problem.status, problem.sol_status)
        found = problem.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
        x = _values(columns) if found else None
        return Answer(
            meaning,
            _version(text),
            x,
            _bound(text, model, meaning, x),
            nodes=_number(text, r"Enumerated nodes:\s+(\d+)", 0),
            message=f"{pulp.LpStatus[problem.status]}, {pulp.LpSolution[problem.sol_status]}",
        )


def _number(text: str, pattern: str, default: int) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else default


def _version(log: str) -> str:
    found = re.search(r"^Version:\s*(\S+)", log, re.MULTILINE)
    return f"CBC {found[1] if found else '?'} (pulp {pulp.__version__})"


def _bound(log: str, model: LinearModel, meaning: Meaning, x: Floats | None) -> float:
    """Read CBC's bound from its log, because pulp does not return it.

    The log states a bound only if it differs from the incumbent; a proof without one means that
    the two are equal.
    """
    found = re.findall(r"^(?:Upper|Lower) bound:\s+(\S+)", log, re.MULTILINE)
    if found:
        try:
            # The log has few digits: round up by their unit, a bound may only be too weak.
            printed = abs(float(found[-1]))
            decimals = len(found[-1].partition(".")[2])
            return printed * _sign(float(found[-1]), x, model) + 10.0**-decimals + model.offset
        except ValueError:
            return float("inf")
    if meaning is Meaning.PROVED and x is not None:
        return model.objective(x)
    return float("inf")


def _sign(printed: float, x: Floats | None, model: LinearModel) -> float:
    """Return the sign of a printed bound; CBC uses either for a maximisation."""
    if x is None:
        return 1.0 if printed >= 0 else -1.0
    value = model.objective(x) - model.offset
    return 1.0 if abs(abs(printed) - value) <= abs(-abs(printed) - value) else -1.0


class PulpHighsSolver(Adapter):
    """Adapter of HiGHS through pulp, in this process.

    It has no node limit, because pulp raises an error when HiGHS reaches one.
    """

    name = "pulp-highs"
    capabilities = Capabilities()

    def _attempt(
        self, model: LinearModel, limits: Limits, _start: Floats | None, clock: Clock
    ) -> Answer:
        from morph_opt.scheduling.solvers.highs import answer_of, claim_thread_pool

        claim_thread_pool(limits.threads)
        problem, columns = build(model, None)
        solver = pulp.HiGHS(
            msg=False,
            timeLimit=limits.time_s,
            gapRel=limits.gap,
            gapAbs=1e-9,
            threads=limits.threads,
            random_seed=limits.seed,
        )
        solver.createAndConfigureSolver(problem)
        solver.buildSolverModel(problem)
        clock.hand_over_done()
        solver.callSolver(problem)
        status, sol_status = solver.findSolutionValues(problem)
        meaning = meaning_of(status, sol_status)
        found = sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
        native = answer_of(problem.solverModel, model, sense=-1.0)
        return Answer(
            meaning,
            f"{native.solver} (pulp {pulp.__version__})",
            _values(columns) if found and native.x is not None else None,
            native.bound + model.offset,
            nodes=native.nodes,
            message=f"{pulp.LpStatus[status]}, {pulp.LpSolution[sol_status]}; {native.message}",
        )
