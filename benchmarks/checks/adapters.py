"""Check solver adapters on odd models: ``python -m benchmarks.checks.adapters [FIRST LAST]``.

A seed draws a small model of an odd kind: entries over 1e9 apart, big-M rows, empty rows and
columns, free columns, tiny or huge costs, rows and bounds. Its optimum is enumerated in exact
arithmetic, once as stated and once with rows that are wider by the tolerance of the recheck. An
outcome is false if it claims more than the wider rows allow, a bound below the optimum as stated,
or infeasible or unbounded where that is not so. Giving up is never false, and is counted.
The status is 1 if an outcome is false.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status
from morph_opt.scheduling.solvers.recheck import FEASIBILITY_TOLERANCE, row_sizes
from morph_opt.scheduling.solvers.registry import installed, make_solver

LIMITS = Limits(gap=0.0, time_s=20.0)
CLOSE = 1e-6
"""Share of the optimum by which a bound may be off, as in `recheck`."""
Part = tuple[Ints, Ints, Floats | float]
"""Entries of rows: row, column and value."""
KINDS = ("apart", "big_m", "empty", "free", "tiny", "huge", "mixed")
SPAN = 3
"""Largest absolute value of an integer column that rows leave."""


def odd_model(seed: int) -> tuple[str, LinearModel]:
    """Draw a model with two to four columns, of which at most one is continuous."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    columns, continuous = int(rng.integers(2, 5)), bool(rng.random() < 0.5)
    rows = int(rng.integers(1, 4))
    matrix: Floats = np.where(
        rng.random((rows, columns)) < 0.8, rng.integers(-4, 9, (rows, columns)), 0
    ).astype(float)
    lower = -rng.integers(0, 2, columns).astype(float)
    upper = rng.integers(1, SPAN + 1, columns).astype(float)
    integer = np.ones(columns, dtype=np.bool_)
    integer[-1] = not continuous
    cost = rng.integers(-5, 11, columns).astype(float)
    inside = matrix @ rng.integers(lower.astype(int), upper.astype(int) + 1)
    side = inside + np.where(rng.random(rows) < 0.7, rng.integers(0, 5, rows), -0.5)
    low = np.where(rng.random(rows) < 0.3, side - rng.integers(0, 6, rows), -np.inf)
    if kind in ("apart", "mixed"):
        matrix = matrix * 10.0 ** rng.choice([-10, -6, 0, 0, 6], (rows, columns))
    if kind in ("tiny", "huge", "mixed"):
        most = {"tiny": (-12, 0), "huge": (0, 9), "mixed": (-10, 9)}[kind]
        unit = 10.0 ** rng.integers(*most, (rows, 1))
        matrix, side, low = matrix * unit, side * unit[:, 0], low * unit[:, 0]
        cost *= 10.0 ** rng.integers(*most)
    if kind == "mixed":
        cost *= 10.0 ** rng.choice([-9, -3, 0], columns)
    if kind == "big_m":
        # The last column is open only if the first one, a switch, is on.
        big = 10.0 ** rng.integers(3, 10)
        lower[0], upper[0], lower[-1], upper[-1] = 0, 1, 0, SPAN if integer[-1] else big
        matrix[0] = 0
        matrix[0, -1], matrix[0, 0] = 1, -big
        low[0], side[0] = -np.inf, 0
        cost[0] = -abs(cost[0]) - 1
        cost[-1] = abs(cost[-1]) * (1 if integer[-1] else rng.choice([1, 1 / big]))
    if kind == "empty":
        matrix[rng.integers(rows)] = 0
        alone = rng.integers(columns)
        matrix[:, alone] = 0
        if rng.random() < 0.3:
            upper[alone] = np.inf
    boxes = kind in ("free", "mixed")
    builder = ModelBuilder("odd")
    ends = (np.full(columns, -np.inf), np.full(columns, np.inf)) if boxes else (lower, upper)
    x = builder.add_columns("x", np.arange(columns)[:, None], ends[1], lower=ends[0])
    across: Part = np.repeat(np.arange(rows), columns), np.tile(x, rows), matrix.ravel()
    builder.add_rows("r", np.arange(rows)[:, None], low, np.maximum(low, side), [across])
    if boxes:
        own: Part = np.arange(columns), x, np.asarray(10.0 ** rng.choice([-3, 0, 0, 3], columns))
        sides = lower * own[2], upper * own[2]
        builder.add_rows("box", np.arange(columns)[:, None], *sides, [own])
    made = builder.build(cost, float(rng.choice([0, 0, -3, 1e6])))
    return kind, replace(made, integer=integer)


def optimum(model: LinearModel, wider: float = 0.0) -> float | None:
    """Enumerate the points of a model whose rows are wider by a share of their sizes.

    Returns
    -------
    float or None
        Largest objective, offset included; inf if it is unbounded, None if no point is feasible.
    """
    low, high = (
        _moved(model, sides, sign * wider)
        for sides, sign in ((model.row_lower, -1), (model.row_upper, 1))
    )
    dense = [[Fraction(v) for v in row] for row in model.matrix().toarray().tolist()]
    points = itertools.product(*(_values(model, column) for column in range(model.columns)))
    found = (_best_at(model, dense, low, high, point) for point in points)
    return max((best for best in found if best is not None), default=None)


def _moved(model: LinearModel, sides: Floats, share: float) -> list[Fraction | None]:
    """Return exact sides, moved by a share of the rows' sizes; None if open."""
    moved = np.abs(share) * row_sizes(model, sides)
    return [
        Fraction(s) + int(np.sign(share)) * Fraction(m) if math.isfinite(s) else None
        for s, m in zip(sides.tolist(), moved.tolist(), strict=True)
    ]


