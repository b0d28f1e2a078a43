"""One replay of the grand comparison, and figures of several that are paired by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

REFERENCE = "MILP `auto`"

PAIRS = 3
"""Of fewer twins no lead is named: one pair is reversed by the next seed often enough."""

CLOSE = 0.01
"""Part by which somebody has to be better to be called ahead."""

KNOWLEDGE = {
    "no": (f"{REFERENCE}, blind", "durations unknown"),
    "sigma 0.7": (f"{REFERENCE}, sigma 0.7", "durations wrong by sigma 0.7"),
    "yes, no stops": (f"{REFERENCE}, no stops", "durations known, no stops"),
    "yes": (REFERENCE, "durations known"),
    "limits, no stops": (f"{REFERENCE}, limits, no stops", "limits, no stops"),
    "limits": (f"{REFERENCE}, limits", "limits known"),
}
"""The default by what is known, and that in words."""

WAITS = ("p95_queue_s", "p99_queue_s", "longest_wait_s", "bounded_slowdown")
"""Figures of waits, which rows made before them lack."""

CHAINS = (
    ("no", "sigma 0.7", "yes"),
    ("yes, no stops", "yes"),
    ("limits, no stops", "limits"),
)
"""Levels of knowledge that are compared: a level with itself and those before it.

Replays with time limits are a chain of their own: a job ends at its limit, so the jobs differ. With
exact limits they do not. A default that stops nothing is compared with policies that stop nothing.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One replay; names and units as in ``summary.json``.

    ``digest`` is that of the scenario, ``code`` that of the sources that replayed it, ``knows``
    what is known of durations, a level of `KNOWLEDGE`.
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
    p95_queue_s: float = math.nan
    p99_queue_s: float = math.nan
    longest_wait_s: float = math.nan
    bounded_slowdown: float = math.nan

    @property
    def complete(self) -> bool:
        """Whether every job ended."""
        return self.completed == self.jobs > 0

    @property
    def refused(self) -> bool:
        """Whether the policy does not run there."""
        return self.jobs == 0


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


@dataclass(frozen=True, slots=True)
class Lead:
    """How a policy stands on a trace to the default that knows as much or more.

    Parameters
    ----------
    trace, knows, policy
        Where, what the default knows, and against whom.
    ratios
        Average JCT of the default over that of the policy, pair by pair.
    """

    trace: str
    knows: str
    policy: str
    ratios: tuple[float, ...]

    @property
    def behind(self) -> bool:
        """Whether the default is behind by more than `CLOSE`, in the mean of pairs enough."""
        return len(self.ratios) >= PAIRS and interval(self.ratios)[0] > 1.0 + CLOSE

    @property
    def shown(self) -> bool:
        """Whether that is shown: the interval is above 1."""
        return self.behind and interval(self.ratios)[1] > 1.0


def leads(records: Sequence[Record]) -> list[Lead]:
    """The default against every policy that knows no more, trace by trace."""
    found = []
    less: dict[str, set[str]] = {}
    for chain in CHAINS:
        for at, level in enumerate(chain):
            less.setdefault(level, set()).update(chain[: at + 1])
    for trace in dict.fromkeys(record.trace for record in records):
        here = [record for record in records if record.trace == trace]
        for knows, (ours, _) in KNOWLEDGE.items():
            rivals = dict.fromkeys(
                record.policy
                for record in here
                if record.knows in less[knows] and record.policy != ours
            )
            values = {rival: ratios(here, trace, ours, rival) for rival in rivals}
            found += [
                Lead(trace, knows, contender, tuple(each))
                for contender, each in values.items()
                if each
            ]
    return found
