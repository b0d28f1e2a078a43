"""Do the statistics of planning hold what they say? On a queue whose answer a formula gives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from scipy import stats

from benchmarks.planning.queue import drawn, mean_wait_s, waits_s
from morph_opt.core.domain import InputError
from morph_opt.plan.evaluate import Verdict
from morph_opt.plan.search import Search
from morph_opt.plan.statement import Target
from morph_opt.plan.stats import mean_interval, share_at_least
from morph_opt.simulation.runs.slo import Slo

SERVICE_S, JOBS, INTERVAL_S = 100.0, 2000, 1.0
BUSY, BETWEEN = (1, 2, 3), (0.3, 0.7)
"""Servers that are busy on average, of the queues that are searched: whole part and the rest."""
NEAR = (0.7, 0.5, 0.3)
"""Where between the mean waits of k (0) and of k - 1 servers (1) the target lies, on logarithms.

Means of runs scatter: the nearer to k, the more workloads on k servers miss the target.
"""
HELD = 100
"""Other workloads on which a size that was named is tried."""
SHARE = 0.9
"""Of workloads that must reach the target."""
TRUTH = 1000
"""Runs that the true means of the intervals' coverage are taken from."""


class _Judge:
    """Verdicts on queues: the sizes are servers."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._known: dict[tuple[int, int], float] = {}

    def refused(self, *_: object, **__: object) -> None:
        """No bounds."""

    def verdicts(self, scenarios: Sequence[Any], slo: Slo) -> list[Verdict]:
        """Mean waits, from the recursion."""
        found = []
        for servers, seed in cast(Sequence[tuple[int, int]], scenarios):
            if (servers, seed) not in self._known:
                work = drawn(SERVICE_S, self._gap_s, JOBS, seed)
                self._known[servers, seed] = float(np.mean(waits_s(work, servers, INTERVAL_S)))
            value = self._known[servers, seed]
            found.append(Verdict(slo.met_by(value), "replay", value))
        return found

    def save(self) -> None:
        """Nothing is kept."""


def mean_at_most(values: Sequence[float], confidence: float) -> float:
    """One-sided upper bound on a mean over workloads (Student's t); NaN with fewer than two."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return math.nan
    reach = float(stats.t.ppf(confidence, sample.size - 1)) * float(stats.sem(sample))
    return float(sample.mean()) + reach


@dataclass(frozen=True, slots=True)
class Answered:
    """A search on a queue: servers by the formula and as found, None where none was.

    ``holds`` is the share of `HELD` other workloads in which what was found reaches the target.
    """

    near: float
    load: float
    target_s: float
    formula: int
    found: int | None
    holds: float | None


def search(repetition: int, near: float) -> Answered:
    """One queue: the target lies between the mean waits of the formula's k and of k - 1."""
    draw = random.Random(f"calibration/{repetition}")
    load = draw.choice(BUSY) + draw.uniform(*BETWEEN)
    gap_s = SERVICE_S / load
    formula = math.floor(load) + 2
    waits = [mean_wait_s(k, SERVICE_S, gap_s) for k in (formula - 1, formula)]
    target_s = waits[0] ** near * waits[1] ** (1.0 - near)
    target = Target(Slo("queued_s", "avg", at_most=target_s), SHARE, 0.95)
    first, fresh = target.workloads(range(10_000 * repetition, 10_000 * repetition + 400), 20)
    judge = _Judge(gap_s)
    looked = Search(judge, target, lambda n, s: cast(Any, (n, s)), first, fresh, 64)
    try:
        found = looked.run()
    except InputError:
        return Answered(near, load, target_s, formula, None, None)
    others = [(found, 10_000 * repetition + 400 + k) for k in range(HELD)]
    passed = sum(one.passed for one in judge.verdicts(others, target.slo))
    return Answered(near, load, target_s, formula, found, passed / HELD)


@cache
def _means(servers: int, count: int) -> np.ndarray:
    """Mean waits of runs at a load of 3.3."""
    works = (drawn(SERVICE_S, 30.0, JOBS, seed) for seed in range(count))
    return np.asarray([float(np.mean(waits_s(work, servers, INTERVAL_S))) for work in works])


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often an interval held the truth."""

    interval: str
    workloads: int
    says: float
    held: int
    of: int


def coverages(repetitions: int) -> list[Coverage]:
    """Coverage of every kind of interval over so many repetitions."""
    five, six = _means(5, TRUTH), _means(6, TRUTH)
    truth, gain = float(five.mean()), float((six - five).mean())
    passes = five <= np.quantile(five, 0.9)

    def holds(what: str, chosen: np.ndarray) -> bool:
        mine = five[chosen].tolist()
        if what == "mean":
            low, high = mean_interval(mine, 0.95)
            return low <= truth <= high
        if what == "mean at most":
            return truth <= mean_at_most(mine, 0.95)
        if what == "paired difference":  # the interval of `paired`, without its test
            low, high = mean_interval((six[chosen] - five[chosen]).tolist(), 0.95)
            return low <= gain <= high
        return share_at_least(int(passes[chosen].sum()), chosen.size, 0.95) <= passes.mean()

    found = []
    for what, count in (
        ("mean", 8),
        ("mean", 10),
        ("mean", 20),
        ("mean", 36),
        ("mean at most", 36),
        ("paired difference", 10),
        ("paired difference", 20),
        ("paired difference", 30),
        ("share at least", 36),
        ("share at least", 100),
    ):
        draw = np.random.default_rng(count)
        held = sum(bool(holds(what, draw.integers(0, TRUTH, count))) for _ in range(repetitions))
        found.append(Coverage(what, count, 0.95, held, repetitions))
    return found


def searches(repetitions: int, tell: Callable[[int], None]) -> list[Answered]:
    """So many searches for every place of the target."""
    found = []
    for near in NEAR:
        for repetition in range(repetitions):
            found.append(search(repetition, near))
            tell(len(found))
    return found
