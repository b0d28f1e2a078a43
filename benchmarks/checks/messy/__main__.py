"""Compare small messy rounds with a plain MIP: ``python -m benchmarks.checks.messy [FIRST LAST]``.

Rounds are drawn by seed from FIRST to LAST - 1 (0 to 299). Each is decided by the ladder and by a
plain MIP with a column per job, option and node, both by HiGHS on one thread with the same gap and
limit, in CPU seconds. A line per round has: seed, objective, jobs, candidates; value, gap, CPU
seconds and last step of the ladder; value, columns and CPU seconds of the plain MIP; the share by
which the ladder is behind.
The status is 1 if a decision breaks a rule, if a bound is false, or if the plain MIP is ahead by
more than 0.1 % in no more time. Seeds 0 to 99 were used to choose parameters (0051).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.checks.messy.campaign import rounds, summary, text_of
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.scheduling.solvers.outcome import Limits


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.checks.messy", description=__doc__)
    parser.add_argument("first", type=whole(0, 10**6), nargs="?", default=0, help="first seed")
    parser.add_argument(
        "last", type=whole(1, 10**6), nargs="?", default=300, help="seed to end before"
    )
    parser.add_argument("--time-limit-s", type=float, default=5.0, help="limit of each solve")
    parser.add_argument("--gap", type=float, default=1e-4, help="gap asked for")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs; return 1 if the ladder is at fault."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    limits = Limits(gap=options.gap, time_s=options.time_limit_s)
    found = []
    for row in rounds(range(options.first, options.last), limits):
        print(text_of(row), flush=True)
        found.append(row)
    print(summary(found, limits))
    return int(any(row.lost or row.wrong for row in found))


if __name__ == "__main__":
    sys.exit(main())
