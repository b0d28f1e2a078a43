"""Speed model without the plans that do not fit in memory, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from morph_opt.core.domain import ExecutionPlan, NodeType, PlanFamily, Shape, Span
from morph_opt.inputs.perf.ests import elastic_speeds
from morph_opt.inputs.perf.memory.facts import ModelFacts, facts_of
from morph_opt.inputs.perf.memory.plan import fits, plan_memory, tensor_group
from morph_opt.inputs.perf.speed import Configuration, SpeedModel, SpeedsOver

PROBES = tuple(
    ExecutionPlan.parse(label) for label in ("dp", "dp+ga", "dp+gc", "zero-dp", "zero-offload")
)
"""Plans that `MemoryFilter.refusals` covers even if the speed model does not offer them."""

ALL_GPUS = 1 << 16
"""Number of GPUs that means "no limit"."""


class Refusal(NamedTuple):
    """Plan that cannot run on a shape, and the reason."""

    shape: Shape
    plan: ExecutionPlan
    reason: str


class MemoryFilter(SpeedsOver):
    """Speed model that offers the configurations of another one that fit in memory.

    Offloading plans get their host memory as side demand where the other model gives none.

    Parameters
    ----------
    speeds
        The model to filter.
    facts
        Numbers of the training models by name; default `published_facts`. A model without
        facts passes unjudged and is listed in `unjudged`.
    tensor_inside_nvlink
        Whether to refuse tensor-parallel groups that leave their NVLink domain as well.
    """

    def __init__(
        self,
        speeds: SpeedModel,
        *,
        facts: Mapping[str, ModelFacts] | None = None,
        tensor_inside_nvlink: bool = True,
    ) -> None:
        super().__init__(speeds)
        self._facts = {model: facts_of(model, facts) for model in speeds.models()}
        self._tensor_inside_nvlink = tensor_inside_nvlink
        self._reasons: dict[tuple[str, NodeType, Shape, ExecutionPlan, bool], str | None] = {}

    @property
    def name(self) -> str:
        """Name of the filtered model."""
        return self._base.name

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Models without facts, which are not filtered."""
        return tuple(model for model, facts in self._facts.items() if facts is None)

    def worker_units(self, model: str, gpu_type: str) -> int | None:
        """Return the base's worker times; workers that take turns need the memory of one."""
        known = elastic_speeds(self._base)
        return None if known is None else known.worker_units(model, gpu_type)

    def why_not(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> str | None:
        """Return the reason for which a plan cannot run, or None.

        A plan against which nothing speaks may still be unknown to the speed model.
        """
        inside = shape.nodes == 1 or span <= Span.NVLINK
        key = (model, node_type, shape, plan, inside)
        if key not in self._reasons:
            self._reasons[key] = self._judge(*key)
        return self._reasons[key]

    def _judge(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, inside: bool
    ) -> str | None:
        facts = self._facts.get(model)
        reason = None if facts is None else fits(facts, plan, shape, node_type)
        if reason is None and self._tensor_inside_nvlink:
            return tensor_group(plan, shape, nvlink_domain=inside)
        return reason

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return seconds per iteration; None if the plan cannot run or is unknown."""
        seconds = self._base.iteration_s(model, node_type, shape, plan, span)
        if seconds is None or self.why_not(model, node_type, shape, plan, span) is not None:
            return None
        return seconds

    def _own(
        self, model: str, node_type: NodeType, rows: Sequence[Configuration], span: Span
    ) -> Iterable[Configuration]:
        for row in rows:
            if self.why_not(model, node_type, row.shape, row.plan, span) is None:
                yield self._with_host_memory(model, row)

    def _with_host_memory(self, model: str, row: Configuration) -> Configuration:
        facts = self._facts[model]
        offloads = row.plan.family is PlanFamily.ZERO_OFFLOAD
        if facts is None or not offloads or row.side.host_memory_gib > 0.0:
            return row
        host_gib = plan_memory(facts, row.plan, row.shape).host_gib_per_gpu
        return replace(row, side=replace(row.side, host_memory_gib=host_gib))

    def refusals(
        self, model: str, node_type: NodeType, *, max_gpus: int = ALL_GPUS, span: Span = Span.LEAF
    ) -> list[Refusal]:
        """Return plans that cannot run on nodes of this type, with reasons.

        Rows of the filtered model first, in its order; then the `PROBES` that it does not
        offer, on one node, for 1, 2, 4, ... GPUs and a whole node.
        """
        rows = self._base.configurations(model, node_type, max_gpus, span)
        asked = {(row.shape, row.plan): None for row in rows}
        largest = min(max_gpus, node_type.gpus)
        sizes = {1 << bit for bit in range(largest.bit_length()) if 1 << bit <= largest}
        for gpus in sorted(sizes | {largest}):
            asked |= {(Shape((gpus,)), plan): None for plan in PROBES}
        reasons = ((s, p, self.why_not(model, node_type, s, p, span)) for s, p in asked)
        return [Refusal(shape, plan, why) for shape, plan, why in reasons if why is not None]
