"""Speeds of two sources as one: each model's of the first that knows it."""

from __future__ import annotations

from collections.abc import Sequence

from morph_opt.domain import ExecutionPlan, NodeType, Shape, Span
from morph_opt.perf.speed import Configuration, SpeedModel


class Joined:
    """Speed model of two others.

    Parameters
    ----------
    first, then
        Of a model that both know, the first one's speeds count.
    """

    def __init__(self, first: SpeedModel, then: SpeedModel) -> None:
        self.name = f"{first.name}+{then.name}"
        self._first, self._then = first, then
        self._known = frozenset(first.models())

    def models(self) -> Sequence[str]:
        """Names of both, sorted."""
        return sorted(self._known | set(self._then.models()))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Seconds per iteration, or None if that configuration cannot run."""
        return self._of(model).iteration_s(model, node_type, shape, plan, span)

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Every configuration that can run; see `SpeedModel`."""
        return self._of(model).configurations(model, node_type, max_gpus, span)

    def _of(self, model: str) -> SpeedModel:
        return self._first if model in self._known else self._then
