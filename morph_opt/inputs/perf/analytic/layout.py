"""Layout of a plan on a shape: work per GPU and traffic per link class, free of constants.

Ranks are laid out as Megatron does (Narayanan et al., SC'21, section 3): tensor parallelism
innermost, then data parallelism, pipeline stages outermost, over the GPUs node by node. From
that layout follow, exactly and per unit of volume, the amounts that the model of
`morph_opt.inputs.perf.analytic.architecture` multiplies with its constants.

A node reaches the network over one card per two GPUs, so a group with ``k`` GPUs on a node has
``ceil(k / 2)`` rails there (the public measurements show this plainly: 4+4 synchronises twice as
fast as 2+6). A ring is as slow as its narrowest node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from morph_opt.core.domain import ExecutionPlan, PlanFamily, Shape

GPUS_PER_RAIL = 2
"""Number of GPUs that share one network card."""

RAGGED_HALF = 12.0
"""Value of (GPUs - 1) x largest part at which a ragged shape has half of the largest stall."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Amounts of one (shape, plan), per unit of work or volume.

    Parameters
    ----------
    work
        Share of the global batch's compute on the critical path of one GPU.
    gradient_nvlink, gradient_rails
        Gradient all-reduce: bytes over the slowest link per byte of all gradients, inside a
        node, and over one network card if the group leaves its node.
    gather_nvlink, gather_rails
        All-gather of parameters after a sharded optimizer step, likewise.
    tensor_nvlink, tensor_rails
        Tensor-parallel all-reduce: bytes per byte of the global batch's activations.
    pipeline_rails, pipeline_nvlink
        Activations handed from stage to stage, likewise.
    optimizer
        Share of the parameters that one GPU updates.
    hops
        Pipeline stages beyond the first, per data-parallel rank.
    reach
        Nodes beyond the second that a gradient ring passes.
    crowd
        Share of the GPUs that is on the fullest node.
    ragged
        0 unless the shape has several nodes and some node holds an odd number of GPUs; then
        x / (x + 12) with x = (GPUs - 1) x largest part. Empirical, see docs/performance-model.md.
    barrier
        0 on one node, else (1 + log2 of the nodes) / 2; scales waiting for other nodes.
    lone
        1 if the shape has several nodes and one of them holds a single GPU, else 0.
    log_ring, log_cards, log_world
        Logarithms of g / (g - 1), of the cards at the narrowest node and of g / 2 for the g GPUs
        of a data-parallel shape; 0 for one GPU, one node and 3D plans.
    """

    work: float
    gradient_nvlink: float
    gradient_rails: float
    gather_nvlink: float
    gather_rails: float
    tensor_nvlink: float
    tensor_rails: float
    pipeline_nvlink: float
    pipeline_rails: float
    optimizer: float
    hops: float
    reach: float
    crowd: float
    ragged: float
    barrier: float
    lone: float
    log_ring: float
    log_cards: float
    log_world: float


def rails(gpus: int) -> int:
    """Return the network cards that a group with ``gpus`` GPUs on a node can use there."""
    return math.ceil(gpus / GPUS_PER_RAIL)


@lru_cache(maxsize=65536)
def layout(shape: Shape, plan: ExecutionPlan) -> Layout:
    """Return the layout of a plan on a shape.

    Raises
    ------
    InputError
        If a 3D plan needs another number of GPUs than the shape has.
    """
    if plan.family is PlanFamily.THREE_D:
        return _three_d(shape, plan)
    return _data_parallel(shape, plan)


def _barrier(shape: Shape) -> float:
    return 0.0 if shape.nodes == 1 else (1 + math.log2(shape.nodes)) / 2


def _ragged(shape: Shape) -> float:
    if shape.nodes == 1 or all(part % 2 == 0 for part in shape.parts):
        return 0.0
    crowding = (shape.gpus - 1) * shape.parts[0]
    return crowding / (crowding + RAGGED_HALF)


def _data_parallel(shape: Shape, plan: ExecutionPlan) -> Layout:
    gpus = shape.gpus
    ring = (gpus - 1) / gpus
    narrow = 0 if shape.nodes == 1 else rails(shape.parts[-1])
    sharded = plan.family is not PlanFamily.DP
    return Layout(
        work=1 / gpus,
        gradient_nvlink=0.0 if narrow else 2 * ring,
        gradient_rails=2 * ring / narrow if narrow else 0.0,
        gather_nvlink=0.0 if narrow or not sharded else ring,
        gather_rails=1 / narrow if narrow and sharded else 0.0,
        tensor_nvlink=0.0,
        tensor_rails=0.0,
        pipeline_nvlink=0.0,
        pipeline_rails=0.0,
        optimizer=1 / gpus if sharded else 1.0,
        hops=0.0,
        reach=max(0.0, shape.nodes - 2.0),
        crowd=shape.parts[0] / gpus,
        ragged=_ragged(shape),
        barrier=_barrier(shape),
        lone=float(shape.nodes > 1 and shape.parts[-1] == 1),
        log_ring=-math.log(ring) if ring else 0.0,
        log_cards=math.log(max(1, narrow)),
        log_world=math.log(max(2, gpus) / 2),
    )


def _three_d(shape: Shape, plan: ExecutionPlan) -> Layout:
    plan.require_gpus(shape.gpus, f"the shape {shape} has", "shape")
    homes = [node for node, part in enumerate(shape.parts) for _ in range(part)]
    stage = plan.tp * plan.dp
    stages = [homes[first : first + stage] for first in range(0, len(homes), stage)]
    sync_nvlink, sync_rails = _gradients(stages, plan)
    tensor_rails = _tensor_rails(stages, plan)
    tensor = 2 * (plan.tp - 1) / plan.tp / plan.dp
    # every tensor-parallel rank sends the whole activation, forward and backward
    handover = 2 / plan.dp * (plan.pp - 1)
    part = shape.parts[-1]
    crossing = any(a[-1] != b[0] or a[0] != b[0] for a, b in pairwise(stages))
    return Layout(
        work=1 / (plan.tp * plan.dp),
        gradient_nvlink=sync_nvlink,
        gradient_rails=sync_rails,
        gather_nvlink=0.0,
        gather_rails=0.0,
        tensor_nvlink=0.0 if tensor_rails else tensor,
        tensor_rails=tensor * tensor_rails,
        pipeline_nvlink=0.0 if crossing else handover,
        pipeline_rails=handover * part / rails(part) if crossing else 0.0,
        optimizer=1 / (plan.tp * plan.pp),
        hops=(plan.pp - 1.0) / plan.dp,
        reach=max(0.0, max(len(set(stage)) for stage in stages) - 2.0) if plan.dp > 1 else 0.0,
        crowd=0.0,
        ragged=0.0,
        log_ring=0.0,
        log_cards=0.0,
        barrier=_barrier(shape),
        log_world=math.log(max(2, shape.gpus) / 2),
        lone=float(shape.nodes > 1 and shape.parts[-1] == 1),
    )


def _gradients(stages: list[list[int]], plan: ExecutionPlan) -> tuple[float, float]:
    """Return bytes over NVLink and over the busiest network card, per byte of gradients."""
    if plan.dp == 1:
        return 0.0, 0.0
    per_ring = 2 * (plan.dp - 1) / plan.dp / (plan.pp * plan.tp)
    worst = 0.0
    for stage in stages:
        leaving: dict[int, int] = {}
        for ring in range(plan.tp):
            members = set(stage[ring :: plan.tp])
            for node in members if len(members) > 1 else ():
                leaving[node] = leaving.get(node, 0) + 1
        for node, rings in leaving.items():
            worst = max(worst, rings / rails(stage.count(node)))
    return (0.0, per_ring * worst) if worst else (per_ring, 0.0)


def _tensor_rails(stages: list[list[int]], plan: ExecutionPlan) -> float:
    """Return 1 / rails of the narrowest part of a tensor-parallel group across nodes, else 0."""
    worst = 0.0
    for stage in stages:
        for first in range(0, len(stage), plan.tp):
            group = stage[first : first + plan.tp]
            nodes = set(group)
            if len(nodes) > 1:
                worst = max(worst, *(1 / rails(group.count(node)) for node in nodes))
    return worst
