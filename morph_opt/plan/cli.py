"""Command line of planning: one sub-command per question; stdout has the answer."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.commandline import named_numbers, run_command
from morph_opt.commandline.options import dest_of, given_options, words_of
from morph_opt.documents import Fields, key_lines, read_toml
from morph_opt.domain import InputError, Range
from morph_opt.plan.arguments import FIXED, SHORT, make_parser
from morph_opt.replay.arguments import make_parser as replay_parser
from morph_opt.replay.arguments import scenario_from
from morph_opt.replay.scenario import Scenario, Workload
from morph_opt.traces.options import LOG_OPTIONS, LogOptions

if TYPE_CHECKING:
    from morph_opt.plan.answer import Answer
    from morph_opt.plan.ask import Ask


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.plan.ask import Ask
    from morph_opt.policies.auto import chosen
    from morph_opt.sweep.driver import shown_progress

    with shown_progress(given.quiet) as progress:
        ask = Ask(
            _scenario(given),
            given.out,
            getattr(given, "blocks", None),
            getattr(given, "at_load", 1.0),
            getattr(given, "on", None),
            progress=progress,
        )
        answer = _answer(ask, given)
    folder = ask.folder(given.command)
    folder.mkdir(parents=True, exist_ok=True)
    answer.write(folder)
    if given.json:
        sys.stdout.write(json.dumps(answer.to_json(), indent=1) + "\n")
    else:
        sys.stdout.write(answer.to_text())
    if not given.quiet:
        # Variants that are compared name their own objectives; each run says what it took.
        scheduler = ask.scenario.scheduler
        taken = chosen(scheduler.policy, scheduler, ()) if given.command != "compare" else None
        if taken is not None:
            print(taken, file=sys.stderr)
        print(f"answer, evidence and cells: {folder}", file=sys.stderr)
    return 0


def _scenario(given: argparse.Namespace) -> Scenario:
    """What the question varies: the replay that its options would be."""
    words = []
    for name in ("trace", "cluster"):
        if getattr(given, name, None) is not None:
            words += [f"--{name}", getattr(given, name)]
    for subject, names in SHORT.items():
        words += words_of(given, subject, names)
    if getattr(given, "live", None) is not None:
        given.state = _written(given)
    if getattr(given, "state", None) is not None:
        words += ["--from-state", given.state]
    more = _words(given.options or "", "--options")
    if "prices" in vars(replay_parser().parse_args(more)) and not hasattr(given, "cluster"):
        raise InputError("--prices has no effect: this question has no cluster", field="--options")
    asked = replay_parser().parse_args([*words, *more])
    # Options of a log are for the history: the state has no jobs of one.
    if getattr(given, "history", None) is not None:
        given.history_options = given_options(asked, LogOptions)
        for one in LOG_OPTIONS.values():
            vars(asked).pop(dest_of(one), None)
    return scenario_from(asked)


def _written(given: argparse.Namespace) -> str:
    """What a scheduler answers now, as a snapshot in the folder of the answer."""
    from morph_opt.plan.ask import Ask
    from morph_opt.round.live import read_live, write_snapshot

    live = read_live(given.live)
    for name in given.jobs or ():
        if name in live.held:
            raise InputError(f"{name} waits: {live.held[name]}", file=given.live, field="--job")
    folder = Ask(Scenario(), given.out).folder(given.command)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "state.json"
    write_snapshot(path, live)
    if not given.quiet:
        for note in (*(f"{name} waits: {why}" for name, why in live.held.items()), *live.notes):
            print(f"note: {note}", file=sys.stderr)
    return str(path)


def _words(text: str, field: str) -> list[str]:
    """Options of a replay that stand in quotes."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}", field=field) from error
    if words and not words[0].startswith("-"):
        raise InputError(f"must be options, like '--policy srtf', got {text!r}", field=field)
    fixed = FIXED & set(vars(replay_parser().parse_args(words)))
    if fixed:
        rule = f"{text!r}: --{min(fixed).replace('_', '-')} cannot be among them"
        raise InputError(rule, field=field)
    return words


def _seeds(given: argparse.Namespace) -> range | None:
    first: int = getattr(given, "first_seed", 0)
    count = getattr(given, "workloads", None) or getattr(given, "seeds", None)
    if count is None:
        return range(first, first + 10_000) if first else None
    return range(first, first + count)


