"""Continuations of a cluster's state: when jobs start and end, under what may arrive.

From a snapshot (remaining work as it is believed) the policy is replayed many times, each time with
other arrivals. These are the members of a seeded family from this instant on, or days of a history.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from morph_opt.domain import InputError, Job, RoundState
from morph_opt.engine.engine import Engine
from morph_opt.events.log import Completed, Event, Started
from morph_opt.plan.workloads import FEW_BLOCKS, is_family, loaded, require_blocks
from morph_opt.policies.base import Policy
from morph_opt.replay.initial import continued
from morph_opt.replay.setup import Prepared, policy_of
from morph_opt.replay.workload import Workload
from morph_opt.traces.registry import load_trace
from morph_opt.traces.resampled import BLOCK_S, DAYS

DAY_S = BLOCK_S[DAYS]
QUANTILES = (0.1, 0.5, 0.9)
FIRST_S, HORIZONS = 3600.0, 11
"""First horizon, and how many there are, each twice the one before; 42 days are the last."""
LAST_S = FIRST_S * 2.0 ** (HORIZONS - 1)

SAME_S = 1e-6
"""Within which two instants are one."""

Draw = Callable[[float, float, int], list[Job]]
"""Jobs that are submitted behind an instant and up to another one, by the seed of a draw."""


@dataclass(frozen=True, slots=True)
class Coming:
    """What may arrive.

    Parameters
    ----------
    draw
        See `Draw`.
    futures
        Different futures of the next hours; None: as many as seeds.
    whole
        Whether one horizon will do: what a draw has ends by itself.
    note
        What an answer has to say of it.
    """

    draw: Draw
    futures: int | None = None
    whole: bool = True
    note: str = ""


NOTHING = Coming(lambda *_: [], 1, True, "nothing arrives: no history was given")


def coming(history: str, known: Iterable[str] = ()) -> Coming:
    """Arrivals of a trace by name: members of a seeded family, else days of a history.

    Parameters
    ----------
    history
        As `morph_opt.traces.registry.load_trace` takes it.
    known
        Names that are taken.

    Raises
    ------
    InputError
        If the history has fewer than two whole days.
    """
    taken = frozenset(known)
    if is_family(history):
        return Coming(lambda a, b, seed: members(history, a, b, seed, taken))
    past = load_trace(history).trace
    days = require_blocks(past, DAYS)
    return of_days(past.jobs, days, taken)


def of_days(past: Sequence[Job], days: int, taken: frozenset[str] = frozenset()) -> Coming:
    """Arrivals that are drawn from the first so many days of a history."""
    note = f"{days} days of history"
    if days < FEW_BLOCKS:
        note += f": an interval holds {100 * (days - 1) / (days + 1):.0f} % at most"
    return Coming(lambda a, b, seed: arrivals(past, days, a, b, seed, taken), days, False, note)


def members(
    family: str, from_s: float, until_s: float, seed: int, taken: frozenset[str] = frozenset()
) -> list[Job]:
    """What a member of a family has between two instants of its own clock."""
    return [
        _renamed(job, f"+{seed}", 0.0, taken)
        for job in loaded(Workload(family, seed)).trace.jobs
        if from_s < job.submission_s <= until_s
    ]


def arrivals(
    history: Sequence[Job], days: int, from_s: float, until_s: float, seed: int,
    taken: frozenset[str] = frozenset(),
) -> list[Job]:  # fmt: skip
    """What may be submitted between two instants: whole days of a history, drawn at random.

    A day is taken as it is, from midnight of the history's clock (its second 0); what is drawn for
    today is what comes after the present time of day. Of consecutive seeds, each takes another day
    for today, so that none is taken twice before each was once.
    """
    draw = random.Random(f"arrivals/{seed}")
    found = []
    first, last = int(from_s // DAY_S), int(until_s // DAY_S)
    for day in range(first, last + 1):
        chosen = seed % days if day == first else draw.randrange(days)
        shift_s = (day - chosen) * DAY_S
        found += [
            _renamed(job, f"+{day}", shift_s, taken)
            for job in history
            if int(job.submission_s // DAY_S) == chosen
            and from_s < job.submission_s + shift_s <= until_s
        ]
    return found


def _renamed(job: Job, mark: str, shift_s: float, taken: frozenset[str]) -> Job:
    name = job.name + mark
    if name in taken:
        raise InputError(f"job {name} is in the state already", field="--history")
    deadline_s = None if job.deadline_s is None else job.deadline_s + shift_s
    at_s = job.submission_s + shift_s
    return replace(job, name=name, submission_s=at_s, deadline_s=deadline_s)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Instants of a job in the continuations; inf beyond the horizon.

    Parameters
    ----------
    starts_s, finishes_s
        Sorted, one per continuation; a job that holds GPUs now has started at its first start.
    futures
        How many of the continuations differ in what comes next.
    """

    starts_s: tuple[float, ...]
    finishes_s: tuple[float, ...]
    futures: int

    def of(self, what: str) -> tuple[float, ...]:
        """Instants of ``start`` or ``finish``."""
        return self.starts_s if what == "start" else self.finishes_s

    def held(self, what: str, came_s: float) -> float:
        """How much of what came lies in the middle 80 %: 1 inside, 0 outside, a share on an edge.

        Of m draws and what came, what came has any of m + 1 ranks with the same chance; where some
        are equal (jobs start at boundaries), all of their ranks in equal shares. So the mean over
        forecasts is 0.8 where what comes is of the same kind as what was drawn (the randomised
        probability integral transform: Czado, Gneiting and Held 2009).
        """
        values = self.of(what)
        below = sum(value < came_s - SAME_S for value in values)
        equal = sum(abs(value - came_s) <= SAME_S for value in values) + 1
        ranks = len(values) + 1
        low, high = QUANTILES[0] * ranks, QUANTILES[2] * ranks
        return max(0.0, min(below + equal, high) - max(below, low)) / equal

    def quantiles(self, what: str) -> tuple[float, float, float]:
        """At `QUANTILES`: order statistics between which a further draw lies in 80 % of cases.

        Of m exchangeable futures, one more lies below the r-th in r of m + 1 cases: the ranks are
        0.1 (m + 1), rounded outwards, and as far from above. Below nine futures the interval is all
        of them, and holds less. Where futures repeat, each repetition stands for the same one.
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
) -> dict[str, Forecast]:
    """Continuations of a state under the prepared scheduler, and when jobs start and end in them.

    Parameters
    ----------
    state
        Begin.
    prepared
        Policy, speeds and rules of the engine.
    future
        What may arrive.
    jobs
        Names.
    seeds
        One continuation each.

    Raises
    ------
    InputError
        If what arrives is of a model without speeds, or of a name that is taken.
    """
    starts: dict[str, list[float]] = {name: [] for name in jobs}
    ends: dict[str, list[float]] = {name: [] for name in jobs}
    for seed in seeds:
        for name, (start_s, end_s) in _continuation(state, prepared, future, jobs, seed).items():
            starts[name].append(start_s)
            ends[name].append(end_s)
    futures = len(seeds) if future.futures is None else future.futures
    return {
        name: Forecast(tuple(sorted(starts[name])), tuple(sorted(ends[name])), futures)
        for name in jobs
    }


def _continuation(
    state: RoundState, prepared: Prepared, future: Coming, jobs: Sequence[str], seed: int
) -> dict[str, tuple[float, float]]:
    """First start and completion of each job in one continuation, as long as they need."""
    models = set(prepared.truth.models())
    found: dict[str, tuple[float, float]] = {}
    for doubling in range(HORIZONS - 1 if future.whole else 0, HORIZONS):
        until_s = state.time_s + FIRST_S * 2.0**doubling
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
    """Replay until these jobs are complete; no figures of a run are needed, so none are made."""
    config = replace(prepared.scenario.engine_rules, until_s=until_s)
    trace = continued(state, later, "continuation")
    engine = Engine(trace, state.cluster, prepared.truth, config, (), state)
    policy = fresh_policy(prepared)
    known = {one.job.name: one.first_start_s for one in state.jobs}
    begun = {name: known[name] for name in jobs}
    starts = {name: at_s for name, at_s in begun.items() if at_s is not None}
    ends: dict[str, float] = {}
    while len(ends) < len(jobs) and (now := engine.advance()) is not None:
        engine.apply(policy.decide(now))
        _look(engine.take_events(), jobs, starts, ends)
    _look(engine.take_events(), jobs, starts, ends)
    return {name: (starts.get(name, math.inf), ends.get(name, math.inf)) for name in jobs}


def _look(
    events: Sequence[Event], jobs: Sequence[str], starts: dict[str, float],
    ends: dict[str, float],
) -> None:  # fmt: skip
    for event in events:
        if isinstance(event, Started) and event.job in jobs:
            starts.setdefault(event.job, event.time_s)
        elif isinstance(event, Completed) and event.job in jobs:
            ends[event.job] = event.time_s


def fresh_policy(prepared: Prepared) -> Policy:
    """A policy of its own: an object serves one run."""
    scheduler = prepared.scenario.scheduler
    return policy_of(scheduler, prepared.belief, prepared.truth, prepared.policy_options)
