"""Command line of planning: one sub-command per question; stdout has the answer."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from morph_opt.commandline import LineParser, Number, named_numbers, run_command
from morph_opt.commandline.types import whole
from morph_opt.documents import Fields, key_lines, read_toml
from morph_opt.domain import SEEDS, InputError, Range
from morph_opt.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.engine.config import RANGES
from morph_opt.plan.answer import Answer
from morph_opt.plan.ask import EXPLORATION, Ask
from morph_opt.plan.mixes import MIXES
from morph_opt.plan.questions.comparing import compare, rules
from morph_opt.plan.questions.eta import eta
from morph_opt.plan.questions.fleets import fleet
from morph_opt.plan.questions.growth import growth
from morph_opt.plan.questions.removing import remove
from morph_opt.plan.questions.sizes import nodes
from morph_opt.plan.questions.worth import worth
from morph_opt.replay.arguments import CLUSTER_SIZES, WATCHING, scenario_from
from morph_opt.replay.arguments import make_parser as replay_parser
from morph_opt.replay.scenario import Scenario, Workload
from morph_opt.sweep.driver import shown_progress
from morph_opt.traces.resampled import DAYS, LOADS, WEEKS

SHARE = Range(0.0, 1.0, above=True)
MANY = whole(1, 100_000)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m morph_opt.plan",
        description="Capacity planning: questions answered by bounds and replays, with evidence.",
        epilog="Exit status: 0 answered; 2 bad usage or bad input, or nothing reaches the target.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="QUESTION")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = commands.add_parser(name, help=text)
        return made

    one = add("nodes", "how many equal nodes keep an SLO?")
    _common(one, cluster=False)
    _statement(one)
    one.add_argument("--node-type", metavar="GPU", help="GPU type of the nodes (A800-80GB)")
    one.add_argument("--gpus-per-node", type=whole(1, MOST_GPUS_PER_NODE), metavar="N")
    one.add_argument("--max-nodes", type=whole(1, MOST_NODES), default=64, metavar="N")
    one = add("fleet", "which mix of nodes keeps an SLO, at what price?")
    _common(one, cluster=False)
    _statement(one)
    one.add_argument("--types", required=True, metavar="GPU,GPU", help="GPU types of the nodes")
    one.add_argument("--prices", required=True, metavar="GPU=USD,...|FILE.toml",
                     help="dollars per hour of a GPU of each type")  # fmt: skip
    one.add_argument("--budget", metavar="USD/h", help="dollars per hour (default: none)")
    one.add_argument("--delay-s", type=Number(Range(60.0, 1e9)), metavar="S",
                     help="in time for the MILP (default: of the SLO, or 4 h)")  # fmt: skip
    one.add_argument("--max-nodes", type=whole(1, 1000), default=16, metavar="N", help="per type")
    one.add_argument("--mixes", type=whole(1, 1000), default=MIXES, metavar="N")
    one = add("remove", "which nodes can go?")
    _common(one)
    _statement(one)
    one = add("worth", "what is one more node of each class worth?")
    _common(one)
    _metric(one, 10)
    one.add_argument("--price-every", type=MANY, default=20, metavar="N", help="rounds (20)")
    one = add("growth", "at which load does the fleet break?")
    _common(one)
    _statement(one, exploration=False)
    one.add_argument("--load", required=True, metavar="FROM:TO:STEP", help="1.0:2.0:0.1")
    one = add("rules", "what do operator's rules cost?")
    _common(one)
    _metric(one, 30)
    one.add_argument("--rules", required=True, action="append", metavar="FILE", help="repeat")
    one = add("compare", "what is a change worth?")
    _common(one)
    _metric(one, 30)
    one.add_argument("--a", required=True, metavar="OPTIONS", help="of morph_opt.replay, quoted")
    one.add_argument("--b", required=True, action="append", metavar="OPTIONS", help="repeat")
    one.add_argument("--no-noise", action="store_true", help="no further seeds of the solver")
    one = add("eta", "when does a job start and end?")
    _scheduler(one)
    _output(one, on=False)
    one.add_argument("--state", required=True, metavar="FILE", help="as morph_opt.round reads it")
    one.add_argument("--history", metavar="TRACE", help="what arrives is drawn from it")
    one.add_argument("--job", action="append", metavar="NAME", help="repeat (default: all)")
    one.add_argument("--continuations", type=whole(5, 10_000), default=50, metavar="N")
    one.add_argument("--seed", type=Number(SEEDS), default=0, help="of the first draw")
    return parser


def _scheduler(one: argparse.ArgumentParser) -> None:
    one.add_argument("--policy", metavar="NAME", help="default milp")
    one.add_argument("--objective", metavar="NAME", help="of milp")
    one.add_argument("--interval", type=Number(RANGES["interval_s"]), metavar="S")
    one.add_argument("--restart-s", type=Number(RANGES["restart_s"]), metavar="S")
    one.add_argument("--options", metavar="OPTIONS", help="more, of morph_opt.replay, quoted")


def _common(one: argparse.ArgumentParser, *, cluster: bool = True) -> None:
    one.add_argument("--trace", default="base", metavar="TRACE", help="default base")
    if cluster:
        one.add_argument("--cluster", metavar="SPEC.toml|8x8:A800-80GB")
    _scheduler(one)
    one.add_argument("--blocks", choices=(WEEKS, DAYS), help="drawn from a history")
    one.add_argument("--at-load", type=Number(LOADS), default=1.0, metavar="F", help="x1")
    _output(one)


def _output(one: argparse.ArgumentParser, *, on: bool = True) -> None:
    if on:
        one.add_argument("--on", metavar="local:N|dask:ADDRESS|MODULE:EXECUTOR")
    one.add_argument("--out", type=Path, metavar="DIR", help="default runs/plan-QUESTION")
    one.add_argument("--json", action="store_true", help="print the answer as JSON")
    one.add_argument("--quiet", action="store_true", help="no progress")


def _statement(one: argparse.ArgumentParser, *, exploration: bool = True) -> None:
    one.add_argument("--slo", required=True, metavar="'p90 queued_s <= 900'")
    one.add_argument("--of-workloads", type=Number(SHARE), default=0.9, metavar="SHARE")
    one.add_argument("--confidence", type=Number(SHARE), default=0.95, metavar="SHARE")
    if exploration:
        one.add_argument("--exploration", type=MANY, default=EXPLORATION, metavar="N",
                         help="workloads to explore with (20)")  # fmt: skip
    one.add_argument("--workloads", type=MANY, metavar="N",
                     help="in all; default: as many as the statement can need")  # fmt: skip
    one.add_argument("--first-seed", type=Number(SEEDS), default=0, metavar="N")


def _metric(one: argparse.ArgumentParser, seeds: int) -> None:
    one.add_argument("--metric", default="avg jct_s", metavar="'p99 jct_s'")
    one.add_argument("--seeds", type=MANY, default=seeds, metavar="N", help="workloads")
    one.add_argument("--first-seed", type=Number(SEEDS), default=0, metavar="N")
    one.add_argument("--confidence", type=Number(SHARE), default=0.95, metavar="SHARE")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    with shown_progress(given.quiet) as progress:
        ask = Ask(
            _scenario(given), given.out, getattr(given, "blocks", None),
            getattr(given, "at_load", 1.0), getattr(given, "on", None), progress=progress,
        )  # fmt: skip
        answer = _QUESTIONS[given.command](ask, given)
    folder = ask.folder(given.command)
    folder.mkdir(parents=True, exist_ok=True)
    answer.write(folder)
    if given.json:
        sys.stdout.write(json.dumps(answer.to_json(), indent=1) + "\n")
    else:
        sys.stdout.write(answer.to_text())
    if not given.quiet:
        print(f"answer, evidence and cells: {folder}", file=sys.stderr)
    return 0


_SHORT = ("trace", "cluster", "policy", "objective", "interval", "restart_s")
"""Options of a replay that a question has itself; ``--state`` is a replay's ``--from-state``."""
_FIXED = {
    *("trace", "cluster", "seed", "failure_seed", "solver_seed", "from_state"),
    *("out", "resume", "allow_code", "json"), *WATCHING,
    *(name[2:].replace("-", "_") for name in CLUSTER_SIZES),
}  # fmt: skip
"""Options of a replay that no question takes among its others."""


