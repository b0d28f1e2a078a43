"""How far forecasts can be believed: `backtest`."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from morph_opt.core.domain import InputError, RoundState
from morph_opt.core.table import Cell
from morph_opt.plan.answer import Answer
from morph_opt.plan.arriving import DAY_S, Coming, of_days, of_family
from morph_opt.plan.ask import Ask
from morph_opt.plan.forecasting import (
    QUANTILES,
    Forecast,
    forecast,
)
from morph_opt.plan.parameters import HISTORY
from morph_opt.plan.stats import mean_interval
from morph_opt.plan.workloads import distinct, is_family
from morph_opt.replay.prepare import Prepared, prepare
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy

SAME_S = 1e-6
"""Within which two instants are one."""

LEAST_DAYS = 2
"""Of a history, before the first state that is forecast from."""


class _Sampler(Policy):
    """Decides as a policy does, and keeps every so manieth state."""

    remembers = True
    """Sees every round."""

    def __init__(self, inner: Policy, every: int) -> None:
        self._inner, self._every = inner, every
        self.name = inner.name
        self.states: list[RoundState] = []

    def decide(self, state: RoundState) -> Decision:
        """The policy's decision."""
        if state.index % self._every == 0 and state.jobs:
            self.states.append(state)
        return self._inner.decide(state)


def pinball(quantile: float, predicted: float, actual: float) -> float:
    """Loss of a predicted quantile: its mean is least at the true one (Koenker 1978)."""
    off = actual - predicted
    return quantile * off if off >= 0.0 else (quantile - 1.0) * off


HEADER = (
    "workload", "at_s", "job", "what", "actual_s", "q10_s", "q50_s", "q90_s", "open", "held",
)  # fmt: skip


def backtest(
    ask: Ask,
    *,
    seeds: Sequence[int] = tuple(range(10)),
    every: int = 60,
    jobs_per_state: int = 2,
    continuations: int = 19,
) -> Answer:
    """How often the 80 % interval holds what then happened.

    Each workload is replayed; at every so manieth round, start and end of some jobs are forecast
    and compared with the replay's. What came on an edge of the interval counts as
    `morph_opt.plan.forecasting.Forecast.held` says: jobs start at boundaries, so many do. What
    arrives is drawn from other members of the family, given how many jobs have come, else from the
    days of the history that are over by then.

    A forecast whose continuations all agree is *closed*: nothing that arrives can change it, and it
    says nothing of the interval. Coverage is that of the open ones. Forecasts of one workload share
    its future, so its interval is of the mean over workloads.

    Parameters
    ----------
    ask
        Of a scenario whose trace is a family, or a history.
    seeds
        Members of the family; a history is replayed once.
    every, jobs_per_state
        Rounds between two states that are forecast from, and jobs of each.
    continuations
        Of each forecast; with 19, the interval is from the second to the eighteenth.

    Raises
    ------
    InputError
        If no state had a job to forecast.
    """
    base = ask.scenario
    trace = base.workload.trace
    given = distinct(seeds) if is_family(trace) else (0,)
    rows: list[_Row] = []
    for seed in given:
        scenario = base.replaced(workload=replace(base.workload, seed=seed))
        rows += _of_workload(prepare(scenario), trace, seed, every, jobs_per_state, continuations)
    if not rows:
        raise InputError("no state of the replay has a job to forecast", field="trace")
    asked = ask.asked(
        seeds=list(given), every=every, jobs_per_state=jobs_per_state, continuations=continuations
    )
    figures = _figures(rows)
    notes = ("a forecast whose continuations all agree is closed; it counts on neither side",)
    return Answer(
        "backtest",
        asked,
        _sentences(figures),
        figures,
        HEADER,
        [one.cells() for one in rows],
        notes,
    )


def _sentences(figures: Mapping[str, int | float]) -> tuple[str, ...]:
    closed = f"{figures['closed']} were closed, {figures['closed_right']} of them as forecast"
    if not figures["open"]:
        return "no forecast was open: nothing is known of the interval", closed
    sentences = (
        f"the 80 % interval holds {figures['coverage']:.0%} of {figures['open']} starts and ends "
        f"that were open (95 % interval over workloads {figures['lower']:.2f} to "
        f"{figures['upper']:.2f})"
    )
    return sentences, closed


@dataclass(frozen=True, slots=True)
class _Row:
    """A forecast, and what came."""

    workload: int
    at_s: float
    job: str
    what: str
    actual_s: float
    quantiles: tuple[float, float, float]
    held: float
    open: bool

    def cells(self) -> list[Cell]:
        return [
            self.workload,
            self.at_s,
            self.job,
            self.what,
            self.actual_s,
            *self.quantiles,
            int(self.open),
            self.held,
        ]


