"""Command line of the comparison."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table

if TYPE_CHECKING:
    from morph_opt.report.comparison import Comparison
    from morph_opt.simulation.runs.views.view import RunView


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.compare",
        description="Compare finished runs, the first with others.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="two run folders or more")
    parser.add_argument("--out", type=Path, help="file for the report of these runs, .html")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    from morph_opt.report.api import report
    from morph_opt.simulation.runs.views.view import open_runs

    views = open_runs(options.runs)
    if len(views) < 2:
        raise InputError(f"needs two run folders or more, got {options.runs[0]}", field="RUN")
    text = "\n\n".join(comparison_blocks(views, markdown=options.markdown))
    if options.out is not None:
        report(options.runs, options.out)
        print(f"written: {options.out}", file=sys.stderr)
    print(text)
    return 0


def comparison_blocks(views: Sequence[RunView], *, markdown: bool = False) -> Iterator[str]:
    """Yield tables and sentences on these runs, to be printed with a blank line in between.

    Raises
    ------
    InputError
        If a file of a run folder is damaged.
    """
    from morph_opt.report.comparison import compare, unlike
    from morph_opt.report.paired import differences, largest, pair_jobs

    def shown(table: Table) -> str:
        return table.to_markdown(spaced=True) if markdown else table.to_text()

    found = compare(views)
    if markdown:
        yield shown(_bold(found))
    else:
        yield from (block.to_text() for block in _upright(found.to_table()))
    lines = [f"not comparable: {line}" for line in found.obstacles] + list(found.remarks)
    if lines:
        yield "\n".join(lines)
    first, *others = views
    for other in others:
        if unlike(first, other):
            continue
        pairing = pair_jobs(first, other)
        if pairing.rows:
            yield f"completion in {other.name} less that in {first.name}, in seconds:"
            yield shown(differences(pairing))
            extremes = largest(pairing, first.name, other.name)
            if extremes.rows:
                yield shown(extremes)


_WIDEST = 120
"""Largest width of the table of runs in characters, unless a single name is longer."""


def _upright(plain: Table) -> Iterator[Table]:
    """Yield tables with a line per figure and a column per run, split at the width of a page."""
    runs = list(plain.texts())
    widths = [max(map(len, run)) + 2 for run in runs]
    left = max(map(len, plain.header))
    while runs:
        many = 1
        while many < len(runs) and left + sum(widths[: many + 1]) <= _WIDEST:
            many += 1
        rows = [
            [figure, *(run[place] for run in runs[:many])]
            for place, figure in enumerate(plain.header)
            if place > 0
        ]
        yield Table([plain.header[0], *(run[0] for run in runs[:many])], rows)
        runs, widths = runs[many:], widths[many:]


def _bold(found: Comparison) -> Table:
    """Return the table of runs with bold best values, for Markdown."""
    plain = found.to_table()
    rows = [
        [f"**{cell[1:]}**" if str(cell).startswith("*") else cell for cell in map(str, row)]
        for row in plain.rows
    ]
    return Table(plain.header, rows)