def _scenario(given: argparse.Namespace) -> Scenario:
    """What the question varies: the replay that its options would be."""
    words = []
    for name in _SHORT:
        if getattr(given, name, None) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(given, name))]
    if getattr(given, "state", None) is not None:
        words += ["--from-state", given.state]
    more = _words(given.options or "", "--options")
    if "prices" in vars(replay_parser().parse_args(more)) and not hasattr(given, "cluster"):
        raise InputError("--prices has no effect: this question has no cluster", field="--options")
    return scenario_from(replay_parser().parse_args([*words, *more]))


def _words(text: str, field: str) -> list[str]:
    """Options of a replay that stand in quotes."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}", field=field) from error
    fixed = _FIXED & set(vars(replay_parser().parse_args(words)))
    if fixed:
        rule = f"{text!r}: --{min(fixed).replace('_', '-')} cannot be among them"
        raise InputError(rule, field=field)
    return words


def _seeds(given: argparse.Namespace) -> range | None:
    first: int = given.first_seed
    count = getattr(given, "workloads", None) or getattr(given, "seeds", None)
    if count is None:
        return range(first, first + 10_000) if first else None
    return range(first, first + count)


def _stated(given: argparse.Namespace) -> dict[str, Any]:
    more = {"exploration": given.exploration} if hasattr(given, "exploration") else {}
    return more | {
        "of_workloads": given.of_workloads, "confidence": given.confidence, "seeds": _seeds(given),
    }  # fmt: skip


def _nodes(ask: Ask, given: argparse.Namespace) -> Answer:
    return nodes(
        ask, given.slo, node_type=given.node_type, gpus_per_node=given.gpus_per_node,
        most=given.max_nodes, **_stated(given),
    )  # fmt: skip


def _fleet(ask: Ask, given: argparse.Namespace) -> Answer:
    budget = float("inf")
    if given.budget is not None:
        try:
            budget = Range(0.0, 1e12, above=True).parse(given.budget.removesuffix("/h"))
        except ValueError as error:
            raise InputError(f"{error}, like 120/h", field="--budget") from error
    types = [name.strip() for name in given.types.split(",")]
    return fleet(
        ask, given.slo, types=types, prices=_prices(given.prices, types), budget=budget,
        delay_s=given.delay_s, most=given.max_nodes, mixes=given.mixes, **_stated(given),
    )  # fmt: skip


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


def _growth(ask: Ask, given: argparse.Namespace) -> Answer:
    try:
        low, high, step = (LOADS.parse(part) for part in given.load.split(":"))
    except ValueError as error:
        rule = f"must look like 1.0:2.0:0.1, got {given.load!r} ({error})"
        raise InputError(rule, field="--load") from error
    if high < low or (high - low) / step > 1000:
        raise InputError("must ascend, in at most 1,000 steps", field="--load")
    count = int((high - low) / step + 1e-9) + 1
    loads = [round(low + k * step, 6) for k in range(count)]
    return growth(ask, given.slo, loads, **_stated(given))


def _compare(ask: Ask, given: argparse.Namespace) -> Answer:
    variants = {}
    for text in (given.a, *given.b):
        words = _words(text, "--a/--b")
        options = replay_parser().parse_args(words)
        if "prices" in vars(options):
            rule = f"{text!r}: the cluster is the same for all: --prices stands in --options"
            raise InputError(rule, field="--a/--b")
        scenario = scenario_from(options)
        if scenario.workload != Workload():
            rule = f"{text!r}: jobs are the same for all, so that this stands in --options"
            raise InputError(rule, field="--a/--b")
        variants[text] = {
            "scheduler": scenario.scheduler, "engine": scenario.engine,
            "failures": scenario.failures,
        }  # fmt: skip
    if len(variants) < 1 + len(given.b):
        raise InputError("two of them are the same", field="--a/--b")
    usual = Scenario()
    for part in ("scheduler", "engine", "failures"):
        if getattr(ask.scenario, part) != getattr(usual, part):
            rule = "who decides and rules of the engine stand in --a and --b"
            raise InputError(rule, field=part)
    return compare(
        ask, variants, metric=given.metric, seeds=tuple(_seeds(given) or ()),
        confidence=given.confidence, noise=not given.no_noise,
    )  # fmt: skip


def _rules(ask: Ask, given: argparse.Namespace) -> Answer:
    files = [str(Path(file).resolve()) for file in given.rules]
    return rules(
        ask, files, metric=given.metric, seeds=tuple(_seeds(given) or ()),
        confidence=given.confidence,
    )  # fmt: skip


def _worth(ask: Ask, given: argparse.Namespace) -> Answer:
    return worth(
        ask, metric=given.metric, seeds=tuple(_seeds(given) or ()), confidence=given.confidence,
        every=given.price_every,
    )  # fmt: skip


def _remove(ask: Ask, given: argparse.Namespace) -> Answer:
    return remove(ask, given.slo, **_stated(given))


def _eta(ask: Ask, given: argparse.Namespace) -> Answer:
    return eta(
        ask, history=given.history, jobs=given.job,
        continuations=given.continuations, seed=given.seed,
    )  # fmt: skip


_QUESTIONS: dict[str, Callable[[Ask, argparse.Namespace], Answer]] = {
    "nodes": _nodes, "fleet": _fleet, "remove": _remove, "worth": _worth, "growth": _growth,
    "rules": _rules, "compare": _compare, "eta": _eta,
}  # fmt: skip
