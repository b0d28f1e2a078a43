"""``python -m benchmarks.checks.robustness.lines``: random options on every command.

A line may end with status 0 or 1, or be refused in one short line with status 2. An option whose
value is outside its range or choices must be refused, and one that is accepted must be looked at:
a parsed argument that nobody reads is an option that is ignored.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from benchmarks.checks.robustness import documents as good
from benchmarks.checks.robustness import schedulers
from benchmarks.checks.robustness.fuzz import (
    REPORT,
    Finding,
    Tally,
    judged,
    refused_rightly,
    summary,
)
from benchmarks.checks.robustness.fuzz import write_table as write_rows
from benchmarks.checks.robustness.mutate import WORDS
from benchmarks.checks.robustness.readers import emptied
from morph_opt.core.commandline.parser import LineParser
from tests.commands.described import OptionFacts, described
from tests.known import parser_of

BASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "replay": (
        ("--trace", "naive", "--policy", "srtf", "--until-s", "600", "--out", "out"),
        ("--trace", "jobs.csv", "--until-s", "300", "--skip-impossible", "--out", "out"),
        ("--trace", "mt", "--policy", "tiresias:las", "--until-s", "300", "--out", "out"),
        ("--trace", "naive", "--policy", "fifo", "--until-s", "600", "--dump-rounds", "dump",
         "--out", "out"),
    ),
    "round": (
        ("--state", "state.json"),
        ("--state", "state.json", "--explain"),
        ("--state", "state.json", "--policy", "srtf"),
        ("--from", "slurm:jobs.json,nodes.json"),
        ("--from", "slurm:jobs.json,nodes.json", "--why", "13"),
        ("--state", "state.json", "--objective", "jct", "--format", "text"),
    ),
    "moves": (
        ("--state", "state.json", "--slots", "1,2"),
        ("--state", "state.json", "--free", "1 node", "--table"),
        ("--from", "slurm:jobs.json,nodes.json", "--free", "1 x 1 GPUs"),
    ),
    "audit": (
        ("sacct:accounting.txt", "--cluster", "2x4", "--every", "600"),
        ("sacct:accounting.txt", "--cluster", "2x4", "--every", "600", "--json", "audit.json"),
    ),
    "traces": (
        ("lint", "accounting.txt"),
        ("describe", "accounting.txt"),
        ("lint", "accounting.txt", "--cluster", "2x4", "--json", "report.json"),
    ),
    "policies": ((),),
    "instances": (
        ("list", "--folder", "."),
        ("solve", "small", "--folder", "."),
        ("check", "small", "small.sol", "--folder", "."),
    ),
    "data": (("path",), ("list",)),
    "topology": (("show", "cluster.toml"), ("show", "2x4")),
    "perf": (
        ("plan-profiling", "--model", "bert", "--count", "1", "--max-gpus", "2"),
        ("predict", "--model", "bert", "--max-gpus", "2"),
        ("fit", "--model", "bert", "--runs", "runs.csv", "--out", "fitted.toml"),
        ("memory", "gpt2", "dp", "4"),
    ),
    "shares": (("shares.json",), ("shares.json", "--policy", "makespan")),
    "published": (("cases.json",), ("cases.json", "--json")),
    "published.figures": (
        ("tiresias", "--trace", "60.csv", "--gpus", "8"),
        ("gavel", "--trace", "gavel.trace", "--table", "simulation_throughputs.json", "--gpus",
         "v100=2,k80=2"),
    ),
}  # fmt: skip
"""Good lines; all that they name lies in the current folder."""

TEXTS = (
    "milp", "fifo", "srtf", "throughput", "jct", "las", "highs", "worker:highs", "node_pattern",
    "node_assignment", "price", "ladder", "exact", "base", "naive", "2x4", "dp", "4", "nope", "one",
    "state.json", "rules.toml", "jobs.csv", "A800-80GB", "1:2", "a=1",
    "tests.engine.toys:make_fifo",
)  # fmt: skip
PATHS = ("x", "x.toml", "x.svg", ".", "jobs.csv", "rules.toml", "nowhere/x", "/dev/full", "out")


def files() -> dict[str, bytes]:
    """What the lines name."""
    return {
        "state.json": good.snapshots()[0],
        "jobs.csv": good.workload()[0],
        "rules.toml": good.rules()[0],
        "cluster.toml": good.clusters()[0],
        "runs.csv": good.runs()[0],
        "shares.json": good.shares()[0],
        "60.csv": good.tiresias_trace()[0],
        "gavel.trace": good.gavel_trace()[0],
        "simulation_throughputs.json": good.throughputs()[0],
        **good.instance_files(),
        "accounting.txt": schedulers.accounting(),
        "jobs.json": schedulers.squeue()[0],
        "nodes.json": schedulers.slurm_nodes()[0],
        "cases.json": good.cases()[0],
    }


@cache
def facts_of(command: str) -> tuple[OptionFacts, ...]:
    """Options of a command."""
    return tuple(described(parser_of(command)))


def value_of(draw: Random, fact: OptionFacts) -> tuple[str, bool]:
    """A value, and whether the option's own description forbids it."""
    if fact.kind == "choice":
        return _chosen(draw, fact)
    if fact.range is None:
        pool = PATHS if fact.kind == "path" else TEXTS
        word = draw.choice((*pool, *pool, *(w for w in WORDS if "\x00" not in w)))
        return word.encode("utf-8", "ignore").decode(), not word.strip()
    inside = [n for n in (1, 2, 7) if fact.range.holds(n if fact.range.whole else float(n))]
    if inside and draw.random() < 0.6:
        number = str(draw.choice(inside))
        return (f"red={number}" if fact.kind == "named numbers" else number), False
    number = draw.choice(
        (f"{2 * fact.range.high + 1:.0f}", f"{fact.range.low - 1:.0f}", "nan", "x")
    )
    return (f"red={number}" if fact.kind == "named numbers" else number), True


