"""Sequential test of a share of workloads, with both errors exact.

Workloads pass or fail on their own; the share p that passes is unknown. After n workloads of which
f failed, a test of the wanted share g at an error e confirms

* where none of the first n0 failed, with ``g^n0 <= 2/3 e`` (`clean`): what hardly ever fails; or
* where the likelihood ratio of g + d against g (Wald 1945),
  ``((g + d) / g)^(n - f) ((1 - g - d) / (1 - g))^f``, reaches A: what passes in g + d;

and refuses where that ratio falls to half the error that is allowed at g + d, or where the design's
workloads are used up. Under p <= g the ratio is a supermartingale that begins at 1 and reaches A
with a probability of at most 1/A (Ville 1939), so that ``A = 3 / e`` keeps the error; the inverse
holds at g + d. What these inequalities leave is taken up by enumeration: dynamic programming sums
over all paths of failures, and A is lowered until the exact error at g is just within e. Fewer
failures never confirm less, so that the error is largest at g.

Workloads that a batch had beyond the decision do not count, and a test that is broken off has not
confirmed: both only lower the error of "confirmed".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import InputError
from morph_opt.plan.parameters import SEQUENTIAL


def error_of(confidence: float, attempt: int) -> float:
    """Return the error of the k-th of several tests: 3/4 of what earlier tests left.

    All together err with at most ``1 - confidence``, under any dependence (Bonferroni).
    """
    return 0.75 * (1.0 - confidence) / 4.0 ** (attempt - 1)


def clean(share: float, error: float) -> int:
    """Return how many workloads confirm a share if all pass, at two thirds of the error."""
    return math.ceil(math.log(error * 2.0 / 3.0) / math.log(share) - 1e-9)


def usual_margin(share: float) -> float:
    """Return `SequentialParams.margin`, or half of 1 minus the share if that is less."""
    return min(SEQUENTIAL.margin, (1.0 - share) / 2.0)


@dataclass(frozen=True, slots=True)
class Design:
    """Boundaries of a sequential test.

    Parameters
    ----------
    share, margin
        Wanted share g, and distance d above it at which a share must be confirmed.
    error, missed
        Exact probability of confirming where the share is g or less, and of refusing where it is
        g + d or more.
    confirms, refuses
        By number of workloads from 0: largest number of failures that confirms (-1 if none does)
        and smallest that refuses. The last entries leave nothing open.
    """

    share: float
    margin: float
    error: float
    missed: float
    confirms: tuple[int, ...]
    refuses: tuple[int, ...]

    @property
    def most(self) -> int:
        """Largest number of workloads that the test takes."""
        return len(self.confirms) - 1

    @property
    def clean(self) -> int:
        """Number of workloads that confirm if all of them pass."""
        return next(n for n, allowed in enumerate(self.confirms) if allowed >= 0)

    def decided(self, passed: Sequence[bool]) -> tuple[int, bool] | None:
        """Return when the test ends, and whether it confirms; None if it is still open."""
        failed = 0
        for number, good in enumerate(passed, 1):
            failed += not good
            if failed <= self.confirms[number]:
                return number, True
            if failed >= self.refuses[number]:
                return number, False
        return None

    def before_next(self, of: int, failed: int) -> int:
        """Return the least number of further workloads after which the test can end."""
        for more in range(1, self.most - of + 1):
            n = of + more
            if failed <= self.confirms[n] or failed + more >= self.refuses[n]:
                return more
        return 0


def _walk(
    share: float, confirms: Sequence[int], refuses: Sequence[int], until: float = 1.0
) -> Floats:
    """Return the probability of confirming at each number of workloads from 1, shape (numbers,).

    Ends once their sum reaches ``until``.
    """
    width = max(refuses) + 1
    paths = np.zeros(width)
    paths[0] = 1.0
    confirmed, sum_confirmed = [], 0.0
    for n in range(1, len(confirms)):
        worse = paths * (1.0 - share)
        paths = paths * share
        paths[1:] += worse[:-1]
        good = confirms[n] + 1
        confirmed.append(float(paths[:good].sum()))
        paths[:good] = 0.0
        paths[refuses[n] :] = 0.0
        sum_confirmed += confirmed[-1]
        if sum_confirmed >= until:
            break
    return np.asarray(confirmed)


@lru_cache(maxsize=64)
def design(share: float, margin: float, error: float, missed: float = SEQUENTIAL.missed) -> Design:
    """Design the shortest test of a share with these errors at most.

    Parameters
    ----------
    share, margin
        Wanted share g and indifference d, ``g + d < 1``.
    error, missed
        Largest probability of confirming at g or below, and of refusing at g + d or above.

    Raises
    ------
    InputError
        If the margin leaves nothing above it, or takes more than `SequentialParams.most`
        workloads.
    """
    if not 0.0 < margin < 1.0 - share:
        rule = f"must be above 0 and below {1.0 - share:g}, what is left above the share"
        raise InputError(f"{rule}; got {margin:g}", field="--indifference")
    about = fixed(share, share + margin, error, missed)
    most = 4 * about + 100
    if most > SEQUENTIAL.most:
        rule = f"{margin:g} points above {share:g} take about {about:,} workloads to tell"
        raise InputError(f"{rule}; give more", field="--indifference")
    first = clean(share, error)
    high = math.log(3.0 / error)
    low = high - 3.0
    best = _bounded(share, margin, high, missed, first, most)
    for _ in range(SEQUENTIAL.halvings if most <= SEQUENTIAL.enumerated else 0):
        middle = (low + high) / 2.0
        found = _bounded(share, margin, middle, missed, first, most)
        if found.error <= error:
            high, best = middle, found
        else:
            low = middle
    return best


def _bounded(
    share: float, margin: float, log_a: float, missed: float, first: int, most: int
) -> Design:
    """Design the shortest test with this log A that the error at g + d allows."""
    better = math.log((share + margin) / share)
    worse = math.log((1.0 - share) / (1.0 - share - margin))
    n = np.arange(most + 1)
    # f failures: the logarithm of the ratio is n better - f (better + worse).
    accept = np.floor((n * better - log_a) / (better + worse) + 1e-12)
    accept = np.where(accept < 0.0, np.where(n >= first, 0.0, -1.0), accept)
    refuse = np.ceil((n * better - math.log(missed / 2.0)) / (better + worse) - 1e-12)
    confirms, refuses = accept.astype(int).tolist(), refuse.astype(int).tolist()
    enough = _walk(share + margin, confirms, refuses, 1.0 - missed)
    last = enough.size
    confirms, refuses = confirms[: last + 1], refuses[: last + 1]
    refuses[last] = confirms[last] + 1  # what is open there is refused
    error = float(_walk(share, confirms, refuses).sum())
    return Design(share, margin, error, 1.0 - float(enough.sum()), tuple(confirms), tuple(refuses))


def fixed(share: float, higher: float, error: float, missed: float = SEQUENTIAL.missed) -> int:
    """Estimate the size of a fixed test that distinguishes a share from a higher one.

    By the normal approximation, with the two errors.
    """
    from scipy.special import ndtri

    spread = -float(ndtri(error)) * math.sqrt(share * (1.0 - share))
    spread -= float(ndtri(missed)) * math.sqrt(higher * (1.0 - higher))
    return math.ceil((spread / (higher - share)) ** 2)
