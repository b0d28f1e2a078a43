"""Time limits for jobs whose trace has none, drawn by a stated law.

Users name few values and far longer ones than they need: nine tenths of the jobs of production logs
use twenty values, the longest allowed one is always popular, and a factor on the run time is no
model of it (Tsafrir, "Using inaccurate estimates accurately", JSSPP 2010). The weights of
`Modal` are assumed; ``python -m morph_opt.traces describe`` fits those of a log.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from formulations.parameters import Params, above, number
from morph_opt.core.domain import InputError, Job
from morph_opt.core.domain.units import HOUR_S

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Modal(Params):
    """Law of time limits: few popular values, whatever the run time (assumed, not measured)."""

    longest: float = number(0.10, 0.0)
    """Share of jobs with the longest value."""
    short: float = number(0.05, 0.0)
    """Share of jobs whose limit is less than they need and ends them."""
    day_s: float = above(86_400.0)
    """Limits beyond the longest value are multiples of it."""


MODAL = Modal()

_WEIGHTS = {
    5 * MINUTE_S: 2.0,
    10 * MINUTE_S: 3.0,
    15 * MINUTE_S: 2.0,
    30 * MINUTE_S: 6.0,
    1 * HOUR_S: 12.0,
    2 * HOUR_S: 12.0,
    4 * HOUR_S: 12.0,
    8 * HOUR_S: 8.0,
    12 * HOUR_S: 10.0,
    24 * HOUR_S: 15.0,
    48 * HOUR_S: 8.0,
    72 * HOUR_S: 10.0,
}
"""Popular limits in seconds with their weights."""

VALUES_S = tuple(_WEIGHTS)


@dataclass(frozen=True, slots=True)
class LimitLaw:
    """Law by which jobs without a time limit are given one.

    Parameters
    ----------
    kind
        ``"modal"``, ``"exact"`` (run time up to the next minute) or ``"factor"``.
    factor
        Limit over run time of ``"factor"``.
    """

    kind: str = "modal"
    factor: float = 1.0

    @classmethod
    def parse(cls, text: str) -> LimitLaw:
        """Parse ``modal``, ``exact`` or ``factor:2.5``.

        Raises
        ------
        InputError
            If it is none of these.
        """
        kind, _, rest = text.partition(":")
        if kind in ("modal", "exact") and not rest:
            return cls(kind)
        try:
            factor = float(rest) if kind == "factor" else math.nan
        except ValueError:
            factor = math.nan
        if not 1.0 <= factor <= 1e6:
            rule = f"must be modal, exact or factor:F with F from 1 on, got {text!r}"
            raise InputError(rule, field="--durations limits")
        return cls(kind, factor)

    def limit_s(self, run_s: float, name: str, seed: int) -> float:
        """Return the limit of a job, in whole minutes.

        Parameters
        ----------
        run_s
            Its run time in its request, start-up included.
        name, seed
            They determine what is drawn.
        """
        if self.kind != "modal":
            return _minutes(run_s * self.factor)
        kind, drawn = _uniform(name, seed, 0), _uniform(name, seed, 1)
        enough = bisect_left(VALUES_S, run_s)
        if kind < MODAL.short and enough > 0:
            return VALUES_S[enough - 1]
        if enough == len(VALUES_S):
            return MODAL.day_s * math.ceil(run_s / MODAL.day_s)
        if kind > 1.0 - MODAL.longest:
            return VALUES_S[-1]
        sums = list(accumulate(_WEIGHTS[value_s] for value_s in VALUES_S[enough:]))
        return VALUES_S[enough + bisect_right(sums, drawn * sums[-1])]


def with_limits(
    jobs: Iterable[Job], law: LimitLaw, run_s: Callable[[Job], float], seed: int
) -> tuple[Job, ...]:
    """Return the jobs, each with a time limit; those that have one keep it.

    A job whose limit is below its run time ends there: its iterations are those that its request
    does until then.

    Parameters
    ----------
    jobs, law, seed
        See the classes.
    run_s
        Run time of a job in its request, start-up included, in seconds.
    """
    found = []
    for job in jobs:
        if job.time_limit_s is None:
            needs_s = run_s(job)
            limit_s = law.limit_s(needs_s, job.name, seed)
            done = job.iterations
            if limit_s < needs_s:
                done = max(1, math.floor(done * limit_s / needs_s))
            cut = limit_s < needs_s
            found.append(replace(job, time_limit_s=limit_s, iterations=done, times_out=cut))
        else:
            found.append(job)
    return tuple(found)


def fitted_weights(
    run_s: Sequence[float], limit_s: Sequence[float], most: int = len(VALUES_S), steps: int = 200
) -> dict[float, float]:
    """Return the weights of the most popular limits of a log, in seconds and ascending; sum 1.

    A job takes one of the values that are not below its run time, by their weights: the likeliest
    weights under that law, by minorisation and maximisation (Hunter, "MM algorithms for generalized
    Bradley-Terry models", Annals of Statistics 2004, section 5). Jobs with other limits, and jobs
    that their limit ended, tell nothing of it.

    Parameters
    ----------
    run_s, limit_s
        Run time and limit of each job.
    most
        Number of values.
    steps
        Steps of the iteration.
    """
    chosen = Counter(limit for run, limit in zip(run_s, limit_s, strict=True) if run < limit)
    popular = sorted(chosen, key=lambda limit: (-chosen[limit], limit))[:most]
    values = sorted(popular)
    if not values:
        return {}
    # By the first value that is not below the run time: jobs that could have taken it and on.
    could = Counter(
        bisect_left(values, run)
        for run, limit in zip(run_s, limit_s, strict=True)
        if limit in popular and run < limit
    )
    counts = [float(chosen[value]) for value in values]
    weights = [count / sum(counts) for count in counts]
    for _ in range(steps):
        above = list(accumulate(reversed(weights)))[::-1]
        shared = list(accumulate(could[place] / above[place] for place in range(len(values))))
        weights = [count / share for count, share in zip(counts, shared, strict=True)]
        total = sum(weights)
        weights = [weight / total for weight in weights]
    return dict(zip(values, weights, strict=True))


def _minutes(seconds: float) -> float:
    return MINUTE_S * max(1, math.ceil(seconds / MINUTE_S))


def _uniform(name: str, seed: int, which: int) -> float:
    """Return a number in (0, 1) that depends on the arguments alone."""
    drawn = hashlib.sha256(f"{seed}/{which}/{name}".encode()).digest()
    return (int.from_bytes(drawn[:6], "big") + 0.5) / 2.0**48
