"""Question `eta`: when does a job start, and when does it end?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from morph_opt.core.domain import SEEDS, InputError, JobState
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.table import Cell
from morph_opt.inputs.perf.tables.table import Joined
from morph_opt.plan.answer import NOT_MODELLED, Answer
from morph_opt.plan.arriving import NOTHING, coming
from morph_opt.plan.ask import Ask
from morph_opt.plan.forecasting import Forecast, forecast
from morph_opt.replay.prepare import prepare
from morph_opt.replay.scenario import Scenario
from morph_opt.round.reader import read_snapshot

HEADER = ("job", "what", "q10_s", "q50_s", "q90_s", "in_continuations", "decided_by")


def eta(
    ask: Ask,
    *,
    history: str | None = None,
    jobs: Sequence[str] | None = None,
    continuations: int = 50,
    seed: int = 0,
    history_options: Mapping[str, Any] | None = None,
) -> Answer:
    """Forecast when jobs of a state start and end: 10, 50 and 90 % over continuations.

    Parameters
    ----------
    ask
        Circumstances, with a scenario that begins with a state (``docs/round.md``).
    history
        Trace from which arrivals are drawn (`morph_opt.plan.arriving.coming`); None if nothing
        arrives.
    jobs
        Names of jobs; None for all.
    continuations, seed
        Number of continuations, and the seed of the first.
    history_options
        Options of the history, as `morph_opt.inputs.traces.registry.load_trace` takes it.

    Raises
    ------
    InputError
        If there is no state, it has no such job or cannot be continued, or the history is too
        short.
    """
    require_type("ask", ask, Ask)
    scenario, state = ask.scenario, ask.scenario.workload.state
    if state is None:
        raise InputError("the scenario begins with no state", field="state")
    if require_type("continuations", continuations, int) < 5:
        raise InputError("10 and 90 % need five at least", field="--continuations")
    SEEDS.require("seed", seed)
    require_each("jobs", jobs or (), str)
    if require_type("history", history, str, None) == "":
        raise InputError("must not be empty", field="history")
    _require_effect(scenario)
    snapshot = read_snapshot(state)
    known = [one.job.name for one in snapshot.state.jobs]
    wanted = list(dict.fromkeys(jobs)) if jobs else known
    for name in wanted:
        if name not in known:
            near = did_you_mean(name, known)
            rule = f"the state has no job {name!r}{near}; it has {', '.join(known[:8])}"
            raise InputError(rule, field="--job")
    future = coming(history, known, **(history_options or {})) if history else NOTHING
    prepared = prepare(scenario)
    if future.speeds is not None:
        truth, belief = (Joined(one, future.speeds) for one in (prepared.truth, prepared.belief))
        source = replace(prepared.source, truth=truth)
        prepared = replace(prepared, source=source, belief=belief)
    begin = replace(snapshot.state, cluster=scenario.cluster)
    seeds = range(seed, seed + continuations)
    found = forecast(begin, prepared, future, wanted, seeds, ask.progress)
    rows = [row for name in wanted for row in _rows(name, found[name])]
    states = {one.job.name: one for one in begin.jobs}
    said = tuple(_sentence(states[name], found[name], begin.time_s) for name in wanted)
    asked = {
        "history": history,
        "jobs": wanted,
        "continuations": continuations,
        "seed": seed,
        **ask.asked(),
    }
    figures = {
        name: {"start_s": one.quantiles("start"), "finish_s": one.quantiles("finish")}
        for name, one in found.items()
    }
    more = ("remaining work is believed as the state has it, and speeds are known",)
    asking = f"the policy decides every {scenario.engine.interval_s:g} s"
    notes = (*future.notes, asking)
    return Answer("eta", asked, said, figures, HEADER, rows, notes, (*more, *NOT_MODELLED))


def _require_effect(scenario: Scenario) -> None:
    """Refuse options without effect on a continuation."""
    for name, given in (
        ("events", scenario.failures.events is not None),
        ("mtbf_s", scenario.failures.mtbf_s is not None),
        ("until_s", scenario.engine.until_s is not None),
        ("skip_impossible", scenario.workload.skip_impossible),
    ):
        if given:
            rule = "has no effect on eta: nodes stay, and continuations last as jobs need"
            raise InputError(rule, field=name)


def _rows(name: str, one: Forecast) -> list[list[Cell]]:
    found: list[list[Cell]] = []
    for what, values in (("start", one.starts_s), ("finish", one.finishes_s)):
        q = [v if math.isfinite(v) else None for v in one.quantiles(what)]
        found.append([name, what, *q, sum(map(math.isfinite, values)), "replay"])
    return found


def _sentence(job: JobState, one: Forecast, now_s: float) -> str:
    def words(values: Sequence[float]) -> str:
        minutes = [
            f"{max(0.0, v - now_s) / 60.0:.0f}" if math.isfinite(v) else "beyond the horizon"
            for v in values
        ]
        if len(set(minutes)) > 1:
            return f"in {' / '.join(minutes)} min (10 / 50 / 90 %)"
        return f"in {minutes[0]} min" if math.isfinite(values[0]) else minutes[0]

    starts = one.quantiles("start")
    if job.running is not None:
        first = "runs"
    elif job.first_start_s is not None:
        first = "ran before and waits"
    elif all(value <= now_s for value in starts):
        first = "starts now"
    else:
        first = f"starts {words(starts)}"
    return f"{job.job.name} {first}, ends {words(one.quantiles('finish'))}"
