"""When does a job start, and when does it end? Continuations of a cluster's state, and a backtest.

From a snapshot (remaining work as it is believed) the policy is replayed many times, each time with
other arrivals drawn from a history; the answer is the 10, 50 and 90 % quantiles over them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from morph_opt.domain import InputError, Job, RoundState
from morph_opt.engine.engine import Engine
from morph_opt.events.log import Completed, Event, Started
from morph_opt.plan.answer import NOT_MODELLED, Answer
from morph_opt.plan.ask import Ask
from morph_opt.plan.stats import share_interval
from morph_opt.policies.base import Decision, Policy
from morph_opt.policies.registry import make_policy
from morph_opt.replay.api import replay
from morph_opt.replay.initial import continued
from morph_opt.replay.scenario import Scenario
from morph_opt.replay.setup import Prepared, prepare
from morph_opt.round.reader import read_snapshot
from morph_opt.traces.registry import load_trace

DAY_S = 86_400.0
QUANTILES = (0.1, 0.5, 0.9)
FIRST_S, HORIZONS = 3600.0, 11
"""First horizon, and how many there are, each twice the one before; 42 days are the last."""
HEADER = (
    "job", "what", "q10_s", "q50_s", "q90_s", "in_continuations", "decided_by",
)  # fmt: skip


def arrivals(
    history: Sequence[Job], from_s: float, until_s: float, seed: int, known: Iterable[str] = ()
) -> list[Job]:
    """What may be submitted between two instants: whole days of a history, drawn at random.

    A day is taken as it is, from midnight of the history's clock (its second 0); what is drawn for
    today is what comes after the present time of day. A history of less than a day is one whose
    length is the day's.
    """
    last_s = max(job.submission_s for job in history)
    length_s = DAY_S if last_s >= DAY_S else last_s + 1.0
    days = max(1, int(last_s // length_s))
    draw = random.Random(f"arrivals/{seed}")
    taken = set(known)
    found = []
    first, last = int(from_s // length_s), int(until_s // length_s)
    for day in range(first, last + 1):
        chosen = draw.randrange(days)
        shift_s = (day - chosen) * length_s
        for job in history:
            at_s = job.submission_s + shift_s
            if int(job.submission_s // length_s) != chosen or not from_s < at_s <= until_s:
                continue
            name = f"{job.name}+{day}"
            if name in taken:
                raise InputError(f"job {name} is in the state already", field="--history")
            deadline_s = None if job.deadline_s is None else job.deadline_s + shift_s
            found.append(replace(job, name=name, submission_s=at_s, deadline_s=deadline_s))
    return found


@dataclass(frozen=True, slots=True)
class Forecast:
    """Instants of a job in the continuations; inf beyond the horizon.

    Parameters
    ----------
    starts_s, finishes_s
        Sorted, one per continuation; a job that holds GPUs now has started at its first start.
    """

    starts_s: tuple[float, ...]
    finishes_s: tuple[float, ...]

    def quantiles(self, what: str) -> tuple[float, ...]:
        """At `QUANTILES`: the order statistic at or above the share, so that none is made up."""
        values = self.starts_s if what == "start" else self.finishes_s
        last = len(values) - 1
        return tuple(values[min(last, math.ceil(q * len(values)) - 1)] for q in QUANTILES)


def forecast(
    state: RoundState,
    prepared: Prepared,
    history: Sequence[Job],
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
    history
        Jobs that arrivals are drawn from; none: nothing arrives.
    jobs
        Names.
    seeds
        One continuation each.
    """
    starts: dict[str, list[float]] = {name: [] for name in jobs}
    ends: dict[str, list[float]] = {name: [] for name in jobs}
    for seed in seeds:
        for name, (start_s, end_s) in _continuation(state, prepared, history, jobs, seed).items():
            starts[name].append(start_s)
            ends[name].append(end_s)
    return {name: Forecast(tuple(sorted(starts[name])), tuple(sorted(ends[name]))) for name in jobs}


