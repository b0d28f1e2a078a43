"""Check rounds of organisations by enumeration: ``python -m benchmarks.checks.organisations``.

Random rounds with two GPU types have a tree of queues of three levels, limits of users and queues,
three classes and checkpoints. Enumeration tries every decision that the audit passes; it knows no
row and no level. Rounds are decided by the ladder and by exact MIPs in turn, and by the
ladder in blocks. The status is 1 if a value differs, a decision breaks a rule, a job of a lower
class is in the way of a higher one, or a bound of blocks is false.
"""

from __future__ import annotations

import argparse
import sys

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from tests.decision.rules.organisations import differences, false_bounds


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.checks.organisations", description=__doc__)
    parser.add_argument("rounds", nargs="?", type=whole(1, 10**6), default=2000)
    parser.add_argument("--first", type=whole(0, 10**9), default=0, help="first round (0)")
    return parser


def main() -> int:
    """Print the differences, and return 1 if there are any."""
    return run_command(make_parser(), _run, None)


def _run(given: argparse.Namespace) -> int:
    numbers = range(given.first, given.first + given.rounds)
    found = [text for number in numbers if (text := differences(number, ladder=number % 2 == 0))]
    found += [text for number in numbers if (text := false_bounds(number)) and text != "too large"]
    for text in found:
        print(text)
    large = sum(text.endswith("too large") for text in found)
    print(f"{given.rounds - large} rounds, {large} too large, {len(found) - large} differences")
    return int(len(found) > large)


if __name__ == "__main__":
    sys.exit(main())
