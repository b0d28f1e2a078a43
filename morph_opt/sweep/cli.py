"""Command line of sweeps: run one, show its progress, write its table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.domain import InputError

if TYPE_CHECKING:
    from morph_opt.sweep.cell import Cell
    from morph_opt.sweep.store import Found

LIST, RESULTS, TIMES = "sweep.json", "results.csv", "times.csv"


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.sweep",
        description="Run many replays: every cell of a sweep.toml in a process of its own.",
        epilog="Exit status: 0 done; 1 some cells failed (they are rows of the table) or, for "
        "status, are missing; 2 bad usage or bad input.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run the cells that have no result yet")
    run.add_argument("spec", type=Path, metavar="SWEEP.toml", help="definition of the sweep")
    run.add_argument(
        "--on",
        metavar="local:N|dask:ADDRESS|MODULE:EXECUTOR",
        help="executor of the cells (one process per core)",
    )
    run.add_argument("--out", type=Path, metavar="DIR", help="folder (runs/sweep-NAME)")
    run.add_argument("--retry-failed", action="store_true", help="run failed cells again as well")
    run.add_argument(
        "--other-version",
        action="store_true",
        help="continue in a folder of another version; its cells are run again by this one",
    )
    run.add_argument(
        "--allow-code", action="store_true", help="import the code that SWEEP.toml names"
    )
    run.add_argument("--quiet", action="store_true", help="print no progress and no notes")
    status = commands.add_parser("status", help="count the cells that are done, failed, missing")
    status.add_argument("folder", type=Path, metavar="DIR", help="folder of the sweep")
    table = commands.add_parser("table", help="print the table of finished cells")
    table.add_argument("folder", type=Path, metavar="DIR", help="folder of the sweep")
    table.add_argument(
        "--columns", metavar="NAME,...", help="columns to print instead of the main ones"
    )
    table.add_argument("--all", action="store_true", help="print all columns, as CSV")
    table.add_argument(
        "--out",
        type=Path,
        metavar="FILE.csv|FILE.parquet",
        help="write all columns, or those of --columns",
    )
    table.only("--all", "cannot be combined with --columns or --out", _prints_all)
    return parser


def _prints_all(given: argparse.Namespace) -> bool:
    return given.columns is None and given.out is None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _main, arguments)


def _main(given: argparse.Namespace) -> int:
    command = {"run": _run, "status": _status, "table": _table}[given.command]
    return command(given)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.core.documents import exists, write_atomically
    from morph_opt.core.extend import named_by_file
    from morph_opt.sweep.cell import versions
    from morph_opt.sweep.driver import run_cells, shown_progress
    from morph_opt.sweep.spec import list_text, read_list, read_spec
    from morph_opt.sweep.store import CellStore
    from morph_opt.sweep.table import SweepTable

    mine = dict(versions("highs"))
    by_file = named_by_file(str(given.spec), allow_code=False)
    with nullcontext() if given.allow_code else by_file:
        spec = read_spec(given.spec)
        cells = spec.cells()
        text = list_text(cells, mine)  # before anything is written: files may be missing
    out: Path = given.out or Path("runs") / f"sweep-{given.spec.stem}"
    if exists(out / LIST) and not given.other_version:
        theirs, _ = read_list(out / LIST)
        if theirs != mine:
            differs = ", ".join(sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k)))
            rule = f"was begun by another version ({differs}); its results stay: give another "
            raise InputError(f"{rule}--out, or --other-version", file=str(out / LIST))
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / LIST, text)
    if not given.quiet:
        print(f"{len(cells)} cells in {out}", file=sys.stderr)
    with shown_progress(given.quiet) as progress:
        found = run_cells(
            cells,
            CellStore(out),
            on=given.on,
            limits=spec.limits,
            retry_failed=given.retry_failed,
            progress=progress,
        )
    made = SweepTable(cells, found)
    write_atomically(out / RESULTS, made.to_csv())
    write_atomically(out / TIMES, made.to_table(times=True).to_csv())
    print(f"{len(cells) - made.failed} done, {made.failed} failed: {out / RESULTS}")
    return int(made.failed > 0)


def _listed(folder: Path) -> tuple[list[Cell], list[Found | None]]:
    from morph_opt.core.documents import exists
    from morph_opt.replay.scenario import Scenario
    from morph_opt.sweep.cell import Cell
    from morph_opt.sweep.spec import read_list
    from morph_opt.sweep.store import CellStore

    if not exists(folder / LIST):
        raise InputError(f"is no folder of a sweep (it has no {LIST})", file=str(folder))
    store = CellStore(folder)
    _, rows = read_list(folder / LIST)
    cells = [Cell(Scenario("naive"), tuple(axes.items())) for _, axes in rows]
    return cells, [store.find(key) for key, _ in rows]


def _status(given: argparse.Namespace) -> int:
    _, found = _listed(given.folder)
    missing = found.count(None)
    failed = [one for one in found if one is not None and one.failure is not None]
    for one in found:
        if one is not None:
            _ = one.summary  # refused if it is not what the replay wrote
    done = len(found) - missing - len(failed)
    print(f"{done} done, {len(failed)} failed, {missing} missing of {len(found)} cells")
    for one in failed:
        assert one.failure is not None
        print(f"{one.key[:12]} {one.failure.kind}: {one.failure.message}")
    return int(missing > 0 or bool(failed))


def _table(given: argparse.Namespace) -> int:
    from morph_opt.sweep.table import SweepTable

    cells, found = _listed(given.folder)
    there = [(cell, one) for cell, one in zip(cells, found, strict=True) if one is not None]
    table = SweepTable([cell for cell, _ in there], [one for _, one in there])
    names = (name.strip() for name in (given.columns or "").split(","))
    columns = [name for name in dict.fromkeys(names) if name]
    if given.columns is not None and not columns:
        raise InputError("names no column", field="--columns")
    if given.out is not None:
        table.write(given.out, columns)
    elif given.all:
        sys.stdout.write(table.to_csv())
    else:
        print(table.to_table(*(columns or table.main)).to_text())
        hidden = 0 if columns else len(table.names) - len(table.main)
        if hidden:
            print(f"{hidden} more columns: --all, or some with --columns", file=sys.stderr)
    if len(there) < len(cells):
        print(f"{len(cells) - len(there)} cells are missing", file=sys.stderr)
    return 0
