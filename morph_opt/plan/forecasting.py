"""Continuations of a cluster's state, which forecast when jobs start and end.

From a snapshot (remaining work as believed) the policy is replayed many times, each time with other
arrivals (`morph_opt.plan.arriving`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from morph_opt.core.domain import InputError, Job, RoundState
from morph_opt.plan.arriving import Coming
from morph_opt.plan.parameters import HISTORY
from morph_opt.replay.prepare import Prepared, continued
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.events.log import Completed, Event, Started
from morph_opt.sweep.driver import Progress

QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Starts and ends of a job in the continuations; inf beyond the horizon.

    Parameters
    ----------
    starts_s, finishes_s
        Sorted, one per continuation; a job that holds GPUs now has started at its first start.
    futures
        Number of continuations that differ in what arrives next.
    """

    starts_s: tuple[float, ...]
    finishes_s: tuple[float, ...]
    futures: int

    def of(self, what: str) -> tuple[float, ...]:
        """Return the forecast instants of ``start`` or of ``finish``."""
        return self.starts_s if what == "start" else self.finishes_s

    def quantiles(self, what: str) -> tuple[float, float, float]:
        """Return the order statistics at `QUANTILES`, which contain 80 % of further draws.

        Of m exchangeable futures, one more lies below the r-th in r of m + 1 cases: the ranks are
        0.1 (m + 1), rounded outwards, and as far from above. Below nine futures the interval spans
        all of them and holds less. Futures that repeat count once.
        """
        values = self.of(what)
        futures, count = min(self.futures, len(values)), len(values)
        rank = max(1, math.floor(QUANTILES[0] * (futures + 1) + 1e-9))
        low = (rank - 1) * count // futures
        return values[low], values[(count - 1) // 2], values[count - 1 - low]


def forecast(
    state: RoundState,
    prepared: Prepared,
    future: Coming,
    jobs: Sequence[str],
    seeds: Sequence[int],
    progress: Callable[[Progress], None] | None = None,
) -> dict[str, Forecast]:
    """Continue a state under the prepared scheduler and return the forecast of each job.

    Parameters
    ----------
    state
        Begin.
    prepared
        Policy, speeds and rules of the engine.
    future
        Arrivals to draw; None for none.
    jobs
        Names.
    seeds
        One continuation each.
    progress
        Called after each continuation with the number done.

    Raises
    ------
    InputError
        If what arrives is of a model without speeds, or of a name that is taken.
    """
    starts: dict[str, list[float]] = {name: [] for name in jobs}
    ends: dict[str, list[float]] = {name: [] for name in jobs}
    found: dict[str, tuple[float, float]] = {}
    began = time.perf_counter()
    for count, seed in enumerate(seeds, 1):
        # Where one future is all that there is, every continuation is the first one.
        if not found or future.futures != 1:
            found = _continuation(state, prepared, future, jobs, seed)
        for name, (start_s, end_s) in found.items():
            starts[name].append(start_s)
            ends[name].append(end_s)
        if progress is not None:
            progress(Progress(len(seeds), count, 0, 0, time.perf_counter() - began, "futures"))
    futures = len(seeds) if future.futures is None else future.futures
    return {
        name: Forecast(tuple(sorted(starts[name])), tuple(sorted(ends[name])), futures)
        for name in jobs
    }


def _continuation(
    state: RoundState, prepared: Prepared, future: Coming, jobs: Sequence[str], seed: int
) -> dict[str, tuple[float, float]]:
    """Return first start and completion of each job, widening the horizon until all complete."""
    models = set(prepared.truth.models())
    found: dict[str, tuple[float, float]] = {}
    for doubling in range(HISTORY.horizons - 1 if future.whole else 0, HISTORY.horizons):
        until_s = state.time_s + HISTORY.horizon_s * 2.0**doubling
        later = future.draw(state.time_s, until_s, seed)
        for job in later:
            if job.model not in models:
                rule = f"job {job.name} is of model {job.model!r}, which has no speeds in the state"
                raise InputError(rule, field="--history")
        found = _until_complete(state, prepared, later, jobs, until_s)
        if all(math.isfinite(end_s) for _, end_s in found.values()):
            break
    return found


def _until_complete(
    state: RoundState, prepared: Prepared, later: Sequence[Job], jobs: Sequence[str], until_s: float
) -> dict[str, tuple[float, float]]:
    """Replay until these jobs are complete; return first starts and completions."""
    config = replace(prepared.scenario.engine, until_s=until_s)
    trace = continued(state, later, "continuation")
    engine = Engine(trace, state.cluster, prepared.truth, config, (), state)
    policy = prepared.fresh_policy()
    known = {one.job.name: one.first_start_s for one in state.jobs}
    begun = {name: known[name] for name in jobs}
    starts = {name: at_s for name, at_s in begun.items() if at_s is not None}
    ends: dict[str, float] = {}
    while len(ends) < len(jobs) and (now := engine.advance()) is not None:
        decision = policy.decide(now)
        engine.apply(decision)
        _look(engine.take_events(), jobs, starts, ends)
        while decision.steady and not policy.remembers and engine.skip_ahead():
            engine.take_events()
    _look(engine.take_events(), jobs, starts, ends)
    return {name: (starts.get(name, math.inf), ends.get(name, math.inf)) for name in jobs}


def _look(
    events: Sequence[Event], jobs: Sequence[str], starts: dict[str, float], ends: dict[str, float]
) -> None:
    for event in events:
        if isinstance(event, Started) and event.job in jobs:
            starts.setdefault(event.job, event.time_s)
        elif isinstance(event, Completed) and event.job in jobs:
            ends[event.job] = event.time_s
