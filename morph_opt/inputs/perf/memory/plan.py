"""Memory of a plan, per GPU and on the host, from published formulas.

Sources, cited below by their letter:

Z
    Rajbhandari et al., ZeRO, SC'20, section 3.1 and figure 1: bytes of mixed-precision training
    with Adam and how stages 1 to 3 shard them.
K
    Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, MLSys'23,
    section 4: bytes of activations of a transformer layer, with tensor and pipeline parallelism.
O
    Ren et al., ZeRO-Offload, USENIX ATC'21, section 3: what stays on the GPU; host bytes as in
    the memory estimator of DeepSpeed, its implementation.

``docs/memory.md`` has the same formulas with the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import Floats
from morph_opt.core.domain import ExecutionPlan, NodeType, PlanFamily, Shape
from morph_opt.core.domain._validate import require_int
from morph_opt.inputs.perf.analytic.architecture import Architecture
from morph_opt.inputs.perf.analytic.support import GIB, HOST_BYTES_PER_PARAMETER
from morph_opt.inputs.perf.memory.facts import ModelFacts

PARAMETER_BYTES = 2.0
"""Bytes per 16-bit parameter (Z)."""

GRADIENT_BYTES = 2.0
"""Bytes per 16-bit gradient in memory (Z)."""

OPTIMIZER_BYTES = 12.0
"""Bytes per parameter of Adam: 32-bit parameter, momentum and variance (Z, K = 12)."""

BUCKET_ELEMENTS = 5e8
"""Elements of ZeRO's reduce bucket and all-gather bucket (DeepSpeed's default)."""

FRAMEWORK_GIB = 2.0
"""Assumed GiB of driver context, communication buffers and fragmentation."""

PART_NAMES = {
    "parameters_gib": "parameters",
    "gradients_gib": "gradients",
    "optimizer_gib": "optimizer state",
    "activations_gib": "activations",
    "buffers_gib": "communication buckets",
    "framework_gib": "framework",
}
"""Words for the parts of the memory of a GPU, by field."""


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """Memory of a plan on a number of GPUs, for a GPU of the fullest pipeline stage.

    Parameters
    ----------
    parameters_gib, gradients_gib, optimizer_gib
        Training state on the GPU.
    activations_gib
        Activations kept for the backward pass, logits included.
    buffers_gib
        Communication buckets of ZeRO.
    framework_gib
        `FRAMEWORK_GIB`.
    host_gib_per_gpu
        Host memory next to each GPU (ZeRO-Offload).
    micro_batch
        Samples per forward pass and data-parallel rank that this holds for.
    """

    parameters_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    buffers_gib: float
    framework_gib: float
    host_gib_per_gpu: float
    micro_batch: int

    @property
    def gpu_gib(self) -> float:
        """Sum of all parts on the GPU."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """Return GiB on the GPU by the words of `PART_NAMES`, largest first."""
        found = [(words, float(getattr(self, name))) for name, words in PART_NAMES.items()]
        return dict(sorted(found, key=lambda part: -part[1]))


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees of plans as columns, one row per plan.

    Parameters
    ----------
    pp, tp, dp
        Parallel degrees; ``dp`` of the data-parallel families is the number of GPUs.
    stage2, offload, checkpointing
        Whether ZeRO shards gradients and optimizer state, whether these live on the host, and
        whether activations are recomputed.
    micro_batch
        Samples per forward pass of a data-parallel rank, at least 1.
    """

    pp: Floats
    tp: Floats
    dp: Floats
    stage2: NDArray[np.bool_]
    offload: NDArray[np.bool_]
    checkpointing: NDArray[np.bool_]
    micro_batch: Floats

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        plans: Sequence[ExecutionPlan],
        gpus: Sequence[int],
        micro_batch: int | None = None,
    ) -> Degrees:
        """Return columns of plans on these GPUs, with `smallest_micro_batch` by default."""
        three_d = [plan.family is PlanFamily.THREE_D for plan in plans]
        dp = [p.dp if deep else n for p, deep, n in zip(plans, three_d, gpus, strict=True)]
        batch = [
            smallest_micro_batch(architecture, plan, ranks) if micro_batch is None else micro_batch
            for plan, ranks in zip(plans, dp, strict=True)
        ]
        families = [plan.family for plan in plans]
        return cls(
            pp=np.array([max(1, plan.pp) for plan in plans], dtype=np.float64),
            tp=np.array([max(1, plan.tp) for plan in plans], dtype=np.float64),
            dp=np.array(dp, dtype=np.float64),
            stage2=np.array([f in (PlanFamily.ZERO_DP, PlanFamily.ZERO_OFFLOAD) for f in families]),
            offload=np.array([f is PlanFamily.ZERO_OFFLOAD for f in families]),
            checkpointing=np.array([plan.gradient_checkpointing for plan in plans]),
            micro_batch=np.array(batch, dtype=np.float64),
        )


