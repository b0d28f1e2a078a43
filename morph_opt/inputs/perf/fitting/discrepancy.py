"""Model error: covariance of ``log(measured) - log(predicted)`` between configurations.

Errors of one plan family, or of one shape, are correlated. Because the fit knows that, eight runs
of one plan count for less than eight independent ones, and a sampled run corrects its neighbours
(Kennedy and O'Hagan, JRSS B 2001).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import Floats
from morph_opt.core.domain import ExecutionPlan, PlanFamily, Shape
from morph_opt.inputs.perf.analytic.layout import layout

Pair = tuple[Shape, ExecutionPlan]


@dataclass(frozen=True, slots=True)
class Scales:
    """Standard deviations of log errors, by property that two configurations share.

    Parameters
    ----------
    run
        Not shared: two runs of one configuration differ by it.
    shape
        Same shape.
    ragged
        Same ragged shape (see `Layout.ragged`), offloading plans excepted.
    plan
        Same plan family and checkpointing.
    reach
        Same plan family and checkpointing, both inside one node or both across nodes.
    size
        As ``reach``, but not for 3D plans, and smaller by a factor e per doubling of the GPUs.
    degree
        3D plans with equal degrees.
    """

    run: float = 0.0
    shape: float = 0.0
    ragged: float = 0.0
    plan: float = 0.0
    reach: float = 0.0
    size: float = 0.0
    degree: float = 0.0


@dataclass(frozen=True, slots=True)
class _Codes:
    """Codes that are equal for configurations that share a property, shape (rows,)."""

    shape: NDArray[np.int64]
    plan: NDArray[np.int64]
    spread: NDArray[np.int64]
    ragged: NDArray[np.int64]
    degrees: NDArray[np.int64]
    doublings: Floats


def _codes(pairs: Sequence[Pair], numbers: dict[tuple[int, ...], int]) -> _Codes:
    families = list(PlanFamily)

    def column(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, dtype=np.int64)

    def key(shape: Shape, plan: ExecutionPlan) -> int:
        # errors of 3D plans are unrelated to those of other plans on the same shape
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
        doublings=np.array([math.log2(shape.gpus) for shape, _ in pairs]),
    )


@dataclass(frozen=True, slots=True)
class Shared:
    """Degrees (0 to 1) to which configurations share properties, shape (left, right)."""

    shape: Floats
    ragged: Floats
    plan: Floats
    reach: Floats
    size: Floats
    degree: Floats

    @classmethod
    def of(cls, left: Sequence[Pair], right: Sequence[Pair]) -> Shared:
        """Return the comparison of two lists of configurations."""
        numbers: dict[tuple[int, ...], int] = {}
        a, b = _codes(left, numbers), _codes(right, numbers)

        def same(x: NDArray[np.int64], y: NDArray[np.int64]) -> Floats:
            return np.equal.outer(x, y).astype(np.float64)

        shape, plan = same(a.shape, b.shape), same(a.plan, b.plan)
        reach = plan * same(a.spread, b.spread)
        degrees = sum(same(a.degrees[:, i], b.degrees[:, i]) for i in range(3)) / 3.0
        three_d = np.outer(a.degrees[:, 0] > 0, b.degrees[:, 0] > 0)
        near = np.exp(-np.abs(np.subtract.outer(a.doublings, b.doublings)))
        return cls(
            shape=shape,
            ragged=np.outer(a.ragged, b.ragged) * shape,
            plan=plan,
            reach=reach,
            size=reach * near * np.logical_not(three_d),
            degree=degrees * three_d * plan,
        )

    def covariance(self, scales: Scales) -> Floats:
        """Return the covariance of errors without the noise of single runs, shape (left, right)."""
        total = np.zeros_like(self.shape)
        for field in fields(self):
            scale = getattr(scales, field.name)
            if scale > 0.0:
                total += scale**2 * getattr(self, field.name)
        return total


def covariance(left: Sequence[Pair], right: Sequence[Pair], scales: Scales) -> Floats:
    """Return the covariance of the model's errors without the noise of single runs.

    Returns
    -------
    Floats
        Shape (left, right), squared natural logarithms.
    """
    return Shared.of(left, right).covariance(scales)
