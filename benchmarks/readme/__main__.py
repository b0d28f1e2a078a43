"""Tables and pictures of the README: ``python -m benchmarks.readme replay`` and ``... write``.

``replay`` runs the replays that the README shows, ``write`` gathers their aggregates into
``reports/readme`` and rewrites the generated blocks of the README and its pictures from there.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.comparison.cli import FOLDER as COMPARISON
from benchmarks.comparison.cli import read_records
from benchmarks.readme import figure, readme
from benchmarks.readme.cases import ORIGINALS, TRACES, TWINS, Case, cases
from benchmarks.readme.rerun import read_measured, run_cases
from benchmarks.readme.results import (
    Results,
    gpus_over_time,
    jct_quantiles_s,
    load,
    row_of,
    save,
)
from morph_opt import __version__
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.simulation.runs.read import read_run

_RERUN = {"base.jct", "morphling-base.jct"}
_PICTURES = {"base": ("base.svg", "base-narrow.svg")}
"""Of traces: for a page, and for a narrow one."""


PAGES = [Path("README.md"), Path("reports/readme/README.md")]
"""Each block of numbers stands on one of these."""


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.readme", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    replay = commands.add_parser("replay", help="run the replays that the README shows")
    replay.add_argument(
        "--only", nargs="+", metavar="CASE", help="some of them, for example base.jct"
    )
    replay.add_argument(
        "--jobs", type=whole(1, 1024), default=1, metavar="N", help="replays at once (1)"
    )
    write = commands.add_parser("write", help="rewrite tables and pictures of the README")
    write.add_argument(
        "--readme", type=Path, nargs="+", default=PAGES, help="pages to rewrite, README and tables"
    )
    write.add_argument(
        "--data", type=Path, default=Path("reports/readme"), help="aggregates and pictures"
    )
    for command in (replay, write):
        command.add_argument("--runs", type=Path, help="parent of the run folders")
    replay.set_defaults(runs=Path("runs/readme"))
    return parser


def _chosen(only: Sequence[str] | None) -> tuple[Case, ...]:
    """The twins, and the originals where they are at hand, or what was asked for by name."""
    known = {case.slug: case for case in cases(TRACES)}
    if only is None:
        traces = TWINS + (ORIGINALS if os.environ.get("MORPH_OPT_DATA") else ())
        return cases(traces)
    for slug in only:
        if slug not in known:
            raise InputError(f"unknown case {slug!r}; known are {', '.join(known)}", field="--only")
    return tuple(known[slug] for slug in only)


def _gather(results: Results, runs: Path) -> Results:
    """Results with the rows of the run folders that are there in place of older ones."""
    rows, gpus, jct_s = dict(results.rows), dict(results.gpus), dict(results.jct_s)
    for case in cases(TRACES):
        folder = runs / case.slug
        if (folder / "summary.json").exists():
            run = read_run(folder)
            rows[case.slug] = row_of(run, case.command, read_measured(case, runs))
            gpus[case.slug] = gpus_over_time(run)
            jct_s[case.slug] = jct_quantiles_s(run)
    return Results(rows, gpus, jct_s, _versions())


def _versions() -> dict[str, str]:
    found = {"morph-opt": __version__, "Python": platform.python_version()}
    for name in ("highspy", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def _readme(pages: Sequence[Path], data: Path, runs: Path | None) -> None:
    """Rewrite everything or nothing: what can fail happens in a folder that is thrown away."""
    results = load(data)
    if runs is not None:
        if not any((runs / case.slug / "summary.json").is_file() for case in cases(TRACES)):
            raise InputError("holds no finished run of the README", file=str(runs), field="--runs")
        results = _gather(results, runs)
    with TemporaryDirectory() as name:
        staged = Path(name)
        if runs is not None:
            save(results, staged)
            results = load(staged)
        for trace, pictures in _PICTURES.items():
            for narrow, picture in enumerate(pictures):
                figure.draw(results, trace, staged / picture, narrow=bool(narrow))
        texts = readme.rewritten(pages, results, read_records(COMPARISON / "results.csv"))
        data.mkdir(parents=True, exist_ok=True)
        for made in sorted(staged.iterdir()):
            write_atomically(data / made.name, made.read_text("utf-8"))
    for page, text in texts.items():
        write_atomically(page, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 2 for bad input, said in one line."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    if options.command == "replay":
        run_cases(_chosen(options.only), options.runs, twice=_RERUN, at_once=options.jobs)
    else:
        _readme(options.readme, options.data, options.runs)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
