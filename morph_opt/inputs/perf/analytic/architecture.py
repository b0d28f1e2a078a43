"""Architecture, constants and columns of the analytic performance model.

The formulas are in `morph_opt.inputs.perf.analytic.terms`, the mathematics in
docs/performance-model.md, with the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import ExecutionPlan, PlanFamily, Shape
from morph_opt.core.domain._validate import require_finite, require_int, require_name
from morph_opt.inputs.perf.analytic.layout import Layout, layout

GRADIENT_BYTES = 4.0
"""Bytes per parameter of gradients on the wire: 32 bit, as in the public model."""

RECOMPUTING = 1e9
"""Number of parameters from which offloading uses checkpointing, as in the public runs."""

SWAPPING = 4e9
"""Number of parameters from which offloading also swaps parameters."""

PARTS = ("forward", "stall", "backward", "gradients", "optimizer", "rest")
"""Parts of an iteration, in the order of their sum."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Numbers of a model that a user knows before any run.

    Parameters
    ----------
    name
        Key of the speed model.
    parameters
        Number of parameters.
    layers, hidden, sequence
        Transformer layers, hidden size, tokens per sample.
    global_batch
        Samples per iteration; no plan ever changes it.
    heads
        Attention heads; tensor-parallel degrees must divide them.
    """

    name: str
    parameters: int
    layers: int
    hidden: int
    sequence: int
    global_batch: int
    heads: int

    def __post_init__(self) -> None:
        require_name("architecture.name", self.name)
        for field in fields(self)[1:]:
            require_int(f"architecture.{field.name}", getattr(self, field.name), at_least=1)

    @property
    def gradient_gb(self) -> float:
        """Gigabytes (1e9) of all gradients."""
        return GRADIENT_BYTES * self.parameters / 1e9

    @property
    def tensor_gb(self) -> float:
        """Gigabytes that tensor parallelism reduces per iteration (4 all-reduces per layer)."""
        return 4 * self.layers * self.boundary_gb

    @property
    def boundary_gb(self) -> float:
        """Gigabytes of the global batch's activations between two layers, 16 bit."""
        return 2.0 * self.sequence * self.hidden * self.global_batch / 1e9


