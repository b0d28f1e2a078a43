"""Fit the constants of one model to profiled runs: robust least squares on logarithms.

Every constant has a weak log-normal prior from hardware and architecture numbers, so that a few
runs suffice: what the runs do not tell stays at the prior, and its uncertainty stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from morph_opt.perf.analytic import (
    CONSTANT_NAMES,
    Architecture,
    Array,
    Constants,
    Features,
    predict_s,
)
from morph_opt.perf.runs import Run

NOISE = 0.03
"""Standard deviation of the logarithm of a measured time around the model."""

PEAK_FLOPS = 312e12
"""Dense 16-bit peak of an A800 or A100 (vendor's data sheet)."""

BOUND = 6.0
"""Constants stay within this many prior standard deviations."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Log-normal prior of the constants.

    Parameters
    ----------
    log_mean, log_sd
        Mean and standard deviation of the logarithms, in the order of `Constants`.
    """

    log_mean: Array
    log_sd: Array


# name: (prior median, standard deviation of the logarithm); rates in GB/s, the rest relative
_COMMON = {
    "recompute": (0.35, 0.3),
    "nvlink_gb_per_s": (80.0, 0.7),
    "rail_gb_per_s": (19.0, 0.3),
    "zero_sync": (0.8, 0.3),
    "zero_gather": (1.0, 0.5),
    "overhead_s": (0.01, 1.0),
    "offload_compute": (1.1, 0.3),
    "three_d_compute": (1.5, 0.7),
    "tensor_gb_per_s": (60.0, 1.0),
    "hop_s": (0.01, 1.5),
    "ragged_s": (0.005, 3.0),
    "overlap": (0.1, 1.0),
    "zero_compute": (1.0, 0.05),
    "sync_spread": (0.005, 1.5),
    "gather_spread": (0.01, 1.5),
}
# seconds per 1e9 parameters
_PER_BILLION = {
    "optimizer_s": (0.075, 0.5),
    "offload_s": (0.3, 1.5),
    "offload_share_s": (0.9, 1.5),
    "offload_crowd_s": (0.01, 1.5),
}
_UTILISATION = (0.4, 1.5)


def prior(architecture: Architecture) -> Prior:
    """What is believed about the constants before any run."""
    flops = 6.0 * architecture.parameters * architecture.sequence * architecture.global_batch
    table = dict(_COMMON)
    for name, (median, sd) in _PER_BILLION.items():
        table[name] = (median * architecture.parameters / 1e9, sd)
    table["recompute_s"] = (0.0002 * architecture.layers, 1.5)
    table["compute_s"] = (flops / PEAK_FLOPS / _UTILISATION[0], _UTILISATION[1])
    return Prior(
        np.log([table[name][0] for name in CONSTANT_NAMES]),
        np.array([table[name][1] for name in CONSTANT_NAMES]),
    )


def fit(architecture: Architecture, runs: Sequence[Run], noise: float = NOISE) -> Constants:
    """Constants that explain the runs, as far as the runs tell and the prior elsewhere.

    Minimises a soft-l1 loss of ``log(predicted / measured) / noise`` plus the squared distance
    from the prior in its standard deviations, within `BOUND`.
    """
    belief = prior(architecture)
    features = Features.of([(run.shape, run.plan) for run in runs])
    measured = np.array([run.log_s for run in runs])

    def residuals(z: Array) -> Array:
        constants = np.exp(belief.log_mean + belief.log_sd * z)
        raw = (np.log(predict_s(architecture, constants, features)) - measured) / noise
        # soft l1 written as a residual, because scipy's loss would also soften the prior
        soft = np.sign(raw) * np.sqrt(2 * (np.sqrt(1 + raw**2) - 1))
        return np.concatenate([soft, z])

    found = least_squares(residuals, np.zeros(len(CONSTANT_NAMES)), bounds=(-BOUND, BOUND))
    values = np.exp(belief.log_mean + belief.log_sd * found.x)
    return Constants(**{name: float(v) for name, v in zip(CONSTANT_NAMES, values, strict=True)})
