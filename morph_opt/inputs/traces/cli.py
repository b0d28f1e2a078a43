"""``python -m morph_opt.traces lint|describe PATH``: what is wrong with a log, what jobs it has."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import require_no_input, write_atomically
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.arguments import add_reading, reading_of
from morph_opt.inputs.traces.logs.registry import LOG_FORMATS, require_format

# Commands that read logs ask here for what they have in common.
__all__ = ["add_reading", "main", "make_parser", "reading_of"]


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(
        prog="python -m morph_opt.traces",
        description="Logs of clusters: what is in them, and what is wrong with them.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "lint",
        help="report what is in a log and what is wrong with it",
        epilog="Exit status: 0 clean or notes only; 1 warnings; 2 errors, or bad usage.",
    )
    _add_log(check)
    check.add_argument(
        "--cluster", metavar="SPEC", help="cluster to compare with: file or short form"
    )
    check.add_argument(
        "--capacity", type=Path, metavar="FILE", help="table of GPUs over time: date,...,total"
    )
    check.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    check.add_argument("--rows", action="store_true", help="add a line per job to the JSON")
    check.only_with("--rows", "--json")
    describe = commands.add_parser("describe", help="describe the jobs of a log")
    _add_log(describe)
    describe.add_argument("--out", type=Path, metavar="DIR", help="folder for a page and a picture")
    describe.add_argument(
        "--pictures", choices=("svg", "png", "pdf"), default="svg", help="form of the picture (svg)"
    )
    describe.only_with("--pictures", "--out")
    _add_capacity(commands.add_parser("capacity", help="make node events of a capacity over time"))
    return parser


def _add_log(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a log and how it is read."""
    parser.add_argument("log", metavar="PATH|FORMAT:PATH", help="the log; .gz and .xz are unpacked")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="format of the log (guessed from header and keys): "
        f"{', '.join(LOG_FORMATS)}, or a user's own",
    )
    add_reading(parser)


def _add_capacity(parser: LineParser) -> None:
    parser.description = (
        "From a table of GPUs over time (date,...,total) to a file for replay --events: the last "
        "nodes of the cluster are drained and return, so that it never has more GPUs than that."
    )
    parser.add_argument("path", type=Path, metavar="FILE", help="table of the capacity")
    parser.add_argument(
        "--trace", required=True, metavar="FORMAT:PATH", help="log that is replayed with the events"
    )
    parser.add_argument(
        "--cluster", required=True, metavar="SPEC", help="cluster at its largest size"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="file for the events (stdout)")
    add_reading(parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    run = {"lint": _lint, "describe": _describe, "capacity": _capacity}
    return run[given.command](given)


def _describe(given: argparse.Namespace) -> int:
    from morph_opt.inputs.traces.logs.describe import draw, page_of, parts_of, text_of
    from morph_opt.inputs.traces.logs.frame import read_frame
    from morph_opt.inputs.traces.logs.guess import chosen

    log = read_frame(chosen(given.log, given.format, reading_of(given)))
    parts = parts_of(log)
    if given.out is None:
        print(text_of(log, parts), end="")
        return 0
    picture = given.out / f"jobs.{given.pictures}"
    draw(log, picture)
    write_atomically(given.out / "index.md", page_of(log, parts, picture.name))
    print(given.out / "index.md")
    return 0


def _capacity(given: argparse.Namespace) -> int:
    from morph_opt.inputs.clusters import load_cluster
    from morph_opt.inputs.traces.logs.capacity import node_events, read_capacity
    from morph_opt.inputs.traces.logs.reading.scan import Scan
    from morph_opt.inputs.traces.registry import log_of

    spec = log_of(given.trace)
    if spec is None:
        require_format(given.trace, "--trace")
        raise InputError(f"must be a log, FORMAT:PATH, got {given.trace!r}", field="--trace")
    require_no_input(given.out, given.path, Path(spec.path))
    known, how = spec.reader, reading_of(given)
    scan = Scan(Path(spec.path), known, replace(how, window=spec.window))
    first_s = min((job.submit_s for job in scan.jobs()), default=None)
    if first_s is None:
        raise InputError("has no job", file=spec.path)
    if known.relative:
        rule = f"has no dates: format {known.name} counts seconds"
        raise InputError(rule, file=spec.path)
    steps = read_capacity(given.path, scan.clock.zone)
    events = list(node_events(steps, load_cluster(given.cluster), first_s))
    sizes = [step.gpus for step in steps]
    summary = f"{len(steps)} steps, {min(sizes):,} to {max(sizes):,} GPUs"
    print(f"{summary}, {len(events)} node events", file=sys.stderr)
    lines = [f"{time_s:.10g},{node},{event}\n" for time_s, node, event in events]
    text = "".join(("time_s,node,event\n", *lines))
    if given.out is None:
        print(text, end="")
    else:
        write_atomically(given.out, text)
    return 0


def _lint(given: argparse.Namespace) -> int:
    from morph_opt.inputs.traces.logs.guess import chosen
    from morph_opt.inputs.traces.logs.lint import lint

    gpus = None
    log = chosen(given.log, given.format, reading_of(given))
    require_no_input(given.json, log.path, given.capacity or log.path)
    if given.cluster is not None:
        from morph_opt.inputs.clusters import load_cluster

        gpus = load_cluster(given.cluster).gpus
    found = lint(log, cluster_gpus=gpus, capacity=given.capacity, with_rows=given.rows)
    if given.json is not None:
        write_atomically(given.json, found.as_json())
    print(found.as_text(), end="")
    return found.status


if __name__ == "__main__":
    sys.exit(as_process(main))
