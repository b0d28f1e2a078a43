"""What both formulations share: the columns of the decisions, and cutting a choice off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.linear_model import Floats, Ints, LinearModel, ModelBuilder
from formulations.round.options import may_meet
from formulations.round.tables import NONE, STAY, Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the decisions stand in a model's columns.

    Parameters
    ----------
    x
        Column of each candidate, shape (K,).
    stay
        Column of each job's stay, shape (J,); -1 for queued jobs.
    columns
        Number of columns.
    """

    x: Ints
    stay: Ints
    columns: int

    @property
    def option(self) -> Ints:
        """Column of each option, candidates before stays (`formulations.in_place`), (K + J,)."""
        return np.concatenate([self.x, self.stay])

    def cost(self, level: Level) -> Floats:
        """Objective coefficients of a level, shape (columns,)."""
        cost = np.zeros(self.columns)
        cost[self.x] = level.value
        running = self.stay >= 0
        cost[self.stay[running]] = level.stay_value[running]
        return cost

    def choice(self, problem: RoundProblem, x: Floats) -> Ints:
        """Choice of every job at an integer point: candidate index, `STAY` or `NONE`."""
        choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
        picked = np.flatnonzero(x[self.x] > 0.5)
        choice[problem.candidates.job[picked]] = picked
        paired = picked[picked >= problem.candidates.count - problem.pairs.count]
        choice[problem.pairs.partner[paired - problem.candidates.count]] = paired
        running = np.flatnonzero(self.stay >= 0)
        choice[running[x[self.stay[running]] > 0.5]] = STAY
        return choice

    def picked(self, choice: Ints) -> Ints:
        """Columns that are one under a choice."""
        stays = np.flatnonzero(choice == STAY)
        return np.unique(np.concatenate([self.x[choice[choice >= 0]], self.stay[stays]]))


@dataclass(frozen=True, slots=True)
class Spread:
    """What the cuts ``distinct`` are made of: parts of one kind that must not share a node.

    Parameters
    ----------
    candidate, kind, count
        Candidates with several parts of a kind of which two would fit one node, shape (E,).
    column, offered
        Columns of patterns and the kinds of slots that they offer, shape (F,).
    """

    candidate: Ints
    kind: Ints
    count: Ints
    column: Ints
    offered: Ints


@dataclass(frozen=True, slots=True)
class RoundModel:
    """A built model and the layout that decodes it.

    Parameters
    ----------
    spread
        Where nodes are counted and cuts may be needed; None where they are named.
    base_rows
        Rows of the formulation itself; those after them were added to the round.
    """

    model: LinearModel
    layout: Layout
    spread: Spread | None = None
    base_rows: int = 0

    def with_rows_of(self, other: RoundModel) -> RoundModel:
        """The model with the rows that were added to another model of the same round.

        They speak of configurations and stays alone, whose columns come first in every
        formulation; cuts on patterns (``distinct``) are left behind.
        """
        added = range(other.base_rows, other.model.rows)
        kept = [row for row in added if not other.model.row_name(row).startswith("distinct[")]
        return replace(self, model=self.model.with_rows_of(other.model, kept))


def add_choices(builder: ModelBuilder, problem: RoundProblem) -> Layout:
    """Columns x, pair and s and the rows ``one_config`` and ``one_gang``."""
    jobs, candidates, pairs = problem.jobs, problem.candidates, problem.pairs
    k = np.arange(candidates.count, dtype=np.int64)
    alone = candidates.count - pairs.count
    x = builder.add_columns("x", np.column_stack([candidates.job, k])[:alone], 1.0)
    entries: list[tuple[Ints, Ints, float]] = []
    if pairs.count:
        labels = np.column_stack([candidates.job[alone:], pairs.partner, k[alone:]])
        upper = may_meet(problem).astype(np.float64)
        x = np.concatenate([x, builder.add_columns("pair", labels, upper)])
        entries.append((pairs.partner, x[alone:], 1.0))
    running = np.flatnonzero(jobs.running)
    s = builder.add_columns("s", running[:, None], 1.0)
    stay = np.full(jobs.count, -1, dtype=np.int64)
    stay[running] = s
    builder.add_rows(
        "one_config",
        np.arange(jobs.count)[:, None],
        -np.inf,
        1.0,
        [(candidates.job, x, 1.0), (running, s, 1.0), *entries],
    )
    _add_one_gang(builder, problem, x, stay)
    return Layout(x, stay, 0)


def _add_one_gang(builder: ModelBuilder, problem: RoundProblem, x: Ints, stay: Ints) -> None:
    """Rows ``one_gang``: GPUs that two jobs share go on with one of them, or with one pair."""
    pairs = problem.pairs
    if not pairs.sharing.size:
        return
    row_of = np.full(problem.jobs.count, -1, dtype=np.int64)
    row_of[pairs.sharing] = np.arange(pairs.sharing.shape[0])[:, None]
    base = problem.candidates.count - pairs.count
    row = row_of[problem.candidates.job[base:]]
    on_it = np.flatnonzero(pairs.in_place & (row >= 0))
    both = pairs.sharing.reshape(-1)
    builder.add_rows(
        "one_gang",
        pairs.sharing,
        -np.inf,
        1.0,
        [(row_of[both], stay[both], 1.0), (row[on_it], x[base + on_it], 1.0)],
    )


def forbid(built: RoundModel, choice: Ints, serial: int) -> RoundModel:
    """The model without this choice of configurations and its supersets (row ``not_again``).

    Valid whenever the choice cannot be placed: what does not fit does not fit with more.
    """
    ones = built.layout.picked(choice)
    model = built.model.with_row(
        "not_again", [serial], ones, np.ones(ones.size), -np.inf, ones.size - 1.0
    )
    return replace(built, model=model)


def cut_distinct(problem: RoundProblem, built: RoundModel, x: Floats) -> RoundModel | None:
    """The model with rows ``distinct[j,g]`` that cut a point off; None if it violates none.

    A job with m parts of kind g needs m nodes that offer such a slot, however many each offers:
    ``sum_k count[k,g] x[j,k] <= sum_{p offers g} z[p]``. Valid for every job because it takes one
    candidate at most; rarely violated, hence a cut and not a row of the model. Where one job
    violates it, the others of that kind would be next, so all of them get their row.
    """
    spread = built.spread
    if spread is None:
        return None
    owner = problem.candidates.job[spread.candidate]
    chosen = x[built.layout.x[spread.candidate]] > 0.5
    model = built.model
    for kind in np.unique(spread.kind[chosen]).tolist():
        offers = np.unique(spread.column[spread.offered == kind])
        several = spread.kind == kind
        if spread.count[chosen & several].max() <= x[offers].sum() + 0.5:
            continue
        for job in np.unique(owner[several]).tolist():
            mine = several & (owner == job)
            columns = np.concatenate([built.layout.x[spread.candidate[mine]], offers])
            values = np.concatenate([spread.count[mine].astype(np.float64), -np.ones(offers.size)])
            model = model.with_row("distinct", [job, kind], columns, values, -np.inf, 0.0)
    return None if model is built.model else replace(built, model=model)
