"""A speed model that is wrong on purpose, to see what a wrong belief costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from morph_opt.core.domain import ExecutionPlan, NodeType, PlanFamily, Shape, Span
from morph_opt.core.domain._validate import require_finite
from morph_opt.inputs.perf.speed import Configuration, SpeedModel, SpeedsOver


class BiasedModel(SpeedsOver):
    """Another model with the times of one plan family multiplied.

    Parameters
    ----------
    base
        The model.
    family
        Plans that are believed wrongly.
    factor
        Above 0; 2 believes them twice as slow, 0.5 twice as fast.
    """

    def __init__(self, base: SpeedModel, family: PlanFamily, factor: float) -> None:
        require_finite("factor", factor, above=0.0)
        super().__init__(base)
        self._family = family
        self._factor = factor

    @property
    def name(self) -> str:
        """That of the base with family and factor."""
        return f"{self._base.name}[{self._family} x {self._factor:g}]"

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """The base's time, biased."""
        seconds = self._base.iteration_s(model, node_type, shape, plan, span)
        return None if seconds is None else seconds * self._bias(plan)

    def _own(
        self,
        model: str,  # noqa: ARG002 - all models alike
        node_type: NodeType,  # noqa: ARG002
        rows: Sequence[Configuration],
        span: Span,  # noqa: ARG002
    ) -> Iterable[Configuration]:
        for row in rows:
            yield replace(row, iteration_s=row.iteration_s * self._bias(row.plan))

    def _bias(self, plan: ExecutionPlan) -> float:
        return self._factor if plan.family is self._family else 1.0