def _answer(ask: Ask, given: argparse.Namespace) -> Answer:
    """Ask the function that is named like the command; arguments are named like its parameters."""
    from morph_opt import plan

    question: Callable[..., Answer] = getattr(plan, given.command)
    words = vars(given) | {"seeds": _seeds(given)}
    if given.command in _MORE:
        words |= _MORE[given.command](ask, given)
    known = [name for name in signature(question).parameters if name in words]
    return question(ask, **{name: words[name] for name in known})


def _fleet(_: Ask, given: argparse.Namespace) -> dict[str, Any]:
    budget = float("inf")
    if given.budget is not None:
        try:
            budget = Range(0.0, 1e12, above=True).parse(given.budget.removesuffix("/h"))
        except ValueError as error:
            raise InputError(f"{error}, like 120/h", field="--budget") from error
    types = [name.strip() for name in given.types.split(",")]
    return {"types": types, "prices": _prices(given.prices, types), "budget": budget}


def _prices(text: str, types: Sequence[str]) -> dict[str, float]:
    """Prices as ``A=2,B=1`` of these types, or from a TOML file, which may be a list of more."""
    if text.endswith(".toml"):
        return read_prices(Path(text))
    prices = named_numbers(text, "--prices")
    more = sorted(set(prices) - set(types))
    if more:
        raise InputError(f"names {', '.join(more)}, which --types does not", field="--prices")
    return prices


def read_prices(path: Path) -> dict[str, float]:
    """Price of a node by GPU type, a line per type.

    Raises
    ------
    InputError
        If the file cannot be read, or a price is no number above 0.
    """
    tables, source = read_toml(path)
    read = Fields(tables, "", str(path), None, key_lines(source))
    return {name: read.number(name, above=0.0) for name in read}


def _growth(_: Ask, given: argparse.Namespace) -> dict[str, Any]:
    from morph_opt.traces.resampled import LOADS

    parts = given.load.split(":")
    rule = f"must look like 1.0:2.0:0.1, got {given.load!r}"
    if len(parts) != 3:
        raise InputError(rule, field="--load")
    try:
        low, high, step = map(LOADS.parse, parts)
    except ValueError as error:
        raise InputError(f"{rule} ({error})", field="--load") from error
    if high < low or (high - low) / step > 1000:
        raise InputError("must ascend, in at most 1,000 steps", field="--load")
    count = int((high - low) / step + 1e-9) + 1
    return {"loads": [round(low + k * step, 6) for k in range(count)]}


def _compare(ask: Ask, given: argparse.Namespace) -> dict[str, Any]:
    from morph_opt.plan.ask import require_decides

    variants = {}
    for option, text in (("--a", given.a), *(("--b", text) for text in given.b)):
        words = _words(text, "--a/--b")
        options = replay_parser().parse_args(words)
        if "prices" in vars(options):
            rule = f"{text!r}: the cluster is the same for all: --prices stands in --options"
            raise InputError(rule, field="--a/--b")
        scenario = scenario_from(options)
        if scenario.workload != Workload():
            rule = f"{text!r}: jobs are the same for all, so that this stands in --options"
            raise InputError(rule, field="--a/--b")
        try:
            require_decides(scenario.scheduler)
        except InputError as error:
            raise InputError(f"{text!r}: {error.rule}", field=option) from error
        variants[text] = {
            "scheduler": scenario.scheduler,
            "engine": scenario.engine,
            "failures": scenario.failures,
        }
    if len(variants) < 1 + len(given.b):
        raise InputError("two of them are the same", field="--a/--b")
    usual = Scenario()
    for part in ("scheduler", "engine", "failures"):
        if getattr(ask.scenario, part) != getattr(usual, part):
            rule = "who decides and rules of the engine stand in --a and --b"
            raise InputError(rule, field=part)
    return {"variants": variants}


_MORE: dict[str, Callable[[Ask, argparse.Namespace], dict[str, Any]]] = {
    "fleet": _fleet,
    "growth": _growth,
    "compare": _compare,
}
"""What a question is asked beyond the words of its command line as they are parsed."""
