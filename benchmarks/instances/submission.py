"""Form of a submission to MIPLIB, and tables of the hard instances, made from the library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.instances.hard import FAMILIES, FOLDER
from benchmarks.instances.library import Instance, load, read_table
from benchmarks.instances.runs import Run, read_runs
from formulations.linear_model import LinearModel

MINUTE_S = 60.0

REFERENCE = "highs-default"
"""Solver by whose time instances are called easy, hard or open, on one thread."""

ANSWERS = {
    "model": "mixed-integer linear, minimisation; all columns integer, most binary",
    "application": "scheduling of deep-learning training jobs on GPU clusters: which jobs run in "
    "the next round, in which configuration, and on which nodes",
    "origin": "drawn from the seeds in the table by `benchmarks.instances.messy` and "
    "`benchmarks.instances.hard`",
    "formulations": "[node_pattern](../../docs/formulations/node_pattern.md), "
    "[node_assignment](../../docs/formulations/node_assignment.md)",
    "licence": "that of this project, see [LICENSE](../../LICENSE)",
    "format": "free MPS, compressed with xz; rows and columns have the names of the formulations",
    "solutions": "`NAME.sol`; `python -m benchmarks.instances check NAME instances/hard/NAME.sol` "
    "checks rows, bounds, integrality and the rules of the round",
    "generator": "`python -m benchmarks.instances make --only NAME`",
    "relatives": "each structure of a round under six objectives: rows `rank` differ",
}
"""Answers that hold for all instances, by question."""

_LEGEND = """*Status* is by HiGHS with default options on one thread: `easy` if it proves the
optimum within 1e-6, `open` if it has not after the processor seconds stated. *Best* and *bound* are
those of all solvers that were run (`runs.csv`); *proved by* names the solver that proved the bound,
its processor seconds and threads. Tags are the classes of rows of the model, in MIPLIB's words.
"""


def form(folder: Path) -> str:
    """Return the form, for the hard instances of a library."""
    own = folder / FOLDER
    runs = read_runs(own)
    header = (
        "instance",
        "columns (binary, integer)",
        "rows",
        "nonzeros",
        "status",
        "best",
        "bound",
        "gap",
        "proved by",
        "tags",
        "origin",
    )
    rows = [_answers(row, load(own, row.name), runs) for row in read_table(own)]
    general = _table(("question", "answer"), ANSWERS.items())
    made = "Answers to MIPLIB's form, printed by `python -m benchmarks.instances form`."
    return f"# Submission form\n\n{made}\n\n{general}\n\n{_LEGEND}\n{_table(header, rows)}\n"


def _answers(row: Instance, model: LinearModel, runs: Iterable[Run]) -> list[str]:
    binary = int(((model.column_lower == 0) & (model.column_upper == 1) & model.integer).sum())
    return [
        f"`{row.name}`",
        f"{row.columns} ({binary}, {row.columns - binary})",
        str(row.rows),
        str(row.nonzeros),
        status(row, runs),
        f"{-row.best:.9g}",
        f"{-row.bound:.9g}",
        share(gap_of(row)),
        row.proof,
        ", ".join(tags(model)),
        row.source,
    ]


def status(row: Instance, runs: Iterable[Run]) -> str:
    """Return how `REFERENCE` fared: ``easy (12 s)`` or ``open (after 60 s)``; "" without a run."""
    for run in runs:
        if (run.instance, run.solver, run.threads) == (row.name, REFERENCE, 1) and not run.started:
            return f"easy ({run.cpu_s:.3g} s)" if run.solved else f"open (after {run.cpu_s:.3g} s)"
    return ""


def gap_of(row: Instance) -> float:
    """Return the share of the best value by which the bound is better; inf for a value of 0."""
    missing = row.bound - row.best
    return missing / abs(row.best) if row.best else math.inf if missing else 0.0


def share(gap: float) -> str:
    """Return a gap in percent, ``0`` if it is closed."""
    return "0" if gap <= 2e-6 else f"{100 * gap:.3g} %"


def tags(model: LinearModel) -> list[str]:
    """Return the classes of rows that a model has, in MIPLIB's words, sorted."""
    return sorted({_class_of(model, row) for row in range(model.rows)})


