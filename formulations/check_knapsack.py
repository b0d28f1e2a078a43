"""Independent check of a knapsack's bound: its tables are the certificate.

It reads the tables of the round alone. Allowed options and their GPUs are found as in
`formulations.check_bound`, without items, ties or dominated sizes. Any numbers that satisfy the
inequalities below prove their claim, however they were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.check_bound import BoundError, allowed_options
from formulations.columns import of_tables, strides
from formulations.parameters import KNAPSACK
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import TABLE_CLAIM


class Claim(NamedTuple):
    """Claim that no decision in question is worth more than a bound, under one ranked goal.

    Parameters
    ----------
    level
        Goal.
    worth
        Upper bound claimed.
    after
        Tables, shape (D + 1, GPUs of the first class + 1, ...), at least as large as jobs can use.
    least
        Value of this goal that the decisions in question of later claims reach, less their rounding
        error.
    """

    level: Level
    worth: float
    after: Floats
    least: float = -np.inf


class CoreProof(NamedTuple):
    """Certificate that tables cover some of the options alone.

    Parameters
    ----------
    prices
        Price of a GPU of each class, shape (T,).
    fewest
        GPUs that each job takes in any case, shape (J, T); tables count the GPUs beyond these.
    weights
        Weight of each claim but the last at these prices.
    """

    prices: Floats
    fewest: Ints
    weights: tuple[float, ...] = ()


def check_knapsack(
    problem: RoundProblem, claims: Sequence[Claim], order: Ints, core: CoreProof | None = None
) -> None:
    """Raise `BoundError` unless the tables prove every claim.

    ``after[i, c]`` bounds the value of the jobs from place i on, on ``c`` GPUs of each class, if
    ``after[D] >= 0`` and, for every option of the i-th job with ``a`` GPUs,
    ``after[i, c] >= value + after[i + 1, c - a]``. The largest violation at each place is added to
    the proven bound.

    An option loses ``after[i, c] - value - after[i + 1, c - a]`` of a goal. The losses of a
    decision add up to what it is worth less than the proven bound. So where decisions reach a value
    of a goal, single options lose no more than the bound less that value; of later goals the
    inequalities are needed only for options, places and states with such losses.

    If tables cover some options alone, the inequalities are needed only for options that can be in
    a decision that is worth more than the last claim at the prices.

    Parameters
    ----------
    claims
        Claims by rank of their goals.
    order
        Jobs by place, shape (D,).
    core
        Certificate of the options that the tables do not cover; the last claim alone is then one
        about all decisions.
    """
    last, jobs = claims[-1], problem.jobs.count
    every = np.arange(jobs)
    finite = all((one.after < np.inf).all() for one in claims)
    if order.shape != (jobs,) or (np.sort(order) != every).any() or not finite:
        raise BoundError(last.worth, np.inf)
    what = _what_may_be(problem)
    rests = np.zeros(what.job.size - what.option.size)
    values = [np.append(one.level.value[what.option], rests) for one in claims]
    sizes = [float(np.abs(one.level.value).max(initial=0.0)) * jobs for one in claims]
    if core is not None:
        kept = _worth_more(what, values, claims, core, TABLE_CLAIM * sum(sizes))
        if kept is None:
            return  # a job has no option left, so no decision is worth more than the claim
        what, values = kept
    place = np.empty(jobs, dtype=np.int64)
    place[order] = every
    key = place[what.job] * what.uses.shape[0] + what.which
    arcs: _Arcs | None = None
    for one, value, size in zip(claims, values, sizes, strict=True):
        after, shape = one.after, one.after.shape
        if shape[0] != jobs + 1 or (np.asarray(shape[1:]) <= what.most).any():
            raise BoundError(one.worth, np.inf)
        best = np.full((jobs, what.uses.shape[0]), -np.inf)
        np.maximum.at(best.reshape(-1), key, value)
        if arcs is None or arcs.shape != shape:
            arcs = _Arcs(best, what.uses, shape)
        lacks = arcs.lacking(best, after)
        # Missing entries are -inf or make NaN, which no claim reaches.
        proven = float(after[0].flat[-1]) + float(lacks.sum()) - min(0.0, float(after[-1].min()))
        # Tables of some options bound the last goal alone.
        if (core is None or one is last) and not one.worth >= proven - TABLE_CLAIM * size:
            raise BoundError(one.worth, proven)
        if one is not last:
            most = proven - one.least if proven > -np.inf else 0.0
            arcs.keep(best, after, most)


class _Arcs:
    """Jobs' sizes in each state of the tables, and which of them are in question.

    Parameters
    ----------
    best
        Largest value of each place's job for each size, -inf if it has none, shape (D, S).
    uses
        GPUs of each size, shape (S, T).
    shape
        Shape of the tables.
    """

    def __init__(self, best: Floats, uses: Ints, shape: tuple[int, ...]) -> None:
        self.shape = shape
        stride, free = _states(shape[1:])
        self._step = uses @ stride
        self._uses, self._count = uses, free.shape[1]
        fits = free[0] >= uses[:, :1]
        for own, gpus in zip(free[1:], uses.T[1:], strict=True):
            fits &= own >= gpus[:, None]
        self._fits = fits
        # A size that does not fit on all GPUs fits in no state.
        self._place, self._size = ((best > -np.inf) & fits[:, -1]).nonzero()
        self._some = max(1, KNAPSACK.checked // self._count)
        self._kept: list[Bools] | None = None

    def _parts(self, best: Floats, after: Floats) -> Iterator[tuple[Ints, Floats, Floats, Bools]]:
        """Yield places, value in each state, value of a size taken there, and where it fits."""
        flat, count = np.ascontiguousarray(after).reshape(-1), self._count
        # Overlapping windows of row length: the states left by a size are a shifted window.
        rows = np.ndarray((flat.size - count + 1, count), flat.dtype, flat, 0, flat.strides * 2)
        if self._some == 1:
            for at, use in zip(self._place.tolist(), self._size.tolist(), strict=True):
                behind = rows[(at + 1) * count - self._step[use]] + best[at, use]
                here, fits = rows[at * count], self._fits[use]
                yield np.asarray([at]), here[None], behind[None], fits[None]
            return
        for first in range(0, self._place.size, self._some):
            at = self._place[first : first + self._some]
            use = self._size[first : first + self._some]
            # Where the size does not fit, the shifted window reads another state: masked by fits.
            behind = rows[(at + 1) * count - self._step[use]]
            behind += best[at, use][:, None]
            yield at, rows[at * count], behind, self._fits[use]

    def lacking(self, best: Floats, after: Floats) -> Floats:
        """Return the largest violation of the inequalities in question at each place, (D,)."""
        lacks = np.zeros(best.shape[0])
        for part, (at, here, behind, fits) in enumerate(self._parts(best, after)):
            more = (behind > here) & fits
            if self._kept is not None:
                more &= self._kept[part]
            if more.any():
                short = np.subtract(behind, here, out=np.zeros(more.shape), where=more)
                np.maximum.at(lacks, at, short.max(axis=1))
        return lacks

    def keep(self, best: Floats, after: Floats, most: float) -> None:
        """Leave sizes in question only where they lose at most ``most``."""
        kept = []
        for part, (_, here, behind, fits) in enumerate(self._parts(best, after)):
            fine = fits & (behind >= here - most)
            kept.append(fine if self._kept is None else fine & self._kept[part])
        self._kept = kept


@lru_cache(maxsize=256)
def _states(shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return the stride of each class in a flat table and the free GPUs of each state."""
    return strides(np.asarray(shape)), np.indices(shape).reshape(len(shape), -1)


