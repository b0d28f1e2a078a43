"""Speed models over another one: what that one can run, at times of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from morph_opt.domain import NodeType, Shape, Span
from morph_opt.perf.speed import Configuration, SpeedModel


class SpeedsOver(ABC):
    """Configurations of another speed model, in its order and cached, as this one has them.

    Parameters
    ----------
    base
        Says what is possible.
    """

    def __init__(self, base: SpeedModel) -> None:
        self._base = base
        self._rows: dict[tuple[str, NodeType, int, Span], tuple[Configuration, ...]] = {}

    def models(self) -> Sequence[str]:
        """Names that the base knows, sorted."""
        return self._base.models()

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Those of the base that this model has, in the base's order."""
        key = (model, node_type, max_gpus, span)
        if key not in self._rows:
            rows = self._base.configurations(model, node_type, max_gpus, span)
            self._rows[key] = tuple(self._own(model, node_type, rows, span))
        return self._rows[key]

    @abstractmethod
    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        """The rows with their times here, without those that cannot run."""


def span_of(shape: Shape, span: Span) -> Span:
    """The span of a shape: one node has its own, whatever was asked."""
    return span if shape.nodes > 1 else Span.NODE
