"""How the model errs: covariance of ``log(measured) - log(predicted)`` between configurations.

Errors of one plan family, or of one shape, go together. Telling the fit so keeps it from believing
eight runs of the same plan more than they deserve, and lets a sampled run correct its neighbours
(Kennedy and O'Hagan, JRSS B 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from morph_opt.domain import ExecutionPlan, PlanFamily, Shape
from morph_opt.perf.analytic import Array
from morph_opt.perf.layout import layout

Pair = tuple[Shape, ExecutionPlan]


@dataclass(frozen=True, slots=True)
class Scales:
    """Standard deviations of the logarithm, by what two configurations share.

    Parameters
    ----------
    run
        Not shared: two runs of the same configuration differ by this.
    shape
        Same shape.
    ragged
        Same ragged shape (see `Layout.ragged`), offloading plans excepted.
    plan
        Same plan family and checkpointing.
    reach
        The same, and both inside one node or both across nodes.
    degree
        3D plans with equal degrees.
    """

    run: float = 0.015
    shape: float = 0.02
    ragged: float = 0.08
    plan: float = 0.02
    reach: float = 0.02
    degree: float = 0.02


SCALES = Scales()
"""For fits on a few runs; of the size of the residuals of complete fits."""

INDEPENDENT = Scales(run=0.02, shape=0.0, ragged=0.06, plan=0.0, reach=0.0, degree=0.0)
"""For fits on complete tables: whatever the formulas can explain, they shall explain."""


@dataclass(frozen=True, slots=True)
class _Codes:
    """Whole numbers that are equal where two configurations share something; shape (rows,)."""

    shape: NDArray[np.int64]
    plan: NDArray[np.int64]
    spread: NDArray[np.int64]
    ragged: NDArray[np.int64]
    degrees: NDArray[np.int64]


def _codes(pairs: Sequence[Pair], numbers: dict[tuple[int, ...], int]) -> _Codes:
    families = list(PlanFamily)

    def column(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, dtype=np.int64)

    def key(shape: Shape, plan: ExecutionPlan) -> int:
        # 3D plans err in their own way, so they share nothing with the rest of a shape
        parts = (*shape.parts, 0) if plan.family is PlanFamily.THREE_D else shape.parts
        return numbers.setdefault(parts, len(numbers))

    def ragged(shape: Shape, plan: ExecutionPlan) -> bool:
        return layout(shape, plan).ragged > 0 and plan.family is not PlanFamily.ZERO_OFFLOAD

    degrees = np.array([[p.pp, p.tp, p.dp] for _, p in pairs], dtype=np.int64)
    return _Codes(
        shape=column([key(*pair) for pair in pairs]),
        plan=column([families.index(p.family) * 2 + p.gradient_checkpointing for _, p in pairs]),
        spread=column([int(s.nodes > 1) for s, _ in pairs]),
        ragged=column([int(ragged(*pair)) for pair in pairs]),
        degrees=degrees.reshape(len(pairs), 3),
    )


def covariance(left: Sequence[Pair], right: Sequence[Pair], scales: Scales = SCALES) -> Array:
    """Covariance of the model's errors, without the part of the single run.

    Returns
    -------
    Array
        Shape (left, right), squared natural logarithms.
    """
    numbers: dict[tuple[int, ...], int] = {}
    a, b = _codes(left, numbers), _codes(right, numbers)

    def same(x: NDArray[np.int64], y: NDArray[np.int64]) -> Array:
        return np.equal.outer(x, y).astype(np.float64)

    shape = same(a.shape, b.shape)
    plan = same(a.plan, b.plan)
    ragged = np.outer(a.ragged, b.ragged) * shape
    reach = plan * same(a.spread, b.spread)
    degrees = sum(same(a.degrees[:, i], b.degrees[:, i]) for i in range(3)) / 3.0
    three_d = np.outer(a.degrees[:, 0] > 0, b.degrees[:, 0] > 0)
    total: Array = (
        scales.shape**2 * shape
        + scales.ragged**2 * ragged
        + scales.plan**2 * plan
        + scales.reach**2 * reach
        + scales.degree**2 * degrees * three_d * plan
    )
    return total


def variance(pairs: Sequence[Pair], scales: Scales = SCALES) -> Array:
    """Diagonal of `covariance` of the pairs with themselves, shape (pairs,)."""
    codes = _codes(pairs, {})
    always = scales.shape**2 + scales.plan**2 + scales.reach**2
    three_d = codes.degrees[:, 0] > 0
    total: Array = always + scales.ragged**2 * codes.ragged + scales.degree**2 * three_d
    return total
