"""Fit the constants of one model to profiled runs: robust least squares on logarithms.

Every constant has a log-normal prior (`morph_opt.perf.prior`), so that a few runs suffice: what
the runs do not tell stays at the prior, and its uncertainty stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.optimize import least_squares

from morph_opt.domain import InputError
from morph_opt.perf.analytic import (
    CONSTANT_NAMES,
    Architecture,
    Array,
    Constants,
    Features,
    predict_s,
)
from morph_opt.perf.discrepancy import SCALES, Pair, Scales, covariance, variance
from morph_opt.perf.prior import Prior, prior
from morph_opt.perf.runs import Run

BOUND = 6.0
"""Constants stay within this many prior standard deviations."""

SOFT = 2.0
"""Whitened residuals beyond this count linearly, not squared."""

CORRECTION_LIMIT = 0.15
"""A run moves the prediction of its neighbours by no more than this (natural logarithm)."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted times and how sure they are.

    Parameters
    ----------
    iteration_s
        Median of the prediction, shape (rows,).
    log_sd
        Standard deviation of its natural logarithm: 0.05 is about 5 %. Shape (rows,).
    """

    iteration_s: Array
    log_sd: Array


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants with their uncertainty.

    Parameters
    ----------
    architecture
        The model.
    log_constants
        Most probable logarithms, in the order of `Constants`.
    log_covariance
        Their covariance (Laplace approximation), shape (constants, constants).
    prior
        What was believed before.
    runs
        The runs that it was fitted on.
    scales
        Size of the model's errors.
    """

    architecture: Architecture
    log_constants: Array
    log_covariance: Array
    prior: Prior
    runs: tuple[Run, ...]
    scales: Scales = SCALES

    @property
    def constants(self) -> Constants:
        """The most probable constants."""
        values = np.exp(self.log_constants)
        return Constants(**{n: float(v) for n, v in zip(CONSTANT_NAMES, values, strict=True)})

    def told(self) -> dict[str, float]:
        """Share of each constant's prior variance that the runs removed, 0 to 1."""
        left = np.diag(self.log_covariance) / self.prior.log_sd**2
        return {n: float(1 - v) for n, v in zip(CONSTANT_NAMES, left, strict=True)}

    def predict(self, pairs: Sequence[Pair]) -> Prediction:
        """Times of configurations, corrected by what the runs showed of the model's errors."""
        features = Features.of(pairs)
        base, slope = jacobian(self.architecture, self.log_constants, features)
        spread = np.einsum("ij,jk,ik->i", slope, self.log_covariance, slope)
        own = variance(pairs, self.scales)
        if self.runs:
            seen = [(run.shape, run.plan) for run in self.runs]
            cross = covariance(pairs, seen, self.scales)
            factor = cho_factor(_noise(seen, self.scales))
            gap = np.array([run.log_s for run in self.runs]) - _log_times(
                self.architecture, self.log_constants, Features.of(seen)
            )
            limited = np.clip(gap, -CORRECTION_LIMIT, CORRECTION_LIMIT)
            base = base + cross @ cho_solve(factor, limited)
            own -= np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
        return Prediction(np.exp(base), np.sqrt(np.maximum(0.0, spread + own) + self.scales.run**2))


def fit(
    architecture: Architecture,
    runs: Sequence[Run],
    belief: Prior | None = None,
    scales: Scales = SCALES,
) -> Fit:
    """Constants that explain the runs, as far as the runs tell and the prior elsewhere.

    Minimises a soft-l1 loss of ``log(predicted / measured)``, whitened by the covariance of the
    model's errors, plus the squared distance from the prior in its standard deviations, within
    `BOUND`. Deterministic.

    Parameters
    ----------
    belief
        Prior; the wide one if None.
    """
    belief = belief or prior(architecture)
    if not runs:
        return Fit(architecture, belief.log_mean, np.diag(belief.log_sd**2), belief, (), scales)
    pairs = [(run.shape, run.plan) for run in runs]
    features = Features.of(pairs)
    measured = np.array([run.log_s for run in runs])
    noise = _noise(pairs, scales)
    whiten = np.linalg.inv(cholesky(noise, lower=True))

    def residuals(z: Array) -> Array:
        constants = belief.log_mean + belief.log_sd * z
        gap = _log_times(architecture, constants, features) - measured
        raw = whiten @ gap / SOFT
        # soft l1 written as a residual, because scipy's loss would also soften the prior
        soft = SOFT * np.sign(raw) * np.sqrt(2 * (np.sqrt(1 + raw**2) - 1))
        return np.concatenate([soft, z])

    found = least_squares(residuals, np.zeros(len(CONSTANT_NAMES)), bounds=(-BOUND, BOUND))
    if not found.success:
        raise InputError(f"the fit did not converge: {found.message}", field="runs")
    best = belief.log_mean + belief.log_sd * found.x
    _, slope = jacobian(architecture, best, features)
    precision = np.diag(1 / belief.log_sd**2) + slope.T @ cho_solve(cho_factor(noise), slope)
    return Fit(architecture, best, np.linalg.inv(precision), belief, tuple(runs), scales)


def of_constants(architecture: Architecture, constants: Constants) -> Fit:
    """A fit that knows constants and not the runs behind them: its only doubt is the model's."""
    values = np.log(constants.vector())
    nothing = np.zeros((len(values), len(values)))
    return Fit(architecture, values, nothing, prior(architecture), ())


def jacobian(
    architecture: Architecture, log_constants: Array, features: Features, step: float = 1e-4
) -> tuple[Array, Array]:
    """Logarithms of the predicted times and their derivatives by the constants' logarithms.

    Returns
    -------
    tuple
        Shapes (rows,) and (rows, constants).
    """
    base = _log_times(architecture, log_constants, features)
    slope = np.empty((len(features), len(log_constants)))
    for index in range(len(log_constants)):
        moved = log_constants.copy()
        moved[index] += step
        slope[:, index] = (_log_times(architecture, moved, features) - base) / step
    return base, slope


def _log_times(architecture: Architecture, log_constants: Array, features: Features) -> Array:
    times: Array = np.log(predict_s(architecture, np.exp(log_constants), features))
    return times


def _noise(pairs: Sequence[Pair], scales: Scales) -> Array:
    noise: Array = covariance(pairs, pairs, scales) + scales.run**2 * np.eye(len(pairs))
    return noise
