"""Does a MIP start pay? The running allocation, and the best that any start could be."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.instances.library import load, load_best, read_table
from benchmarks.solvers.protocol import GAP, GRACE_S, MEMORY_MIB, Effort
from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import installed, make_solver
from morph_opt.scheduling.solvers.worker.isolated import IsolatedSolver

FIELDS = ("solver", "instance", "start", "status", "gap", "nodes", "cpu_s")


def all_stay(model: LinearModel) -> Floats | None:
    """The running allocation as a point: all jobs stay, none starts; None if impossible.

    It is the previous round's solution as well: what that round started, this one sees running.
    Guarantees can make it impossible.
    """
    lower, upper = model.column_lower.copy(), model.column_upper.copy()
    for block in model.column_blocks:
        span = slice(block.start, block.start + block.count)
        if block.family == "x":
            upper[span] = 0.0
        elif block.family == "s":
            lower[span] = 1.0
    held = replace(model, column_lower=lower, column_upper=upper)
    return make_solver("highs").solve(held, Limits(gap=GAP, time_s=30.0)).x


def measure(folder: Path, out: Path, effort: Effort) -> None:
    """Write starts.csv: the same solve without a start, with the running one, with the best."""
    rows = [row for row in read_table(folder) if row.running and row.gpus <= effort.largest_gpus]
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name in installed():
            worker = IsolatedSolver(name, memory_mib=MEMORY_MIB, grace_s=GRACE_S)
            if not worker.capabilities.mip_start:
                worker.close()
                continue
            for row in rows:
                model = load(folder, row.name)
                stay = all_stay(model)
                if stay is None:
                    continue
                starts = {"none": None, "running": stay, "best": load_best(folder, row.name, model)}
                for start, point in starts.items():
                    for seed in effort.seeds[:1]:
                        limits = Limits(
                            GAP, effort.time_s, effort.nodes, seed=seed, work=effort.work
                        )
                        outcome = worker.solve(model, limits, point)
                        writer.writerow(
                            (
                                name,
                                row.name,
                                start,
                                outcome.status,
                                outcome.gap,
                                outcome.nodes,
                                round(outcome.cpu_s, 6),
                            )
                        )
                file.flush()
            worker.close()
            print(f"{name}: starts measured", file=sys.stderr, flush=True)
