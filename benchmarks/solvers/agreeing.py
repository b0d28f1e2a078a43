"""All adapters against brute force on random models."""

from __future__ import annotations

import csv
import itertools
import math
import sys
from pathlib import Path

import numpy as np

from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.registry import installed, make_solver

RANDOM_FIELDS = ("solver", "models", "optimal", "feasible", "infeasible", "errors", "wrong")


def random_models(count: int, out: Path) -> None:
    """Write random.csv: how each adapter did on random small models whose optimum is known."""
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(RANDOM_FIELDS)
        for name in installed():
            writer.writerow((name, count, *_against_brute_force(name, count)))
            file.flush()
            print(f"{name}: {count} random models", file=sys.stderr, flush=True)


def _against_brute_force(name: str, count: int) -> tuple[int, int, int, int, int]:
    """Optimal, feasible (unproved), infeasible, errors, wrong."""
    solver = make_solver(name)
    rng = np.random.default_rng(2026)
    tally = dict.fromkeys(Status, 0)
    wrong = 0
    for _ in range(count):
        model = small(rng)
        best = brute_force(model)
        outcome = solver.solve(model, Limits(gap=0.0, time_s=10.0))
        tally[outcome.status] += 1
        if outcome.status is Status.INFEASIBLE:
            wrong += best is not None
        elif outcome.usable:
            tolerance = 1e-6 if outcome.status is Status.OPTIMAL else 1e-3
            wrong += best is None or not math.isclose(
                outcome.objective, best, rel_tol=tolerance, abs_tol=tolerance
            )
            wrong += best is not None and outcome.bound < best - 1e-6 * max(1.0, abs(best))
    errors = count - sum(tally[s] for s in (Status.OPTIMAL, Status.FEASIBLE, Status.INFEASIBLE))
    return (
        tally[Status.OPTIMAL],
        tally[Status.FEASIBLE],
        tally[Status.INFEASIBLE],
        errors,
        wrong,
    )


def small(rng: np.random.Generator) -> LinearModel:
    """2 to 6 bounded integer columns, 1 to 5 rows of every kind, an offset."""
    columns, rows = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    builder = ModelBuilder("small")
    x = builder.add_columns(
        "x",
        np.arange(columns)[:, None],
        rng.integers(0, 4, columns).astype(np.float64),
        lower=-rng.integers(0, 2, columns).astype(np.float64),
    )
    weight = rng.integers(-3, 8, (rows, columns)) * rng.choice([1.0, 0.5, 0.1], (rows, 1))
    side = np.round(rng.uniform(-1, 12, rows), 1)
    kind = rng.choice(["range", "at most", "equal"], rows, p=[0.25, 0.65, 0.1])
    lower = np.where(kind == "range", side - 4, np.where(kind == "equal", 0.0, -np.inf))
    upper = np.where(kind == "equal", 0.0, side)
    builder.add_rows(
        "r",
        np.arange(rows)[:, None],
        lower,
        upper,
        [(np.repeat(np.arange(rows), columns), np.tile(x, rows), weight.ravel())],
    )
    return builder.build(np.round(rng.uniform(-3, 10, columns), 3), float(rng.integers(-2, 3)))


def brute_force(model: LinearModel) -> float | None:
    """Optimum by enumeration; None when no point is feasible."""
    ranges = [
        np.arange(low, high + 1)
        for low, high in zip(model.column_lower, model.column_upper, strict=True)
    ]
    points = np.array(list(itertools.product(*ranges)))
    activity = points @ model.matrix().toarray().T
    good = ((activity >= model.row_lower - 1e-9) & (activity <= model.row_upper + 1e-9)).all(axis=1)
    return float((points[good] @ model.cost).max()) + model.offset if good.any() else None
