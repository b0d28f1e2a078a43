"""Blocks of jobs that only priced rows connect, each decided by a model of its own.

A tree of queues falls into subtrees as soon as the rows above them have prices. Prices of all rows
ignore that jobs take whole options, which in small queues loses far more than in large ones; the
model of a block does not. docs/formulations/prices.md, "Blocks", has the theorem and its proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.prices.many import SharedItems
from formulations.prices.relaxation import Relaxation
from formulations.tolerances import CHOSEN, FEASIBILITY

if TYPE_CHECKING:
    from scipy import sparse


class Answer(NamedTuple):
    """Answer to the model of a block: its columns, None if it has none, and an upper bound."""

    x: Floats | None
    bound: float


Solve = Callable[[LinearModel], Answer]
"""Solver of the models of blocks."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of jobs and rows; rows between them are priced.

    Parameters
    ----------
    relaxation, items
        Options and rows of the round.
    prices
        Price of each row, shape (D,).
    of_job, of_row
        Block of each job, shape (J,), and of each row, -1 if it is between blocks, shape (D,).
    """

    relaxation: Relaxation
    items: SharedItems
    prices: Floats
    of_job: Ints
    of_row: Ints

    @cached_property
    def _outer(self) -> Floats:
        """Price of each row, 0 for rows of blocks."""
        return np.where(self.of_row < 0, self.prices, 0.0)

    @cached_property
    def _block_of_aux(self) -> Ints:
        """Block with the row of each auxiliary column, -1 for none, shape (U,)."""
        inside = self.relaxation.shared.aux_use[self.of_row >= 0] != 0
        found = np.where(inside, self.of_row[self.of_row >= 0][:, None], -1)
        return np.asarray(found.max(axis=0, initial=-1))

    @property
    def between(self) -> float:
        """Price of the limits of rows between blocks, and of their own auxiliary columns."""
        shared, prices = self.relaxation.shared, self._outer
        limit = np.where(prices > 0, shared.upper, shared.lower)
        rows = prices * np.where(prices == 0, 0.0, limit)
        gain = np.where(self._block_of_aux < 0, -(shared.aux_use.T @ prices), 0.0)
        aux = np.where(gain > 0, gain, 0.0) * np.where(gain > 0, shared.aux_upper, 0.0)
        return float(rows.sum() + aux.sum())

    def decided(self, solve: Solve, mends: int) -> tuple[Ints, float]:
        """Return a choice, shape (J,), and an upper bound of all decisions.

        The choice may exceed rows between blocks. Up to ``mends`` blocks, those that use most of
        such rows first, are solved again within what the others leave.
        """
        shared, items = self.relaxation.shared, self.items
        use = shared.use[:, items.option].tocsr()
        by_block: dict[int, _Block] = {}
        choice = np.full(self.relaxation.jobs, -1, dtype=np.int64)
        bound = self.between
        order = np.argsort(self.of_job[items.owner], kind="stable")
        of_item = self.of_job[items.owner][order]
        rows = np.argsort(self.of_row, kind="stable")
        of_rows = self.of_row[rows]
        for at in np.unique(of_item).tolist():
            mine = np.sort(order[slice(*np.searchsorted(of_item, [at, at + 1]).tolist())])
            own = np.sort(rows[slice(*np.searchsorted(of_rows, [at, at + 1]).tolist())])
            block = _Block(self, use, mine, own, np.flatnonzero(self._block_of_aux == at))
            answer = block.solved(solve)
            bound += answer.bound
            if answer.x is not None:
                by_block[at] = block
                block.take(answer.x)
        self._mend(by_block, solve, mends)
        for block in by_block.values():
            choice[items.owner[block.chosen]] = items.option[block.chosen]
        return choice, bound

    def _mend(self, by_block: dict[int, _Block], solve: Solve, mends: int) -> None:
        """Solve blocks again, in place, until rows between them hold."""
        shared = self.relaxation.shared
        outer = self.items.rows[self.of_row[self.items.rows] < 0]
        tried: set[int] = set()
        for _ in range(mends):
            used = sum((one.used[outer] for one in by_block.values()), np.zeros(outer.size))
            size = FEASIBILITY * np.maximum(1.0, np.abs(used))
            over = used > shared.upper[outer] + size
            short = used < shared.lower[outer] - size
            if not (over | short).any():
                return
            wrong = {
                at: float(np.abs(one.used[outer][over | short]).sum())
                for at, one in by_block.items()
                if at not in tried
            }
            if not wrong:
                return
            at = max(wrong, key=wrong.__getitem__)
            tried.add(at)
            others = used - by_block[at].used[outer]
            upper = np.maximum(shared.upper[outer] - others, 0.0)
            lower = np.where(short, -np.inf, shared.lower[outer] - others)
            answer = by_block[at].solved(solve, (outer, lower, upper))
            if answer.x is not None:
                by_block[at].take(answer.x)


class _Block:
    """One block with its choice."""

    def __init__(
        self, blocks: Blocks, use: sparse.csr_array, mine: Ints, rows: Ints, aux: Ints
    ) -> None:
        self._blocks, self._mine, self._rows, self._aux = blocks, mine, rows, aux
        self._use = use[:, mine].tocsr()
        self.chosen: Ints = np.zeros(0, dtype=np.int64)
        self.used: Floats = np.zeros(self._use.shape[0])

    def take(self, x: Floats) -> None:
        """Take an answer."""
        shared, count = self._blocks.relaxation.shared, self._mine.size
        picked = x[:count] > CHOSEN
        self.chosen = self._mine[picked]
        self.used = np.asarray(self._use @ picked.astype(np.float64))
        if self._aux.size:
            self.used = self.used + shared.aux_use[:, self._aux] @ x[count:]

    def solved(self, solve: Solve, within: tuple[Ints, Floats, Floats] | None = None) -> Answer:
        """Solve the block at the prices of rows between blocks, or within limits of these rows."""
        shared = self._blocks.relaxation.shared
        outer = self._blocks._outer
        if within is not None:
            # Limits take the place of prices, but floors are attained by their price.
            outer = np.where(np.isfinite(shared.lower), outer, 0.0)
        items, relaxation = self._blocks.items, self._blocks.relaxation
        mine, aux = self._mine, self._aux
        value = relaxation.value[items.option[mine]] - np.asarray(self._use.T @ outer)
        owner = items.owner[mine]
        jobs, row = np.unique(owner, return_inverse=True)
        if within is None and not self._rows.size:
            return _best_alone(value, row.reshape(-1), ~items.forced[jobs])
        builder = ModelBuilder("block")
        x = builder.add_columns("x", items.option[mine][:, None], 1.0)
        least = np.where(items.forced[jobs], 1.0, 0.0)
        builder.add_rows("one_config", jobs[:, None], least, 1.0, [(row.reshape(-1), x, 1.0)])
        u = builder.add_columns("u", aux[:, None], shared.aux_upper[aux], integer=False)
        limits = [(self._rows, shared.lower[self._rows], shared.upper[self._rows])]
        for rows, lower, upper in limits if within is None else [*limits, within]:
            inner = self._use[rows].tocoo()
            carried, which = np.nonzero(shared.aux_use[np.ix_(rows, aux)])
            carries = shared.aux_use[rows[carried], aux[which]]
            entries = [
                (inner.row.astype(np.int64), x[inner.col], inner.data),
                (carried, u[which], carries),
            ]
            builder.add_rows("row", rows[:, None], lower, upper, entries)
        return solve(builder.build(np.append(value, -(shared.aux_use[:, aux].T @ outer))))


def _best_alone(value: Floats, job: Ints, idle: Bools) -> Answer:
    """Return the best item of each job: of items in the order of their jobs."""
    start = np.searchsorted(job, np.arange(idle.size))
    best = np.maximum.reduceat(value, start)
    taken = np.where(idle, np.maximum(best, 0.0), best)
    x = np.zeros(value.size)
    hit = np.flatnonzero(value == best[job])
    first = hit[np.searchsorted(hit, start)]
    x[first[(best > 0.0) | ~idle]] = 1.0
    return Answer(x, float(taken.sum()))


def find_blocks(relaxation: Relaxation, items: SharedItems, prices: Floats, most: int) -> Blocks:
    """Return blocks of at most ``most`` options each, unless one job has more.

    Rows join the jobs that they concern, those that concern the fewest options first. A row whose
    block would be too large is between blocks, and so is one with a lower limit, such as the floor
    of an earlier level: it would make the model of its block as hard as both levels together.
    """
    shared, jobs = relaxation.shared, relaxation.jobs
    size = np.bincount(items.owner, minlength=jobs).tolist()
    members = _members(relaxation, items)
    root = [*range(jobs)]

    def find(job: int) -> int:
        while root[job] != job:
            root[job] = job = root[root[job]]
        return job

    of_row = np.full(shared.count, -1, dtype=np.int64)
    counts = {row: sum(size[job] for job in members[row]) for row in items.rows.tolist()}
    for row in sorted(counts, key=counts.__getitem__):
        own = {find(job) for job in members[row]}
        many = sum(size[job] for job in own)
        if not own or many > most or np.isfinite(shared.lower[row]):
            continue
        first = min(own)
        size[first], of_row[row] = many, first
        for job in own:
            root[job] = first
    of_job = np.asarray([find(job) for job in range(jobs)], dtype=np.int64)
    of_row = np.where(of_row < 0, -1, of_job[of_row])
    # Jobs in no row of a block need no model: one block has them all.
    of_job[~np.isin(of_job, of_row)] = jobs
    return Blocks(relaxation, items, prices, of_job, of_row)


def _members(relaxation: Relaxation, items: SharedItems) -> list[set[int]]:
    """Return the jobs that each row concerns, those of rows whose excess it carries included."""
    shared = relaxation.shared
    use = shared.use[:, items.option].tocsr()
    ends = zip(use.indptr.tolist(), use.indptr[1:].tolist(), strict=False)
    found = [set(items.owner[use.indices[first:last]].tolist()) for first, last in ends]
    carries = [
        (np.flatnonzero(one < 0).tolist(), np.flatnonzero(one > 0).tolist())
        for one in shared.aux_use.T
    ]
    grows = True
    while grows:
        grows = False
        for below, above in carries:
            for row in above:
                for lower in below:
                    if not found[lower] <= found[row]:
                        found[row] |= found[lower]
                        grows = True
    return found
