"""Command line of the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.report",
        description="Write a report on finished runs: one HTML file that opens anywhere.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="run folders; others are compared with the first, those of plan and sweep are skipped",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), help="file to write (report.html)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    from morph_opt.report.api import report
    from morph_opt.simulation.runs.read import other_folder

    others = {path: other_folder(path) for path in options.runs}
    runs = [path for path in options.runs if others[path] is None]
    page = report(runs or options.runs, options.out)
    for path, other in others.items():
        if other is not None:
            print(f"passed over: {path} is no run folder but {other}", file=sys.stderr)
    print(f"written: {options.out}, {len(page.encode()) / 2**20:.2f} MiB", file=sys.stderr)
    return 0
