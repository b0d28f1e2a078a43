"""Solver of small linear programs in quick succession, for `formulations.prices`."""

from __future__ import annotations

import highspy
import numpy as np

from formulations.arrays import Floats
from morph_opt.scheduling.solvers.highs import claim_thread_pool, pool_threads

_INF = highspy.kHighsInf


class SmallLp:
    """A `formulations.prices.choose.LinearProgram` by HiGHS; dense, 0.1 ms each.

    Every program is solved from scratch, so that an answer does not depend on those before it.
    """

    def __init__(self) -> None:
        self._highs = highspy.Highs()
        for name, value in (("output_flag", False), ("presolve", "off"), ("solver", "simplex")):
            self._highs.setOptionValue(name, value)

    def __call__(
        self, cost: Floats, matrix: Floats, limit: Floats, lower: Floats, upper: Floats
    ) -> tuple[Floats, Floats] | None:
        """Minimise ``c x`` over ``A x <= b`` and bounds; return the point and the multipliers."""
        rows, columns = matrix.shape
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, rows
        lp.col_cost_ = cost
        lp.col_lower_, lp.col_upper_ = _ended(lower), _ended(upper)
        lp.row_lower_, lp.row_upper_ = np.full(rows, -_INF), _ended(limit)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.arange(rows + 1) * columns
        lp.a_matrix_.index_ = np.tile(np.arange(columns), rows)
        lp.a_matrix_.value_ = np.ascontiguousarray(matrix).ravel()
        highs = self._highs
        # The pool stays as it is: tearing it down for so small a program is no gain.
        threads = pool_threads()
        claim_thread_pool(threads)
        highs.setOptionValue("threads", threads)
        highs.clearSolver()
        highs.passModel(lp)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = highs.getSolution()
        return np.asarray(found.col_value), -np.asarray(found.row_dual)


def _ended(values: Floats) -> Floats:
    return np.clip(values, -_INF, _INF)
