"""Command line of the replay: stdout has the result, stderr the progress and the notes."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.commandline.running import run_command
from morph_opt.domain import InputError
from morph_opt.policies.options import Scheduler
from morph_opt.replay.arguments import WATCHING, make_parser, scenario_from
from morph_opt.replay.scenario import Scenario, read_scenario

if TYPE_CHECKING:
    from morph_opt.replay.prepare import Prepared
    from morph_opt.runs.summary import Summary


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    began = time.perf_counter()
    return run_command(make_parser(), lambda given: _run(given, began), argv)


def _run(arguments: argparse.Namespace, began: float) -> int:
    from morph_opt.extend import named_by_file
    from morph_opt.runs.write import CONFIG

    resume: Path | None = getattr(arguments, "resume", None)
    allow_code = getattr(arguments, "allow_code", False)
    if resume is None:
        return _begin_or_resume(arguments, began)
    with named_by_file(str(resume / CONFIG), allow_code=allow_code):
        return _begin_or_resume(arguments, began)


def _begin_or_resume(arguments: argparse.Namespace, began: float) -> int:
    from morph_opt.replay.prepare import prepare
    from morph_opt.replay.progress import require_watchable, shown_progress
    from morph_opt.replay.run import run_prepared
    from morph_opt.replay.watching import watched
    from morph_opt.runs.read import read_run
    from morph_opt.runs.write import CONFIG, EVENTS, require_free

    given = vars(arguments)
    quiet, watch = bool(given.get("quiet")), bool(given.get("watch"))
    if watch:
        require_watchable()
    resume: Path | None = given.get("resume")
    if resume is not None:
        others = sorted(set(given) - {"resume", "allow_code", "json"} - WATCHING)
        if others:
            options_of = {
                action.dest: action.option_strings[-1] for action in make_parser()._actions
            }
            names = ", ".join(options_of[name] for name in others)
            raise InputError(f"takes everything from the run, not {names}", field="--resume")
        scenario = read_scenario(resume / CONFIG)
        if (resume / EVENTS).exists():
            _note("the run is complete already", quiet)
            return _tell(read_run(resume).summary, as_json=bool(given.get("json")))
        out = resume
    else:
        scenario = scenario_from(arguments)
        if "out" in given:
            require_free(given["out"])
    prepared = prepare(scenario)
    _announce(prepared, quiet)
    if resume is None:
        out = given["out"] if "out" in given else _free_default(prepared.scenario)
    prepared = watched(prepared, out, given)
    title = f"{scenario.workload.trace}, {prepared.policy.name}, {scenario.cluster.name}"
    shown = shown_progress(
        len(prepared.trace.jobs), scenario.cluster.gpus, title, quiet=quiet, watch=watch
    )
    with _resumable(out), shown as progress:
        result = run_prepared(
            prepared, out, resume=resume is not None, progress=progress, began=began
        )
    _note(f"run folder: {out}", quiet)
    scheduler = prepared.scenario.scheduler
    if scheduler.policy == "milp" and scheduler.solver != Scheduler().solver and not quiet:
        _note(_settled(scheduler.solver, (row.report.step for row in result.rounds)), quiet)
    return _tell(result.parts.summary(), as_json=bool(given.get("json")))


def _settled(solver: str, steps: Iterable[str]) -> str:
    """How many rounds a solver settled that was asked for, and which steps the others."""
    from morph_opt.policies.base import SOLVING

    counts = Counter(step or "fallback" for step in steps)
    asked = sum(counts[step] for step in SOLVING)
    others = ", ".join(f"{step} {n}" for step, n in counts.most_common() if step not in SOLVING)
    without = f"; without one: {others} (--method exact asks it wherever something may change)"
    said = f"--solver {solver} settled {asked} of {counts.total()} rounds"
    return said + (without if others else "")


def _announce(prepared: Prepared, quiet: bool) -> None:
    _note(prepared.notice, quiet)
    if prepared.scenario.scheduler.chosen is not None:
        _note(prepared.scenario.scheduler.chosen, quiet)
    if prepared.account is not None:
        for line in prepared.account.texts():
            _note(line, quiet)
    for job, rule in prepared.skipped:
        print(f"dropped: job {job.name} can never run: {rule}", file=sys.stderr)
    for job, rule in prepared.infeasible:
        print(f"dropped: the SLO of job {job.name}: {rule}", file=sys.stderr)


def _free_default(scenario: Scenario) -> Path:
    """``runs/TRACE-POLICY-DIGEST``, with a number behind it when that is taken."""
    from morph_opt.runs.write import require_free

    scheduler, trace = scenario.scheduler, scenario.workload.trace
    decider = scheduler.objective if scheduler.policy == "milp" else scheduler.policy
    short = re.sub(r"^([\w-]+:).*/", r"\1", trace)  # of a log, not its whole path
    parts = (Path(trace).stem if trace.endswith(".csv") else short, decider)
    plain = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-.") for part in parts)
    base = Path("runs") / f"{plain}-{scenario.digest[:8]}"
    out, number = base, 2
    while out.exists():
        out, number = base.with_name(f"{base.name}-{number}"), number + 1
    require_free(out)
    return out


def _tell(summary: Summary, *, as_json: bool) -> int:
    from morph_opt.replay.report import result_table
    from morph_opt.runs.summary import summary_json

    sys.stdout.write(summary_json(summary) if as_json else result_table(summary.values))
    problems = [
        text
        for count, text in (
            (summary.fallback_rounds, "rounds fell back"),
            (summary.rounds_over_capacity, "rounds over capacity"),
            (summary.ended == "stalled", "jobs can never start: the replay stalled"),
        )
        if count
    ]
    for text in problems:
        print(f"warning: {text}", file=sys.stderr)
    return 1 if problems else 0


def _note(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr)


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Say how to go on with a run that was cut short from outside."""
    from morph_opt.runs.write import CONFIG, EVENTS, PARTIAL

    try:
        yield
    except (OSError, MemoryError, KeyboardInterrupt, InputError) as error:
        outside = not isinstance(error, InputError) or isinstance(error.__cause__, OSError)
        if outside and all((out / name).is_file() for name in (CONFIG, EVENTS + PARTIAL)):
            error.add_note(
                f"no decision is lost: python -m morph_opt.replay --resume {out} finishes the run"
            )
        raise