@dataclass(frozen=True, slots=True)
class Constants:
    """Fitted constants of one model on one node type. All times in s, all rates in GB/s.

    Parameters
    ----------
    compute_s, forward_share
        Forward and backward pass of the global batch on one GPU, data-parallel plans, and the
        share of the forward pass.
    launch_s, launch_overlap
        Kernel launches of one pass, and how they hide behind its compute: (a^k + b^k)^(1/k) with
        k = 1 + launch_overlap; near 0 nothing is hidden.
    recompute, recompute_s
        Gradient checkpointing: extra compute relative to ``compute_s``, and a fixed part.
    nvlink_gb_per_s, rail_gb_per_s
        Effective rate of a collective inside a node and per network card.
    ring_power, rail_power
        Traffic of a ring grows with ((g - 1) / g)^ring_power, the rate between nodes with
        (cards at the narrowest node)^rail_power.
    lone
        Relative growth of the network time where a node holds a single GPU.
    overlap, zero_overlap
        As ``launch_overlap``, of gradient traffic against the backward pass; for plain data
        parallelism and offloading, and for ZeRO.
    plain_spread, sync_spread, gather_spread
        Relative growth per node beyond the second of the network time of plain gradients, of
        gradients of sharded and 3D plans, and of gathered parameters.
    optimizer_s, zero_optimizer
        Optimizer step over all parameters on one GPU; that of ZeRO relative to it.
    zero_compute, zero_sync
        ZeRO: compute relative to ``compute_s`` (bucketing copies), gradient traffic relative to
        a plain all-reduce.
    zero_gather, gather_growth, gather_local
        Parameter traffic after a sharded step: across nodes relative to all 32-bit parameters,
        growing with (g / 2)^gather_growth; inside a node relative to an all-gather.
    offload_compute, offload_copy_s
        ZeRO-Offload: backward pass relative to that of plain data parallelism, and copying
        gradients to the host.
    offload_s, offload_share_s, offload_crowd_s
        Update in host memory: fixed part, the part that GPUs and their CPU threads share, and
        the part that the GPUs of a node contend for (memory bandwidth).
    swap_s
        Models beyond `SWAPPING` parameters also swap parameters; shared by the GPUs.
    three_d_compute
        Passes of 3D plans, compute and activations alike, relative to ``compute_s``.
    tensor_gb_per_s
        Effective rate of tensor-parallel traffic inside a node.
    hop_s
        Per pipeline stage beyond the first.
    ragged_s
        Stall on shapes where nodes hold an odd number of GPUs (see `Layout.ragged`).
    overhead_s, barrier_s
        Per iteration: data loading and logging, and waiting for other nodes (`Layout.barrier`).
    """

    compute_s: float
    forward_share: float
    launch_s: float
    launch_overlap: float
    recompute: float
    recompute_s: float
    nvlink_gb_per_s: float
    rail_gb_per_s: float
    ring_power: float
    rail_power: float
    lone: float
    overlap: float
    zero_overlap: float
    plain_spread: float
    sync_spread: float
    gather_spread: float
    optimizer_s: float
    zero_optimizer: float
    zero_compute: float
    zero_sync: float
    zero_gather: float
    gather_growth: float
    gather_local: float
    offload_compute: float
    offload_copy_s: float
    offload_s: float
    offload_share_s: float
    offload_crowd_s: float
    swap_s: float
    three_d_compute: float
    tensor_gb_per_s: float
    hop_s: float
    ragged_s: float
    overhead_s: float
    barrier_s: float

    def __post_init__(self) -> None:
        for field in fields(self):
            most = _MOST.get(field.name, 1e9)
            require_finite(
                f"constants.{field.name}", getattr(self, field.name), above=0.0, at_most=most
            )

    def vector(self) -> Floats:
        """Return the constants in order of declaration."""
        return np.array([getattr(self, field.name) for field in fields(self)])


_MOST = {"forward_share": 1.0} | dict.fromkeys(
    ("launch_overlap", "overlap", "zero_overlap", "ring_power", "rail_power", "gather_growth"), 25.0
)
"""Largest values of shares, and of exponents, so that a power of 1e9 s stays finite."""
CONSTANT_NAMES = tuple(field.name for field in fields(Constants))
_LAYOUT_NAMES = tuple(field.name for field in fields(Layout))
_OF_LAYOUT = attrgetter(*_LAYOUT_NAMES)


@dataclass(frozen=True, slots=True)
class Features:
    """Layouts and plan flags as columns; row i describes configuration i.

    Parameters
    ----------
    columns
        Field of `Layout` to array of shape (rows,).
    zero, offload, three_d, checkpoint
        1.0 where the plan is of that kind, shape (rows,).
    """

    columns: Mapping[str, Floats]
    zero: Floats
    offload: Floats
    three_d: Floats
    checkpoint: Floats

    @classmethod
    def of(cls, configurations: Iterable[tuple[Shape, ExecutionPlan]]) -> Features:
        """Return the columns of these (shape, plan) pairs."""
        rows = list(configurations)
        table = np.array([_OF_LAYOUT(layout(*row)) for row in rows])
        table = table.reshape(len(rows), len(_LAYOUT_NAMES))
        plans = [plan for _, plan in rows]

        def flag(values: Sequence[bool]) -> Floats:
            return np.array(values, dtype=np.float64)

        return cls(
            columns={name: table[:, i] for i, name in enumerate(_LAYOUT_NAMES)},
            zero=flag([p.family is PlanFamily.ZERO_DP for p in plans]),
            offload=flag([p.family is PlanFamily.ZERO_OFFLOAD for p in plans]),
            three_d=flag([p.family is PlanFamily.THREE_D for p in plans]),
            checkpoint=flag([p.gradient_checkpointing for p in plans]),
        )

    def __len__(self) -> int:
        return len(self.zero)
