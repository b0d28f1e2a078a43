"""The published figures and tables next to ours: ``docs/seeds.md``.

python -m benchmarks.seeds measure   # what no other report holds, a minute
python -m benchmarks.seeds page      # rewrite the tables of docs/seeds.md from the reports
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.readme.readme import rewrite
from benchmarks.seeds.measure import write
from benchmarks.seeds.page import tables
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import LINES_BYTES, read_text, write_atomically

PAGE = Path("docs/seeds.md")


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.seeds", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    measured = commands.add_parser("measure", help="measure what no other report holds")
    measured.add_argument("--out", type=Path, default=Path("reports/seeds/measured.csv"))
    page = commands.add_parser("page", help="rewrite the tables from the reports")
    page.add_argument("--page", type=Path, default=PAGE)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    if options.command == "measure":
        write(options.out)
    else:
        text = read_text(options.page, LINES_BYTES)
        write_atomically(options.page, rewrite(text, {"seeds": tables()}, str(options.page)))
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
