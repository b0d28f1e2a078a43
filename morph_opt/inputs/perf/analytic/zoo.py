"""Built-in models: architectures, fitted constants and supports from ``zoo.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from morph_opt.core.documents.source import packaged_text
from morph_opt.inputs.perf.analytic.model import AnalyticModel
from morph_opt.inputs.perf.analytic.modelfile import entries_of, population_of
from morph_opt.inputs.perf.analytic.prior import Population

ZOO_FILE = "zoo.toml"


@lru_cache(maxsize=1)
def builtin_model() -> AnalyticModel:
    """Return the speed model of the built-in zoo on A800 nodes; one shared, immutable object.

    Its constants are fitted to the public Morphling measurements by
    ``python -m benchmarks.perf fit-zoo``; it is the truth of the project's twin traces.
    """
    return AnalyticModel(entries_of(zoo_text(), ZOO_FILE), name="model")


def zoo_on(gpu_speed: Mapping[str, float]) -> AnalyticModel:
    """Return the built-in zoo on further GPU types, by compute speed relative to an A800."""
    return AnalyticModel(entries_of(zoo_text(), ZOO_FILE), name="model", gpu_speed=gpu_speed)


@lru_cache(maxsize=1)
def builtin_population() -> Population:
    """Return the distribution of the zoo's constants: the prior of a new model."""
    return population_of(zoo_text(), ZOO_FILE)


def zoo_text() -> str:
    """Return the content of the zoo's model file."""
    return packaged_text(__package__, ZOO_FILE)
