r"""Count identical jobs instead of naming them.

For jobs with the same candidates, the same values and the same entries in rows, only the number of
starts in each candidate matters. So a model of a round may share their columns: with X[g,k] starts
of group g in candidate k, y[j] = 1 if job j of the group gives up its other options, and w[g] jobs
of the group without other options,

    one_config[j]   s[j] + y[j] <= 1
    alike[g]        sum_k X[g,k] - sum_{j of g} y[j] <= w[g]

replace ``sum_k x[j,k] + s[j] <= 1`` of each job. Every solution of one model is one of the other,
with the same value: X[g,k] = sum_j x[j,k], and starts are given to jobs of the group that take no
other option. The same holds for the relaxations, where x[j,k] may be an equal share of X[g,k]. The
solver no longer distinguishes such jobs column by column and branch by branch.

Rows ``distinct`` (`formulations.layout.cut_distinct`) are about one job each and would tell such
jobs apart. One binary b[s,m] per kind s of slot and number m of parts states the same of all jobs:

    distinct[s,m]   m b[s,m] <= number of nodes that offer a slot s
    spread[s,m]     sum of all starts with m parts of kind s <= (jobs that have one) b[s,m]

so that a start of m parts needs m nodes with such a slot. Only their relaxation is looser.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import distinct_rows, fingerprint
from formulations.layout import RoundModel
from formulations.linear_model import Block, LinearModel
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import CHOSEN

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T")


def alike_candidates(problem: RoundProblem, level: Level) -> Ints:
    """Return a number per candidate, equal for candidates of identical jobs, shape (K,).

    Jobs count as identical if all their candidates are. This is a guess from candidates and values:
    rows of rules may still distinguish them.
    """
    table, jobs = problem.candidates, problem.jobs.count
    start = np.searchsorted(table.job, np.arange(jobs))
    place = np.arange(table.count) - start[table.job]
    key = fingerprint([level.value[: table.count], table.templates[1], place])
    of_job = np.bincount(table.job, key.astype(np.float64), jobs)
    _, first, group = np.unique(of_job, return_index=True, return_inverse=True)
    # A candidate gets the index of its counterpart of the group's first job.
    return start[first[group.reshape(-1)]][table.job] + place


@dataclass(frozen=True, slots=True)
class Counted:
    """Smaller model of a round, with the map back to the model of all jobs.

    Parameters
    ----------
    model
        Model in which starts of identical jobs share a column.
    starts
        Columns of starts of the model.
    """

    model: LinearModel
    starts: Ints
    _columns: Ints
    _whole: int
    _groups: tuple[tuple[Ints, Ints], ...]

    def expanded(self, x: Floats) -> Floats:
        """Return the point of the larger model for an integer point of the smaller one."""
        found = np.zeros(self._whole)
        found[self._columns] = x[: self._columns.size]
        for gives, columns in self._groups:
            many = np.rint(found[columns[0]]).astype(np.int64)
            found[columns[0]] = 0.0
            free = np.flatnonzero((gives < 0) | (x[gives] > CHOSEN))
            which = np.repeat(np.arange(columns.shape[1]), many)
            found[columns[free[: which.size], which]] = 1.0
        return found


def counted(built: RoundModel) -> Counted | None:
    """Return the model with identical jobs counted, or None if there are none.

    None also if jobs share options. Exact: columns of identical jobs have equal entries in all rows
    but ``one_config``.
    """
    from scipy import sparse

    model, starts = built.model, built.layout.starts
    one = next(block for block in model.row_blocks if block.family == "one_config")
    matrix = model.matrix().tocsc()
    alike = _alike(model, matrix[:, starts], starts, one)
    if not alike:
        return None
    spread = _spread_of(built, matrix.indices[matrix.indptr[:-1]])
    in_starts = np.bincount(matrix[:, starts].indices, minlength=model.rows)
    more = np.bincount(matrix.indices, minlength=model.rows) > in_starts
    kept, upper = np.ones(model.columns, dtype=bool), model.column_upper.copy()
    other: list[int] = []
    first = np.zeros(model.columns, dtype=bool)
    count = model.columns - sum(columns[1:].size for _, columns in alike)
    groups = []
    for jobs, columns in alike:
        kept[columns[1:]] = False
        first[columns[0]] = True
        upper[columns[0]] *= jobs.size
        gives = np.full(jobs.size, -1, dtype=np.int64)
        tied = np.flatnonzero(more[one.start + jobs])
        gives[tied] = count + len(other) + np.arange(tied.size)
        other += jobs[tied].tolist()
        groups.append((gives, columns))
    at = np.cumsum(kept) - 1
    entry = matrix.tocoo()
    of_one = (entry.row >= one.start) & (entry.row < one.start + one.count)
    taken = kept[entry.col] & ~(first[entry.col] & of_one)
    given = count + np.arange(len(other), dtype=np.int64)
    row = [entry.row[taken], one.start + np.asarray(other, dtype=np.int64)]
    column, value = [at[entry.col[taken]], given], [entry.data[taken], np.ones(given.size)]
    for own, (gives, columns) in enumerate(groups):
        mine = np.concatenate([at[columns[0]], gives[gives >= 0]])
        row.append(np.full(mine.size, model.rows + own))
        column.append(mine)
        value.append(np.where(mine < count, 1.0, -1.0))
    shape = (model.rows + len(groups), count + given.size)
    place = np.concatenate(row), np.concatenate(column)
    fewer = sparse.csr_array((np.concatenate(value), place), shape=shape)
    alone = np.asarray([(gives < 0).sum() for gives, _ in groups], dtype=np.float64)
    of_columns = np.flatnonzero(kept)
    smaller = replace(
        model,
        cost=np.append(model.cost[kept], np.zeros(given.size)),
        column_lower=np.append(model.column_lower[kept], np.zeros(given.size)),
        column_upper=np.append(upper[kept], np.ones(given.size)),
        integer=np.append(model.integer[kept], np.ones(given.size, dtype=bool)),
        row_lower=np.append(model.row_lower, np.full(alone.size, -np.inf)),
        row_upper=np.append(model.row_upper, alone),
        start=fewer.indptr.astype(np.int64),
        index=fewer.indices.astype(np.int64),
        value=fewer.data,
        row_blocks=(
            *model.row_blocks,
            Block("alike", model.rows, np.asarray([[jobs[0]] for jobs, _ in alike])),
        ),
        column_blocks=(
            Block("counted", 0, of_columns[:, None]),
            Block("starts", count, np.asarray(other, dtype=np.int64)[:, None]),
        ),
    )
    for label, several, offers, most in spread:
        smaller = _switched(smaller, label, at[several[kept[several]]], at[offers], most)
    return Counted(smaller, at[starts[kept[starts]]], of_columns, model.columns, tuple(groups))


def _spread_of(built: RoundModel, first_row: Ints) -> list[tuple[tuple[int, int], Ints, Ints, int]]:
    """Return the contents of rows ``distinct`` and ``spread``.

    One entry per kind of slot and number of parts: these two, the columns of such starts, the
    columns that offer the slot, and the number of jobs that have such a start.

    Parameters
    ----------
    first_row
        First row of each column of the model; of a start, that of its job.
    """
    found, distinct = [], built.distinct
    if distinct is None:
        return []
    columns = built.layout.x[distinct.candidate]
    jobs = first_row[columns]
    for kind in np.unique(distinct.kind).tolist():
        offers = np.unique(distinct.column[distinct.offered == kind])
        for parts in np.unique(distinct.count[distinct.kind == kind]).tolist():
            mine = (distinct.kind == kind) & (distinct.count == parts)
            most = np.unique(jobs[mine]).size
            found.append(((kind, parts), columns[mine], offers, most))
    return found


def _switched(
    model: LinearModel, label: tuple[int, int], starts: Ints, offers: Ints, jobs: int
) -> LinearModel:
    """Return the model with one binary b and its rows ``distinct`` and ``spread``."""
    switch, parts = model.columns, label[1]
    wider = replace(
        model,
        cost=np.append(model.cost, 0.0),
        column_lower=np.append(model.column_lower, 0.0),
        column_upper=np.append(model.column_upper, 1.0),
        integer=np.append(model.integer, True),
        column_blocks=(*model.column_blocks, Block("spread", switch, np.asarray([label]))),
    )
    for family, columns, sign, most in (
        ("distinct", offers, -1.0, parts),
        ("spread", starts, 1.0, -jobs),
    ):
        values = np.append(np.full(columns.size, sign), float(most))
        wider = wider.with_row(family, label, np.append(columns, switch), values, -np.inf, 0.0)
    return wider


def _alike(
    model: LinearModel, columns: sparse.csc_array, starts: Ints, one: Block
) -> list[tuple[Ints, Ints]]:
    """Return groups of identical jobs and their columns of starts, shape (jobs, candidates)."""
    ends = columns.indptr
    if not starts.size or (columns.indices[ends[:-1] + 1][np.diff(ends) > 1] < one.count).any():
        return []
    job = columns.indices[ends[:-1]] - one.start
    known: dict[bytes, int] = {}
    rows = [
        known.setdefault(
            columns.indices[begin:end].tobytes() + columns.data[begin:end].tobytes(), len(known)
        )
        for begin, end in zip((ends[:-1] + 1).tolist(), ends[1:].tolist(), strict=True)
    ]
    worth, most = model.cost[starts], model.column_upper[starts]
    _, kind = distinct_rows(np.column_stack([np.asarray(rows, dtype=np.float64), worth, most]))
    order = np.lexsort([kind, job])
    owners, first = np.unique(job[order], return_index=True)
    of_kinds: dict[bytes, list[int]] = {}
    blocks = np.split(order, first[1:])
    for at, block in enumerate(blocks):
        of_kinds.setdefault(kind[block].tobytes(), []).append(at)
    return [
        (owners[members].astype(np.int64), starts[np.stack([blocks[at] for at in members])])
        for members in of_kinds.values()
        if len(members) > 1
    ]


def earlier_first(
    kinds: Sequence[Hashable], chosen: Sequence[T], rank: Callable[[T], Any]
) -> list[T]:
    """Return the choice of each job, with the better choices of a kind given to its earlier jobs.

    Solvers break ties at will, and jobs of a kind may swap choices without a change of value.

    Parameters
    ----------
    kinds
        Kind of each job, in order of submission.
    rank
        Sort key of a choice; the better ones come first.
    """
    members: defaultdict[Hashable, list[int]] = defaultdict(list)
    for job, kind in enumerate(kinds):
        members[kind].append(job)
    found = list(chosen)
    for jobs in members.values():
        for job, choice in zip(jobs, sorted((chosen[j] for j in jobs), key=rank), strict=True):
            found[job] = choice
    return found
