"""What is believed about a model's constants before any of its runs.

Two layers. The *wide* prior comes from hardware and architecture numbers and is given here. The
*population* narrows it with the constants of models that were fitted before; it is estimated by
`morph_opt.perf.population` and stored with the zoo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from morph_opt.perf.analytic import CONSTANT_NAMES, Architecture, Array

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

    log_mean: Array
    log_sd: Array


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

    shift: Array
    log_sd: Array


# name: (median, standard deviation of the logarithm); rates in GB/s, times in s
_COMMON = {
    "recompute": (0.35, 0.3),  # one more forward pass: a third of forward plus backward
    "nvlink_gb_per_s": (80.0, 0.7),
    "rail_gb_per_s": (19.0, 0.3),  # a 200 Gb/s card
    "zero_compute": (1.0, 0.05),
    "zero_sync": (0.8, 0.3),  # between a reduce-scatter (1/2) and an all-reduce (1)
    "zero_gather": (1.0, 0.5),
    "overhead_s": (0.01, 1.0),
    "overlap": (0.1, 1.0),
    "sync_spread": (0.005, 1.5),
    "gather_spread": (0.01, 1.5),
    "offload_compute": (1.1, 0.3),
    "three_d_compute": (1.5, 0.7),
    "tensor_gb_per_s": (60.0, 1.0),
    "hop_s": (0.01, 1.5),
    "ragged_s": (0.005, 3.0),
}
# seconds per 1e9 parameters
_PER_BILLION = {
    "optimizer_s": (0.075, 0.5),
    "offload_s": (0.3, 1.5),
    "offload_share_s": (0.9, 1.5),
    "offload_crowd_s": (0.01, 1.5),
}
# seconds per layer
_PER_LAYER = {"recompute_s": (0.0002, 1.5)}
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
