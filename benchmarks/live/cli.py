"""Command line: the comparison, the turns, and the page of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.checks.live.counted import record
from benchmarks.live.workload import ARMS
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole

if TYPE_CHECKING:
    import argparse

OUT = Path(__file__).resolve().parents[2] / "reports" / "live"
CASES = ((0.8, "exact"), (1.6, "exact"), (1.6, "sigma 0.5"), (1.6, "unknown"))
COMPARISON, BESIDE, TURNS = "comparison.csv", "beside.csv", "turns.csv"


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="folder (reports/live)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    many = commands.add_parser("compare", help="every power, beside the pretended Slurm (minutes)")
    many.add_argument("--seeds", type=whole(2, 100), default=5, metavar="N", help="default 5")
    many.add_argument("--jobs", type=whole(1, 10_000), default=30, metavar="N", help="default 30")
    real = commands.add_parser("beside", help="the same beside a real Slurm (an hour and more)")
    real.add_argument("--seeds", type=whole(2, 100), default=5, metavar="N", help="default 5")
    real.add_argument("--jobs", type=whole(1, 10_000), default=60, metavar="N", help="default 60")
    real.add_argument("--lanes", type=whole(1, 16), default=2, metavar="N", help="Slurms at a time")
    commands.add_parser("turns", help="seconds, memory and log of turns at two sizes (minutes)")
    commands.add_parser("page", help="write the page from the files that are there")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    work: dict[str, Callable[[argparse.Namespace], int]] = {
        "compare": _compare,
        "beside": _beside,
        "turns": _turns,
        "page": _page,
    }
    return work[given.command](given)


def _compare(given: argparse.Namespace) -> int:
    from benchmarks.live.compare import average_jct_s

    (given.out / COMPARISON).unlink(missing_ok=True)
    for seed in range(given.seeds):
        for load, belief in CASES:
            for arm in ARMS:
                jct_s = average_jct_s(arm, seed, given.jobs, load, belief)
                row = {
                    "load": load,
                    "belief": belief,
                    "who": arm,
                    "seed": seed,
                    "jobs": given.jobs,
                    "avg_jct_s": round(jct_s, 2),
                }
                record(given.out / COMPARISON, row)
                print(*row.values(), flush=True)
    return 0


def _beside(given: argparse.Namespace) -> int:
    """Every run that the table has not yet: what was interrupted goes on."""
    from benchmarks.live.beside import PARTS, rows_of
    from benchmarks.live.page import rows_in

    table = given.out / BESIDE
    names = ("load", "belief", "who", "seed")
    have = {tuple(row[name] for name in names) for row in rows_in(table)}
    wanted = [
        (arm, seed, given.jobs, load, belief)
        for part in PARTS
        for seed in range(given.seeds)  # who is compared runs at about the same time
        for load, belief, arm in part
        if (str(load), belief, arm, str(seed)) not in have
    ]
    for row in rows_of(wanted, given.lanes):
        record(table, row)
        print(*row.values(), flush=True)
        wanted.pop()
    return int(bool(wanted))


def _turns(given: argparse.Namespace) -> int:
    from benchmarks.live.turns import SIZES, in_a_process

    (given.out / TURNS).unlink(missing_ok=True)
    for nodes, jobs in SIZES:
        record(given.out / TURNS, in_a_process(nodes, jobs))
    return 0


def _page(given: argparse.Namespace) -> int:
    from benchmarks.live.page import write

    write(given.out)
    return 0
