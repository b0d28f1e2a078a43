"""Which runs to profile next: those that reduce the uncertainty of all predictions most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from morph_opt.domain import InputError
from morph_opt.perf.analytic import Array, Features
from morph_opt.perf.discrepancy import Pair, covariance
from morph_opt.perf.fit import Fit, jacobian

DRAWS = 32
"""Possible truths over which a design is averaged."""

CLIP = 1.5
"""Draws stay within this many standard deviations, so that no freak truth rules the design."""

SEED = 1


def choose_runs(
    belief: Fit, candidates: Sequence[Pair], count: int, *, draws: int = DRAWS, seed: int = SEED
) -> list[int]:
    """Indices of the candidates to run next, most useful first.

    Greedy reduction of the mean variance of log-time over all candidates (I-optimal design), on
    the model linearised at the present belief and at ``draws`` truths drawn from it. The errors
    of the model itself are part of the variance, so that the design spreads over plans and shapes.
    Deterministic for a seed.

    Parameters
    ----------
    belief
        Fit of the runs so far; a fit of no runs is the prior.
    candidates
        Configurations that can be run; those in ``belief.runs`` are not chosen again.
    count
        Runs to choose.

    Raises
    ------
    InputError
        If fewer candidates are left than runs are asked for.
    """
    seen = {(run.shape, run.plan) for run in belief.runs}
    free = np.array([pair not in seen for pair in candidates], dtype=bool)
    if free.sum() < count:
        raise InputError(f"asks for {count} runs, {free.sum()} are left", field="count")
    worlds = [
        _condition_on_seen(world, candidates, belief)
        for world in _worlds(belief, candidates, draws, seed)
    ]
    noise = belief.scales.run**2
    chosen: list[int] = []
    for _ in range(count):
        gain = np.zeros(len(candidates))
        for world in worlds:
            variance = np.diag(world)
            gain += (world**2).sum(axis=0) / (variance + noise) / variance.sum()
        gain[~free] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        free[best] = False
        worlds = [_condition(world, best, noise) for world in worlds]
    return chosen


def _worlds(belief: Fit, candidates: Sequence[Pair], draws: int, seed: int) -> list[Array]:
    """Covariance of the candidates' log-times before their runs, one matrix per possible truth."""
    features = Features.of(candidates)
    errors = covariance(candidates, candidates, belief.scales)
    before = np.diag(belief.prior.log_sd**2)
    root = np.linalg.cholesky(belief.log_covariance)
    steps = np.clip(np.random.default_rng(seed).normal(size=(draws, len(root))), -CLIP, CLIP)
    truths = [belief.log_constants, *(belief.log_constants + root @ step for step in steps)]
    slopes = [jacobian(belief.architecture, truth, features)[1] for truth in truths]
    return [slope @ before @ slope.T + errors for slope in slopes]


def _condition_on_seen(world: Array, candidates: Sequence[Pair], belief: Fit) -> Array:
    places = {pair: index for index, pair in enumerate(candidates)}
    for run in belief.runs:
        index = places.get((run.shape, run.plan))
        if index is not None:
            world = _condition(world, index, belief.scales.run**2)
    return world


def _condition(world: Array, index: int, noise: float) -> Array:
    """The covariance once the candidate ``index`` has been run."""
    column = world[:, index]
    left: Array = world - np.outer(column, column) / (column[index] + noise)
    return left
