"""``python -m morph_opt.explain RUN JOB``: why a job got what it got, of a run that is over.

Nothing is kept while a replay runs. Asked afterwards, the engine repeats the run's recorded
decisions, which takes no solve, and only the rounds that are asked about are posed, solved and
priced again: prices are those of the solve that is there. Of what happened beside a real scheduler
nothing can be repeated: there the documents are decided again that the controller kept.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.commandline import LineParser, Number, run_command
from morph_opt.commandline.types import whole
from morph_opt.domain import InputError, Range, RoundState
from morph_opt.domain.nearest import did_you_mean

if TYPE_CHECKING:
    from morph_opt.events.log import Event
    from morph_opt.policies.base import Decision
    from morph_opt.replay.setup import Prepared

LIVE = "live"
"""Table of a run's configuration that says how the controller of a real scheduler was run."""
ROUNDS = 5
"""Rounds that are looked at, evenly over the time that is asked about."""
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which nothing changed for a job.

    Parameters
    ----------
    from_s, until_s
        Instants.
    words
        What it was: ``queued``, or what it held.
    """

    from_s: float
    until_s: float
    words: str


def stretches(events: Sequence[Event], job: str, from_s: float, until_s: float) -> list[Stretch]:
    """What a job was, from its submission to its end, within a window.

    Raises
    ------
    InputError
        If the run has no such job.
    """
    from morph_opt.events.log import Cancelled, Completed, Preempted, Started, Submitted

    found: list[Stretch] = []
    since_s, words = 0.0, ""
    last_s = 0.0
    for event in events:
        last_s = max(last_s, event.time_s)
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
        found.append(Stretch(since_s, last_s, words))
    joined: list[Stretch] = []
    for one in found:
        if one.until_s <= from_s or one.from_s >= until_s or one.until_s <= one.from_s:
            continue
        cut = Stretch(max(one.from_s, from_s), min(one.until_s, until_s), one.words)
        if joined and joined[-1].words == cut.words:
            cut = Stretch(joined.pop().from_s, cut.until_s, cut.words)
        joined.append(cut)
    return joined


def states(
    prepared: Prepared, events: Sequence[Event], wanted: set[int]
) -> Iterator[tuple[RoundState, Decision]]:
    """States of these rounds, and what was decided then; a policy that remembers sees them all.

    Raises
    ------
    InputError
        If the log does not follow from the run's inputs.
    """
    from morph_opt.engine.engine import Engine
    from morph_opt.events.log import RoundDecided
    from morph_opt.replay.drive import recorded_decision

    scenario = prepared.scenario
    engine = Engine(
        prepared.trace,
        scenario.cluster,
        prepared.truth,
        scenario.engine,
        prepared.node_events(),
        prepared.initial,
    )
    chunk: list[Event] = []
    for event in events:
        chunk.append(event)
        if not isinstance(event, RoundDecided):
            continue
        state = engine.advance()
        if state is None or state.index != event.index:
            raise InputError("does not follow from the run's inputs", field="events")
        decision = recorded_decision(state, chunk)
        if state.index in wanted:
            yield state, decision
        else:
            prepared.policy.observe(state)
        if event.index >= max(wanted):
            return
        engine.apply(decision)
        engine.take_events()
        chunk = []


def why(
    folder: str | Path,
    job: str,
    from_s: float = 0.0,
    until_s: float = float("inf"),
    *,
    rounds: int = ROUNDS,
) -> list[str]:
    """Sentences: what a job was in a window of a finished run, and why at some rounds of it.

    Parameters
    ----------
    folder
        Of the run; its policy is ``milp``.
    job
        Name.
    from_s, until_s
        Window, simulated seconds.
    rounds
        How many are looked at, evenly over the rounds in which the job waits; over all where it
        never does.

    Raises
    ------
    InputError
        If the folder is no finished run of ``milp``, or the job is not there in the window.
    """
    from morph_opt.documents import Fields, read_toml
    from morph_opt.replay.scenario import read_scenario
    from morph_opt.replay.setup import prepare
    from morph_opt.runs.read import read_run
    from morph_opt.runs.write import CONFIG

    path = Path(folder)
    run = read_run(path)
    config = Fields(read_toml(path / CONFIG)[0], "", str(path / CONFIG), None)
    scenario = None if config.given(LIVE) else read_scenario(path / CONFIG)
    live = config.object(LIVE, None, {})
    policy = live.text("policy") if scenario is None else scenario.scheduler.policy
    if policy != "milp":
        raise InputError(f"explains the policy milp only, not {policy!r}", file=str(path))
    events = tuple(run.events)
    found = stretches(events, job, from_s, until_s)
    if not found:
        until = "the end" if math.isinf(until_s) else f"{until_s / HOUR_S:g} h"
        window = f"{from_s / HOUR_S:g} h to {until}"
        raise InputError(f"job {job!r} is not there from {window}", file=str(path), field="job")
    there = _rounds_of(events, found)
    lines = [
        f"{job} was {one.words} from {_hours(one.from_s)} to {_hours(one.until_s)}" for one in found
    ]
    if not there:
        return [*lines, "no round was decided in that time"]
    if scenario is None:
        there = [index for index in there if (path / document_of(index)).exists()]
        if not there:
            return [*lines, "no document of a round of that time was kept (keep_rounds)"]
    count = min(rounds, len(there))
    wanted = {there[k * len(there) // count] for k in range(count)}
    if scenario is None:
        words = live.value("options", tuple[str, ...])
        return [*lines, *_kept_reasons(path, words, events, wanted, job)]
    return [*lines, *_reasons(prepare(scenario), events, wanted, job)]


def document_of(index: int) -> str:
    """Where a run folder of what happened beside a scheduler has the document of a round."""
    return f"rounds/{index:08d}.json.gz"


def _kept_reasons(
    path: Path, words: Sequence[str], events: Sequence[Event], wanted: set[int], job: str
) -> Iterator[str]:
    """Why the job got what it got, by documents that are decided again as they were."""
    from morph_opt.commandline.options import given_options
    from morph_opt.events.log import RoundDecided
    from morph_opt.explain import UnexplainedError
    from morph_opt.policies.options import OPTIONS, PolicyOptions, Scheduler
    from morph_opt.round.cli import make_parser as round_parser
    from morph_opt.round.decide import decide_round
    from morph_opt.round.reader import read_snapshot

    given = given_options(round_parser().parse_args(["--state=-", *words]), Scheduler)
    options = PolicyOptions(**{name: given[name] for name in given if name in OPTIONS})
    at_s = {event.index: event.time_s for event in events if isinstance(event, RoundDecided)}
    last = ""
    for index in sorted(wanted):
        snapshot = read_snapshot(path / document_of(index))
        if job not in {known.job.name for known in snapshot.state.jobs}:
            text = f"{job}: took no part in the decision"
        else:
            try:
                text = decide_round(snapshot, options).why(job).replace("\n", "\n  ")
            except UnexplainedError as error:
                text = f"{job}: {error}"
        yield f"at {_hours(at_s[index])}: {'the same' if text == last else text}"
        last = text


def _rounds_of(events: Sequence[Event], found: Sequence[Stretch]) -> list[int]:
    """Rounds in which the job waits; all of its rounds where it waits in none.

    It may wait for the next boundary alone.
    """
    from morph_opt.events.log import RoundDecided

    def of(stretches: Sequence[Stretch]) -> list[int]:
        return [
            event.index
            for event in events
            if isinstance(event, RoundDecided)
            and any(one.from_s <= event.time_s < one.until_s for one in stretches)
        ]

    return of([one for one in found if one.words == "queued"]) or of(found)


def _reasons(
    prepared: Prepared, events: Sequence[Event], wanted: set[int], job: str
) -> Iterator[str]:
    """Why the job got what it got, in each of these rounds: they are solved again."""
    from morph_opt.explain import Effort, UnexplainedError
    from morph_opt.explain.text import job_text
    from morph_opt.round.decide import make_explainer

    explainer = make_explainer(prepared.policy_options, Effort(jobs=0, named=(job,)))
    last = ""
    for state, decided in states(prepared, events, wanted):
        again = prepared.policy.decide(state)
        if again.evidence is None:
            continue
        try:
            text = job_text(explainer.explain(again.evidence, again.allocation), job)
        except UnexplainedError as error:
            text = f"{job}: {error}"
        text = text.replace("\n", "\n  ")
        if again.allocation.by_job().get(job) != decided.allocation.by_job().get(job):
            text += "\n  (solved again, the round grants it something else: a tie or a time limit)"
        yield f"at {_hours(state.time_s)}: {'the same' if text == last else text}"
        last = text


def _hours(time_s: float) -> str:
    return f"{time_s / HOUR_S:.2f} h"


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m morph_opt.explain",
        description="Why a job of a finished run was queued, or got what it got, in sentences.",
    )
    hours = Number(Range(0.0, 1e9))
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder of the policy milp")
    parser.add_argument("job", metavar="JOB", help="its name")
    parser.add_argument("--from-h", type=hours, metavar="H", help="simulated hours (0)")
    parser.add_argument("--until-h", type=hours, metavar="H", help="simulated hours (the end)")
    parser.add_argument("--rounds", type=whole(1, 10_000), metavar="N", help="looked at (5)")
    parser.add_argument(
        "--allow-code", action="store_true", help="import what config.toml names as code"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.extend import named_by_file
    from morph_opt.runs.write import CONFIG

    from_s = HOUR_S * (given.from_h or 0.0)
    until_s = float("inf") if given.until_h is None else HOUR_S * given.until_h
    if until_s <= from_s:
        raise InputError("must be behind --from-h", field="--until-h")
    with named_by_file(str(given.run / CONFIG), allow_code=given.allow_code):
        lines = why(given.run, given.job, from_s, until_s, rounds=given.rounds or ROUNDS)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
