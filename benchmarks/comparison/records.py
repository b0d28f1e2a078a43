"""One replay of the grand comparison, and figures of several that are paired by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

REFERENCE = "MILP `lookahead`"


@dataclass(frozen=True, slots=True)
class Record:
    """One replay; names and units as in ``summary.json``.

    ``digest`` is that of the scenario, ``code`` that of the sources that replayed it, ``knows``
    whether durations are known: yes, no, or the sigma by which estimates err.
    """

    digest: str
    code: str
    trace: str
    seed: int
    policy: str
    may_change_gpus: int
    knows: str
    jobs: int
    completed: int
    over_capacity: int
    avg_jct_s: float
    median_jct_s: float
    p99_jct_s: float
    makespan_s: float
    guaranteed_avg_jct_s: float
    guaranteed_late_jobs: float
    ftf_mean: float
    restarts_per_job: float
    gpu_utilization: float
    round_ms_p50: float
    round_ms_p99: float
    bound_s: float
    makespan_bound_s: float
    wall_s: float

    @property
    def complete(self) -> bool:
        """Whether every job ended."""
        return self.completed == self.jobs


def mean(records: Sequence[Record], figure: str) -> float:
    """Of a figure by its name; NaN of nothing."""
    values = [float(getattr(record, figure)) for record in records]
    return float(np.mean(values)) if values else math.nan


def pairs(
    records: Sequence[Record], trace: str, policy: str, reference: str
) -> Iterator[tuple[Record, Record]]:
    """Replays of two policies on the same jobs, by seed; where both completed every job."""
    done = [record for record in records if record.trace == trace and record.complete]
    other = {record.seed: record for record in done if record.policy == reference}
    for record in done:
        if record.policy == policy and record.seed in other:
            yield record, other[record.seed]


def ratios(
    records: Sequence[Record], trace: str, policy: str, reference: str, figure: str = "avg_jct_s"
) -> list[float]:
    """A figure over that of the reference, pair by pair."""
    return [
        float(getattr(one, figure)) / float(getattr(other, figure))
        for one, other in pairs(records, trace, policy, reference)
    ]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean with its 95 % interval, from logarithms and Student's t."""
    logs = np.log(values)
    centre = float(logs.mean())
    if len(values) < 2:
        return math.exp(centre), math.nan, math.nan
    half = float(stats.t.ppf(0.975, len(values) - 1) * logs.std(ddof=1) / math.sqrt(len(values)))
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)