class _MayBe(NamedTuple):
    """Allowed options of jobs, doing nothing included, with their GPUs.

    Parameters
    ----------
    option, job
        Allowed options, shape (M,), and the job of each, followed by the jobs that may idle.
    uses, which
        Distinct GPUs of each class, shape (S, T), and the index of each entry of ``job``.
    most
        GPUs of each class that tables must cover: all of them, or all that jobs can use.
    """

    option: Ints
    job: Ints
    uses: Ints
    which: Ints
    most: Ints


def _worth_more(
    what: _MayBe, values: list[Floats], claims: Sequence[Claim], core: CoreProof, sure: float
) -> tuple[_MayBe, list[Floats]] | None:
    """Return options of decisions worth more than the last claim, with GPUs above the fewest.

    None if a job has no such option. A goal that ranks higher, ``level >= least``, is counted with
    any weight w >= 0, as no decision is worth less with ``w (level - least)`` added.
    """
    prices, fewest = core.prices, core.fewest
    if not (np.isfinite(prices) & (prices >= 0.0)).all():
        raise ValueError("prices must be at least 0 and finite")
    if len(core.weights) != len(claims) - 1 or min(core.weights, default=0.0) < 0.0:
        raise ValueError("every higher goal must have a weight of at least 0")
    claim, worth = claims[-1].worth, values[-1]
    for one, value, weight in zip(claims, values, core.weights, strict=False):
        worth = worth + weight * value
        claim += weight * one.least
        sure += TABLE_CLAIM * weight * (abs(one.least) + float(np.abs(value).max(initial=0.0)))
    claim += sure
    earned = worth - (what.uses @ prices)[what.which]
    best = np.full(fewest.shape[0], -np.inf)
    np.maximum.at(best, what.job, earned)
    proven = float(prices @ what.most) + float(best.sum())
    kept = np.flatnonzero(proven - (best[what.job] - earned) > claim)
    job = what.job[kept]
    gpus = what.uses[what.which[kept]] - fewest[job]
    if (gpus < 0).any():
        raise BoundError(claims[-1].worth, np.inf)
    # A job can take at most the GPUs that are left when every job has its fewest.
    room = what.most - fewest.sum(axis=0)
    fits = (gpus <= room).all(axis=1)
    kept, job, gpus = kept[fits], job[fits], gpus[fits]
    more = np.zeros_like(fewest)
    np.maximum.at(more, job, gpus)
    uses, which = _distinct(gpus)
    if np.bincount(job, minlength=fewest.shape[0]).min(initial=1) == 0:
        return None
    most = np.minimum(room, more.sum(axis=0))
    return _MayBe(kept, job, uses, which, most), [value[kept] for value in values]


