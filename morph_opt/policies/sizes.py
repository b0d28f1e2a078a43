"""What jobs of unknown size have left: a lognormal fitted to complete and unfinished jobs alike.

Page: ``docs/formulations/unknown-durations.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from formulations.arrays import Floats

EM_STEPS = 50
"""At most so many steps of the fit; it ends before when nothing moves."""

QUANTILES = 200
"""Parts of the distribution, each as likely, at whose ends a stint may end."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Sizes whose logarithms are normal with this mean and spread."""

    mean: float
    spread: float

    @classmethod
    def fitted(cls, sizes: Floats, weight: Floats, attained: Floats) -> LogNormal:
        """The likeliest one (EM).

        Parameters
        ----------
        sizes, weight
            Of complete jobs and how much each counts, shape (n,); not empty.
        attained
            Jobs that are larger than this, one each: work done by those that have not completed,
            shape (m,). What is 0 says nothing.
        """
        known, least = np.log(sizes), np.log(attained[attained > 0.0])
        total = float(weight.sum())
        mean = float(weight @ known) / total
        spread = float(np.sqrt(weight @ (known - mean) ** 2 / total))
        for _ in range(EM_STEPS if least.size else 0):
            # Moments of a normal above a bound.
            bound = (least - mean) / spread
            ratio = np.exp(-0.5 * bound**2 - log_ndtr(-bound)) / np.sqrt(2.0 * np.pi)
            above = mean + spread * ratio
            variance = spread**2 * np.maximum(1.0 + bound * ratio - ratio**2, 0.0)
            count = total + least.size
            after = (float(weight @ known) + float(above.sum())) / count
            squares = float(weight @ (known - after) ** 2)
            squares += float((variance + (above - after) ** 2).sum())
            moved = abs(after - mean) + abs(np.sqrt(squares / count) - spread)
            mean, spread = after, float(np.sqrt(squares / count))
            if moved < 1e-6:
                break
        return cls(mean, spread)

    def rest(self, attained: Floats, start: Floats) -> Floats:
        """Work left of jobs larger than this, as the reciprocal of the Gittins index.

        The least over x of ``(s + E min(S - a, x)) / P(S - a <= x) - s``: the least work to be
        spent per completion if every stint has to begin with a start of s, but for the start of
        the first, which whoever schedules adds himself.

        Parameters
        ----------
        attained
            Work done, shape (J,).
        start
            What a start costs, in the same unit; 0 for who runs, shape (J,).
        """
        bound = (np.log(np.maximum(attained, 1e-300)) - self.mean) / self.spread
        ended = np.arange(1, QUANTILES) / QUANTILES
        larger = ndtr(-bound)[:, None] * (1.0 - ended)
        found = np.exp(self.mean - self.spread * ndtri(np.maximum(larger, 1e-300)))
        left = np.maximum(found - attained[:, None], 0.0)
        # The chance not to have completed falls evenly from one quantile to the next.
        spent = np.cumsum(np.diff(left, prepend=0.0) * (1.0 - ended + 0.5 / QUANTILES), axis=1)
        least = ((start[:, None] + spent) / ended).min(axis=1) - start
        # Beyond whatever is likely at all, as much as was done.
        found_none = larger[:, -1] < 1e-300
        rest: Floats = np.where(found_none, attained, least)
        return rest
