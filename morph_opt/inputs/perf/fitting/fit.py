"""Fit the constants of one model to profiled runs: robust least squares on logarithms.

Every constant has a log-normal prior (`morph_opt.inputs.perf.analytic.prior`), so that a few runs
suffice: constants that the runs do not determine keep their prior and its uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.optimize import least_squares

from formulations.arrays import Floats
from morph_opt.core.domain import InputError
from morph_opt.inputs.perf.analytic.architecture import CONSTANT_NAMES, Architecture, Constants
from morph_opt.inputs.perf.analytic.prior import Prior, prior
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.errors import (
    ERRORS,
    Errors,
    Evaluator,
    Outputs,
    covariance_between,
    observed,
    own_variance,
)
from morph_opt.inputs.perf.fitting.runs import Run
from morph_opt.inputs.perf.parameters import FIT


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted times with their uncertainty.

    Parameters
    ----------
    iteration_s
        Median of the prediction, shape (rows,).
    log_sd
        Standard deviation of its natural logarithm: 0.05 is about 5 %. Shape (rows,).
    """

    iteration_s: Floats
    log_sd: Floats


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
        Prior of the constants.
    runs
        Runs of the fit.
    errors
        Sizes of the model's errors.
    """

    architecture: Architecture
    log_constants: Floats
    log_covariance: Floats
    prior: Prior
    runs: tuple[Run, ...]
    errors: Errors = ERRORS

    @property
    def constants(self) -> Constants:
        """Most probable constants."""
        values = np.exp(self.log_constants)
        return Constants(**{n: float(v) for n, v in zip(CONSTANT_NAMES, values, strict=True)})

    def determined(self) -> dict[str, float]:
        """Return the share of each constant's prior variance that the runs removed, 0 to 1."""
        left = np.diag(self.log_covariance) / self.prior.log_sd**2
        return {n: float(1 - v) for n, v in zip(CONSTANT_NAMES, left, strict=True)}

    def predict(self, pairs: Sequence[Pair]) -> Prediction:
        """Return predicted times of configurations, corrected by the residuals of the runs."""
        wanted = Evaluator(self.architecture, Outputs.totals(pairs))
        base, slope = wanted.jacobian(self.log_constants)
        share, size = wanted.shares(self.log_constants)
        variance = np.einsum("ij,jk,ik->i", slope, self.log_covariance, slope)
        variance += own_variance(wanted.outputs, share, size, self.errors)
        variance += _shared_variance(wanted.outputs, share, self.errors)
        if self.runs:
            outputs, measured = observed(self.runs)
            seen = Evaluator(self.architecture, outputs)
            noise = _noise(seen, self.log_constants, self.errors)
            cross = covariance_between(
                wanted.outputs, share, outputs, seen.shares(self.log_constants)[0], self.errors
            )
            factor = cho_factor(noise)
            limit = np.maximum(FIT.correction, 2 * np.sqrt(np.diag(noise)))
            gap = np.clip(measured - seen.logs(self.log_constants), -limit, limit)
            base = base + cross @ cho_solve(factor, gap)
            variance -= np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
        return Prediction(np.exp(base), np.sqrt(np.maximum(0.0, variance)))


def fit(
    architecture: Architecture,
    runs: Sequence[Run],
    belief: Prior | None = None,
    errors: Errors = ERRORS,
) -> Fit:
    """Fit the constants to the runs and the prior.

    Minimises a soft-l1 loss of ``log(predicted / measured)`` of phases, or of iteration times
    where a run has none, whitened by the covariance of the model's errors, plus the squared
    distance from the prior in its standard deviations, within `FitParams.bound`. Deterministic.

    Parameters
    ----------
    belief
        Prior; the wide one if None.
    """
    belief = belief or prior(architecture)
    if not runs:
        return Fit(architecture, belief.log_mean, np.diag(belief.log_sd**2), belief, (), errors)
    outputs, measured = observed(runs)
    seen = Evaluator(architecture, outputs)
    z = np.zeros(len(CONSTANT_NAMES))
    for _ in range(FIT.passes):
        noise = _noise(seen, belief.log_mean + belief.log_sd * z, errors)
        z = _solve(seen, measured, belief, noise, z)
    best = belief.log_mean + belief.log_sd * z
    _, slope = seen.jacobian(best)
    precision = np.diag(1 / belief.log_sd**2) + slope.T @ cho_solve(cho_factor(noise), slope)
    return Fit(architecture, best, np.linalg.inv(precision), belief, tuple(runs), errors)


def _solve(
    seen: Evaluator, measured: Floats, belief: Prior, noise: Floats, start: Floats
) -> Floats:
    """Return the most probable constants, in prior standard deviations from the prior."""
    whiten = np.linalg.inv(cholesky(noise, lower=True))

    def residuals(z: Floats) -> Floats:
        gap = seen.logs(belief.log_mean + belief.log_sd * z) - measured
        raw = whiten @ gap / FIT.soft
        # soft l1 written as a residual, because scipy's loss would also soften the prior
        soft = FIT.soft * np.sign(raw) * np.sqrt(2 * (np.sqrt(1 + raw**2) - 1))
        return np.concatenate([soft, z])

    inside = np.clip(start, -FIT.bound + FIT.inside, FIT.bound - FIT.inside)
    found = least_squares(residuals, inside, bounds=(-FIT.bound, FIT.bound))
    if not found.success:
        raise InputError(f"the fit did not converge: {found.message}", field="runs")
    solution: Floats = found.x
    return solution


def of_constants(architecture: Architecture, constants: Constants) -> Fit:
    """Return a fit with given constants and no runs, in which only the model is uncertain."""
    values = np.log(constants.vector())
    nothing = np.zeros((len(values), len(values)))
    return Fit(architecture, values, nothing, prior(architecture), ())


def _noise(seen: Evaluator, log_constants: Floats, errors: Errors) -> Floats:
    """Return the covariance of observations around the model, shape (outputs, outputs)."""
    share, size = seen.shares(log_constants)
    noise = covariance_between(seen.outputs, share, seen.outputs, share, errors)
    noise += np.diag(own_variance(seen.outputs, share, size, errors))
    return noise


def _shared_variance(outputs: Outputs, share: Floats, errors: Errors) -> Floats:
    """Return the diagonal of `covariance_between` of outputs with themselves, in blocks."""
    blocks = []
    for first in range(0, len(outputs.at), FIT.block):
        at = outputs.at[first : first + FIT.block]
        part = Outputs(
            tuple(outputs.pairs[i] for i in at),
            np.arange(len(at)),
            outputs.mask[first : first + FIT.block],
        )
        mine = share[first : first + FIT.block]
        blocks.append(np.diag(covariance_between(part, mine, part, mine, errors)))
    return np.concatenate(blocks) if blocks else np.zeros(0)