def smallest_micro_batch(architecture: Architecture, plan: ExecutionPlan, ranks: int) -> int:
    """Return the samples per forward pass for which the plan needs least memory.

    One for plans that accumulate: ``+ga``, pipelines, and ZeRO, whose engine accumulates as part
    of its batch size. Plain data parallelism without ``+ga`` passes its whole share at once.
    """
    if plan.family is PlanFamily.DP and not plan.gradient_accumulation:
        return max(1, -(-architecture.global_batch // ranks))
    return 1


def memory_columns(facts: ModelFacts, degrees: Degrees) -> dict[str, Floats]:
    """Return every part of `PlanMemory` in GiB, one array per field, one row per plan.

    Pure: numpy arithmetic on the columns, no look-ups.
    """
    count = _stage_parameters(facts, degrees)
    shard = np.where(degrees.stage2, degrees.dp, 1.0)
    on_gpu = np.where(degrees.offload, 0.0, 1.0)
    buckets = np.where(degrees.stage2, 2.0 * PARAMETER_BYTES, 0.0)
    host = np.where(degrees.offload, HOST_BYTES_PER_PARAMETER / degrees.dp, 0.0)
    return {
        "parameters_gib": PARAMETER_BYTES * count / GIB,
        "gradients_gib": on_gpu * GRADIENT_BYTES * count / shard / GIB,
        "optimizer_gib": on_gpu * OPTIMIZER_BYTES * count / shard / GIB,
        "activations_gib": _activations(facts, degrees) / GIB,
        "buffers_gib": buckets * np.minimum(count, BUCKET_ELEMENTS) / GIB,
        "framework_gib": np.full_like(count, FRAMEWORK_GIB),
        "host_gib_per_gpu": host * count / GIB,
    }


def _stage_parameters(facts: ModelFacts, degrees: Degrees) -> Floats:
    """Return parameters of one tensor-parallel rank of the first stage: layers and an embedding."""
    layers = np.ceil(facts.architecture.layers / degrees.pp)
    stage = layers * facts.layer_parameters + facts.embedding_parameters
    whole = float(facts.architecture.parameters)
    return np.asarray(np.where(degrees.pp == 1.0, whole, np.minimum(stage, whole)) / degrees.tp)


def _activations(facts: ModelFacts, degrees: Degrees) -> Floats:
    """Return bytes of activations of the fuller of first and last stage (K, sections 4.1-4.3)."""
    arch, tp = facts.architecture, degrees.tp
    tokens = arch.sequence * degrees.micro_batch
    scores = 5.0 * arch.heads * arch.sequence / tp
    feed_forward = 4.0 * facts.feed_forward / tp
    layer = tokens * (arch.hidden * (10.0 + 8.0 / tp) + feed_forward + scores)
    kept = np.where(degrees.checkpointing, 2.0 * tokens * arch.hidden, layer)
    again = np.where(degrees.checkpointing, layer, 0.0)
    layers = np.ceil(arch.layers / degrees.pp)
    share = np.ceil(arch.global_batch / degrees.dp)
    in_flight = np.minimum(degrees.pp, np.ceil(share / degrees.micro_batch))
    head = 4.0 * tokens * (arch.hidden + facts.vocabulary / tp)
    last = layers * kept + again + head
    first = layers * kept * in_flight + again + tokens * arch.hidden * in_flight
    return np.asarray(np.where(degrees.pp == 1.0, last, np.maximum(first, last)))


def plan_memory(
    facts: ModelFacts, plan: ExecutionPlan, shape: Shape, *, micro_batch: int | None = None
) -> PlanMemory:
    """Return the memory of a plan on a shape.

    Parameters
    ----------
    facts
        The model; `published_facts` of `morph_opt.inputs.perf.memory.facts` has the known ones.
    plan, shape
        Plan, and the GPUs that it runs on; their nodes do not matter here.
    micro_batch
        Samples per forward pass and rank; default `smallest_micro_batch`.

    Raises
    ------
    InputError
        If a 3D plan needs another number of GPUs, or ``micro_batch`` is below 1.
    """
    plan.require_gpus(shape.gpus, f"the shape {shape} has", "shape")
    if micro_batch is not None:
        require_int("micro_batch", micro_batch, at_least=1)
    degrees = Degrees.of(facts.architecture, [plan], [shape.gpus], micro_batch)
    columns = {name: float(column[0]) for name, column in memory_columns(facts, degrees).items()}
    return PlanMemory(**columns, micro_batch=int(degrees.micro_batch[0]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a plan can run, and its memory.

    Parameters
    ----------
    reason
        Why it cannot, in words; None if it can.
    memory
        None where the plan and the shape or batch do not go together.
    """

    reason: str | None
    memory: PlanMemory | None = field(default=None, compare=False)


def judge(facts: ModelFacts, plan: ExecutionPlan, shape: Shape, node_type: NodeType) -> Verdict:
    """Return whether a plan fits such nodes, with its memory."""
    mismatch = _mismatch(facts.architecture, plan, shape, node_type)
    if mismatch is not None:
        return Verdict(mismatch)
    memory = plan_memory(facts, plan, shape)
    return Verdict(_short_of(memory, shape, node_type), memory)


def fits(facts: ModelFacts, plan: ExecutionPlan, shape: Shape, node_type: NodeType) -> str | None:
    """Return the reason for which the plan cannot run on such nodes; None if it fits.

    Refused are: more GPUs per node than there are, a plan for another number of GPUs, a global
    batch that the ranks do not divide, more stages than layers, too little memory on the GPU or
    on the host. Where tensor-parallel groups lie is `tensor_group`'s question.
    """
    return _reason(facts, plan, shape, node_type)


@lru_cache(maxsize=1 << 16)
def _reason(
    facts: ModelFacts, plan: ExecutionPlan, shape: Shape, node_type: NodeType
) -> str | None:
    # Every replay of a process asks the same of the same tables: a third of a short one.
    return judge(facts, plan, shape, node_type).reason


def _mismatch(
    architecture: Architecture, plan: ExecutionPlan, shape: Shape, node_type: NodeType
) -> str | None:
    if shape.parts[0] > node_type.gpus:
        return f"needs {shape.parts[0]} GPUs on a node, {node_type.name} has {node_type.gpus}"
    if plan.gpus not in (None, shape.gpus):
        return f"needs {plan.gpus} GPUs, the shape has {shape.gpus}"
    ranks = plan.dp if plan.family is PlanFamily.THREE_D else shape.gpus
    if architecture.global_batch % ranks:
        return (
            f"cannot divide the global batch of {architecture.global_batch} over "
            f"{ranks} data-parallel ranks"
        )
    if plan.pp > architecture.layers:
        return f"has {plan.pp} pipeline stages, the model has {architecture.layers} layers"
    return None


def _short_of(memory: PlanMemory, shape: Shape, node_type: NodeType) -> str | None:
    gpu = node_type.gpu_type
    if memory.gpu_gib > gpu.memory_gib:
        parts = ", ".join(f"{gib:.1f} {words}" for words, gib in memory.parts().items() if gib)
        return (
            f"needs {memory.gpu_gib:.1f} GiB per GPU ({parts}), "
            f"the {gpu.name} has {gpu.memory_gib:g}"
        )
    host_gib = memory.host_gib_per_gpu * shape.parts[0]
    if host_gib > node_type.host_memory_gib:
        return (
            f"needs {host_gib:.1f} GiB of host memory on a node for offloaded optimizer state and "
            f"gradients, {node_type.name} has {node_type.host_memory_gib:g}"
        )
    return None


def tensor_group(plan: ExecutionPlan, shape: Shape, *, nvlink_domain: bool = False) -> str | None:
    """Return the reason if a tensor-parallel group leaves its NVLink domain, else None.

    Ranks are laid out with tensor parallelism innermost, node by node, so groups stay inside
    their nodes exactly if the degree divides every part.

    Parameters
    ----------
    plan, shape
        Plan, and the GPUs per node that it runs on.
    nvlink_domain
        Whether one NVLink domain holds all nodes of the placement (`Span.NVLINK`).
    """
    if plan.tp <= 1 or shape.nodes == 1 or nvlink_domain:
        return None
    if all(part % plan.tp == 0 for part in shape.parts):
        return None
    return (
        f"has tensor-parallel groups of {plan.tp} GPUs that would leave their NVLink domain on "
        f"the shape {shape}"
    )
