"""Wall time left of a replay: a fluid schedule of the work left, at costs fitted to the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.metrics.bounds.lower import Demands

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OutlookParams:
    """Numbers of an estimate.

    Parameters
    ----------
    efficiency
        Share of the GPUs' time that completes work; start-ups, idle GPUs and wide jobs take the
        rest.
    pieces
        Pieces of equal wall time to which costs are fitted.
    least_gpu_s
        Work below which a job of the schedule is complete.
    rounds
        Rounds that are remembered; beyond that, every second one of those so far. An even number.
    """

    efficiency: float = 0.8
    pieces: int = 20
    least_gpu_s: float = 1e-6
    rounds: int = 4096


DEFAULTS = OutlookParams()


@dataclass(frozen=True, slots=True)
class Outlook:
    """Work left of a replay, in GPU-seconds by the true speeds.

    Parameters
    ----------
    time_s, until_s
        Present instant, and the instant at which the replay stops at the latest.
    gpus
        GPUs of the cluster.
    active, left_gpu_s, left_s
        Active jobs, their least work left, summed, and their shortest times left, summed.
    coming_s, coming_gpu_s, coming_gpus
        Submission and least work of each job to come, by submission, and the GPUs on which that
        takes its shortest time, shape (C,).
    """

    time_s: float
    gpus: float
    active: int
    left_gpu_s: float
    left_s: float
    coming_s: Floats
    coming_gpu_s: Floats
    coming_gpus: Floats
    until_s: float = np.inf


class Load(NamedTuple):
    """Quantities to which the wall time of rounds is proportional.

    Parameters
    ----------
    seconds
        Simulated seconds.
    job_s
        Seconds of active jobs, summed.
    changes
        Submissions and completions.
    """

    seconds: float
    job_s: float
    changes: float


def outlook_of(engine: Engine, demands: Demands, first: Mapping[str, float]) -> Outlook:
    """Return the work left at the engine's present instant.

    Parameters
    ----------
    demands
        Demands of the jobs, from the beginning of the replay on.
    first
        Share of their iterations that jobs had left at the beginning; 1 for those not named.
    """
    shares, now_s = engine.shares_left(), engine.now_s
    left_gpu_s = left_s = 0.0
    coming: list[tuple[float, float, float]] = []
    for demand in demands.jobs:
        work, shortest_s = demand.work_gpu_s, demand.floor_s
        if (share := shares.get(demand.job)) is not None:
            share /= first.get(demand.job) or 1.0
            left_gpu_s, left_s = left_gpu_s + share * work, left_s + share * shortest_s
        elif demand.submission_s > now_s:
            coming.append((demand.submission_s, work, work / shortest_s if shortest_s else 1.0))
    submitted, work_of, most_of = np.asarray(sorted(coming), dtype=float).reshape(-1, 3).T
    return Outlook(
        now_s,
        float(sum(demands.gpus)),
        len(shares),
        left_gpu_s,
        left_s,
        submitted,
        work_of,
        most_of,
        np.inf if engine.until_s is None else engine.until_s,
    )


def load_ahead(outlook: Outlook, params: OutlookParams = DEFAULTS) -> Load:
    """Return the load until the end: least work left first, work being divisible.

    Active jobs begin with their mean work each. With their own, the shortest would soon be
    complete, which no policy achieves that does not know the work left.

    Ends: every pass completes a job, takes in a submission or reaches ``until_s``.
    """
    now_s, capacity = outlook.time_s, params.efficiency * outlook.gpus
    left = np.full(outlook.active, outlook.left_gpu_s / max(1, outlook.active))
    most = np.full(outlook.active, outlook.left_gpu_s / outlook.left_s if outlook.left_s else 1.0)
    at, job_s, changes = 0, 0.0, 0
    while (left.size or at < outlook.coming_s.size) and now_s < outlook.until_s:
        next_s = outlook.coming_s[at] if at < outlook.coming_s.size else np.inf
        step_s = min(next_s, outlook.until_s) - now_s
        rate = np.clip(capacity - (most.cumsum() - most), 0.0, most)
        runs = rate > 0.0
        if runs.any():
            step_s = min(step_s, float((left[runs] / rate[runs]).min()))
        step_s = max(0.0, step_s)
        job_s += left.size * step_s
        now_s += step_s
        left = left - rate * step_s
        going = left > params.least_gpu_s
        changes += int(left.size - np.count_nonzero(going))
        left, most = left[going], most[going]
        if at < outlook.coming_s.size and now_s >= next_s:
            left = np.append(left, outlook.coming_gpu_s[at])
            most = np.append(most, outlook.coming_gpus[at])
            order = np.argsort(left, kind="stable")
            left, most, at, changes = left[order], most[order], at + 1, changes + 1
    return Load(now_s - outlook.time_s, job_s, float(changes))


class Costs:
    """Wall time of the rounds so far, and their load, summed up."""

    def __init__(self, params: OutlookParams = DEFAULTS) -> None:
        self._params = params
        self._rows: list[tuple[float, float, float, float]] = []
        self._active = 0

    def add(self, elapsed_s: float, time_s: float, active: int, completed: int) -> None:
        """Take in a round: wall time so far, its instant, active jobs, completed jobs so far."""
        job_s = 0.0
        if self._rows:
            _, before_s, job_s, _ = self._rows[-1]
            job_s += self._active * (time_s - before_s)
        self._rows.append((elapsed_s, time_s, job_s, float(active + 2 * completed)))
        self._active = active
        if len(self._rows) > self._params.rounds:
            del self._rows[1::2]

    def left_s(self, outlook: Outlook) -> float | None:
        """Return the estimated wall time of the work left; None before the second round."""
        rows = np.asarray(self._rows)
        if len(rows) < 2 or rows[-1, 0] <= rows[0, 0]:
            return None
        even = np.linspace(rows[0, 0], rows[-1, 0], self._params.pieces + 1)
        ends = np.unique(np.searchsorted(rows[:, 0], even).clip(0, len(rows) - 1))
        pieces = np.diff(rows[ends], axis=0)
        prices = fitted(pieces[:, 1:], pieces[:, 0])
        return float(np.asarray(load_ahead(outlook, self._params)) @ prices)


def fitted(load: Floats, cost: Floats) -> Floats:
    """Return prices of at least 0 that explain costs with the least sum of squared relative errors.

    The best prices are those without bounds of some columns, the others being 0: few columns are
    tried in all ways.

    Parameters
    ----------
    load
        Load of each piece, shape (P, L).
    cost
        Cost of each piece, above 0, shape (P,).
    """
    # Columns of very different units make a fit inaccurate.
    unit = load.max(axis=0, initial=0.0)
    unit[unit <= 0.0] = 1.0
    relative = load / unit / cost[:, None]
    best, error = np.zeros(unit.size), float(cost.size)
    for chosen in product((False, True), repeat=unit.size):
        columns = np.flatnonzero(chosen)
        price = np.linalg.lstsq(relative[:, columns], np.ones(cost.size))[0]
        missed = float(np.square(relative[:, columns] @ price - 1.0).sum())
        if (price >= 0.0).all() and missed < error:
            best, error = np.zeros(unit.size), missed
            best[columns] = price
    prices: Floats = best / unit
    return prices
