"""Command line of explanations: sentences on stdout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import InputError, Range
from morph_opt.core.domain.units import HOUR_S

ROUNDS = 5
"""Number of rounds to explain, spread evenly over the window."""


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.explain",
        description="Explain why a job of a finished run was queued or got its allocation.",
    )
    hours = Number(Range(0.0, 1e9))
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="run folder of milp or a batch policy"
    )
    parser.add_argument("job", metavar="JOB", help="name of the job")
    parser.add_argument(
        "--from-h", type=hours, default=0.0, metavar="H", help="start of the window, in hours (0)"
    )
    parser.add_argument(
        "--until-h", type=hours, metavar="H", help="end of the window, in hours (end of the run)"
    )
    parser.add_argument(
        "--rounds",
        type=whole(1, 10_000),
        default=ROUNDS,
        metavar="N",
        help="rounds to explain (%(default)s)",
    )
    parser.add_argument(
        "--allow-code", action="store_true", help="import code that config.toml names"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    """Print the sentences."""
    from morph_opt.core.extend import named_by_file
    from morph_opt.explain.why import why
    from morph_opt.simulation.runs.write import CONFIG

    from_s = HOUR_S * given.from_h
    until_s = float("inf") if given.until_h is None else HOUR_S * given.until_h
    if until_s <= from_s:
        raise InputError("must be after --from-h", field="--until-h")
    with named_by_file(str(given.run / CONFIG), allow_code=given.allow_code):
        lines = why(given.run, given.job, from_s, until_s, rounds=given.rounds)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