def coverage_of(evidence: Sequence[Mapping[str, Any]]) -> dict[str, int | float]:
    """The figures of a backtest from rows of its evidence, which may be of several put together.

    Parameters
    ----------
    evidence
        As in ``answer.json``: by the names of the header, null beyond the horizon.
    """
    rows = []
    for one in evidence:
        low, middle, high = (
            math.inf if one[name] is None else float(one[name])
            for name in ("q10_s", "q50_s", "q90_s")
        )
        rows.append(
            _Row(
                one["workload"],
                one["at_s"],
                one["job"],
                one["what"],
                one["actual_s"],
                (low, middle, high),
                one["held"],
                bool(one["open"]),
            )
        )
    return _figures(rows)


def _of_workload(
    prepared: Prepared, trace: str, seed: int, every: int, jobs_per_state: int, continuations: int
) -> Iterator[_Row]:
    """Forecasts from states of one replay, and what came."""
    sampler = _Sampler(prepared.fresh_policy(), every)
    config = prepared.scenario.engine
    cluster = prepared.scenario.cluster
    whole = replay(prepared.trace, cluster, sampler, prepared.truth, config)
    came = {one.job.name: (one.starting_s, one.finish_s) for one in whole.history.jobs}
    for state in sampler.states:
        future = _coming(prepared, trace, state.time_s)
        if future is None:
            continue
        draw = random.Random(f"backtest/{seed}/{state.index}")
        names = sorted(one.job.name for one in state.jobs if came[one.job.name][1] is not None)
        chosen = draw.sample(names, min(jobs_per_state, len(names)))
        queued = {one.job.name for one in state.jobs if one.first_start_s is None}
        # Of other members than those that are forecast, and others for each state.
        first = 1_000_000 * (seed + 1) + 1000 * state.index
        found = forecast(state, prepared, future, chosen, range(first, first + continuations))
        for name in chosen:
            start_s, finish_s = came[name]
            assert start_s is not None
            assert finish_s is not None
            if name in queued:
                yield _row(seed, state.time_s, name, "start", start_s, found[name])
            yield _row(seed, state.time_s, name, "finish", finish_s, found[name])


def _coming(prepared: Prepared, trace: str, now_s: float) -> Coming | None:
    """What a forecast may know: how many jobs have come, or the days before today.

    None where these are too few.
    """
    if is_family(trace):
        arrived = sum(job.submission_s <= now_s for job in prepared.trace.jobs)
        return of_family(prepared.scenario.workload, arrived)
    days = int(now_s // DAY_S)
    return of_days(prepared.trace.jobs, days) if days >= LEAST_DAYS else None


def _row(seed: int, at_s: float, name: str, what: str, came_s: float, one: Forecast) -> _Row:
    values = one.of(what)
    opened = values[-1] - values[0] > SAME_S
    inside = held(one, what, came_s)
    return _Row(seed, at_s, name, what, came_s, one.quantiles(what), inside, opened)


def held(forecast: Forecast, what: str, came_s: float) -> float:
    """How much of what came lies in the middle 80 %: 1 inside, 0 outside, a share on an edge.

    Of m draws and what came, what came has any of m + 1 ranks with the same chance; where some
    are equal (jobs start at boundaries), all of their ranks in equal shares. So the mean over
    forecasts is 0.8 where what comes is of the same kind as what was drawn (the randomised
    probability integral transform: Czado, Gneiting and Held 2009).
    """
    values = forecast.of(what)
    below = sum(value < came_s - SAME_S for value in values)
    equal = sum(abs(value - came_s) <= SAME_S for value in values) + 1
    ranks = len(values) + 1
    low, high = QUANTILES[0] * ranks, QUANTILES[2] * ranks
    return max(0.0, min(below + equal, high) - max(below, low)) / equal


def _figures(rows: Sequence[_Row]) -> dict[str, int | float]:
    """Coverage over workloads with its interval, and losses of the quantiles."""
    hits: dict[int, list[float]] = {}
    losses: Mapping[float, list[float]] = {q: [] for q in QUANTILES}
    for row in rows:
        for q, value in zip(QUANTILES, row.quantiles, strict=True):
            losses[q].append(pinball(q, min(value, row.at_s + HISTORY.last_s), row.actual_s))
        if row.open:
            hits.setdefault(row.workload, []).append(row.held)
    every = [hit for mine in hits.values() for hit in mine]
    low, high = mean_interval([sum(mine) / len(mine) for mine in hits.values()], 0.95)
    closed = [row for row in rows if not row.open]
    right = sum(abs(row.actual_s - row.quantiles[1]) <= SAME_S for row in closed)
    return {
        "forecasts": len(rows),
        "open": len(every),
        "closed": len(closed),
        "closed_right": right,
        "workloads": len(hits),
        "coverage": sum(every) / len(every) if every else float("nan"),
        "lower": max(0.0, low),
        "upper": min(1.0, high),
        **{f"pinball_{q:g}_s": float(np.mean(losses[q])) for q in QUANTILES},
    }
