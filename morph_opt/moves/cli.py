"""Command line of moves: reads a state, prints the cheapest moves alone on stdout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import InputError, Range
from morph_opt.moves.question import MOST_PLACE_GPUS, Freed, Question

if TYPE_CHECKING:
    from morph_opt.round.snapshot import Snapshot

_SECONDS = Range(0.0, 1e12)


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.moves",
        description="Find the cheapest moves of running jobs that let a job start, free nodes or "
        "empty them, in an order that can be carried out.",
        epilog="Exit status: 0 answered, also if there is nothing to do; 1 impossible, or no "
        "answer within the time limit; 2 bad usage, or a state that contradicts itself.",
    )
    add = parser.add_argument
    add("--state", metavar="FILE|-", help="snapshot, .json or .json.gz; - is stdin")
    add(
        "--from",
        dest="live",
        metavar="SOURCE:FILES",
        help="slurm:SQUEUE.json,NODES.json or kueue:WORKLOADS.json,NODES.json,QUEUES.json,... "
        "instead of a snapshot",
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--start", metavar="JOB", help="waiting job that is to start now")
    asked.add_argument(
        "--free",
        metavar="PLACES",
        help='places to empty: "4 nodes of a100", "1 nvlink domain", "1 leaf", "2 x 64 GPUs", '
        '"2 x 16 GPUs in one leaf"',
    )
    asked.add_argument("--drain", metavar="NODE,...", help="nodes to empty")
    asked.add_argument(
        "--slots",
        metavar="N,...",
        help="state how many gangs of these sizes fit now, and after how many moves",
    )
    add(
        "--until-s",
        type=Number(_SECONDS),
        default=0.0,
        metavar="S",
        help="leave jobs alone that complete within S seconds, with --drain",
    )
    add(
        "--most-moves",
        type=whole(0, 10**6),
        metavar="K",
        help="running jobs that may be moved or stopped (any)",
    )
    add("--exempt", metavar="PATTERN,...", help="jobs that are neither moved nor stopped")
    add("--may-stop", metavar="PATTERN,...", help="jobs that may be stopped (none)")
    add("--rules", metavar="FILE", help="operator's rules, TOML")
    add(
        "--checkpoint-s",
        type=Number(_SECONDS),
        default=0.0,
        metavar="S",
        help="seconds between checkpoints: a move loses the progress since the last one (0: none)",
    )
    add(
        "--table",
        action="store_true",
        help="state what becomes free with how many moves, with --free",
    )
    add("--solver", default="highs", metavar="NAME", help="solver (default highs)")
    add(
        "--gap",
        type=Number(Range(0.0, 1.0)),
        default=1e-4,
        metavar="GAP",
        help="relative gap of the loss at which the answer is done (default 1e-4)",
    )
    add(
        "--time-limit-s",
        type=Number(Range(0.0, 1e6)),
        default=10.0,
        metavar="S",
        help="wall-clock safeguard of each solve (default 10)",
    )
    add("--picture", type=Path, metavar="FILE", help="draw nodes before and after, .svg or .png")
    add(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )
    add("--indent", type=whole(0, 16), metavar="N", help="indent the JSON")
    parser.only_with("--until-s", "--drain")
    parser.only_with("--table", "--free")
    parser.only(
        "--picture", "draws moves, which --slots has none of", lambda given: given.slots is None
    )
    parser.only("--indent", "has an effect on JSON only", lambda given: given.format == "json")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.moves.answer import NOTHING
    from morph_opt.moves.api import answer_to
    from morph_opt.moves.picture import draw_moves, require_picture
    from morph_opt.round.snapshot import to_text
    from morph_opt.scheduling.solvers.outcome import Limits

    if given.picture is not None:
        require_picture(given.picture)
    question = Question(
        given.start,
        None if given.free is None else Freed.parse(given.free),
        _names(given.drain, "--drain"),
        _sizes(given.slots),
        given.until_s,
        given.most_moves,
        _names(given.exempt, "--exempt"),
        _names(given.may_stop, "--may-stop"),
        given.checkpoint_s,
    )
    limits = Limits(given.gap, given.time_limit_s)
    snapshot = _snapshot(given, question)
    found = answer_to(snapshot, question, limits, solver=given.solver, table=given.table)
    if given.picture is not None and found.possible and found.status != NOTHING:
        draw_moves(found, given.picture)
    if given.format == "json":
        sys.stdout.write(to_text(found.to_json(), given.indent))
    else:
        sys.stdout.write(found.to_text())
    return 0 if found.possible else 1


def _names(text: str | None, option: str) -> tuple[str, ...]:
    """Return the names of a list."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InputError(f"must look like NAME,NAME, got {text[:80]!r}", field=option)
    return names


def _sizes(text: str | None) -> tuple[int, ...]:
    """Return the numbers of a list."""
    found = []
    for word in () if text is None else text.split(","):
        try:
            found.append(int(Range(1, MOST_PLACE_GPUS, whole=True).parse(word.strip())))
        except ValueError as error:
            raise InputError(
                f"must look like 8,64: {word[:40]!r} {error}", field="--slots"
            ) from None
    return tuple(found)


def _snapshot(given: argparse.Namespace, question: Question) -> Snapshot:
    """Read the state or a scheduler's answers, with the rules that hold."""
    from morph_opt.round.live.sources import read_live
    from morph_opt.round.reader import read_snapshot, under_rules

    if (given.state is None) == (given.live is None):
        raise InputError("give either --state or --from", field="--state")
    if given.live is None:
        snapshot = read_snapshot(given.state)
    else:
        live = read_live(given.live)
        reason = live.held.get(question.start or "") or live.passed_over.get(question.start or "")
        if reason is not None:
            raise InputError(f"{question.start} cannot start: {reason}", field="--start")
        snapshot = live.snapshot
    if given.rules is None:
        return snapshot
    return under_rules(snapshot, given.rules, live=given.live is not None)
