"""Options of HiGHS on the models of whole replays: what the defaults of `HighsSolver` rest on.

    python -m benchmarks.highs_options [--every 3]

Replays hand over their models, which are then solved under each set of options; CPU time of
handing over and solving, one thread. Writes ``reports/rounds/options.{csv,md}``. With
`MORPH_OPT_DATA` set the original traces are used, otherwise the twins.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import highspy
import numpy as np

from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import default_cluster
from morph_opt.core.table import Table
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision import ranked
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.highs import hand_over, round_options
from morph_opt.scheduling.solvers.outcome import Limits, Outcome

CASES = (("base", "jct"), ("base", "throughput"), ("mt", "throughput"))
GAPS = (1e-3, 1e-4)
FOLDER = Path("reports/rounds")
Options = tuple[tuple[str, object], ...]


def variants() -> dict[str, Callable[[LinearModel], Options]]:
    """Sets of options by name."""

    def without(name: str) -> Callable[[LinearModel], Options]:
        return lambda model: tuple(o for o in round_options(model) if o[0] != name)

    def presolve(choice: str) -> Callable[[LinearModel], Options]:
        return lambda model: (*without("presolve")(model), ("presolve", choice))

    return {
        "HiGHS as it comes": lambda _: (),
        "ours": round_options,
        "ours, presolve always": presolve("choose"),
        "ours, presolve never": presolve("off"),
        "ours, restarts": without("mip_allow_restart"),
        "ours, root reduced cost": without("mip_heuristic_run_root_reduced_cost"),
        "ours, feasibility jump": without("mip_heuristic_run_feasibility_jump"),
    }


def collect(trace: str, objective: str, every: int) -> list[LinearModel]:
    """Every n-th model that a replay of the trace hands to its solver."""
    models: list[LinearModel] = []
    direct = ranked.solve_priced

    def noting(
        solver: Solver, built: RoundModel, limits: Limits, params: LadderParams = DEFAULTS
    ) -> Outcome:
        models.append(built.model)
        return direct(solver, built, limits, params)

    ranked.solve_priced = noting
    try:
        loaded = load_trace(trace)
        policy = make_policy("milp", loaded.truth, PolicyOptions(objective=objective))
        replay(loaded.trace, default_cluster(), policy, loaded.truth)
    finally:
        ranked.solve_priced = direct
    return models[::every]


def measure(
    models: list[LinearModel], options: Callable[[LinearModel], Options], gap: float
) -> list[float]:
    """CPU milliseconds of each model, after one warm-up."""
    highs = highspy.Highs()
    found = []
    for model in (models[0], *models):
        highs.clear()
        common: Options = (
            ("output_flag", False),
            ("threads", 1),
            ("mip_rel_gap", gap),
            ("mip_abs_gap", 1e-9),
        )
        for name, setting in (*common, *options(model)):
            highs.setOptionValue(name, setting)
        began = time.process_time()
        hand_over(highs, model)
        highs.run()
        found.append(1e3 * (time.process_time() - began))
    return found[1:]


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.highs_options", description=__doc__)
    parser.add_argument("--every", type=whole(1, 1000), default=3, help="every n-th model (3)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    every: int = given.every
    prefix = "morphling/" if os.environ.get("MORPH_OPT_DATA") else ""
    rows = []
    for trace, objective in CASES:
        models = collect(prefix + trace, objective, every)
        for name, options in variants().items():
            for gap in GAPS:
                times = np.asarray(measure(models, options, gap))
                row = [prefix + trace, objective, name, f"{gap:g}", str(len(models))]
                row += [f"{times.mean():.1f}"]
                row += [f"{np.quantile(times, q):.1f}" for q in (0.5, 0.9, 0.99, 1.0)]
                rows.append(row)
                print(*row, flush=True)
    write(rows)
    return 0


def write(rows: list[list[str]]) -> None:
    """CSV and the page made of it."""
    header = ["trace", "objective", "options", "gap", "models"]
    header += ["mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"]
    with (FOLDER / "options.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    lines = [
        "# Options of HiGHS on rounds",
        "",
        "Made by `python -m benchmarks.highs_options`: CPU milliseconds per model, every third",
        "model of a replay unless `--every` says otherwise, handing over included, one thread of a",
        "shared machine. Differences of a sixth are within its noise: the same options take less",
        "at the smaller gap in some rows. The options were chosen on these models, which flatters",
        "them.",
        "",
        Table(header, rows, align="lllr").to_markdown(),
    ]
    (FOLDER / "options.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(as_process(main))