def _chosen(draw: Random, fact: OptionFacts) -> tuple[str, bool]:
    if draw.random() < 0.7:
        return draw.choice(fact.choices), False
    return "nope", True


class Watched(argparse.Namespace):
    """Remembers which arguments somebody looked at."""

    __slots__ = ("_seen",)  # apart from the arguments, which commands go through

    def __getattribute__(self, name: str) -> Any:
        known = object.__getattribute__(self, "__dict__")
        with contextlib.suppress(AttributeError):
            seen = object.__getattribute__(self, "_seen")
            seen.update(known if name == "__dict__" else (name,))
        return object.__getattribute__(self, name)


@contextlib.contextmanager
def watching() -> Iterator[list[Watched]]:
    """Namespaces that parsers return meanwhile."""
    made: list[Watched] = []
    parse = LineParser.parse_args

    def watched(self: LineParser, *arguments: Any, **named: Any) -> Watched:
        made.append(Watched(**vars(parse(self, *arguments, **named))))
        made[-1]._seen = set()
        return made[-1]

    with mock.patch.object(LineParser, "parse_args", watched):
        yield made


def line(draw: Random) -> tuple[str, list[str], bool, list[str]]:
    """Command, words, whether it must be refused, and the names of the options that were added."""
    command = draw.choice(tuple(BASES) + ("replay", "round") * 4)
    words = list(draw.choice(BASES[command]))
    mine = [
        fact
        for fact in facts_of(command)
        if not fact.positional and tuple(words[: len(fact.words)]) == fact.words
    ]
    bad, names = False, []
    for fact in draw.sample(mine, min(len(mine), draw.choice((1, 1, 2, 3)))):
        given = fact.name in words
        names.append(fact.name)
        if fact.kind == "flag":
            words.append(fact.name)
        else:
            value, wrong = value_of(draw, fact)
            words.append(f"{fact.name}={value}")
            bad |= wrong
        bad |= given and not fact.repeatable
    return command, words, bad, names


def _dest(name: str, prefix: str = "--") -> str:
    """Name of the argument as parsed."""
    return name.removeprefix(prefix).replace("-", "_")


def try_line(draw: Random, index: int, tally: Tally) -> list[Finding]:
    """Run one line; what is wrong with how it went."""
    command, words, bad, names = line(draw)
    tally.tried += 1
    with watching() as made:
        kind, what = judged(lambda: refused_rightly(command, words))
    setattr(tally, kind, getattr(tally, kind) + 1)
    shown = f"{command} {' '.join(words)[:200]}"
    if kind not in ("accepted", "refused"):
        return [Finding("options", index, kind, f"{shown}: {what}")]
    if kind == "accepted" and bad:
        return [Finding("options", index, "accepted", f"{shown}: out of its range")]
    if kind == "refused" or not made:
        return []
    seen = made[-1]._seen
    unread = [name for name in names if not {_dest(name), _dest(name, "--no-")} & seen]
    return [Finding("options", index, "ignored", f"{shown}: {unread}")] if unread else []


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Stand in a fresh folder that holds what the lines name."""
    before = Path.cwd()
    for name, content in files().items():
        (folder / name).write_bytes(content)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def campaign(seed: int, first: int, count: int) -> tuple[Tally, list[Finding]]:
    """Lines from one index on, each in a fresh folder."""
    tally, findings = Tally("option lines"), []
    with tempfile.TemporaryDirectory() as scratch:
        for index in range(first, first + count):
            with inside(emptied(Path(scratch, "lines"))):
                findings += try_line(Random(f"{seed}/lines/{index}"), index, tally)
    return tally, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 0 without findings, 1 with."""
    parser = LineParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=REPORT)
    options = parser.parse_args(arguments)
    os.environ.pop("MORPH_OPT_DATA", None)
    tally, findings = campaign(options.seed, options.first, options.lines)
    print(json.dumps(asdict(tally)))
    print("\n".join(summary(findings)))
    write_rows(options.out / "lines.csv", Tally, [tally])
    print(f"{tally.tried} lines, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
