"""Blocks of a round with many rows over several jobs, as exact models without nodes."""

from __future__ import annotations

from dataclasses import replace

from formulations.arrays import Floats, Ints
from formulations.linear_model import LinearModel
from formulations.prices.blocks import Answer, find_blocks
from formulations.prices.many import SharedItems
from formulations.prices.relaxation import Relaxation
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Status


def decided_by_blocks(
    relaxation: Relaxation,
    items: SharedItems,
    prices: Floats,
    solver: Solver,
    limits: Limits,
    deadline: Deadline,
    params: LadderParams = DEFAULTS,
) -> tuple[Ints, float]:
    """Return a choice without nodes, shape (J,), and an upper bound of all decisions.

    Parameters
    ----------
    prices
        Price of each row, shape (D,), of which those between blocks count.
    solver, limits
        Solver of the blocks, and the limits of each.
    deadline
        End of the last block.
    params
        Sizes of blocks, and tolerances.
    """
    sure, rows = params.tolerances, params.rows

    def solve(model: LinearModel) -> Answer:
        scale = model.scale
        within = replace(limits, time_s=max(params.late_s, deadline.left_s()))
        found = solver.solve(model.with_objective(model.cost / scale), within)
        if found.status is Status.INFEASIBLE:
            return Answer(None, float("-inf"))
        error = max(sure.sure, sure.dual * model.rows)
        return Answer(found.x, (found.bound + error) * scale)

    blocks = find_blocks(relaxation, items, prices, rows.columns)
    return blocks.decided(solve, rows.mends)
