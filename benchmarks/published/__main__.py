"""Files of published cases, run through our code.

python -m benchmarks.published FILE... [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.published.cases import Outcome
from benchmarks.published.files import run_file
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.table import Table

SHOWN = 5
"""Differences of a case that are printed as text; ``--json`` has all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; exit 0 when every case is right, 1 when some are not, 2 on bad input."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    outcomes = [run_file(path) for path in options.files]
    right = all(outcome.all_right for outcome in outcomes)
    if options.json:
        print(json.dumps({"all_right": right, "files": [*map(as_json, outcomes)]}, indent=2))
    else:
        print("\n\n".join(map(as_text, outcomes)))
    return 0 if right else 1


def as_text(outcome: Outcome) -> str:
    """A table of the parts, then a line per wrong value and per case that was not run."""
    rows = [
        (part, count.right, count.wrong, count.not_run, count.total)
        for part, count in outcome.parts.items()
    ]
    header = ("part", "right", "wrong", "not run", "cases")
    lines = [outcome.file, Table(header, rows, "lrrrr").to_text()]
    for wrong in outcome.wrong:
        place = f"{wrong.part}, {wrong.name}"
        if wrong.not_run:
            lines.append(f"not run: {place}: {wrong.not_run}")
        lines += [f"wrong: {place}: {found}" for found in wrong.differences[:SHOWN]]
        if len(wrong.differences) > SHOWN:
            lines.append(f"wrong: {place}: and {len(wrong.differences) - SHOWN} more")
    return "\n".join(lines)


def as_json(outcome: Outcome) -> dict[str, object]:
    """The same as a document."""
    return {
        "file": outcome.file,
        "all_right": outcome.all_right,
        "parts": [
            {
                "part": part,
                "right": count.right,
                "wrong": count.wrong,
                "not_run": count.not_run,
                "cases": count.total,
            }
            for part, count in outcome.parts.items()
        ],
        "wrong": [
            {
                "part": wrong.part,
                "case": wrong.name,
                "at": found.at,
                "expected": found.expected,
                "got": found.got,
            }
            for wrong in outcome.wrong
            for found in wrong.differences
        ],
        "not_run": [
            {"part": wrong.part, "case": wrong.name, "reason": wrong.not_run}
            for wrong in outcome.wrong
            if wrong.not_run
        ],
    }


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(
        prog="python -m benchmarks.published",
        description="Runs files of published cases; exit 0 only when every case is right.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON")
    parser.add_argument("--json", action="store_true", help="a JSON document instead of text")
    return parser


if __name__ == "__main__":
    sys.exit(as_process(main))
