"""Command line of the exports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError

if TYPE_CHECKING:
    from morph_opt.simulation.runs.views.view import RunView

KINDS = ("perfetto", "batsim", "tables")


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.export",
        description="Export a finished run: a trace for Perfetto, Batsim's tables, tidy tables.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--to", choices=KINDS, required=True, help="format to write")
    parser.add_argument(
        "--out",
        type=Path,
        help="file for perfetto (RUN.perfetto.json.gz), new folder for others (RUN-batsim ...)",
    )
    parser.add_argument(
        "--per-job", action="store_true", help="write one row per job, not per segment (batsim)"
    )
    parser.add_argument(
        "--format", choices=("csv", "parquet"), default="csv", help="file format of tables (csv)"
    )
    for option, kind in (("--per-job", "batsim"), ("--format", "tables")):
        rule = f"has an effect with --to {kind} only"
        parser.only(option, rule, lambda given, kind=kind: given.to == kind)  # type: ignore[misc]
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    from morph_opt.export.perfetto import perfetto_trace
    from morph_opt.simulation.runs.views.view import open_run
    from morph_opt.simulation.runs.write import require_free

    view = open_run(options.run)
    run = options.run.resolve().name
    if options.to == "perfetto":
        out = options.out or Path(f"{run}.perfetto.json.gz")
        if out.suffix != ".gz":
            raise InputError(f"must end in .gz, got {str(out)!r}", field="--out")
        write_atomically(out, perfetto_trace(view))
    else:
        out = options.out or Path(f"{run}-{options.to}")
        require_free(out)
        write_folder(out, _files(options, view, run))
    print(f"written: {out}", file=sys.stderr)
    return 0


def _files(options: argparse.Namespace, view: RunView, run: str) -> Mapping[str, str | bytes]:
    from morph_opt.export.batsim import batsim_jobs, batsim_schedule
    from morph_opt.export.tables import parquet_bytes, tidy_tables

    if options.to == "batsim":
        jobs = batsim_jobs(view, per_job=options.per_job)
        return {"jobs.csv": jobs.to_csv(), "schedule.json": batsim_schedule(view)}
    tables = tidy_tables(view, run)
    if options.format == "parquet":
        return {f"{name}.parquet": parquet_bytes(table) for name, table in tables.items()}
    return {f"{name}.csv": table.to_csv() for name, table in tables.items()}


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files into a folder that is new or empty.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"cannot be made ({error.strerror or error})"
        raise InputError(rule, file=str(folder), field="--out") from error
    for name, content in files.items():
        write_atomically(folder / name, content)
