"""Statistics of planning; every one takes the workload as its unit.

Jobs of one run depend on each other and are never pooled over runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_type
from morph_opt.plan.parameters import SEQUENTIAL
from morph_opt.plan.sequential import clean, error_of


def require_shares(**shares: float) -> None:
    """Check that every value is a share, and name the first that is not.

    Raises
    ------
    InputError
        If one is not between 0 and 1.
    """
    for name, value in shares.items():
        if not 0.0 < require_type(name, value, float) < 1.0:
            raise InputError(f"must be between 0 and 1, got {value:g}", field=name)


def needed(share: float, confidence: float, attempt: int = 1) -> int:
    """Return how many workloads confirm a share if all of them pass.

    For the k-th of several tests (`morph_opt.plan.sequential.error_of`), which together err with at
    most ``1 - confidence``. If some fail, more are needed.

    >>> [needed(share, 0.95) for share in (0.9, 0.95, 0.99)]
    [36, 72, 368]

    Parameters
    ----------
    share, confidence
        Share to confirm, and confidence level, both between 0 and 1.
    attempt
        Number of the test among several, from 1.

    Raises
    ------
    InputError
        If a share or confidence is not between 0 and 1, or the attempt not from 1 on.
    """
    require_shares(share=share, confidence=confidence)
    if attempt < 1:
        raise InputError(f"must be from 1 on, got {attempt}", field="attempt")
    return clean(share, error_of(confidence, attempt))


def share_at_least(passed: int, of: int, confidence: float) -> float:
    """Return the one-sided lower bound on a share (Clopper and Pearson 1934)."""
    test = stats.binomtest(passed, of, alternative="greater")
    return float(test.proportion_ci(confidence, method="exact").low)


def share_interval(passed: int, of: int, confidence: float) -> tuple[float, float]:
    """Return the two-sided exact interval of the share of workloads that pass."""
    found = stats.binomtest(passed, of).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


def mean_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return the two-sided interval of a mean: Student's t, or BCa from 20 workloads on.

    Percentiles of resampled means scatter with the variance of the sample, which is (n - 1) / n of
    its estimate, and know no t: BCa is asked for the normal quantile ``sqrt(n / (n - 1)) t`` in
    place of z, as Hesterberg 2015 widens percentile intervals. NaN with fewer than two values; a
    point where all are the same.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return math.nan, math.nan
    if float(np.ptp(sample)) == 0.0:
        return float(sample[0]), float(sample[0])
    if sample.size >= SEQUENTIAL.bootstrap:
        n = sample.size
        reach = math.sqrt(n / (n - 1)) * float(stats.t.ppf((1.0 + confidence) / 2.0, n - 1))
        found = stats.bootstrap(
            (sample,),
            np.mean,
            confidence_level=1.0 - 2.0 * float(stats.norm.sf(reach)),
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
        return float(found.low), float(found.high)
    low, high = stats.t.interval(
        confidence, sample.size - 1, loc=sample.mean(), scale=stats.sem(sample)
    )
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Paired:
    """Difference ``b - a`` of two variants over the same workloads.

    Parameters
    ----------
    pairs, mean, low, high
        Number of pairs, mean difference and its interval.
    p
        p-value of the exact sign-flip test, two-sided; NaN below 6 pairs, where 0.05 is out of its
        reach.
    gain
        Variance of the difference of unpaired workloads over that of the paired ones: how many
        times fewer replays common workloads need.
    """

    pairs: int
    mean: float
    low: float
    high: float
    p: float
    gain: float


def paired(a: Sequence[float], b: Sequence[float], confidence: float) -> Paired:
    """Compare two variants over the same workloads."""
    before, after = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    difference = after - before
    low, high = mean_interval(difference.tolist(), confidence)
    p = math.nan
    if difference.size >= 6:
        p = float(
            stats.permutation_test(
                (difference,),
                np.mean,
                permutation_type="samples",
                n_resamples=2**16,
                rng=np.random.default_rng(0),
            ).pvalue
        )
    gain = math.nan
    if difference.size >= 2 and float(difference.var()) > 0.0:
        gain = float((before.var(ddof=1) + after.var(ddof=1)) / difference.var(ddof=1))
    return Paired(int(difference.size), float(difference.mean()), low, high, p, gain)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for their number (Holm 1979); NaN stays and does not count."""
    known = sorted((value, name) for name, value in p.items() if not math.isnan(value))
    found, least = dict(p), 0.0
    for place, (value, name) in enumerate(known):
        least = max(least, min(1.0, (len(known) - place) * value))
        found[name] = least
    return found
