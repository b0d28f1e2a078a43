"""Prior of a model's constants before any of its runs.

Two layers. The *wide* prior comes from hardware and architecture numbers and is given here. The
*population* narrows it with the constants of models that were fitted before; it is estimated by
`benchmarks.perf.population` and stored with the zoo.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.documents.source import packaged_toml
from morph_opt.inputs.perf.analytic.architecture import CONSTANT_NAMES, Architecture
from morph_opt.inputs.perf.parameters import PRIOR


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
    """Distribution of the constants of fitted models around the wide prior.

    Parameters
    ----------
    shift
        Mean of ``log(constant) - wide mean``, in the order of `Constants`.
    log_sd
        Standard deviation for a model that was not among them.
    """

    shift: Floats
    log_sd: Floats


@cache
def _tables() -> dict[str, dict[str, tuple[float, float]]]:
    return packaged_toml(__package__, "prior.toml")


def ideal_compute_s(architecture: Architecture) -> float:
    """Return seconds of both passes on one GPU at its peak (6 flops per weight, token)."""
    tokens = architecture.sequence * architecture.global_batch
    return 6.0 * architecture.parameters * tokens / PRIOR.peak_flops


def wide_prior(architecture: Architecture) -> Prior:
    """Return the prior from hardware and architecture numbers alone."""
    many = {
        "common": (1, 1),
        "per_billion": (architecture.parameters, 1e9),
        "per_layer": (architecture.layers, 1),
    }
    table = {
        name: (median * many[part][0] / many[part][1], sd)
        for part, rows in _tables().items()
        for name, (median, sd) in rows.items()
    }
    table["compute_s"] = (ideal_compute_s(architecture) / PRIOR.utilisation, PRIOR.compute_sd)
    return Prior(
        np.log([table[name][0] for name in CONSTANT_NAMES]),
        np.array([table[name][1] for name in CONSTANT_NAMES]),
    )


def prior(architecture: Architecture, population: Population | None = None) -> Prior:
    """Return the wide prior, narrowed by a population of fitted models if given."""
    wide = wide_prior(architecture)
    if population is None:
        return wide
    return Prior(wide.log_mean + population.shift, np.minimum(wide.log_sd, population.log_sd))