def _continuation(
    state: RoundState, prepared: Prepared, history: Sequence[Job], jobs: Sequence[str], seed: int
) -> dict[str, tuple[float, float]]:
    """First start and completion of each job in one continuation, as long as they need."""
    names = [known.job.name for known in state.jobs]
    found: dict[str, tuple[float, float]] = {}
    for doubling in range(HORIZONS):
        until_s = state.time_s + FIRST_S * 2.0**doubling
        later = arrivals(history, state.time_s, until_s, seed, names) if history else []
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
    policy = _policy(prepared)
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


def _policy(prepared: Prepared) -> Policy:
    """A fresh one: an object serves one run."""
    scheduler = prepared.scenario.scheduler
    return make_policy(scheduler.policy, prepared.belief, prepared.policy_options)


def eta(
    ask: Ask,
    state: str,
    *,
    history: str | None = None,
    jobs: Sequence[str] | None = None,
    continuations: int = 50,
    seed: int = 0,
) -> Answer:
    """When jobs of a state start and end: 10, 50 and 90 % over continuations.

    Parameters
    ----------
    ask
        Policy and so on; the cluster is that of the state.
    state
        File of a snapshot (``docs/round.md``).
    history
        Trace that arrivals are drawn from, day by day; None: nothing arrives.
    jobs
        Names; None: all.
    continuations, seed
        How many, and the seed of the first.

    Raises
    ------
    InputError
        If the state has no such job, or cannot be continued.
    """
    if continuations < 5:
        raise InputError("10 and 90 % need five at least", field="--continuations")
    snapshot = read_snapshot(state)
    known = [one.job.name for one in snapshot.state.jobs]
    wanted = list(dict.fromkeys(jobs)) if jobs else known
    for name in wanted:
        if name not in known:
            rule = f"the state has no job {name!r}; it has {', '.join(known[:8])}"
            raise InputError(rule, file=state, field="--job")
    past = load_trace(history).trace.jobs if history else ()
    scenario = Scenario(state=state).replaced(**ask.options)
    prepared = prepare(scenario)
    models = set(prepared.truth.models())
    for job in past:
        if job.model not in models:
            rule = f"job {job.name} is of model {job.model!r}, whose speeds the state does not have"
            raise InputError(rule, file=history, field="--history")
    begin = replace(snapshot.state, cluster=scenario.cluster)
    found = forecast(
        begin, prepared, past, wanted, range(seed, seed + continuations)
    )  # fmt: skip
    rows: list[list[str | int | float | None]] = []
    said = []
    now_s = begin.time_s
    for name in wanted:
        one = found[name]
        for what in ("start", "finish"):
            values = one.starts_s if what == "start" else one.finishes_s
            q = [v if math.isfinite(v) else None for v in one.quantiles(what)]
            rows.append([name, what, *q, sum(map(math.isfinite, values)), "replay"])
        said.append(_sentence(name, one, now_s))
    notes = ["nothing arrives: no history was given"] if not past else []
    asked = {
        "state": state, "history": history, "jobs": wanted, "continuations": continuations,
        "seed": seed, **ask.asked(),
    }  # fmt: skip
    figures = {name: {"start_s": one.quantiles("start"), "finish_s": one.quantiles("finish")}
               for name, one in found.items()}  # fmt: skip
    more = ("remaining work is believed as the state has it, and speeds are known",)
    return Answer(
        "eta", asked, tuple(said), figures, HEADER, rows, tuple(notes), (*more, *NOT_MODELLED)
    )


def _sentence(name: str, one: Forecast, now_s: float) -> str:
    def words(values: Sequence[float]) -> str:
        return " / ".join(
            "beyond the horizon" if not math.isfinite(v) else f"{max(0.0, v - now_s) / 60.0:.0f}"
            for v in values
        )

    starts = one.quantiles("start")
    begun = all(value <= now_s for value in starts)
    first = "has started" if begun else f"starts in {words(starts)} min"
    return f"{name} {first}, ends in {words(one.quantiles('finish'))} min (10 / 50 / 90 %)"


