"""Belief from trials: priors for pairs and places, replaced by what was measured.

The introspection of Gandiva (OSDI'18) as a speed model. The speed of a job alone in its most
compact place is known from profiling; its speed in other places or next to another job is known
once it has run so. Until then a place counts as good as the most compact one, and each job of a
pair keeps a fixed fraction of its speed. These optimistic priors lead to trials, and measurements
replace them.

Possible configurations and pairs are known, as for any belief: they fit in memory or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from morph_opt.core.domain import ExecutionPlan, NodeType, Range, Shape, Span
from morph_opt.inputs.perf.speed import (
    Configuration,
    Plans,
    SpeedModel,
    SpeedsOver,
    pair_speeds,
    span_of,
)

KEPT = Range(0.5, 1.0, above=True)
"""Range of a job's assumed relative speed in an untried pair; at 0.5 no pair would be tried."""

PRIOR = 0.7
"""Assumed relative speed of a job in an untried pair."""

_Where = tuple[str, NodeType, Shape, ExecutionPlan]
_Pair = tuple[tuple[str, str], Plans, NodeType, Shape]


class TriedModel(SpeedsOver):
    """Speeds of tried pairs and places, and priors of the others.

    Parameters
    ----------
    truth
        Speed model with the possible configurations and the speed alone in the most compact place:
        on the fewest nodes, the fastest of their shapes, under one leaf switch.
    kept
        Fraction of speed that jobs of an untried pair keep; see `KEPT`.

    Raises
    ------
    InputError
        If ``kept`` is out of its range.

    Notes
    -----
    A wider span never counts as faster than a tighter one of the same shape: a measured span bounds
    the others. Call `observe` and `observe_pair` between rounds only. `version`
    grows with every observation that changes an answer. Answers depend on the set of
    observations, not on their order.
    """

    def __init__(self, truth: SpeedModel, kept: float = PRIOR) -> None:
        KEPT.require("belief", kept)
        super().__init__(truth)
        self._pairs = pair_speeds(truth)
        self._kept = kept
        self._version = 0
        self._places: dict[_Where, dict[Span, float]] = {}
        self._shared: dict[_Pair, tuple[float, float]] = {}
        self._alone: dict[tuple[str, NodeType, int], dict[tuple[int, ExecutionPlan], float]] = {}

    @property
    def name(self) -> str:
        """Name of the truth with ``+tried``."""
        return f"{self._base.name}+tried"

    @property
    def version(self) -> int:
        """Number of observations that changed an answer."""
        return self._version

    @property
    def measures_pairs(self) -> bool:
        """Whether there are pairs to try."""
        return self._pairs is not None

    def fresh(self) -> TriedModel:
        """Return the same model before any trial."""
        return TriedModel(self._base, self._kept)

    def observe(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,
        iteration_s: float,
    ) -> bool:
        """Take in the time of a job alone and return whether an answer changes."""
        believed = self.iteration_s(model, node_type, shape, plan, span)
        seen = self._places.setdefault((model, node_type, shape, plan), {})
        if believed is None or span_of(shape, span) in seen:
            return False
        seen[span_of(shape, span)] = iteration_s
        self._rows.clear()
        self._version += believed != iteration_s
        return believed != iteration_s

    def observe_pair(
        self,
        models: tuple[str, str],
        plans: Plans,
        node_type: NodeType,
        shape: Shape,
        pace_s: tuple[float, float],
    ) -> bool:
        """Take in the times of two jobs on the same GPUs and return whether an answer changes."""
        believed = self.paired_iteration_s(models, plans, node_type, shape)
        if believed is None or (models, plans, node_type, shape) in self._shared:
            return False
        self._shared[models, plans, node_type, shape] = pace_s
        self._shared[models[::-1], plans[::-1], node_type, shape] = pace_s[::-1]
        self._version += believed != pace_s
        return believed != pace_s

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return measured seconds per iteration, else the prior; None if impossible."""
        if self._base.iteration_s(model, node_type, shape, plan, span) is None:
            return None
        return self._believed_s(model, node_type, shape, plan, span)

    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        for row in rows:
            seconds = self._believed_s(model, node_type, row.shape, row.plan, span)
            if seconds is not None:
                yield replace(row, iteration_s=seconds)

    def paired_iteration_s(
        self, models: tuple[str, str], plans: Plans, node_type: NodeType, shape: Shape
    ) -> tuple[float, float] | None:
        """Return measured seconds per iteration of each, else the prior, or None."""
        measured = self._shared.get((models, plans, node_type, shape))
        if measured is not None or self._pairs is None:
            return measured
        if self._pairs.paired_iteration_s(models, plans, node_type, shape) is None:
            return None
        first_s, second_s = (
            self.iteration_s(model, node_type, shape, plan, Span.LEAF)
            for model, plan in zip(models, plans, strict=True)
        )
        if first_s is None or second_s is None:
            return None
        return first_s / self._kept, second_s / self._kept

    def _believed_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return measured seconds, else seconds assumed from other places; None if impossible."""
        at = span_of(shape, span)
        seen = self._places.get((model, node_type, shape, plan), {})
        if at in seen:
            return seen[at]
        alone_s = self._compact(model, node_type, shape.gpus).get((shape.gpus, plan))
        if alone_s is None:
            return None
        tighter = [seconds for other, seconds in seen.items() if other < at]
        wider = [seconds for other, seconds in seen.items() if other > at]
        return min([max([alone_s, *tighter]), *wider])

    def _compact(
        self, model: str, node_type: NodeType, gpus: int
    ) -> dict[tuple[int, ExecutionPlan], float]:
        """Return seconds per iteration in the most compact place, by GPUs and plan."""
        most = max(1 << (gpus - 1).bit_length(), node_type.gpus)
        key = (model, node_type, most)
        if key not in self._alone:
            best: dict[tuple[int, ExecutionPlan], tuple[int, float]] = {}
            for row in self._base.configurations(model, node_type, most, Span.LEAF):
                what, how = (row.shape.gpus, row.plan), (row.shape.nodes, row.iteration_s)
                best[what] = min(best.get(what, how), how)
            self._alone[key] = {what: seconds for what, (_, seconds) in best.items()}
        return self._alone[key]
