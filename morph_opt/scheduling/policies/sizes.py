"""Estimates of unknown job sizes: a regression on requests from censored data.

Page: ``docs/formulations/unknown-durations.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.parameters import Params, above, number
from formulations.tolerances import SMALLEST


@dataclass(frozen=True, slots=True)
class SizeParams(Params):
    """Prior of job sizes and effort of the fit (docs/formulations/unknown-durations.md)."""

    mean: float = number(float(np.log(1e4)), -np.inf)
    """Prior mean of the mean log size in GPU-seconds: ten thousand."""
    mean_sd: float = above(3.0)
    """Prior standard deviation of the mean log size: a factor of 20 either way."""
    slope: float = number(1.0, -np.inf)
    """Prior mean of the slope of log size on log GPUs: 1 if run times do not depend on GPUs."""
    slope_sd: float = above(0.5)
    """Prior standard deviation of the slope of log size on log GPUs."""
    spread: float = above(float(np.pi / np.sqrt(6.0)))
    """Prior median of the standard deviation of log size: its value for an exponential."""
    log_spread_sd: float = above(0.5)
    """Prior standard deviation of the logarithm of the spread of log size."""
    steps: int = number(60, 1)
    """Largest number of steps of the fit, which ends earlier when nothing moves."""
    damping: float = above(1e-3)
    """First damping of the Newton steps, in units of the curvature."""
    least_damping: float = above(1e-12)
    """Smallest damping, after steps that raised the density."""
    most_damping: float = above(1e12)
    """Damping at which the fit ends, after steps that did not raise the density."""
    still: float = number(1e-5)
    """Move of all coordinates that is the last: Newton steps square the distance."""
    told: float = above(4.0)
    """Number of jobs that the prior spread counts for in the residuals that the fit starts from."""
    quantiles: int = number(200, 2)
    """Number of equally likely parts of the distribution at whose ends a run interval may end."""


SIZES = SizeParams()


class Shape(ABC):
    """Distribution of the standardised log size z, of mean 0 and variance 1."""

    name: str

    @abstractmethod
    def density(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log density at z with its first and second derivative, each of shape (n,)."""

    @abstractmethod
    def survival(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log probability to exceed z with its two derivatives, shape (n,)."""

    @abstractmethod
    def above(self, chance: Floats) -> Floats:
        """Return the z that is exceeded with a probability in (0, 1), of any shape."""


class Weibull(Shape):
    """Distribution of the smallest extreme value: sizes are Weibull."""

    name = "weibull"

    _SCALE = SIZES.spread  # deviation of the smallest extreme value; its mean is minus Euler's
    _MEAN = -float(np.euler_gamma)

    def density(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """See `Shape`."""
        w = self._SCALE * z + self._MEAN
        grown = np.exp(np.minimum(w, 700.0))
        scale = self._SCALE
        return w - grown + np.log(scale), scale * (1.0 - grown), -(scale**2) * grown

    def survival(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """See `Shape`."""
        grown = np.exp(np.minimum(self._SCALE * z + self._MEAN, 700.0))
        return -grown, -self._SCALE * grown, -(self._SCALE**2) * grown

    def above(self, chance: Floats) -> Floats:
        """See `Shape`."""
        found: Floats = (np.log(-np.log(chance)) - self._MEAN) / self._SCALE
        return found


class LogNormal(Shape):
    """Normal distribution: sizes are lognormal."""

    name = "lognormal"

    def density(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """See `Shape`."""
        return -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi), -z, -np.ones_like(z)

    def survival(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """See `Shape`."""
        from scipy.special import log_ndtr

        log = log_ndtr(-z)
        hazard = np.exp(-0.5 * z**2 - log) / np.sqrt(2.0 * np.pi)
        return log, -hazard, -hazard * (hazard - z)

    def above(self, chance: Floats) -> Floats:
        """See `Shape`."""
        from scipy.special import ndtri

        return -np.asarray(ndtri(chance), dtype=np.float64)


SHAPES = (Weibull(), LogNormal())
"""Candidate distributions of sizes; the first wins a tie in likelihood."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Observed and censored sizes of jobs.

    Parameters
    ----------
    work
        GPU-seconds of each job: its size if it has completed, else its work so far, which its size
        exceeds; 0 carries no information. Shape (n,).
    log_gpus
        Logarithm of the requested GPUs of each job, shape (n,).
    complete
        Whether each has completed, shape (n,).
    """

    work: Floats
    log_gpus: Floats
    complete: Bools


@dataclass(frozen=True, slots=True)
class SizeModel:
    """Sizes given requests: ``log S = mean + slope (log g - centre) + spread z``.

    Parameters
    ----------
    mean, slope, spread
        Coefficients of the formula; spread is a standard deviation, above 0.
    centre
        Mean of the logarithms of requested GPUs.
    shape
        Law of z.
    """

    mean: float = SIZES.mean
    slope: float = SIZES.slope
    spread: float = SIZES.spread
    centre: float = 0.0
    shape: Shape = field(default=SHAPES[0], compare=False)

    @classmethod
    def fitted(cls, seen: Seen) -> SizeModel:
        """Return the model of largest posterior density, of the likelier shape.

        A censored accelerated-failure-time regression with normal priors on mean, slope and
        log spread, maximised by damped Newton steps (Kalbfleisch and Prentice 2002, chapter 3).
        """
        centre = float(seen.log_gpus.mean()) if seen.log_gpus.size else 0.0
        says = seen.work > 0.0
        x, y = seen.log_gpus[says] - centre, np.log(seen.work[says])
        done = seen.complete[says]
        found = [_maximised(shape, x[done], y[done], x[~done], y[~done]) for shape in SHAPES]
        best = 0 if found[0][0] >= found[1][0] else 1
        mean, slope, log_spread = found[best][1]
        return cls(float(mean), float(slope), float(np.exp(log_spread)), centre, SHAPES[best])

    def remaining(self, log_gpus: Floats, attained: Floats, start: Floats) -> Floats:
        """Return the work left, as the reciprocal Gittins index after ``attained``, shape (J,).

        It is the least over x of ``(s + E min(S - a, x)) / P(S - a <= x) - s``: the least work per
        completion if every run interval begins with a start of cost s. The start of the first
        interval is left out, because the scheduling rule adds it itself.

        Parameters
        ----------
        log_gpus
            Logarithms of requested GPUs, shape (J,).
        attained
            Work done, GPU-seconds, shape (J,).
        start
            Cost of a start in GPU-seconds, 0 for a running job; shape (J,).
        """
        mean = self.mean + self.slope * (log_gpus - self.centre)
        z = (np.log(np.maximum(attained, SMALLEST)) - mean) / self.spread
        ended = np.arange(1, SIZES.quantiles) / SIZES.quantiles
        larger = np.exp(self.shape.survival(z)[0])[:, None] * (1.0 - ended)
        z_ends = self.shape.above(np.clip(larger, SMALLEST, 1.0 - 1e-16))
        ends = np.exp(np.minimum(mean[:, None] + self.spread * z_ends, 700.0))
        left = np.maximum(ends - attained[:, None], 0.0)
        # The chance not to have completed falls evenly from one quantile to the next.
        spent = np.cumsum(
            np.diff(left, prepend=0.0) * (1.0 - ended + 0.5 / SIZES.quantiles), axis=1
        )
        least = ((start[:, None] + spent) / ended).min(axis=1) - start
        # Beyond all likely sizes, the work left equals the work done.
        remaining: Floats = np.where(larger[:, -1] < SMALLEST, attained, least)
        return remaining


def _maximised(
    shape: Shape, x: Floats, y: Floats, x_least: Floats, y_least: Floats
) -> tuple[float, Floats]:
    """Return the largest log posterior with its mean, slope and log spread.

    Parameters
    ----------
    x, y
        Centred log GPUs and log sizes of complete jobs, shape (n,).
    x_least, y_least
        Values of jobs that are known to be larger, shape (m,).
    """
    prior = np.array([SIZES.mean, SIZES.slope, np.log(SIZES.spread)])
    precision = np.array([SIZES.mean_sd, SIZES.slope_sd, SIZES.log_spread_sd]) ** -2.0
    groups = [
        (log_gpus, log_size, np.stack([np.ones_like(log_gpus), log_gpus, log_gpus]), law, densities)
        for log_gpus, log_size, law, densities in (
            (x, y, shape.density, 1.0),
            (x_least, y_least, shape.survival, 0.0),
        )
        if log_gpus.size
    ]
    prior_curve = -np.diag(precision)

    def at(point: Floats) -> tuple[float, Floats, Floats]:
        """Return the log posterior with gradient, shape (3,), and Hessian, shape (3, 3)."""
        away = point - prior
        value = float(-0.5 * precision @ away**2)
        slope, curve = -precision * away, prior_curve
        spread = np.exp(point[2])
        for log_gpus, log_size, falls, law, densities in groups:
            z = (log_size - point[0] - point[1] * log_gpus) / spread
            log, first, second = law(z)
            value += float(log.sum()) - densities * log_gpus.size * point[2]
            # z falls by 1 / spread with the mean, x / spread with the slope, z with log spread.
            by = falls / -spread
            np.negative(z, out=by[2])
            slope = slope + by @ first
            curve = curve + (by * second) @ by.T
            twice = -(by * first).sum(axis=1)  # of second derivatives of z, all with log spread
            curve[2, :] += twice
            curve[:2, 2] += twice[:2]
            slope[2] -= densities * log_gpus.size
        return value, slope, curve

    point = _start(np.append(x, x_least), np.append(y, y_least), prior, precision)
    value, slope, curve = at(point)
    damping = SIZES.damping
    for _ in range(SIZES.steps):
        # Away from the maximum the Hessian may not be negative definite: damp the step.
        step = _ascent(curve, slope, damping)
        if float(np.abs(step).max()) < SIZES.still:
            point = point + step
            break
        tried = at(point + step)
        if tried[0] >= value:
            point, (value, slope, curve) = point + step, tried
            damping = max(0.1 * damping, SIZES.least_damping)
        else:
            damping *= 10.0
            if damping > SIZES.most_damping:
                break
    return value, point


def _start(x: Floats, y: Floats, prior: Floats, precision: Floats) -> Floats:
    """Return the least-squares fit of all sizes under the prior, as if all jobs were complete.

    Both shapes have mean 0 and variance 1, so that it is near the maximum of either.
    """
    variance = SIZES.spread**2
    rows = np.stack([np.ones_like(x), x])
    curve = np.diag(precision[:2]) + rows @ rows.T / variance
    mean_slope = np.linalg.solve(curve, precision[:2] * prior[:2] + rows @ y / variance)
    rest = y - mean_slope @ rows
    spread = np.sqrt((rest @ rest + variance * SIZES.told) / (rest.size + SIZES.told))
    return np.append(mean_slope, np.log(spread))


def _ascent(curve: Floats, slope: Floats, damping: float) -> Floats:
    """Return a damped Newton step uphill, at most 2 in each coordinate."""
    values, vectors = np.linalg.eigh(curve)
    along = vectors.T @ slope / np.maximum(np.abs(values) * (1.0 + damping), SMALLEST)
    step: Floats = vectors @ along
    return step * min(1.0, 2.0 / max(float(np.abs(step).max()), SMALLEST)) / (1.0 + damping)
