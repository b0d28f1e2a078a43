"""``python -m benchmarks.solvers run|build-cost|starts|random|rounds|replays|report|all``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.instances.library import default_folder
from benchmarks.solvers import agreeing, building, replays, report, running, starting
from benchmarks.solvers.protocol import FULL, QUICK, machine
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.scheduling.solvers.registry import unavailable

STEPS = ("run", "build-cost", "starts", "random", "rounds", "replays", "report")


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.solvers", description=__doc__)
    parser.add_argument("steps", nargs="+", choices=(*STEPS, "all"))
    parser.add_argument("--full", action="store_true", help="all instances, three seeds")
    parser.add_argument("--out", type=Path, help="folder of raw files and report")
    parser.add_argument("--folder", type=Path, help="instance library")
    parser.add_argument("--solver", action="append", help="only these solvers")
    parser.add_argument("--random", type=whole(1, 10**6), default=1000, help="models per solver")
    for option, step in (("--random", "random"), ("--solver", "run")):
        parser.only(
            option,
            f"is of the step {step}",
            lambda given, step=step: step in given.steps or "all" in given.steps,
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps that are named, in their order."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    _steps(options)
    return 0


def _steps(options: argparse.Namespace) -> None:
    effort = FULL if options.full else QUICK
    root = Path("reports/solvers") if options.full else Path("runs/bench-solvers")
    out: Path = options.out or root
    out.mkdir(parents=True, exist_ok=True)
    folder = options.folder or default_folder()
    for name, how in unavailable().items():
        print(f"{name:<14} skipped: not installed ({how})", file=sys.stderr)
    for step in STEPS:
        if step not in options.steps and "all" not in options.steps:
            continue
        if step == "run":
            running.run(folder, out / "raw.csv", effort, tuple(options.solver or ()))
            (out / "machine.json").write_text(json.dumps(machine(), indent=1) + "\n", "utf-8")
        elif step == "build-cost":
            building.measure(folder, out / "build.csv")
        elif step == "starts":
            starting.measure(folder, out / "starts.csv", effort)
        elif step == "random":
            agreeing.random_models(options.random, out / "random.csv")
        elif step == "rounds":
            replays.rounds(out / "rounds.csv", effort.every)
        elif step == "replays":
            replays.replays(out / "replays.csv")
        else:
            print(report.write(out, folder))


if __name__ == "__main__":
    sys.exit(as_process(main))