def _values(model: LinearModel, column: int) -> list[Fraction | None]:
    """Return the values of an integer column; [None] for a continuous or an endless one."""
    low, high = model.column_lower[column], model.column_upper[column]
    for row in range(model.rows):
        entries = slice(model.start[row], model.start[row + 1])
        if model.index[entries].tolist() == [column] and model.value[entries][0] > 0.0:
            low = max(low, model.row_lower[row] / model.value[entries][0] - 0.5)
            high = min(high, model.row_upper[row] / model.value[entries][0] + 0.5)
    used = bool((model.index[model.value != 0.0] == column).any())
    if not model.integer[column] or not (used or np.isfinite([low, high]).all()):
        return [None]
    low, high = max(low, -2 * SPAN), min(high, 2 * SPAN)
    return [Fraction(v) for v in range(math.ceil(low), math.floor(high) + 1)]


def _best_at(
    model: LinearModel,
    dense: list[list[Fraction]],
    low: list[Fraction | None],
    high: list[Fraction | None],
    point: tuple[Fraction | None, ...],
) -> float | None:
    """Return the best objective with integers as given; None if there is no point.

    No row may have two columns without a value.
    """
    ends = {
        column: [
            Fraction(float(end)) if math.isfinite(end) else None
            for end in (model.column_lower[column], model.column_upper[column])
        ]
        for column, value in enumerate(point)
        if value is None
    }
    for row, least, most in zip(dense, low, high, strict=True):
        fixed = sum((a * v for a, v in zip(row, point, strict=True) if v is not None), Fraction(0))
        left = [None if side is None else side - fixed for side in (least, most)]
        mine = [column for column in ends if row[column]]
        if not mine:
            if (left[0] is not None and left[0] > 0) or (left[1] is not None and left[1] < 0):
                return None
            continue
        (column,) = mine
        sides = [None if side is None else side / row[column] for side in left]
        if row[column] < 0:
            sides.reverse()
        for at, pick in enumerate((max, min)):
            known = [s for s in (ends[column][at], sides[at]) if s is not None]
            ends[column][at] = pick(known) if known else None
    values: list[Fraction | None] = list(point)
    endless = False
    for column, (start, end) in ends.items():
        if start is not None and end is not None and start > end:
            return None
        cost = float(model.cost[column])
        best = (end if cost > 0 else start) if cost else Fraction(0)
        endless |= best is None
        values[column] = best
    if endless:
        return math.inf
    total = sum(
        (Fraction(float(c)) * v for c, v in zip(model.cost, values, strict=True) if v), Fraction(0)
    )
    return float(total + Fraction(model.offset))


@dataclass(frozen=True, slots=True)
class Row:
    """Outcome of one adapter on one model, and what is true."""

    seed: int
    kind: str
    solver: str
    outcome: Outcome
    least: float | None
    most: float | None

    @property
    def wrong(self) -> str:
        """What is false in the outcome; empty if nothing is."""
        status, least, most = self.outcome.status, self.least, self.most
        if status is Status.INFEASIBLE:
            return "infeasible, but a point is feasible" if least is not None else ""
        if status is Status.UNBOUNDED:
            return "unbounded, but the optimum is finite" if most != math.inf else ""
        if not self.outcome.usable:
            return ""
        if most is None:
            return "a point where there is none"
        if self.outcome.objective > most + _close(most):
            return "a point that is worth more than any"
        if least is not None and self.outcome.bound < least - _close(least):
            return "a bound below the optimum"
        return ""

    @property
    def settled(self) -> bool:
        """Whether the outcome is a proof."""
        return self.outcome.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)


def _close(value: float) -> float:
    return CLOSE * abs(value) if math.isfinite(value) else 0.0


def rows(seeds: Iterable[int], solvers: Sequence[str]) -> Iterator[Row]:
    """Solve the models of some seeds by each adapter that takes them."""
    adapters = {name: make_solver(name) for name in solvers}
    for seed in seeds:
        kind, model = odd_model(seed)
        least, most = optimum(model), optimum(model, FEASIBILITY_TOLERANCE)
        for name, adapter in adapters.items():
            outcome = adapter.solve(model, LIMITS)
            yield Row(seed, kind, name, outcome, least, most)


def text_of(row: Row) -> str:
    """Return a line about an outcome."""
    outcome = row.outcome
    return (
        f"{row.seed:>5} {row.kind:<6} {row.solver:<14} {outcome.status} {outcome.objective:g}"
        f" bound {outcome.bound:.9g}; true {row.least} to {row.most}"
        f" {row.wrong.upper()} {outcome.message}"
    )


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.checks.adapters", description=__doc__)
    parser.add_argument("first", type=whole(0, 10**6), nargs="?", default=0, help="first seed")
    parser.add_argument(
        "last", type=whole(1, 10**6), nargs="?", default=700, help="seed to end before"
    )
    parser.add_argument(
        "--solver", action="append", choices=installed(), help="adapter; repeat; all by default"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is false and what was not settled; return 1 if anything is false."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    count: Counter[tuple[str, str]] = Counter()
    solvers = options.solver or installed()
    for row in rows(range(options.first, options.last), solvers):
        said = "false" if row.wrong else "settled" if row.settled else "open"
        count[row.solver, said] += 1
        if said != "settled":
            print(text_of(row), flush=True)
    for solver in solvers:
        print(solver, *(f"{said} {count[solver, said]}" for said in ("settled", "open", "false")))
    return int(any(said == "false" for _, said in count))


if __name__ == "__main__":
    sys.exit(main())
