"""What is believed about a model's constants before any of its runs.

Two layers. The *wide* prior comes from hardware and architecture numbers and is given here. The
*population* narrows it with the constants of models that were fitted before; it is estimated by
`benchmarks.perf.population` and stored with the zoo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from morph_opt.perf.analytic.architecture import CONSTANT_NAMES, Architecture

PEAK_FLOPS = 312e12
"""Dense 16-bit peak of an A800 or A100 (vendor's data sheet)."""

UTILISATION = 0.4
"""Median share of the peak that training reaches (Megatron, SC'21, table 1: 0.44 to 0.52)."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Log-normal prior of the constants, independent of each other.

    Parameters
    ----------
    log_mean, log_sd
        Mean and standard deviation of the natural logarithms, in the order of `Constants`.
    """

    log_mean: Floats
    log_sd: Floats


@dataclass(frozen=True, slots=True)
class Population:
    """How the constants of fitted models lie around the wide prior.

    Parameters
    ----------
    shift
        Mean of ``log(constant) - wide mean``, in the order of `Constants`.
    log_sd
        Standard deviation for a model that was not among them.
    """

    shift: Floats
    log_sd: Floats


# name: (median, standard deviation of the logarithm); rates in GB/s, times in s
_COMMON = {
    "forward_share": (0.35, 0.1),  # one third of the multiplications
    "launch_overlap": (0.4, 0.8),
    "recompute": (0.35, 0.3),  # one more forward pass: a third of forward plus backward
    "nvlink_gb_per_s": (80.0, 0.7),
    "rail_gb_per_s": (19.0, 0.3),  # a 200 Gb/s card
    "ring_power": (0.6, 0.3),
    "rail_power": (0.95, 0.1),
    "lone": (0.06, 0.7),
    "overlap": (0.1, 1.0),
    "zero_overlap": (0.3, 1.0),
    "plain_spread": (0.012, 0.6),
    "sync_spread": (0.005, 1.5),
    "gather_spread": (0.01, 1.5),
    "zero_optimizer": (1.2, 0.2),
    "zero_compute": (1.0, 0.05),
    "zero_sync": (0.8, 0.3),  # between a reduce-scatter (1/2) and an all-reduce (1)
    "zero_gather": (1.0, 0.5),
    "gather_growth": (0.1, 1.0),
    "gather_local": (1.5, 0.4),
    "offload_compute": (1.15, 0.2),
    "offload_s": (0.035, 0.5),
    "three_d_compute": (1.2, 1.0),
    "tensor_gb_per_s": (60.0, 1.0),
    "hop_s": (0.01, 1.5),
    "ragged_s": (0.005, 3.0),
    "overhead_s": (0.006, 0.7),
    "barrier_s": (0.008, 0.7),
}
# seconds per 1e9 parameters
_PER_BILLION = {
    "optimizer_s": (0.075, 0.5),
    "offload_copy_s": (0.08, 0.7),
    "offload_share_s": (0.55, 0.4),
    "offload_crowd_s": (0.165, 0.4),
    "swap_s": (5.0, 1.0),
}
# seconds per layer
_PER_LAYER = {"launch_s": (0.00115, 0.6), "recompute_s": (0.0006, 0.8)}
_COMPUTE_SD = 1.5


def ideal_compute_s(architecture: Architecture) -> float:
    """Seconds of forward and backward pass on one GPU at its peak (6 flops per weight, token)."""
    tokens = architecture.sequence * architecture.global_batch
    return 6.0 * architecture.parameters * tokens / PEAK_FLOPS


def wide_prior(architecture: Architecture) -> Prior:
    """Prior from hardware and architecture numbers alone."""
    table = dict(_COMMON)
    for name, (median, sd) in _PER_BILLION.items():
        table[name] = (median * architecture.parameters / 1e9, sd)
    for name, (median, sd) in _PER_LAYER.items():
        table[name] = (median * architecture.layers, sd)
    table["compute_s"] = (ideal_compute_s(architecture) / UTILISATION, _COMPUTE_SD)
    return Prior(
        np.log([table[name][0] for name in CONSTANT_NAMES]),
        np.array([table[name][1] for name in CONSTANT_NAMES]),
    )


def prior(architecture: Architecture, population: Population | None = None) -> Prior:
    """The wide prior, narrowed by a population of fitted models if there is one."""
    wide = wide_prior(architecture)
    if population is None:
        return wide
    return Prior(wide.log_mean + population.shift, np.minimum(wide.log_sd, population.log_sd))
