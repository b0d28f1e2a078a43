r"""Prices of hundreds of rows at once, by an interior-point method.

The least bound of prices is the optimum of a linear program: jobs take shares x of their items,
within the rows (Geoffrion 1974), ::

    max value x   with   sum of x of a job <= 1,   use x + aux_use e <= limit,   0 <= e <= aux_most

Cutting planes need about as many evaluations as there are rows with a price. The
predictor-corrector method (Mehrotra, SIAM J. Optimization 2, 1992) needs some forty steps, whatever
their number. Each step solves one equation per row: the jobs' rows are eliminated first, as an item
has one job, and two rows meet in the system only if they share a job or an auxiliary column. With
rows of trees of queues it is sparse. Any prices prove a bound, so nothing here has to converge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.parameters import INTERIOR, InteriorParams

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True)
class SharedProgram:
    """Linear program of items and the rows that they share.

    Parameters
    ----------
    value
        Value of each item, job by job, shape (I,).
    owner
        Job of each item, ascending from 0 to G - 1, each with an item, shape (I,).
    idle
        Whether each job may have nothing, shape (G,).
    use
        Use of each row by each item, shape (D, I).
    limit
        Upper limit of each row, shape (D,).
    aux_use, aux_most
        Use of each row by auxiliary columns, shape (D, U), and their finite limits above 0, shape
        (U,).
    """

    value: Floats
    owner: Ints
    idle: Bools
    use: sparse.csr_array
    limit: Floats
    aux_use: sparse.csr_array
    aux_most: Floats


def interior_prices(program: SharedProgram, params: InteriorParams = INTERIOR) -> Floats:
    """Return prices of the rows, at least 0 and nearly optimal, shape (D,).

    Ends when the point is nearly optimal, a step is undefined, or after ``params.steps`` steps.
    """
    with np.errstate(all="ignore"):  # of numbers that do not count; steps are checked
        point = _Point(program, params)
        for _ in range(params.steps):
            if point.close or not point.step():
                break
    return point.dual.s


class _Parts(NamedTuple):
    """Numbers of each kind of variable.

    ``x`` has items, ``t`` what jobs leave, ``e`` auxiliary columns, ``f`` what these leave of their
    limits, and ``s`` what rows leave. A dual has the same names: that of ``s`` is the price.
    """

    x: Floats
    t: Floats
    e: Floats
    f: Floats
    s: Floats


class _Point:
    """Point with exact duals, whose primal part becomes feasible step by step.

    Attributes
    ----------
    primal, dual
        All above 0, but for what jobs leave that must not be idle: these parts do not count.
    """

    def __init__(self, program: SharedProgram, params: InteriorParams) -> None:
        from scipy import sparse

        self._p, self._params = program, params
        jobs, items = program.idle.size, program.value.size
        self._jobs = np.searchsorted(program.owner, np.arange(jobs))
        self._use_of = program.use.T.tocsr()
        self._aux_of = program.aux_use.T.tocsr()
        entries = np.ones(items), (np.arange(items), program.owner)
        self._to_job = sparse.csr_array(entries, shape=(items, jobs))
        most, columns = program.aux_most, np.ones(program.aux_most.size, dtype=bool)
        rows = np.ones(program.limit.size, dtype=bool)
        self._counted = np.ones(items, dtype=bool), program.idle, columns, columns, rows
        first = params.first * (float(np.abs(program.value).max(initial=0.0)) or 1.0)
        price = np.full(program.limit.size, first)
        pull, least = self._aux_of @ price, first / np.maximum(1.0, most)
        of_f = np.maximum(0.0, -pull) + least
        of_e = pull + of_f
        worth = program.value - self._use_of @ price
        of_t = np.maximum.reduceat(worth, self._jobs)
        of_t = np.where(program.idle, np.maximum(of_t, 0.0), of_t) + first
        self.dual = _Parts(of_t[program.owner] - worth, of_t, of_e, of_f, price)
        # All products of a variable and its dual are alike, except where limits forbid it.
        taken = np.add.reduceat(1.0 / self.dual.x, self._jobs)
        middle = 1.0 / (taken + np.where(program.idle, 1.0 / of_t, 0.0))
        x, mean = middle[program.owner] / self.dual.x, float(middle.mean())
        e = np.minimum(mean / of_e, 0.5 * most)
        self.primal = _Parts(
            x,
            np.where(program.idle, middle / of_t, 1.0),
            e,
            most - e,
            np.maximum(program.limit - program.use @ x - program.aux_use @ e, mean / price),
        )

    def _left(self) -> tuple[Floats, Floats]:
        """Return by how much the rows of jobs and the shared rows do not hold yet."""
        at, program = self.primal, self._p
        jobs = 1.0 - np.add.reduceat(at.x, self._jobs) - np.where(program.idle, at.t, 0.0)
        return jobs, program.limit - program.use @ at.x - program.aux_use @ at.e - at.s

    def _products(self, move: _Move | None = None, lengths: tuple[float, float] = (0, 0)) -> float:
        """Return the sum of all variables times their duals, after a move if one is given."""
        total = 0.0
        primal, dual = self.primal, self.dual
        if move is not None:
            primal = _Parts(*_along(primal, move.primal, lengths[0]))
            dual = _Parts(*_along(dual, move.dual, lengths[1]))
        for a, b, on in zip(primal, dual, self._counted, strict=True):
            total += float(np.where(on, a, 0.0) @ b)
        return total

    @property
    def close(self) -> bool:
        """Whether the point is feasible and its gap small."""
        short = max(float(np.abs(rows).max(initial=0.0)) for rows in self._left())
        worth = abs(float(self._p.value @ self.primal.x))
        return short <= self._params.short and self._products() <= self._params.close * worth

    def step(self) -> bool:
        """Take a step; return False, with no change, if it is undefined."""
        moves = self._moves()
        if moves is None:
            return False
        first = moves(_Parts(*(-a * b for a, b in zip(self.primal, self.dual, strict=True))))
        now, count = self._products(), sum(int(own.sum()) for own in self._counted)
        left = self._products(first, self._lengths(first, 1.0)) / now
        middle = left**3 * now / count
        pairs = zip(self.primal, self.dual, first.primal, first.dual, strict=True)
        move = moves(_Parts(*(middle - a * b - da * db for a, b, da, db in pairs)))
        lengths = self._lengths(move, self._params.reach)
        if not np.isfinite(lengths).all() or not np.isfinite(move.dual.s).all():
            return False
        self.primal = _Parts(*_along(self.primal, move.primal, lengths[0]))
        self.dual = _Parts(*_along(self.dual, move.dual, lengths[1]))
        return True

    def _lengths(self, move: _Move, reach: float) -> tuple[float, float]:
        """Return the lengths, at most 1, that ``reach`` of the way to the nearest limit allows."""
        found = []
        for at, by in ((self.primal, move.primal), (self.dual, move.dual)):
            falls = (
                float((-change[on] / now[on]).max(initial=0.0))
                for now, change, on in zip(at, by, self._counted, strict=True)
            )
            found.append(min(1.0, reach / max(reach, *falls)))
        return found[0], found[1]

    def _moves(self) -> Callable[[_Parts], _Move] | None:
        """Return the move by the wanted change of each product; None if the system is singular."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        program, at, dual = self._p, self.primal, self.dual
        idle = program.idle
        ratio = at.x / dual.x
        of_job = np.add.reduceat(ratio, self._jobs) + np.where(idle, at.t / dual.t, 0.0)
        of_aux = 1.0 / (dual.e / at.e + dual.f / at.f)
        weighed = self._use_of.copy()
        weighed.data = weighed.data * np.repeat(ratio, np.diff(weighed.indptr))
        meets = (weighed.T @ self._to_job).tocsr()
        scaled = meets.copy()
        scaled.data = scaled.data / of_job[scaled.indices]
        system = program.use @ weighed - scaled @ meets.T
        system = system + program.aux_use @ sparse.diags_array(of_aux) @ self._aux_of
        system = sparse.csc_array(system + sparse.diags_array(at.s / dual.s))
        if not np.isfinite(system.data).all():
            return None
        try:
            symmetric = {"SymmetricMode": True}
            solver = splu(system, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
        except RuntimeError:
            return None
        left_jobs, left_rows = self._left()

        def moved(wanted: _Parts) -> _Move:
            x, e = wanted.x / dual.x, of_aux * (wanted.e / at.e - wanted.f / at.f)
            job = np.add.reduceat(x, self._jobs) - left_jobs
            job = job + np.where(idle, wanted.t / dual.t, 0.0)
            row = program.use @ x + program.aux_use @ e + wanted.s / dual.s - left_rows
            price = solver.solve(row - scaled @ job)
            paid = (job - meets.T @ price) / of_job
            of_x, pull = paid[program.owner] + self._use_of @ price, self._aux_of @ price
            e = e - of_aux * pull
            of_f = (wanted.f + dual.f * e) / at.f
            t = np.where(idle, (wanted.t - at.t * paid) / dual.t, 0.0)
            s = (wanted.s - at.s * price) / dual.s
            primal = _Parts((wanted.x - at.x * of_x) / dual.x, t, e, -e, s)
            return _Move(primal, _Parts(of_x, paid, pull + of_f, of_f, price))

        return moved


class _Move(NamedTuple):
    """Change of all variables and duals."""

    primal: _Parts
    dual: _Parts


def _along(at: _Parts, by: _Parts, length: float) -> Iterator[Floats]:
    """Yield the numbers after a move of this length."""
    return (now + length * change for now, change in zip(at, by, strict=True))
