"""Formulas of the analytic model: seconds of every part of an iteration.

See docs/performance-model.md for the page with the mathematics; the names are the same there.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from formulations.arrays import Floats
from morph_opt.inputs.perf.analytic.architecture import (
    CONSTANT_NAMES,
    RECOMPUTING,
    SWAPPING,
    Architecture,
    Features,
)


def predict_s(architecture: Architecture, constants: Floats, features: Features) -> Floats:
    """Return seconds per iteration of every row.

    Parameters
    ----------
    constants
        Vector in the order of `Constants`, shape (35,).

    Returns
    -------
    Floats
        Shape (rows,).
    """
    total: Floats = parts_s(architecture, constants, features).sum(axis=0)
    return total


def parts_s(architecture: Architecture, constants: Floats, features: Features) -> Floats:
    """Return seconds of the parts `PARTS` of every row.

    Parameters
    ----------
    constants
        Vector in the order of `Constants`, shape (35,).

    Returns
    -------
    Floats
        Shape (parts, rows).
    """
    c = SimpleNamespace(**dict(zip(CONSTANT_NAMES, constants, strict=True)))
    x = features.columns
    forward, backward = _passes(architecture, c, features)
    exposed, gather = _network(architecture, c, features, backward)
    stall = c.ragged_s * x["ragged"] * (1 - features.offload)
    optimizer = _optimizer(architecture, c, features) + gather
    rest = c.overhead_s + c.barrier_s * x["barrier"]
    return np.stack([forward, stall, backward, exposed, optimizer, rest])


def _passes(
    architecture: Architecture, c: SimpleNamespace, features: Features
) -> tuple[Floats, Floats]:
    """Return seconds of both passes with recomputation, tensor traffic and pipeline."""
    x, offload, three_d = features.columns, features.offload, features.three_d
    large = float(architecture.parameters > RECOMPUTING)
    checkpoint = np.maximum(features.checkpoint, offload * large)
    whole = 1 + (c.three_d_compute - 1) * three_d
    compute = c.compute_s * x["work"]
    factor = whole + (c.zero_compute - 1) * features.zero
    slower = factor * (1 + (c.offload_compute - 1) * offload) * (1 - c.forward_share)
    power = 1 + c.launch_overlap
    floor = c.launch_s**power

    def launched(seconds: Floats) -> Floats:
        return np.asarray((seconds**power + floor) ** (1 / power))

    tensor = architecture.tensor_gb * (
        x["tensor_nvlink"] / c.tensor_gb_per_s + x["tensor_rails"] / c.rail_gb_per_s
    )
    pipeline = (
        architecture.boundary_gb
        * (x["pipeline_nvlink"] / c.nvlink_gb_per_s + x["pipeline_rails"] / c.rail_gb_per_s)
        + c.hop_s * x["hops"]
    )
    again = checkpoint * (compute * c.recompute + c.recompute_s)
    backward = launched(compute * slower) + again + (tensor + pipeline) * whole
    return launched(compute * factor * c.forward_share), backward


def _network(
    architecture: Architecture, c: SimpleNamespace, features: Features, backward: Floats
) -> tuple[Floats, Floats]:
    """Return seconds added to the backward pass by synchronising and gathering gradients."""
    x, zero, offload = features.columns, features.zero, features.offload
    plain = 1 - zero - offload - features.three_d
    ring = np.exp(x["log_ring"] * (1 - c.ring_power))
    narrow = np.exp(x["log_cards"] * (1 - c.rail_power)) * (1 + c.lone * x["lone"])
    rail = narrow / c.rail_gb_per_s
    spread = c.sync_spread + (c.plain_spread - c.sync_spread) * plain
    gradient = (
        architecture.gradient_gb
        * (1 + (c.zero_sync - 1) * (zero + offload))
        * ring
        * (
            x["gradient_nvlink"] / c.nvlink_gb_per_s
            + x["gradient_rails"] * rail * (1 + spread * x["reach"])
        )
    )
    growth = np.exp(c.gather_growth * x["log_world"]) * (1 + c.gather_spread * x["reach"])
    gather = architecture.gradient_gb * (
        x["gather_nvlink"] * ring * c.gather_local / c.nvlink_gb_per_s
        + c.zero_gather * x["gather_rails"] * rail * growth
    )
    exponent = 1 + c.overlap * (plain + offload) + c.zero_overlap * zero
    exposed = (backward**exponent + gradient**exponent) ** (1 / exponent) - backward
    return exposed + c.offload_copy_s * offload, gather


def _optimizer(architecture: Architecture, c: SimpleNamespace, features: Features) -> Floats:
    """Return seconds of the optimizer step on the GPUs, or in host memory when offloading."""
    x, offload = features.columns, features.offload
    on_gpu = c.optimizer_s * x["optimizer"]
    on_gpu = on_gpu * (1 - offload + (c.zero_optimizer - 1) * features.zero)
    swapped = c.swap_s if architecture.parameters > SWAPPING else 0.0
    on_host = c.offload_s + (c.offload_share_s + swapped) * x["optimizer"]
    return np.asarray(on_gpu + offload * (on_host + c.offload_crowd_s * x["crowd"]))
