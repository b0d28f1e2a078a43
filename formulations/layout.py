"""Parts that both formulations share: columns of the decisions, and cuts of a choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.round.shared import same_gpus
from formulations.round.tables import NONE, Level, RoundProblem
from formulations.tolerances import CHOSEN


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of the decisions in a model.

    Parameters
    ----------
    x
        Column of each option, shape (O,).
    starts
        Columns of the options other than stays, shape (K,).
    jobs
        Number of jobs.
    columns
        Number of columns.
    """

    x: Ints
    starts: Ints
    jobs: int
    columns: int = 0

    def cost(self, level: Level) -> Floats:
        """Return the objective coefficients of a level, shape (columns,)."""
        cost = np.zeros(self.columns)
        cost[self.x] = level.value
        return cost

    def choice(self, problem: RoundProblem, x: Floats) -> Ints:
        """Return the option of every job at an integer point, or `NONE`."""
        members = problem.options.members
        choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
        picked = x[self.x[members.option]] > CHOSEN
        choice[members.job[picked]] = members.option[picked]
        return choice

    def picked(self, choice: Ints) -> Ints:
        """Return the columns that are 1 under a choice."""
        return np.unique(self.x[choice[choice >= 0]])


@dataclass(frozen=True, slots=True)
class DistinctParts:
    """Data of the cuts ``distinct``: parts of one kind that must not share a node.

    Parameters
    ----------
    candidate, kind, count
        Candidates with ``count`` parts of a kind, two of which would fit one node, shape (E,).
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
    distinct
        Data of cuts if nodes are counted; None if they are named.
    base_rows
        Number of rows of the formulation itself; later rows were added to the round.
    """

    model: LinearModel
    layout: Layout
    distinct: DistinctParts | None = None
    base_rows: int = 0

    def with_rows_of(self, other: RoundModel) -> RoundModel:
        """Return the model with the rows added to another model of the same round.

        Such rows refer to configurations and stays alone, whose columns come first in every
        formulation. Cuts on patterns (``distinct``) are left out.
        """
        added = range(other.base_rows, other.model.rows)
        kept = [row for row in added if not other.model.row_name(row).startswith("distinct[")]
        return replace(self, model=self.model.with_rows_of(other.model, kept))


def add_choices(builder: ModelBuilder, problem: RoundProblem) -> Layout:
    """Add the columns x, pair, group and s and the rows ``one_config`` and ``one_gang``."""
    options, jobs = problem.options, problem.jobs.count
    members, stays, upper = options.members, options.stays, options.possible.astype(np.float64)
    x = np.full(options.count, -1, dtype=np.int64)
    shared = np.flatnonzero(options.shared)
    on_its_own = ~options.shared
    on_its_own[stays] = False
    alone = np.flatnonzero(on_its_own)
    x[alone] = builder.add_columns("x", np.column_stack([options.job[alone], alone]), upper[alone])
    sizes = np.bincount(members.option, minlength=options.count)[shared]
    for size in np.unique(sizes).tolist():
        mine = shared[sizes == size]
        labels = members.job[np.isin(members.option, mine)].reshape(-1, size)
        family = "pair" if size == 2 else "group"
        x[mine] = builder.add_columns(family, np.column_stack([labels, mine]), upper[mine])
    x[stays] = builder.add_columns("s", options.job[stays][:, None], 1.0)
    builder.add_rows(
        "one_config",
        np.arange(jobs)[:, None],
        -np.inf,
        1.0,
        [(members.job, x[members.option], 1.0)],
    )
    _add_one_gang(builder, problem, x)
    return Layout(x, np.delete(x, stays), jobs)


def _add_one_gang(builder: ModelBuilder, problem: RoundProblem, x: Ints) -> None:
    """Add rows ``one_gang``: at most one option continues on shared GPUs.

    A row is labelled with the first and the last of its jobs.
    """
    options = problem.options
    sharing = np.flatnonzero(same_gpus(options.gang))
    if not sharing.size:
        return
    gangs, of_gang = np.unique(options.gang[sharing], return_inverse=True)
    row_of = np.full(problem.jobs.count, -1, dtype=np.int64)
    row_of[sharing] = of_gang
    labels = np.column_stack([gangs, gangs])
    np.maximum.at(labels[:, 1], of_gang, sharing)
    labels[:, 0] = sharing[np.unique(of_gang, return_index=True)[1]]
    here = np.unique(options.held.option)
    row = row_of[options.job[here]]
    builder.add_rows("one_gang", labels, -np.inf, 1.0, [(row[row >= 0], x[here[row >= 0]], 1.0)])


def forbid(built: RoundModel, choice: Ints, serial: int) -> RoundModel:
    """Return the model without this choice of configurations and its supersets (``not_again``).

    Valid if the choice cannot be placed: then no superset of it can be.
    """
    ones = built.layout.picked(choice)
    model = built.model.with_row(
        "not_again", [serial], ones, np.ones(ones.size), -np.inf, ones.size - 1.0
    )
    return replace(built, model=model)


def cut_distinct(problem: RoundProblem, built: RoundModel, x: Floats) -> RoundModel | None:
    """Return the model with violated rows ``distinct[j,g]``, or None if there are none.

    A job with m parts of kind g needs m nodes that offer such a slot, however many each offers:
    ``sum_k count[k,g] x[j,k] <= sum_{p offers g} z[p]``. Valid for every job, because it takes one
    candidate at most. Rarely violated, so it is a cut and not a row of the model. If one job
    violates it, other jobs with that kind would be next, so all of them get their row.
    """
    distinct = built.distinct
    if distinct is None:
        return None
    owner = problem.options.starts.job[distinct.candidate]
    chosen = x[built.layout.x[distinct.candidate]] > CHOSEN
    model = built.model
    for kind in np.unique(distinct.kind[chosen]).tolist():
        offers = np.unique(distinct.column[distinct.offered == kind])
        several = distinct.kind == kind
        if distinct.count[chosen & several].max() <= x[offers].sum() + CHOSEN:
            continue
        for job in np.unique(owner[several]).tolist():
            mine = several & (owner == job)
            columns = np.concatenate([built.layout.x[distinct.candidate[mine]], offers])
            values = np.concatenate(
                [distinct.count[mine].astype(np.float64), -np.ones(offers.size)]
            )
            model = model.with_row("distinct", [job, kind], columns, values, -np.inf, 0.0)
    return None if model is built.model else replace(built, model=model)
