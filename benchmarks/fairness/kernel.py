"""The max-min kernel as one linear program, which `raise_level` solves faster."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.shares.model import Polytope, ShareModel, fastest
from formulations.shares.problem import ShareProblem


def raise_model(
    problem: ShareProblem,
    base: Floats,
    slope: Floats,
    *,
    pair: Ints | None = None,
    scale: float = 1.0,
    upper: float = np.inf,
) -> ShareModel:
    """Maximise ``t`` with ``thr_j >= base_j + t slope_j`` (row **share**): the max-min kernel.

    Parameters
    ----------
    base, slope
        Steps per second, shape (J,); the slope at least 0. Rows with both 0 are left out.
    pair
        (pair, type) columns to offer, shape (n, 2); all allowed ones by default.
    scale
        Unit of the column ``t / scale``, which brings it to the size of 1.
    upper
        Upper bound of t.
    """
    top = Polytope("target shares: raise", problem, pair)
    t = top.builder.add_columns(
        "t", np.zeros((1, 0), dtype=np.int64), upper / scale, integer=False, lower=-np.inf
    )
    rows = np.flatnonzero((slope > 0) | (base > 0))
    size = 1.0 / fastest(problem)
    column = np.full(rows.size, t[0])
    top.builder.add_rows(
        "share",
        rows[:, None],
        (base * size)[rows],
        np.inf,
        [
            *top.restricted(rows, size),
            (np.arange(rows.size), column, -(slope * size)[rows] * scale),
        ],
    )
    cost = np.zeros(int(t[0]) + 1)
    cost[t[0]] = 1.0
    return top.done(cost)
