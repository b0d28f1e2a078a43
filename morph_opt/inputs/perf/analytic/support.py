"""Plans and shapes that a model can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from morph_opt.core.domain import (
    ExecutionPlan,
    InputError,
    PlanFamily,
    Shape,
    SideDemand,
    partitions,
)
from morph_opt.inputs.perf.analytic.architecture import Architecture
from morph_opt.inputs.perf.analytic.layout import layout, rails

GIB = 2.0**30
HOST_BYTES_PER_PARAMETER = 16
"""Bytes per parameter in host memory under ZeRO-Offload: 32-bit weights, two moments, gradients."""


@dataclass(frozen=True, slots=True)
class Support:
    """Plans and sizes of a model.

    Parameters
    ----------
    plans
        Data-parallel family plans; they run on every shape of ``gpus``.
    gpus
        GPU counts of these plans; each must divide the global batch.
    three_d
        3D plans.
    parts
        GPUs per node of 3D plans; shapes are balanced, and a tensor-parallel group never leaves
        its node.
    """

    plans: tuple[ExecutionPlan, ...] = ()
    gpus: tuple[int, ...] = ()
    three_d: tuple[ExecutionPlan, ...] = ()
    parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(plan.family is PlanFamily.THREE_D for plan in self.plans):
            raise InputError("must not list 3D plans", field="support.plans")
        if any(plan.family is not PlanFamily.THREE_D for plan in self.three_d):
            raise InputError("must list 3D plans only", field="support.three_d")
        for count in (*self.gpus, *self.parts):
            if count < 1:
                raise InputError(f"must be at least 1, got {count}", field="support")

    def pairs(
        self, architecture: Architecture, node_gpus: int, max_gpus: int
    ) -> Iterator[tuple[Shape, ExecutionPlan]]:
        """Return every (shape, plan) with up to ``max_gpus`` on nodes of ``node_gpus`` GPUs."""
        for plan in self.plans:
            for gpus in self.gpus:
                if gpus <= max_gpus and architecture.global_batch % gpus == 0:
                    for shape in partitions(gpus, node_gpus):
                        yield shape, plan
        for plan in self.three_d:
            gpus = plan.gpus or 0
            legal = architecture.heads % plan.tp == 0 and architecture.global_batch % plan.dp == 0
            if not legal or gpus > max_gpus:
                continue
            for part in self.parts:
                if part <= node_gpus and gpus % part == 0 and part % plan.tp == 0:
                    yield Shape((part,) * (gpus // part)), plan

    def allows(self, architecture: Architecture, shape: Shape, plan: ExecutionPlan) -> bool:
        """Return whether a plan can run on a shape, offered by `pairs` or not."""
        if plan.family is not PlanFamily.THREE_D:
            in_sizes = shape.gpus in self.gpus and architecture.global_batch % shape.gpus == 0
            return plan in self.plans and in_sizes
        legal = architecture.heads % plan.tp == 0 and architecture.global_batch % plan.dp == 0
        return plan in self.three_d and plan.gpus == shape.gpus and legal


def side_demand(
    architecture: Architecture, shape: Shape, plan: ExecutionPlan, iteration_s: float
) -> SideDemand:
    """Return host memory and network share held next to each GPU.

    Host memory is 16 bytes per parameter of ZeRO-Offload, split over its GPUs (Ren et al.,
    ATC'21, section 4). The network share is the mean traffic of gradients and parameters that
    leaves the nodes, averaged over the GPUs (exact for balanced shapes).

    Parameters
    ----------
    iteration_s
        Seconds over which one iteration's traffic is spread, above 0.
    """
    host_gib = 0.0
    if plan.family is PlanFamily.ZERO_OFFLOAD:
        host_gib = HOST_BYTES_PER_PARAMETER * architecture.parameters / GIB / shape.gpus
    rdma = 0.0
    if shape.nodes > 1:
        amounts = layout(shape, plan)
        per_card = (
            architecture.gradient_gb * (amounts.gradient_rails + amounts.gather_rails)
            + architecture.tensor_gb * amounts.tensor_rails
            + architecture.boundary_gb * amounts.pipeline_rails
        )
        rdma = per_card / iteration_s * rails(shape.parts[-1]) * shape.nodes / shape.gpus
    return SideDemand(host_memory_gib=host_gib, rdma_gb_per_s=rdma)
