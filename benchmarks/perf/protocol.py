"""How well few runs predict the rest: the fitting protocol on the public tables.

Nothing about the model under test enters but its architecture numbers and the sampled runs: the
prior of its constants is the population of the *other* models (leave one model out).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.perf.complete import fit_complete
from benchmarks.perf.population import population
from benchmarks.perf.public import BORROWED, PUBLISHED, Table, cell, inconsistent
from benchmarks.perf.regenerate import consistent
from formulations.arrays import Floats
from morph_opt.inputs.perf.analytic.prior import Population, prior
from morph_opt.inputs.perf.fitting.design import choose_runs
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.errors import ERRORS
from morph_opt.inputs.perf.fitting.fit import Fit, fit
from morph_opt.inputs.perf.fitting.runs import Run
from morph_opt.inputs.perf.parameters import DESIGN

SIZES = (4, 6, 8, 12)
"""Numbers of sampled runs that are reported."""

BATCH = 2
"""Runs that are chosen at a time; the design of the next ones knows their results."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan chosen by prediction for a model and GPU count.

    Parameters
    ----------
    regret
        Measured time of the choice relative to the best measured one, minus 1.
    """

    model: str
    gpus: int
    chosen: Run
    best: Run
    regret: float


@dataclass(frozen=True, slots=True)
class Judged:
    """Predictions of one model against its table.

    Parameters
    ----------
    model
        Name.
    runs
        Rows that were predicted.
    error
        ``predicted / measured - 1``, shape (runs,).
    log_sd
        Stated uncertainty, shape (runs,).
    listed
        Whether the row contradicts its neighbours (`inconsistent`), shape (runs,).
    sampled
        Runs that the fit was given.
    choices
        What the fit would choose for each GPU count.
    """

    model: str
    runs: tuple[Run, ...]
    error: Floats
    log_sd: Floats
    listed: Floats
    sampled: tuple[Run, ...]
    choices: tuple[Choice, ...]


def populations(tables: Mapping[str, Table]) -> dict[str, Population]:
    """For every model, the population of the others."""
    rows = {name: consistent(table.runs) for name, table in tables.items()}
    return {
        name: population([(tables[o].architecture, rows[o]) for o in tables if o != name])
        for name in tables
    }


def sample(table: Table, others: Population | None, count: int, seed: int = DESIGN.seed) -> Fit:
    """Choose ``count`` runs of the table by our design, in batches, and fit on them."""
    belief = prior(table.architecture, others)
    pairs = pairs_of(table.runs)
    found = fit(table.architecture, (), belief)
    picked: list[int] = []
    while len(picked) < count:
        batch = min(BATCH, count - len(picked))
        picked += choose_runs(found, pairs, batch, seed=seed, timers=table.timers)
        found = fit(table.architecture, [table.runs[i] for i in picked], belief)
    return found


def without_phases(table: Table) -> Table:
    """The table as if its runs told their iteration times only."""
    return replace(
        table,
        runs=tuple(replace(run, phases=()) for run in table.runs),
        sampled=tuple(replace(run, phases=()) for run in table.sampled),
        timers=None,
    )


def sample_size(table: Table, count: int) -> int:
    """Runs to sample: as asked for, but of fewer than 16 rows at most half."""
    return count if len(table.runs) >= 16 else min(count, len(table.runs) // 2)


def judge(model: str, table: Table, found: Fit) -> Judged:
    """Predict every row of a configuration that was not sampled, and choose among all."""
    seen = {(run.shape, run.plan) for run in found.runs}
    flagged = inconsistent(table.runs)
    predicted = found.predict(pairs_of(table.runs))
    measured = np.array([run.iteration_s for run in table.runs])
    rest = [i for i, run in enumerate(table.runs) if (run.shape, run.plan) not in seen]
    return Judged(
        model,
        tuple(table.runs[i] for i in rest),
        (predicted.iteration_s / measured - 1)[rest],
        predicted.log_sd[rest],
        np.array([i in flagged for i in rest]),
        found.runs,
        _choices(model, table.runs, predicted.iteration_s),
    )


def _choices(model: str, runs: Sequence[Run], predicted: Floats) -> tuple[Choice, ...]:
    """For every GPU count with two rows or more: the row predicted fastest, and the fastest."""
    found = []
    for gpus in sorted({run.shape.gpus for run in runs}):
        at = [i for i, run in enumerate(runs) if run.shape.gpus == gpus]
        if len(at) > 1:
            chosen = runs[min(at, key=lambda i: predicted[i])]
            best = min((runs[i] for i in at), key=lambda run: run.iteration_s)
            found.append(
                Choice(model, gpus, chosen, best, chosen.iteration_s / best.iteration_s - 1)
            )
    return tuple(found)


def protocol_a(tables: Mapping[str, Table], others: Mapping[str, Population]) -> list[Judged]:
    """Fit on exactly the runs that the artifact fits on, where it gives any."""
    return [
        judge(name, table, fit(table.architecture, table.sampled, prior(table.architecture, o)))
        for name, table, o in ((n, t, others[n]) for n, t in tables.items())
        if table.sampled
    ]


def protocol_b(
    tables: Mapping[str, Table],
    others: Mapping[str, Population],
    count: int,
    seed: int = DESIGN.seed,
) -> list[Judged]:
    """Fit on ``count`` runs per model of our own choice."""
    return [
        judge(name, table, sample(table, others.get(name), sample_size(table, count), seed))
        for name, table in tables.items()
    ]


def protocol_c(tables: Mapping[str, Table]) -> list[Judged]:
    """Leave one shape out: predict its rows from all rows on other shapes."""
    found = []
    for name, table in tables.items():
        parts = []
        for shape in sorted({run.shape for run in table.runs}):
            rest = [run for run in table.runs if run.shape != shape]
            parts.append(judge(name, table, fit_complete(table.architecture, rest)))
        found.append(
            Judged(
                name,
                tuple(run for part in parts for run in part.runs),
                np.concatenate([part.error for part in parts]),
                np.concatenate([part.log_sd for part in parts]),
                np.concatenate([part.listed for part in parts]),
                (),
                (),
            )
        )
    return found


def complete(tables: Mapping[str, Table]) -> list[Judged]:
    """Fit on all rows and look at the residuals: the floor of what the formulas can do."""
    fits = {name: fit_complete(t.architecture, t.runs) for name, t in tables.items()}
    # by their constants alone: a fit that knows its runs corrects the rows it saw
    bare = {name: replace(whole, runs=(), errors=ERRORS) for name, whole in fits.items()}
    return [judge(name, table, bare[name]) for name, table in tables.items()]


def pairs_of(runs: Sequence[Run]) -> list[Pair]:
    """The configurations of runs."""
    return [(run.shape, run.plan) for run in runs]


@dataclass(frozen=True, slots=True)
class CellError:
    """One cell of the published table against ours; all errors in percent.

    Parameters
    ----------
    rows, listed
        Rows predicted, and how many of them contradict their neighbours.
    average, p90, largest
        Absolute error over all rows.
    average_consistent
        Average without the listed rows; NaN if none is left.
    average_one_node
        Average over the rows of the kind that the artifact validates on: one node for plans
        without degrees, all rows of 3D plans; NaN if there is none.
    published
        The artifact's average, None where it has no such cell.
    """

    model: str
    plan: str
    rows: int
    listed: int
    average: float
    p90: float
    largest: float
    average_consistent: float
    average_one_node: float
    published: float | None


def cells(judged: Sequence[Judged]) -> list[CellError]:
    """Errors by model and published plan name, the published cells first within a model."""
    found = []
    for one in judged:
        names = [cell(one.model, run.plan) for run in one.runs]
        wanted = [plan for model, plan in PUBLISHED if model == one.model]
        for plan in dict.fromkeys([*wanted, *sorted(set(names))]):
            source = "TP+PP" if (one.model, plan) in BORROWED else plan
            at = np.array([name == source for name in names])
            if at.any():
                found.append(_cell(one, plan, at))
    return found


def _cell(one: Judged, plan: str, at: Floats) -> CellError:
    error = 100 * np.abs(one.error[at])
    clean = error[~one.listed[at]]
    rows = [run for run, use in zip(one.runs, at, strict=True) if use]
    like = error[[run.shape.nodes == 1 or run.plan.gpus is not None for run in rows]]
    return CellError(
        model=one.model,
        plan=plan,
        rows=len(error),
        listed=int(one.listed[at].sum()),
        average=float(error.mean()),
        p90=float(np.quantile(error, 0.9)),
        largest=float(error.max()),
        average_consistent=float(clean.mean()) if len(clean) else float("nan"),
        average_one_node=float(like.mean()) if len(like) else float("nan"),
        published=PUBLISHED.get((one.model, plan)),
    )
