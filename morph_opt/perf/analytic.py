"""The analytic performance model: seconds per iteration from layout, architecture and constants.

See docs/performance-model.md for the page with the mathematics; the names are the same there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from morph_opt.domain import ExecutionPlan, PlanFamily, Shape
from morph_opt.domain._validate import require_finite, require_int, require_name
from morph_opt.perf.layout import Layout, layout

Array = NDArray[np.float64]

GRADIENT_BYTES = 4.0
"""Bytes per parameter of gradients on the wire; reduced in 32 bit, as the public model has it."""

BACKWARD = 2 / 3
"""Share of the backward pass in forward plus backward: twice the multiplications."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Numbers that a user knows about a model before any run.

    Parameters
    ----------
    name
        Key of the speed model.
    parameters
        Count of parameters.
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
    compute_s
        Forward and backward pass of the global batch on one GPU, data-parallel plans.
    recompute, recompute_s
        Gradient checkpointing: extra compute relative to ``compute_s``, and a fixed part per
        iteration (kernel launches of the second forward pass).
    nvlink_gb_per_s, rail_gb_per_s
        Effective rate of a collective inside a node and per network card.
    optimizer_s
        Optimizer step over all parameters on one GPU.
    zero_compute, zero_sync, zero_gather
        ZeRO: compute relative to ``compute_s`` (bucketing copies), gradient traffic relative to
        a plain all-reduce, and parameter traffic after the step relative to an all-gather of
        32-bit parameters.
    overhead_s
        Per iteration: launches, data loading, logging.
    overlap
        Exponent above 1 of gradient traffic against the backward pass in data-parallel plans:
        (a^k + b^k)^(1/k) with k = 1 + overlap; near 0 nothing is hidden.
    sync_spread, gather_spread
        Relative growth of the network time of gradients and of gathered parameters per node
        beyond the second.
    offload_s, offload_share_s, offload_crowd_s
        ZeRO-Offload: fixed part per iteration, the part that GPUs and their CPU threads share
        (update in host memory, transfers over PCIe), and contention per further GPU on the
        fullest node.
    offload_compute
        Compute of ZeRO-Offload relative to ``compute_s``.
    three_d_compute
        Compute of 3D plans relative to ``compute_s``.
    tensor_gb_per_s
        Effective rate of tensor-parallel traffic inside a node.
    hop_s
        Per pipeline stage beyond the first.
    ragged_s
        Stall on shapes where nodes hold an odd number of GPUs (see `Layout.ragged`).
    """

    compute_s: float
    recompute: float
    recompute_s: float
    nvlink_gb_per_s: float
    rail_gb_per_s: float
    optimizer_s: float
    zero_compute: float
    zero_sync: float
    zero_gather: float
    overhead_s: float
    overlap: float
    sync_spread: float
    gather_spread: float
    offload_s: float
    offload_share_s: float
    offload_crowd_s: float
    offload_compute: float
    three_d_compute: float
    tensor_gb_per_s: float
    hop_s: float
    ragged_s: float

    def __post_init__(self) -> None:
        for field in fields(self):
            require_finite(f"constants.{field.name}", getattr(self, field.name), above=0.0)

    def vector(self) -> Array:
        """The constants in order of declaration."""
        return np.array([getattr(self, field.name) for field in fields(self)])


CONSTANT_NAMES = tuple(field.name for field in fields(Constants))
_AT = {name: index for index, name in enumerate(CONSTANT_NAMES)}
_LAYOUT_NAMES = tuple(field.name for field in fields(Layout))


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

    columns: Mapping[str, Array]
    zero: Array
    offload: Array
    three_d: Array
    checkpoint: Array

    @classmethod
    def of(cls, configurations: Iterable[tuple[Shape, ExecutionPlan]]) -> Features:
        """Columns of these (shape, plan) pairs."""
        rows = list(configurations)
        table = np.array(
            [[getattr(layout(*row), name) for name in _LAYOUT_NAMES] for row in rows]
        ).reshape(len(rows), len(_LAYOUT_NAMES))
        plans = [plan for _, plan in rows]

        def flag(values: Sequence[bool]) -> Array:
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

    def repeated(self, rows: int) -> Features:
        """The same rows over and over, ``rows`` in all."""
        return Features(
            {name: np.resize(column, rows) for name, column in self.columns.items()},
            np.resize(self.zero, rows),
            np.resize(self.offload, rows),
            np.resize(self.three_d, rows),
            np.resize(self.checkpoint, rows),
        )


def predict_s(architecture: Architecture, constants: Array, features: Features) -> Array:
    """Seconds per iteration of every row.

    Parameters
    ----------
    constants
        Vector in the order of `Constants`, shape (21,).

    Returns
    -------
    Array
        Shape (rows,).
    """
    c = {name: constants[_AT[name]] for name in CONSTANT_NAMES}
    x = features.columns
    zero, offload, three_d = features.zero, features.offload, features.three_d
    factor = 1 + (c["offload_compute"] - 1) * offload + (c["three_d_compute"] - 1) * three_d
    factor = factor + (c["zero_compute"] - 1) * zero
    compute = c["compute_s"] * x["work"]
    forward = compute * factor * (1 - BACKWARD)
    backward = compute * (factor * BACKWARD + c["recompute"] * features.checkpoint)
    sharded_sync = 1 + (c["zero_sync"] - 1) * (zero + offload)
    gradient = (
        architecture.gradient_gb
        * sharded_sync
        * (
            x["gradient_nvlink"] / c["nvlink_gb_per_s"]
            + x["gradient_rails"] * (1 + c["sync_spread"] * x["reach"]) / c["rail_gb_per_s"]
        )
    )
    gather = (
        c["zero_gather"]
        * architecture.gradient_gb
        * (
            x["gather_nvlink"] / c["nvlink_gb_per_s"]
            + x["gather_rails"] * (1 + c["gather_spread"] * x["reach"]) / c["rail_gb_per_s"]
        )
    )
    exponent = 1 + c["overlap"] * (1 - three_d)
    passes = forward + (backward**exponent + gradient**exponent) ** (1 / exponent)
    tensor = architecture.tensor_gb * (
        x["tensor_nvlink"] / c["tensor_gb_per_s"] + x["tensor_rails"] / c["rail_gb_per_s"]
    )
    pipeline = (
        architecture.boundary_gb
        * (x["pipeline_nvlink"] / c["nvlink_gb_per_s"] + x["pipeline_rails"] / c["rail_gb_per_s"])
        + c["hop_s"] * x["hops"]
    )
    optimizer = c["optimizer_s"] * x["optimizer"] * (1 - offload)
    host = offload * (
        c["offload_s"] + c["offload_share_s"] * x["optimizer"] + c["offload_crowd_s"] * x["crowd"]
    )
    stall = c["ragged_s"] * x["ragged"] * (1 - offload)
    total: Array = (
        passes
        + gather
        + tensor
        + pipeline
        + optimizer
        + host
        + stall
        + c["overhead_s"]
        + c["recompute_s"] * features.checkpoint
    )
    return total