# ---------------------------------------------------------------- backtest


class _Sampler:
    """Decides as a policy does, and keeps every so manieth state."""

    def __init__(self, inner: Policy, every: int) -> None:
        self._inner, self._every = inner, every
        self.name = inner.name
        self.states: list[RoundState] = []

    def decide(self, state: RoundState) -> Decision:
        """The policy's decision."""
        if state.index % self._every == 0:
            self.states.append(state)
        return self._inner.decide(state)


def pinball(quantile: float, predicted: float, actual: float) -> float:
    """Loss of a predicted quantile: its mean is least at the true one (Koenker 1978)."""
    off = actual - predicted
    return quantile * off if off >= 0.0 else (quantile - 1.0) * off


BACKTEST = ("at_s", "job", "actual_s", "q10_s", "q50_s", "q90_s", "covered")


def backtest(
    ask: Ask,
    trace: str,
    *,
    seed: int = 0,
    history_seed: int = 1,
    every: int = 60,
    jobs_per_state: int = 2,
    continuations: int = 20,
) -> Answer:
    """How often the 80 % interval holds what then happened.

    The trace is replayed; at every so manieth round some jobs' ends are forecast, with arrivals
    drawn from another member of the family (or the same history), and compared with the replay's.

    Raises
    ------
    InputError
        If no state had a job to forecast.
    """
    base = ask.base
    scenario = base.replaced(workload=replace(base.workload, trace=trace, seed=seed))
    prepared = prepare(scenario)
    sampler = _Sampler(_policy(prepared), every)
    config = scenario.engine_rules
    whole = replay(prepared.trace, scenario.cluster, sampler, prepared.truth, config)
    ends = {record.job.name: record.finish_s for record in whole.history.jobs}
    past = load_trace(trace, seed=history_seed).trace.jobs
    rows: list[list[str | int | float | None]] = []
    losses: Mapping[float, list[float]] = {q: [] for q in QUANTILES}
    for state in sampler.states:
        draw = random.Random(f"backtest/{seed}/{state.index}")
        names = sorted(one.job.name for one in state.jobs)
        chosen = draw.sample(names, min(jobs_per_state, len(names)))
        seeds = range(1000 * state.index, 1000 * state.index + continuations)
        found = forecast(state, prepared, past, chosen, seeds)
        for name in chosen:
            actual = ends[name]
            if actual is None:
                continue
            low, middle, high = found[name].quantiles("finish")
            for q, value in zip(QUANTILES, (low, middle, high), strict=True):
                losses[q].append(pinball(q, min(value, 1e12), actual))
            covered = int(low - 1e-6 <= actual <= high + 1e-6)
            rows.append([state.time_s, name, actual, low, middle, high, covered])
    if not rows:
        raise InputError("no state of the replay has a job to forecast", field="trace")
    hits = sum(int(row[-1] or 0) for row in rows)
    low, high = share_interval(hits, len(rows), 0.95)
    figures = {
        "forecasts": len(rows), "coverage": hits / len(rows), "lower": low, "upper": high,
        **{f"pinball_{q:g}_s": float(np.mean(losses[q])) for q in QUANTILES},
    }  # fmt: skip
    said = (
        f"the 80 % interval holds {hits} of {len(rows)} ends ({hits / len(rows):.0%}; "
        f"95 % interval {low:.2f} to {high:.2f}, as if they were independent)",
    )
    asked = ask.asked(trace=trace, seed=seed, every=every, continuations=continuations)
    notes = ("forecasts of one state share its future: they are not independent",)
    return Answer("backtest", asked, said, figures, BACKTEST, rows, notes)
