"""Choice of the runs to profile next, which reduce the uncertainty of predictions most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations import tolerances
from formulations.arrays import Floats, Ints
from morph_opt.core.domain import ExecutionPlan, InputError
from morph_opt.inputs.perf.analytic.architecture import PARTS
from morph_opt.inputs.perf.analytic.phases import Timers, booked
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.errors import (
    Evaluator,
    Outputs,
    covariance_between,
    own_variance,
)
from morph_opt.inputs.perf.fitting.fit import Fit
from morph_opt.inputs.perf.parameters import DESIGN


@dataclass(frozen=True, slots=True)
class _World:
    """Possible truth, given by covariances of outputs.

    Parameters
    ----------
    covariance
        Covariance of the outputs' logarithms, given the runs so far; changed in place.
    own
        Variance of a measurement of each output.
    """

    covariance: Floats
    own: Floats

    def learn(self, outputs: Ints) -> None:
        """Update on a measurement of these outputs."""
        for index in outputs:
            column = self.covariance[:, index].copy()
            scaled = column / (column[index] + self.own[index])
            np.subtract(self.covariance, np.outer(column, scaled), out=self.covariance)

    def gain(self, totals: Ints, outputs: Ints) -> float:
        """Return the share of the mean standard deviation that measuring would remove."""
        variance = self.covariance[totals, totals]
        cross = self.covariance[np.ix_(totals, outputs)]
        block = self.covariance[np.ix_(outputs, outputs)] + np.diag(self.own[outputs])
        lower = np.einsum("ij,ji->i", cross, np.linalg.solve(block, cross.T))
        before = np.sqrt(variance)
        return float(1 - np.sqrt(np.maximum(0.0, variance - lower)).sum() / before.sum())


def choose_runs(
    belief: Fit,
    candidates: Sequence[Pair],
    count: int,
    *,
    seed: int = DESIGN.seed,
    timers: Timers | None = None,
) -> list[int]:
    """Return indices of the candidates to run next, most useful first.

    Greedy reduction of the mean standard deviation of log-time over all candidates, on the model
    linearised at the present belief and at truths drawn from it. The errors of the model
    itself are part of the variance, so that the design spreads over plans and shapes.
    Deterministic for a seed.

    Parameters
    ----------
    belief
        Fit of the runs so far; a fit of no runs is the prior.
    candidates
        Configurations that can be run; those in ``belief.runs`` are not chosen again.
    count
        Runs to choose.
    timers
        Kind of the runs' timers; None if they report the iteration time only.

    Raises
    ------
    InputError
        If there are fewer candidates than runs to choose.
    """
    seen = {(run.shape, run.plan) for run in belief.runs}
    free = np.array([pair not in seen for pair in candidates], dtype=bool)
    if free.sum() < count:
        raise InputError(f"asks for {count} runs, but only {free.sum()} are left", field="count")
    outputs = Outputs.of(candidates, [_parts_of(plan, timers) for _, plan in candidates])
    groups = [np.flatnonzero(outputs.at == index) for index in range(len(candidates))]
    totals = np.array([group[0] for group in groups])
    # the total is what phases sum up to
    measured = [group[1:] if len(group) > 1 else group for group in groups]
    worlds = _worlds(belief, outputs, seed)
    for index in np.flatnonzero(~free):
        for world in worlds:
            world.learn(measured[index])
    chosen: list[int] = []
    for _ in range(count):
        gains = np.array(
            [
                sum(world.gain(totals, outputs) for world in worlds) if left else -1.0
                for left, outputs in zip(free, measured, strict=True)
            ]
        )
        best = int(np.argmax(np.round(gains / gains.max(), tolerances.DECIMALS)))
        chosen.append(best)
        free[best] = False
        for world in worlds:
            world.learn(measured[best])
    return chosen


def _parts_of(plan: ExecutionPlan, timers: Timers | None) -> list[tuple[str, ...]]:
    """Return the parts of each output: the iteration, and the phases if runs report them."""
    phases = booked(plan, timers) if timers else ()
    return [PARTS, *(parts for parts in phases if parts)]


def _worlds(belief: Fit, outputs: Outputs, seed: int) -> list[_World]:
    """Return possible truths: the most probable one, and draws from the belief."""
    known = Evaluator(belief.architecture, outputs)
    before = np.diag(belief.prior.log_sd**2)
    root = np.linalg.cholesky(belief.log_covariance)
    draws = max(1, min(DESIGN.truths, DESIGN.numbers // len(outputs.at) ** 2))
    steps = np.random.default_rng(seed).normal(size=(draws, len(root)))
    steps = np.clip(steps, -DESIGN.clip, DESIGN.clip)
    found = []
    for truth in (belief.log_constants, *(belief.log_constants + root @ step for step in steps)):
        slope = known.jacobian(truth)[1]
        share, size = known.shares(truth)
        errors = covariance_between(outputs, share, outputs, share, belief.errors)
        own = own_variance(outputs, share, size, belief.errors)
        found.append(_World(slope @ before @ slope.T + errors, own))
    return found
