"""Reasons for a job's allocation in a finished run, in sentences.

A replay stores no reasons. The engine repeats the run's recorded decisions without a solve, and
only the explained rounds are posed, solved and priced again, with the installed solver. A run of a
live scheduler cannot be repeated: the documents that the controller kept are decided again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from morph_opt.core.documents import Fields, read_toml
from morph_opt.core.documents.fields import read_given
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.units import HOUR_S
from morph_opt.replay.run import at_each, hours, reasons, round_at
from morph_opt.replay.scenario import read_scenario
from morph_opt.round.decide import decide_round
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.explanation.report import UnexplainedError
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import require_reasons
from morph_opt.simulation.events.log import (
    Cancelled,
    Completed,
    Event,
    Preempted,
    RoundDecided,
    Started,
    Submitted,
)
from morph_opt.simulation.runs import read
from morph_opt.simulation.runs.read import Run
from morph_opt.simulation.runs.write import CONFIG, LIVE, document_of


@dataclass(frozen=True, slots=True)
class Stretch:
    """Interval in which a job's state did not change.

    Parameters
    ----------
    from_s, until_s
        Start and end of the interval, in seconds.
    words
        State of the job: ``queued``, or its allocation.
    """

    from_s: float
    until_s: float
    words: str


def stretches(events: Sequence[Event], job: str, from_s: float, until_s: float) -> list[Stretch]:
    """Return the states of a job from its submission to its end, cut to a window.

    Raises
    ------
    InputError
        If the run has no such job.
    """
    found: list[Stretch] = []
    since_s, words = 0.0, ""
    for event in events:
        if getattr(event, "job", None) != job:
            continue
        now = words
        match event:
            case Submitted() | Preempted():
                now = "queued"
            case Started():
                gpus = event.placement.gpus
                now = f"running on {gpus} GPU{'s' * (gpus > 1)} with {event.plan.label}"
            case Completed() | Cancelled():
                now = ""
            case _:
                continue
        if words:
            found.append(Stretch(since_s, event.time_s, words))
        since_s, words = event.time_s, now
    if not found and not words:
        names = {one.job for one in events if isinstance(one, Submitted)}
        rule = f"the run has no job {job!r}{did_you_mean(job, sorted(names))}"
        raise InputError(rule, field="job")
    if words:
        found.append(Stretch(since_s, max(event.time_s for event in events), words))
    joined: list[Stretch] = []
    for one in found:
        if one.until_s <= from_s or one.from_s >= until_s or one.until_s <= one.from_s:
            continue
        cut = Stretch(max(one.from_s, from_s), min(one.until_s, until_s), one.words)
        if joined and joined[-1].words == cut.words:
            cut = Stretch(joined.pop().from_s, cut.until_s, cut.words)
        joined.append(cut)
    return joined


def why(
    folder: str | Path,
    job: str,
    from_s: float = 0.0,
    until_s: float = float("inf"),
    *,
    rounds: int,
) -> list[str]:
    """Describe the states of a job within a window, and explain some of its rounds.

    Parameters
    ----------
    folder
        Run folder of a policy that states reasons: ``milp`` or a batch scheduler.
    job
        Name of the job.
    from_s, until_s
        Window, simulated seconds.
    rounds
        Rounds to explain, spread evenly over those in which the job waits; over all if it never
        does.

    Raises
    ------
    InputError
        Run folder of a policy with reasons: ``milp`` or a batch scheduler.
    """
    path = Path(folder)
    events = tuple(read.read_run(path).events)
    live = _live_table(path)
    if live is not None:
        require_reasons(live.text("policy"), file=str(path))
        reasons_of = partial(_kept_reasons, path, live)
    else:
        scenario = read_scenario(path / CONFIG)
        require_reasons(scenario.scheduler.policy, file=str(path))
        reasons_of = partial(reasons, scenario)
    found = stretches(events, job, from_s, until_s)
    if not found:
        until = "the end" if math.isinf(until_s) else f"{until_s / HOUR_S:g} h"
        window = f"{from_s / HOUR_S:g} h to {until}"
        raise InputError(f"job {job!r} is not active from {window}", file=str(path), field="job")
    there = _rounds_of(events, found)
    lines = [
        f"{job} was {one.words} from {hours(one.from_s)} to {hours(one.until_s)}" for one in found
    ]
    if not there:
        return [*lines, "no round was decided in that time"]
    if live is not None:
        there = [index for index in there if (path / document_of(index)).exists()]
        if not there:
            return [*lines, "no document of a round of that time was kept (keep_rounds)"]
    count = min(rounds, len(there))
    wanted = {there[k * len(there) // count] for k in range(count)}
    return [*lines, *reasons_of(events, wanted, job)]


def read_run(folder: str | Path) -> Run:
    """Read the run that a folder holds.

    Raises
    ------
    InputError
        If it holds no finished run, or a file of it is not what a replay writes; files are read
        on first use, so a damaged one may be found later.
    """
    run = read.read_run(folder)
    path = Path(folder)
    return Run(replace(run.parts, why=partial(_why_at, path)), path)


def _why_at(path: Path, events: Sequence[Event], job: str, at_s: float) -> str:
    """Explain one round of a run folder."""
    at = round_at(events, at_s)
    return why(path, job, at.time_s, at.time_s + 1e-3, rounds=1)[-1]


def _live_table(path: Path) -> Fields | None:
    """Return the settings of a live controller's run; None for a replay."""
    config = Fields(read_toml(path / CONFIG)[0], "", str(path / CONFIG), None)
    return config.object(LIVE, None) if config.given(LIVE) else None


def _kept_reasons(
    path: Path, live: Fields, events: Sequence[Event], wanted: set[int], job: str
) -> Iterator[str]:
    """Yield the reasons for a job's allocation from repeated decisions of the kept documents."""
    options = PolicyOptions(**read_given(live.object("options", None), PolicyOptions))
    at_s = {event.index: event.time_s for event in events if isinstance(event, RoundDecided)}

    def reason(index: int) -> str:
        snapshot = read_snapshot(path / document_of(index))
        if job not in {known.job.name for known in snapshot.state.jobs}:
            return f"{job}: took no part in the decision"
        try:
            return decide_round(snapshot, options, policy=live.text("policy")).why(job)
        except UnexplainedError as error:
            return f"{job}: {error}"

    return at_each((at_s[index], reason(index)) for index in sorted(wanted))


def _rounds_of(events: Sequence[Event], found: Sequence[Stretch]) -> list[int]:
    """Return the rounds in which the job waits, or all of its rounds if it waits in none.

    A job may wait for the next boundary alone: then no round leaves it out.
    """

    def of(stretches: Sequence[Stretch]) -> list[int]:
        return [
            event.index
            for event in events
            if isinstance(event, RoundDecided)
            and any(one.from_s <= event.time_s < one.until_s for one in stretches)
        ]

    return of([one for one in found if one.words == "queued"]) or of(found)
