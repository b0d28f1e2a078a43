"""Command line of the comparison."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.documents import Fields, read_json
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
    parser.add_argument(
        "--hindcast",
        type=Path,
        metavar="FILE",
        help="output of python -m morph_opt.hindcast --json on the runs' log: its noise is named",
    )
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
    noise = None if options.hindcast is None else read_noise(options.hindcast, views[0])
    blocks = comparison_blocks(views, markdown=options.markdown, noise=noise)
    text = "\n\n".join((*_preface(views, noise), *blocks))
    if options.out is not None:
        report(options.runs, options.out)
        print(f"written: {options.out}", file=sys.stderr)
    print(text)
    return 0


@dataclass(frozen=True, slots=True)
class Noise:
    """Hindcast of a log.

    Parameters
    ----------
    line
        Its statement.
    spreads
        Least and largest value of a figure over its replays, by key of ``summary.json``.
    """

    line: str
    spreads: Mapping[str, tuple[float, float]]


def read_noise(path: Path, view: RunView) -> Noise:
    """Read the output of ``python -m morph_opt.hindcast --json``.

    Parameters
    ----------
    path
        The file.
    view
        A run, whose log it must be of.

    Raises
    ------
    InputError
        If it is no such file, or of another log.
    """
    from morph_opt.hindcast.report import SCHEMA

    document = Fields(read_json(path), "", str(path), None)
    if document.text("schema") != SCHEMA:
        raise InputError(f"is no {SCHEMA}", file=str(path), field="schema")
    trace, mine = document.text("trace"), _log_of(view)
    if trace != mine:
        rule = f"is of {trace}, and {view.name} is not: its trace is {mine or 'no log'}"
        raise InputError(rule, file=str(path), field="trace")
    table = document.object("spreads", None)
    spreads: dict[str, tuple[float, float]] = {}
    for key in table:
        ends = table.value(key, tuple[float, ...])
        if len(ends) != 2:
            raise table.error(key, f"must be the two ends of a spread, got {len(ends)} numbers")
        spreads[key] = ends[0], ends[1]
    return Noise(document.text("line"), spreads)


def _log_of(view: RunView) -> str | None:
    """Return the log of a run; None if its trace is none."""
    from morph_opt.inputs.traces.registry import log_of

    workload = view.settings.get("workload")
    trace = workload.get("trace") if isinstance(workload, dict) else None
    return trace if isinstance(trace, str) and log_of(trace) is not None else None


def _preface(views: Sequence[RunView], noise: Noise | None) -> Iterator[str]:
    """Yield the statement of the hindcast, or that there is none for the log."""
    if noise is not None:
        yield noise.line
    elif (log := _log_of(views[0])) is not None:
        yield (
            "hindcast: none given, so nothing states which differences are noise; make one with "
            f"python -m morph_opt.hindcast {log} --cluster ... --policy ... --json, and name its "
            "output with --hindcast"
        )


def comparison_blocks(
    views: Sequence[RunView], *, markdown: bool = False, noise: Noise | None = None
) -> Iterator[str]:
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
    if noise is not None and not found.obstacles:
        lines += _hidden(views, noise)
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


def _hidden(views: Sequence[RunView], noise: Noise) -> Iterator[str]:
    """Yield the differences to the first run that are smaller than the spread of the replays."""
    from morph_opt.report.comparison import FIGURES, number

    first, *others = views
    for other in others:
        for figure in FIGURES:
            low, high = noise.spreads.get(figure.key, (0.0, 0.0))
            off = number(other.values.get(figure.key)) - number(first.values.get(figure.key))
            if abs(off) < high - low:
                title = figure.title.partition(" (")[0]
                yield (
                    f"within the noise of the replay: {title} of {other.name}, {off:+,.0f} s to "
                    f"{first.name}; shaken replays spread by {high - low:,.0f} s"
                )


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
