"""Command line of the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.commandline import LineParser, run_command


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m morph_opt.report",
        description="Write a report on finished runs: one HTML file that opens anywhere.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folders; the first is compared with"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), help="file to write (report.html)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    from morph_opt.report.api import report

    page = report(options.runs, options.out)
    print(f"written: {options.out}, {len(page.encode()) / 2**20:.2f} MiB", file=sys.stderr)
    return 0
