"""Believed speeds of the configurations that can truly run.

Which configurations are possible is a fact that the policy may know; how fast they are is what
it believes. So a belief offers exactly those configurations of the truth that it has a time for,
with its own time and the truth's side demands; the engine's strict check can then never meet a
configuration that the truth cannot run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from morph_opt.core.domain import ExecutionPlan, NodeType, Shape, Span
from morph_opt.inputs.perf.speed import Configuration, SpeedModel, SpeedsOver, span_of


class FeasibleBelief(SpeedsOver):
    """Believed times of the configurations that can truly run.

    Parameters
    ----------
    belief
        Speeds that the policy believes; used for the truth's configurations only.
    truth
        True speeds, which decide what is possible.

    Raises
    ------
    InputError
        If the belief does not know a model of the truth when it is asked for it.
    """

    def __init__(self, belief: SpeedModel, truth: SpeedModel) -> None:
        super().__init__(truth)
        self._belief = belief

    @property
    def name(self) -> str:
        """Name of the belief."""
        return self._belief.name

    def models(self) -> Sequence[str]:
        """Return the models that belief and truth know, sorted."""
        return sorted(set(self._belief.models()) & set(self._base.models()))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return believed seconds per iteration, or None if the truth cannot run it."""
        if self._base.iteration_s(model, node_type, shape, plan, span) is None:
            return None
        return self._belief.iteration_s(model, node_type, shape, plan, span)

    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        for row in rows:
            across = span_of(row.shape, span)
            seconds = self._belief.iteration_s(model, node_type, row.shape, row.plan, across)
            if seconds is not None:
                yield replace(row, iteration_s=seconds)
