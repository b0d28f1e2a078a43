"""How the two constants of the objectives were chosen: replays over a grid of them.

    python -m benchmarks.objectives [--trace morphling/base] [--only jct]

Writes ``reports/objectives/sweep.csv`` and ``reports/objectives/sweep.md``; rows that are not made
this time stay as they are. Without ``--trace`` the twin is replayed, and the original where
``MORPH_OPT_DATA`` has it. Replays are deterministic; the figures are simulated time and depend on
no clock.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.domain import default_cluster
from morph_opt.core.table import Table
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.milp import MilpPolicy
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

HORIZONS_S = (30.0, 60.0, 120.0, 300.0, 600.0)
RESTART_WEIGHTS = (1.0, 1.5, 2.0, 3.0, 4.0)
FIELDS = ("trace", "objective", "constant", "value", "avg_jct_s", "makespan_s", "restarts_per_job")
FOLDER = Path("reports/objectives")


def cases() -> list[tuple[str, str, float, Objective]]:
    """Objective, its constant's name and value, and the objective itself."""
    throughput = [("throughput", "horizon_s", h, Throughput(h)) for h in HORIZONS_S]
    jct = [("jct", "restart_weight", w, Jct(w)) for w in RESTART_WEIGHTS]
    return [*throughput, *jct]


def run(trace: str, objective: Objective) -> dict[str, object]:
    """Summary of one replay with belief = truth on the default cluster."""
    loaded = load_trace(trace)
    policy = MilpPolicy.of(loaded.truth, objective, make_solver("highs"), Limits())
    result = replay(loaded.trace, default_cluster(), policy, loaded.truth)
    return dict(result.summary)


def write(rows: Sequence[dict[str, str]]) -> None:
    """CSV and the page made of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "sweep.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    header = (
        "trace",
        "objective",
        "constant",
        "average JCT (s)",
        "makespan (s)",
        "restarts per job",
    )
    body = [
        (
            r["trace"],
            f"`{r['objective']}`",
            f"`{r['constant']}` = {r['value']}",
            *(r[name] for name in ("avg_jct_s", "makespan_s", "restarts_per_job")),
        )
        for r in rows
    ]
    lines = [
        "# Constants of the objectives",
        "",
        "Made by `python -m benchmarks.objectives`; belief = truth, 8x8 A800, defaults otherwise.",
        "One replay a row; a few long jobs carry the average, so neighbours differ by chance too.",
        "",
        Table(header, body, align="lllr").to_markdown(),
    ]
    (FOLDER / "sweep.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.objectives", description=__doc__)
    parser.add_argument("--trace", action="append", help="default: base, and the original")
    parser.add_argument(
        "--only", choices=sorted({case[0] for case in cases()}), help="one objective"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the grid."""
    return run_command(make_parser(), _run, arguments)


def _run(arguments: argparse.Namespace) -> int:
    rows = _kept()
    originals = ["morphling/base"] if os.environ.get("MORPH_OPT_DATA") else []
    for trace in arguments.trace or ["base", *originals]:
        for name, constant, value, objective in cases():
            if arguments.only not in (None, name):
                continue
            found = run(trace, objective)
            row = {"trace": trace, "objective": name, "constant": constant, "value": f"{value:g}"}
            row |= {
                key: f"{float(str(found[key])):.{2 if key == 'restarts_per_job' else 0}f}"
                for key in FIELDS[4:]
            }
            rows[tuple(row[key] for key in FIELDS[:4])] = row
            print(row, flush=True)
            write(list(rows.values()))
    return 0


def _kept() -> dict[tuple[str, ...], dict[str, str]]:
    """Rows that are there, by what was replayed."""
    path = FOLDER / "sweep.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return {tuple(row[key] for key in FIELDS[:4]): row for row in csv.DictReader(stream)}


if __name__ == "__main__":
    sys.exit(as_process(main))