def _distinct(uses: Ints) -> tuple[Ints, Ints]:
    """Return the distinct rows and the index of each row among them."""
    key = uses @ strides(uses.max(axis=0, initial=0) + 1)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return uses[first], which


@of_tables
def _what_may_be(problem: RoundProblem) -> _MayBe:
    allowed, idle = allowed_options(problem)
    gpus, room = _gpus_of_options(problem)
    mine = np.flatnonzero(allowed & (gpus <= room).all(axis=1))
    rests = np.flatnonzero(idle)
    taken = np.concatenate([gpus[mine], np.zeros((rests.size, room.size), dtype=np.int64)])
    job = np.concatenate([problem.options.job[mine], rests])
    # Jobs together never use more than the sum of their largest options.
    needed = np.zeros((problem.jobs.count, room.size), dtype=np.int64)
    np.maximum.at(needed, job, taken)
    uses, which = _distinct(taken)
    return _MayBe(mine, job, uses, which, np.minimum(room, needed.sum(axis=0)))


def _gpus_of_options(problem: RoundProblem) -> tuple[Ints, Ints]:
    """Return GPUs on open nodes by class: of each option, (O, T), and in total, (T,)."""
    nodes, options = problem.nodes, problem.options
    starts, held, classes = options.starts, options.held, nodes.classes
    where = starts.part_candidate * classes + starts.part_class
    gpus = np.bincount(where, starts.part_gpus, minlength=options.count * classes)
    gpus = gpus.reshape(options.count, classes)
    gpus[held.option] = 0.0
    on_open = np.where(nodes.open[held.node], held.demand[:, 0], 0.0)
    np.add.at(gpus, (held.option, nodes.node_class[held.node]), on_open)
    own = np.where(nodes.open, nodes.capacity[nodes.node_class, 0], 0.0)
    room = np.bincount(nodes.node_class, own, minlength=classes)
    return np.rint(gpus).astype(np.int64), np.rint(room).astype(np.int64)
