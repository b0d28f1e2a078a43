"""Figures of the comparison, each a function of raw rows; see the report for what they mean."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.solvers.protocol import Row
from formulations.arrays import Floats

SHIFT_S = 0.01
VIRTUAL_BEST = "virtual best"


def shifted_geometric_mean(seconds: Sequence[float], shift_s: float = SHIFT_S) -> float:
    """``exp(mean(log(t + shift))) - shift``; NaN of nothing."""
    if not seconds:
        return math.nan
    logs = [math.log(second + shift_s) for second in seconds]
    return math.exp(sum(logs) / len(logs)) - shift_s


def by_solver(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of each solver, names sorted."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.solver].append(row)
    return dict(sorted(found.items()))


def complete_cases(rows: Sequence[Row]) -> list[Row]:
    """Rows of (instance, seed) pairs that every solver was run on: a comparison is on equals."""
    solvers = {row.solver for row in rows}
    ran: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in rows:
        ran[row.instance, row.seed].add(row.solver)
    return [row for row in rows if ran[row.instance, row.seed] == solvers]


def virtual_best(rows: Sequence[Row]) -> dict[tuple[str, int], float]:
    """Charged seconds of the fastest solver on each case; the limit where nobody solved it."""
    best: dict[tuple[str, int], float] = {}
    for row in rows:
        case = row.instance, row.seed
        best[case] = min(best.get(case, math.inf), row.charged_s)
    return best


def profile(rows: Sequence[Row]) -> dict[str, Floats]:
    """Dolan-Moré: per solver the ratios to the fastest, sorted, inf where it did not solve.

    The profile at r is the share of cases with a ratio of at most r.
    """
    best = virtual_best(rows)
    ratios: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        fastest = best[row.instance, row.seed]
        ratios[row.solver].append(row.charged_s / fastest if row.solved else math.inf)
    return {name: np.sort(np.asarray(found)) for name, found in sorted(ratios.items())}


def share_within(ratios: Floats, limit: float) -> float:
    """Share of cases solved within ``limit`` times the fastest."""
    return float((ratios <= limit).mean()) if ratios.size else math.nan


def median_gap_of_unsolved(rows: Sequence[Row]) -> float:
    """Median gap, to its own bound, where an incumbent was left unproved; NaN if none was."""
    gaps = [row.gap for row in rows if row.outcome == "feasible" and math.isfinite(row.gap)]
    return float(np.median(gaps)) if gaps else math.nan


def disagreements(rows: Sequence[Row]) -> list[str]:
    """A sentence for every row that the best-known values disprove."""
    return [
        f"{row.solver} on {row.instance}, seed {row.seed}: {row.status}, objective "
        f"{row.objective:.9g}, bound {row.bound:.9g}; best known {row.best:.9g}, bound "
        f"{row.best_bound:.9g}"
        for row in rows
        if row.false_claim
    ]
