"""Command line of planning: one sub-command per question; stdout has the answer."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from morph_opt.core.commandline.options import dest_of, given_options
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import named_numbers
from morph_opt.core.documents import Fields, key_lines, read_toml
from morph_opt.core.domain import InputError, Range
from morph_opt.core.domain.options import Setting, asked
from morph_opt.inputs.traces.options import LogOptions
from morph_opt.inputs.traces.resampled import LOADS
from morph_opt.plan.arguments import QUESTIONS, Drawn, make_parser, variant_parser
from morph_opt.plan.site import Site
from morph_opt.replay.cli import scenario_from
from morph_opt.replay.scenario import PARTS, Scenario
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.simulation.engine.config import ReplayConfig

if TYPE_CHECKING:
    from morph_opt.plan.answer import Answer
    from morph_opt.plan.ask import Ask


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.plan.ask import Ask
    from morph_opt.scheduling.policies.auto import chosen
    from morph_opt.sweep.driver import shown_progress

    with shown_progress(given.quiet) as progress:
        drawn = Drawn(**given_options(given, Drawn))
        site = given_options(given, Site)
        ask = Ask(
            _scenario(given),
            given.out,
            drawn.blocks,
            drawn.at_load,
            drawn.on,
            progress=progress,
            site=Site(**site) if site else None,
            stated="durations" in given_options(given, Scheduler),
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
        # Variants that are compared name their own objectives; each run records what it chose.
        scheduler = ask.knowing().scenario.scheduler
        taken = chosen(scheduler.policy, scheduler, ()) if given.command != "compare" else None
        if taken is not None:
            print(taken, file=sys.stderr)
        print(f"answer, evidence and cells: {folder}", file=sys.stderr)
    return 0


def _scenario(given: argparse.Namespace) -> Scenario:
    """Return the scenario that the question varies."""
    if given.command != "eta":
        known = {"cluster", "prices", *map(dest_of, _settings(*PARTS.values()))}
        own = {"prices"} if given.command == "fleet" else set()
        return scenario_from(_only(given, known - own))
    # Options of a log are about the history: the state has no jobs of one.
    given.history_options = given_options(given, LogOptions)
    asked_for = _only(given, set(map(dest_of, _settings(Scheduler, ReplayConfig))))
    asked_for.from_state = given.state if given.live is None else _written(given, asked_for)
    return scenario_from(asked_for)


def _settings(*subjects: type[Any]) -> list[Setting]:
    return [one for kind in subjects for one in asked(kind).values()]


def _only(given: argparse.Namespace, names: set[str]) -> argparse.Namespace:
    return argparse.Namespace(**{k: value for k, value in vars(given).items() if k in names})


def _written(given: argparse.Namespace, asked_for: argparse.Namespace) -> str:
    """Write a scheduler's present answers as a snapshot in the folder of the answer."""
    from morph_opt.plan.ask import Ask
    from morph_opt.round.live.sources import of_objects, read_live, with_objects, write_snapshot

    live = read_live(given.live)
    policy = getattr(asked_for, "policy", None)
    if policy is not None and (own := with_objects(policy, given.live)) != policy:
        asked_for.policy, live = own, of_objects(live)
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


def _variant(text: str, option: str) -> dict[str, Any]:
    """Return the parts of a scenario that a variant's quoted options state."""
    from morph_opt.plan.ask import require_decides

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}", field=option) from error
    if words and words[0].endswith(".toml"):  # a file of rules alone, or before options
        words = ["--rules", *words]
    if words and not words[0].startswith("-"):
        rule = f"must be options, like '--policy srtf', or a rules file, got {text!r}"
        raise InputError(rule, field=option)
    given = variant_parser().parse_args(words)
    try:
        scenario = scenario_from(given)
        require_decides(scenario.scheduler)
    except InputError as error:
        raise InputError(f"{text!r}: {error.rule}", field=option) from error
    found = {part: getattr(scenario, part) for part in ("scheduler", "engine", "failures")}
    if "durations" in given_options(given, Scheduler):  # as asked, even if it is the default
        found["durations"] = scenario.scheduler.durations
    return found


def _answer(ask: Ask, given: argparse.Namespace) -> Answer:
    """Call the function that is named like the question; options are named like its parameters."""
    from morph_opt import plan

    question: Callable[..., Answer] = getattr(plan, given.command)
    subject, _ = QUESTIONS[given.command]
    options = subject(**given_options(given, subject))
    words = vars(given) | {name: getattr(options, name) for name in asked(subject)}
    words["seeds"] = _seeds(words)
    if given.command in _MORE:
        words |= _MORE[given.command](words)
    known = [name for name in signature(question).parameters if name in words]
    return question(ask, **{name: words[name] for name in known})


def _seeds(words: Mapping[str, Any]) -> range | None:
    first: int = words.get("first_seed", 0)
    count = words.get("workloads") or words.get("seeds")
    if count is None:
        return range(first, first + 10_000) if first else None
    return range(first, first + count)


def _fleet(words: Mapping[str, Any]) -> dict[str, Any]:
    budget = float("inf")
    if words["budget"] is not None:
        try:
            budget = Range(0.0, 1e12, above=True).parse(words["budget"].removesuffix("/h"))
        except ValueError as error:
            raise InputError(f"{error}, like 120/h", field="--budget") from error
    types = [name.strip() for name in words["types"].split(",")]
    return {"types": types, "prices": _prices(words["type_prices"], types), "budget": budget}


def _prices(text: str, types: Sequence[str]) -> dict[str, float]:
    """Read prices like ``A=2,B=1`` of these types, or a TOML file, which may list more types."""
    if text.endswith(".toml"):
        return read_prices(Path(text))
    prices = named_numbers(text, "--prices")
    more = sorted(set(prices) - set(types))
    if more:
        raise InputError(f"names {', '.join(more)}, which --types does not", field="--prices")
    return prices


def read_prices(path: Path) -> dict[str, float]:
    """Read the price of a GPU by its type, a line per type.

    Raises
    ------
    InputError
        If the file cannot be read, or a price is no number above 0.
    """
    tables, source = read_toml(path)
    read = Fields(tables, "", str(path), None, key_lines(source))
    return {name: read.number(name, above=0.0) for name in read}


def _growth(words: Mapping[str, Any]) -> dict[str, Any]:
    parts = words["load"].split(":")
    rule = f"must look like 1.0:2.0:0.1, got {words['load']!r}"
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


def _compare(words: Mapping[str, Any]) -> dict[str, Any]:
    variants = {words["a"]: _variant(words["a"], "--a")}
    variants |= {text: _variant(text, "--b") for text in words["b"]}
    if len(variants) < 1 + len(words["b"]):
        raise InputError("two variants are the same", field="--a/--b")
    return {"variants": variants}


_MORE: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "fleet": _fleet,
    "growth": _growth,
    "compare": _compare,
}
"""Arguments of a question that are not parsed one by one, by question."""