def _class_of(model: LinearModel, row: int) -> str:
    """Return the class of a row, the first that fits."""
    span = slice(int(model.start[row]), int(model.start[row + 1]))
    columns, values = model.index[span], model.value[span]
    low, high = float(model.row_lower[row]), float(model.row_upper[row])
    binary = (model.column_lower[columns] == 0.0) & (model.column_upper[columns] <= 1.0)
    if values.size < 2:
        return "singleton" if values.size else "empty"
    ones = bool(binary.all() and (np.abs(values) == 1.0).all())
    # A binary column with -1 is the complement of one with 1.
    shift = float((values == -1.0).sum())
    if ones and low == high:
        return "set partitioning" if low + shift == 1.0 else "cardinality"
    if ones and math.isinf(low) and high + shift == 1.0:
        return "set packing"
    if ones and math.isinf(high) and low + shift == 1.0:
        return "set covering"
    if ones and (math.isinf(low) or math.isinf(high)):
        return "invariant knapsack"
    whole = bool((values == np.rint(values)).all())
    if binary.all() and low != high:
        return "knapsack"
    if binary.all():
        return "equation knapsack"
    return "integer knapsack" if whole and (values > 0).all() else "general linear"


def summary(folder: Path) -> str:
    """Return a table of the hard instances by family: how many are solved, and by whom."""
    own = folder / FOLDER
    table, runs = read_table(own), read_runs(own)
    header = (
        "objective",
        "instances",
        "not run",
        "HiGHS, within a minute",
        "longer",
        "open",
        "open after a minute",
        "longest run on an open one, s",
        "optimum known",
        "largest gap",
    )
    return _table(header, [_summed(family, table, runs) for family in (*FAMILIES, "all")])


def _summed(family: str, table: Iterable[Instance], runs: Sequence[Run]) -> list[str]:
    rows = [row for row in table if family in (row.objective, "all")]
    names = {row.name for row in rows}
    by = [r for r in runs if r.instance in names and r.solver == REFERENCE and not r.started]
    unsolved = [run for run in by if not run.solved]
    return [
        f"`{family}`" if family != "all" else family,
        str(len(rows)),
        str(len(rows) - len(by)),
        str(sum(run.solved and run.cpu_s <= MINUTE_S for run in by)),
        str(sum(run.solved and run.cpu_s > MINUTE_S for run in by)),
        str(len(unsolved)),
        str(sum(run.cpu_s >= MINUTE_S for run in unsolved)),
        f"{max((run.cpu_s for run in unsolved), default=0.0):.0f}",
        str(sum(gap_of(row) <= 2e-6 for row in rows)),
        share(max((gap_of(row) for row in rows), default=0.0)),
    ]


def compared(folder: Path) -> str:
    """Return a table of the solvers: runs, solved ones, and who has the best value and bound."""
    own = folder / FOLDER
    rows, runs = {row.name: row for row in read_table(own)}, read_runs(own)
    header = ("solver", "instances", "solved", "has the best value", "has the best bound", "CPU s")
    return _table(header, list(_compared(rows, runs)))


def _compared(rows: dict[str, Instance], runs: Sequence[Run]) -> Iterator[list[str]]:
    for solver in sorted({run.solver for run in runs}):
        own = [run for run in runs if run.solver == solver and run.instance in rows]
        slack = {run.instance: 1e-6 * max(1e-9, abs(rows[run.instance].best)) for run in own}
        yield [
            f"`{solver}`",
            str(len(own)),
            str(sum(run.solved for run in own)),
            str(sum(run.value >= rows[run.instance].best - slack[run.instance] for run in own)),
            str(sum(run.bound <= rows[run.instance].bound + slack[run.instance] for run in own)),
            f"{sum(run.cpu_s for run in own):.0f}",
        ]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
