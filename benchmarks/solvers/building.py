"""What it costs to hand one model over: our arrays against the modelling layers."""

from __future__ import annotations

import csv
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.instances.library import load, load_round, read_table
from formulations import node_pattern
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.base import Adapter, Clock
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import ENTRIES, installed, make_solver

REPEATS = 7
FIELDS = ("path", "instance", "columns", "nonzeros", "median_s", "fastest_s", "ratio")
ARRAYS = "own arrays, then HiGHS"

LABELS = {
    "highs": "HiGHS from arrays (highspy)",
    "cpsat": "CP-SAT proto with integer scaling",
    "scip-ortools": "ortools, one sparse matrix",
    "cbc": "pulp expressions (CBC; the MPS file that follows is counted as solve)",
    "pulp-highs": "pulp expressions, then HiGHS column by column",
    "cvxpy-highs": "cvxpy in matrix form, compiled",
}


class _Handed(Exception):
    """The model is handed over; what follows is not of interest here."""


@dataclass(slots=True)
class _Stopper(Clock):
    """A clock that ends the attempt where the library's solve would begin."""

    def hand_over_done(self) -> None:
        raise _Handed


def measure(folder: Path, out: Path) -> None:
    """Write build.csv: medians of seven hand-overs in one process, on the largest instance."""
    rows = [row for row in read_table(folder) if row.formulation == "node_pattern"]
    instance = max(rows, key=lambda row: row.nonzeros)
    model = load(folder, instance.name)
    problem = load_round(folder, instance.name)
    level = OBJECTIVES[instance.objective]().levels(problem)[0]
    tables = _seconds(lambda: node_pattern.build(problem, level))
    found: list[tuple[str, list[float]]] = [("round tables to own arrays (node_pattern)", tables)]
    for name, label in LABELS.items():
        if name not in installed() or name not in ENTRIES:
            continue
        solver = make_solver(name)
        assert isinstance(solver, Adapter)

        def hand_over(adapter: Adapter = solver) -> None:
            try:
                adapter._attempt(model, Limits(), None, _Stopper())
            except _Handed:
                return
            raise RuntimeError(f"{adapter.name} did not hand the model over")

        found.append((label, _seconds(hand_over)))
    by_label = dict(found)
    total = [a + b for a, b in zip(tables, by_label[LABELS["highs"]], strict=True)]
    found.insert(0, (ARRAYS, total))
    base = statistics.median(by_label[LABELS["highs"]])
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for label, seconds in found:
            median = statistics.median(seconds)
            writer.writerow(
                (
                    label,
                    instance.name,
                    model.columns,
                    model.nonzeros,
                    round(median, 6),
                    round(min(seconds), 6),
                    round(median / base, 1),
                )
            )


def _seconds(action: object) -> list[float]:
    """Processor seconds of each repetition; one more, before, warms the caches."""
    taken = []
    for _ in range(REPEATS + 1):
        began = time.process_time()
        action()  # type: ignore[operator]
        taken.append(time.process_time() - began)
    return taken[1:]
