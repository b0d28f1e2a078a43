"""Table of jobs by type, run time and size that has all published margins at once.

The aggregates of a cluster are margins: run times by type, jobs by size, GPU time by size and by
type, quartiles of sizes by type. Raking (iterative proportional fitting) finds the table that has
them and is otherwise as independent as it can be; where a margin is a mean, the factors are powers
of run time or GPU time (exponential tilting in the logarithm).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from formulations.arrays import Floats
from morph_opt.inputs.traces.cluster_twins.facts import ClusterFacts, load_facts

_SWEEPS = 400
_LONGEST_STEP = 0.5
"""Largest step of an exponent in one sweep, so that contradictory margins do not diverge."""
_LEAST_SLOPE = 0.3
_INSIDE = 0.01
"""Distance of a quartile from the edge of its size, as a share of the type's jobs."""


@cache
def joint_table(name: str) -> Floats:
    """Return shares of the jobs, shape ``(types, bins, sizes)``; they sum up to 1.

    Parameters
    ----------
    name
        Cluster, as in ``facts.toml``.
    """
    facts = load_facts()[name]
    by_type = np.asarray([one.jobs * one.run_share for one in facts.types])
    by_type /= by_type.sum()
    mean_s = facts.bin_mean_s
    # The mean run time and the shares of GPU time by size imply the total of GPU time.
    total = float(by_type.sum(0) @ mean_s) / float((facts.size_time / facts.sizes).sum())
    share: Floats = by_type[:, :, None] * facts.size_jobs
    size_mean_s = facts.size_time * total / (facts.sizes * facts.size_jobs)
    for _ in range(_SWEEPS):
        if len(facts.types) > 1:
            share = _with_type_times(share, facts, total)
            _force_quartiles(share, facts)
        share = _tilted(share, mean_s[:, None], size_mean_s, np.log(mean_s)[:, None], (0, 1))
        share *= facts.size_jobs / share.sum((0, 1))
        share *= (by_type / np.maximum(share.sum(2), 1e-300))[:, :, None]
    return np.asarray(share / share.sum(), dtype=np.float64)


def _with_type_times(share: Floats, facts: ClusterFacts, total: float) -> Floats:
    """Return the table with GPU time by type as published."""
    times = np.asarray([one.gpu_time for one in facts.types])
    gpu_s = facts.bin_mean_s[:, None] * facts.sizes
    wanted = times / times.sum() * total / share.sum((1, 2))
    return _tilted(share, gpu_s, wanted[:, None, None], np.log(gpu_s), (1, 2))


def _tilted(
    share: Floats, value: Floats, mean: Floats, score: Floats, axes: tuple[int, int]
) -> Floats:
    """Take one Newton step of ``share * exp(factor * score)`` towards wanted means."""
    jobs = share.sum(axes, keepdims=True)
    weight = share * value
    found = weight.sum(axes, keepdims=True)
    slope = (weight * score).sum(axes, keepdims=True) / found - (share * score).sum(
        axes, keepdims=True
    ) / jobs
    factor = (np.log(mean) - np.log(found / jobs)) / np.maximum(slope, _LEAST_SLOPE)
    step = np.clip(factor, -_LONGEST_STEP, _LONGEST_STEP)
    return np.asarray(share * np.exp(step * (score - score.mean())), dtype=np.float64)


def _force_quartiles(share: Floats, facts: ClusterFacts) -> None:
    """Move jobs of each type below or above its quartiles of size, in place."""
    for number, one in enumerate(facts.types):
        for level, size in zip((0.25, 0.5, 0.75), one.quartiles, strict=True):
            for below, wanted, sign in (
                (facts.sizes <= size, level + _INSIDE, 1),
                (facts.sizes < size, level - _INSIDE, -1),
            ):
                part = share[number]
                found = float(part[:, below].sum() / part.sum())
                if sign * (wanted - found) > 0 and 0.0 < found < 1.0:
                    part[:, below] *= wanted / found
                    part[:, ~below] *= (1.0 - wanted) / (1.0 - found)
