"""``python -m morph_opt.traces lint PATH``: what is in a log, and what is wrong with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.documents import write_atomically
from morph_opt.traces.logs.arguments import add_reading, reading_of
from morph_opt.traces.logs.lint import lint
from morph_opt.traces.logs.registry import LOG_FORMATS

# Commands that read logs ask here for what they have in common.
__all__ = ["add_reading", "main", "make_parser", "reading_of"]


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m morph_opt.traces",
        description="Logs of clusters: what is in them, and what is wrong with them.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "lint",
        help="say what is in a log and what is wrong with it",
        epilog="Exit status: 0 clean or notes only; 1 warnings; 2 errors, or bad usage.",
    )
    check.add_argument("path", type=Path, metavar="PATH", help="the log; .gz and .xz are unpacked")
    check.add_argument(
        "--format", choices=tuple(LOG_FORMATS), help="of the log (guessed from header and keys)"
    )
    check.add_argument("--cluster", metavar="SPEC", help="compare with it: file or short form")
    check.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    check.add_argument("--rows", action="store_true", help="with a line per job, in the JSON")
    check.only_with("--rows", "--json")
    add_reading(check)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    gpus = None
    if given.cluster is not None:
        from morph_opt.clusters import load_cluster

        gpus = load_cluster(given.cluster).gpus
    found = lint(
        given.path, given.format, reading_of(given), cluster_gpus=gpus, with_rows=given.rows
    )
    if given.json is not None:
        write_atomically(given.json, found.as_json())
    print(found.as_text(), end="")
    return found.status


if __name__ == "__main__":
    sys.exit(as_process(main))
