"""``python -m benchmarks.acme``: every figure, its caption and its numbers, in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.acme import jobs, nodes, wholes
from benchmarks.acme.frame import read_log
from benchmarks.acme.plots import Plot, draw
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import PICTURES
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.arguments import add_reading, reading_of
from morph_opt.inputs.traces.logs.frame import LogFrame

Logs = Sequence[LogFrame]

FIGURES: dict[str, Callable[[Logs, int | None], Plot]] = {
    "A1": lambda logs, _: jobs.duration(logs),
    "A2": lambda _, __: nodes.utilisation(),
    "A3": lambda logs, _: jobs.gpus(logs),
    "A4": lambda logs, _: jobs.gpu_time(logs),
    "A5": lambda logs, _: jobs.states(logs),
    "A6": lambda logs, _: jobs.types(logs),
    "A7": lambda logs, _: jobs.duration_by_type(logs),
    "A8": lambda logs, _: jobs.queue_by_type(logs),
    "A9": lambda logs, _: jobs.gpus_by_type(logs),
    "A10": lambda _, __: nodes.activity(),
    "A11": lambda _, __: nodes.memory(),
    "A12": lambda _, __: nodes.network(),
    "A13": lambda _, __: nodes.temperature(),
    "A14": lambda _, __: nodes.gpu_power(),
    "A15": lambda _, __: nodes.server_power(),
    "T1": lambda logs, _: wholes.summary(logs),
    "B1": wholes.load,
    "B2": lambda logs, _: wholes.arrivals(logs),
    "B3": lambda logs, _: wholes.queueing_by_group(logs),
}
"""Every figure by name."""

_SOURCE = (
    'Published aggregates: InternLM/AcmeTrace (CC-BY-4.0), "Characterization of Large Language '
    'Model Development in the Datacenter", NSDI 2024; Philly, Helios and PAI as that study quotes '
    "them."
)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.acme", description=__doc__)
    parser.add_argument(
        "--trace",
        action="append",
        default=[],
        metavar="FORMAT:PATH",
        help="draw this log as well; may be repeated",
    )
    parser.add_argument(
        "--figure",
        action="append",
        choices=tuple(FIGURES),
        metavar="NAME",
        help=f"some of {', '.join(FIGURES)}; may be repeated",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("analysis-acme"),
        metavar="DIR",
        help="folder of pictures and index.md (analysis-acme)",
    )
    parser.add_argument(
        "--pictures",
        choices=[one[1:] for one in PICTURES],
        default="png",
        help="form of the pictures (png)",
    )
    parser.add_argument("--gpus", type=whole(1, 10**7), metavar="N", help="capacity of the logs")
    parser.add_argument(
        "--as-published",
        action="store_true",
        help="durations as the logs record them, not end minus start",
    )
    before = set(parser._option_string_actions)
    add_reading(parser)
    for option in ("--gpus", "--as-published", *(set(parser._option_string_actions) - before)):
        parser.only(option, "has an effect together with --trace only", lambda given: given.trace)
    return parser


def plots(
    logs: Logs = (), only: Sequence[str] | None = None, gpus: int | None = None
) -> list[Plot]:
    """The figures, not yet drawn."""
    return [make(logs, gpus) for name, make in FIGURES.items() if only is None or name in only]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    """Read the logs, draw the figures, write ``index.md``."""
    how = reading_of(given)
    logs = [read_log(spec, how, as_published=given.as_published) for spec in given.trace]
    names = [log.name for log in logs]
    if len(set(names)) < len(names):
        raise InputError("two logs of one name cannot be told apart", field="--trace")
    made = plots(logs, given.figure, given.gpus)
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    for plot in made:
        if plot.panels:
            draw(plot, out / f"{plot.name}.{given.pictures}")
    write_atomically(out / "index.md", index(made, logs, given.pictures))
    print(f"{len(made)} figures: {out}/index.md")
    return 0


def index(made: Sequence[Plot], logs: Logs, form: str) -> str:
    """Page of all figures with captions and numbers."""
    parts = ["# Figures of the Acme study", "", _SOURCE, ""]
    for log in logs:
        parts += [*(f"- {note}" for note in log.notes), ""]
    for plot in made:
        parts += [f"## {plot.name} {plot.title}", ""]
        if plot.panels:
            parts += [f"![{plot.title}]({plot.name}.{form})", ""]
        parts += [" ".join(plot.notes), "", plot.table.to_markdown().rstrip("\n"), ""]
    return "\n".join(parts)
