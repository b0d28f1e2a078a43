"""Estimate how constants vary from model to model: empirical Bayes over fitted models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.perf.complete import INDEPENDENT
from morph_opt.inputs.perf.analytic.architecture import CONSTANT_NAMES, Architecture
from morph_opt.inputs.perf.analytic.prior import Population, prior, wide_prior
from morph_opt.inputs.perf.fitting.fit import fit
from morph_opt.inputs.perf.fitting.runs import Run

ROUNDS = 2
"""Alternations between fitting the models and estimating their population; more change nothing."""

NARROWEST = 0.4
"""A population is never narrower than this share of the wide prior: few models tell no tails."""

PSEUDO_SD = 0.15
"""Standard deviation of the one pseudo-model that keeps a population from collapsing."""


def population(models: Sequence[tuple[Architecture, Sequence[Run]]]) -> Population:
    """Population of the constants of models with complete tables.

    Every model counts for a constant as much as its runs tell of it (see `Fit.told`). A constant
    of which no model tells anything keeps the wide prior.

    Parameters
    ----------
    models
        Architecture and runs of each.
    """
    wide = [wide_prior(architecture) for architecture, _ in models]
    wide_sd = wide[0].log_sd
    found = Population(np.zeros(len(CONSTANT_NAMES)), wide_sd.copy())
    for _ in range(ROUNDS):
        fits = [fit(arch, runs, prior(arch, found), INDEPENDENT) for arch, runs in models]
        shifts = np.array([f.log_constants - w.log_mean for f, w in zip(fits, wide, strict=True)])
        determined = np.array(
            [[max(0.0, share) for share in f.determined().values()] for f in fits]
        )
        count = determined.sum(axis=0)
        mean = (shifts * determined).sum(axis=0) / (count + 0.1)
        squares = ((shifts - mean) ** 2 * determined).sum(axis=0)
        variance = (squares + np.minimum(PSEUDO_SD, wide_sd) ** 2) / (count + 1)
        # the last factor stands for the heavier tails of a variance that is known from few models
        spread = np.sqrt(variance * (1 + 1 / (count + 1)) * (count + 3) / (count + 1))
        # a constant that few models tell of stays near the wide prior (geometric mean)
        weight = count / (count + 0.5)
        mixed = np.exp(weight * np.log(spread) + (1 - weight) * np.log(wide_sd))
        found = Population(mean, np.clip(mixed, NARROWEST * wide_sd, wide_sd))
    return found
