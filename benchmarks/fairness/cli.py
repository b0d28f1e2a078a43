"""All measurements of fairness, into ``reports/fairness``.

    python -m benchmarks.fairness [times] [ratios] [own] [--processes 2] [--anew] [--out FOLDER]

``times``: solve times of the target shares; ``ratios``: finish-time ratios of all objectives on
Base; ``own``: the round MILP against Gavel's mechanism, each in its policy's own measure. All three
without a word. Replays that have their row in the CSV file are not repeated without ``--anew``;
they are deterministic.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fairness import own, ratios, times
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import InputError

PARTS = ("times", "ratios", "own")


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--repeat", type=whole(1, 1000), default=5, help="solves per case (5)")
    parser.add_argument("--processes", type=whole(1, 1000), default=2, help="replays at a time (2)")
    parser.add_argument("--only", action="append", help="of ratios: NAME or policy:NAME")
    parser.add_argument("--anew", action="store_true", help="repeat replays that have a row")
    parser.add_argument("--out", type=Path, default=Path("reports/fairness"))
    parser.only("--repeat", "is of the part times", lambda given: _has(given, "times"))
    for option in ("--processes", "--only", "--anew"):
        parser.only(option, "is of the part ratios", lambda given: _has(given, "ratios"))
    return parser


def _has(given: argparse.Namespace, part: str) -> bool:
    return not given.parts or part in given.parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were named."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        raise InputError(f"unknown part {min(unknown)!r}; known are {', '.join(PARTS)}")
    parts = options.parts or PARTS
    if "times" in parts:
        times.measure(options.repeat, options.out)
    if "ratios" in parts:
        ratios.measure(options.out, options.processes, options.anew, options.only)
    if "own" in parts:
        own.measure(options.out)
    return 0
