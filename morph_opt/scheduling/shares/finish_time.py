"""Smallest largest finish-time ratio: by tangents, and by bisection at the limit of precision.

With ``q = 1 / ratio`` the demand of job j is ``r_j / (D_j / q - t_j)``: its remaining steps over
the time that is left to it. For a job that has waited much longer than it still has to run, that
time is a difference of two large numbers. It is therefore computed from ``1/q`` less the ratio that
every job needs alone, so that it never falls below the time on the fastest type.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats
from formulations.shares.model import fastest
from formulations.shares.problem import ShareProblem, isolated_rates
from formulations.tolerances import SMALLEST
from morph_opt.scheduling.shares.max_min import Solve
from morph_opt.scheduling.shares.packed_max_min import raise_rates
from morph_opt.scheduling.shares.parameters import FINISH_TIMES


class FinishTimes:
    """Search state: the best shares, their ``1 / ratio``, and the bound on it."""

    def __init__(
        self,
        problem: ShareProblem,
        steps_left: Floats,
        since_s: Floats,
        isolated_s: Floats,
        solve: Solve,
    ) -> None:
        self.problem, self.solve = problem, solve
        self.steps_left, self.since_s = steps_left, since_s
        self.fair_s = isolated_s + steps_left / isolated_rates(problem)
        self._alone_s = steps_left / fastest(problem)
        self._least = float(((since_s + self._alone_s) / self.fair_s).max())
        self.reached, self.bound = 0.0, 1.0 / self._least
        self.shares = (np.zeros((0, 0)), np.zeros((0, 0)))
        self.solves = 0

    def left_s(self, ratio: float) -> Floats:
        """Return the seconds that a ratio leaves each job, at least those it needs alone."""
        slack = np.maximum(self._least * self.fair_s - self.since_s, self._alone_s)
        return np.asarray((ratio - self._least) * self.fair_s + slack)

    def run(self) -> None:
        """Search until the bound is met."""
        self._follow_tangents()
        if self.bound - self.reached > FINISH_TIMES.proven * self.bound:
            self._bisect()

    def _take(self, x: Floats, y: Floats) -> None:
        rates = np.maximum(self.problem.rates(x, y), SMALLEST)
        reached = 1.0 / float(((self.since_s + self.steps_left / rates) / self.fair_s).max())
        if reached > self.reached:
            self.reached, self.shares = reached, (x, y)

    def _follow_tangents(self) -> None:
        """Run Newton's method on the convex demands, from above."""
        q, prices, top = 0.0, None, self.bound
        for _ in range(FINISH_TIMES.turns):
            room = self.fair_s - q * self.since_s
            if q > 0.0:
                room = np.maximum(room, q * self._alone_s)
            slope = self.steps_left * self.fair_s / room**2
            base = -self.steps_left * self.since_s * (q / room) ** 2
            try:
                raised, y = raise_rates(self.problem, slope, self.solve, base, prices)
            except ValueError:
                return
            self.solves += raised.solves
            self._take(raised.x, y)
            # A tangent that has lost its digits bounds nothing.
            self.bound = max(self.reached, min(self.bound, raised.bound, top))
            prices = raised.prices if raised.prices.any() else None
            proven = self.bound - self.reached <= FINISH_TIMES.proven * self.bound
            if proven or min(raised.level, top) >= q > 0.0:
                return
            q = min(raised.level, top)

    def _bisect(self) -> None:
        """Bisect between the ratios that jobs need alone and the ratio that the shares reach."""
        self.bound = 1.0 / self._least
        for _ in range(FINISH_TIMES.halvings):
            low, high = 1.0 / self.bound, 1.0 / self.reached
            if high - low <= FINISH_TIMES.proven * high:
                return
            ratio = (low + high) / 2.0 if high < 2.0 * low else float(np.sqrt(low * high))
            raised, y = raise_rates(self.problem, self.steps_left / self.left_s(ratio), self.solve)
            self.solves += raised.solves
            self._take(raised.x, y)
            if raised.bound < 1.0:
                self.bound = 1.0 / ratio
            elif raised.level < 1.0 - FINISH_TIMES.proven:
                return
