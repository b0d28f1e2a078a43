"""The study of the performance model, and the tables that docs/memory.md shows.

python -m benchmarks.perf report      # the fitting protocol on the public tables
python -m benchmarks.perf fit-zoo     # the zoo's constants, from the public tables
python -m benchmarks.perf facts|plans|measured
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.perf.memory import facts_table, measured_tables, zoo_table
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import write_atomically
from morph_opt.inputs.data import locate


def make_parser() -> LineParser:
    """The parser of all sub-commands."""
    parser = LineParser(prog="python -m benchmarks.perf", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], text: str) -> LineParser:
        command: LineParser = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    report = add("report", _report, "the fitting protocol on the public tables")
    report.add_argument("--out", type=Path, default=Path("reports/perf"), metavar="DIR")
    zoo = add("fit-zoo", _fit_zoo, "regenerate the zoo's constants from the public tables")
    zoo.add_argument("--out", type=Path, required=True, metavar="ZOO.toml")
    add("facts", lambda _: print(facts_table()), "published numbers of the models, as Markdown")
    add("plans", lambda _: print(zoo_table()), "GiB per GPU of common plans of all models")
    measured = add("measured", _measured, "the public measurements, in aggregate")
    measured.add_argument("folder", type=Path, help="root of the public Morphling artifact")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    options.run(options)
    return 0


def _measured(options: argparse.Namespace) -> None:
    print(measured_tables(options.folder))


def _report(options: argparse.Namespace) -> None:
    from benchmarks.perf.figures import protocol_figure
    from benchmarks.perf.report import MAIN, evaluate, write_report

    outcomes = evaluate(locate("morphling"), lambda text: print(text, file=sys.stderr))
    for path in write_report(outcomes, options.out):
        print(path)
    figure = options.out / "protocol.svg"
    protocol_figure(outcomes.chosen[MAIN], figure)
    print(figure)


def _fit_zoo(options: argparse.Namespace) -> None:
    from benchmarks.perf.regenerate import zoo_from

    write_atomically(options.out, zoo_from(locate("morphling")))
    print(options.out)


if __name__ == "__main__":
    sys.exit(as_process(main))
