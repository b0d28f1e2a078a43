"""Independent check of a knapsack's bound: its tables are the certificate.

It reads the tables of the round alone. Allowed options and their GPUs are found as in
`formulations.check_bound`, without items, ties or dominated sizes. Any numbers that satisfy the
inequalities below prove their claim, however they were made.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.check_bound import BoundError, allowed_options
from formulations.columns import of_tables, strides
from formulations.parameters import KNAPSACK
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import TABLE_CLAIM


def check_knapsack(
    problem: RoundProblem,
    level: Level,
    claim: float,
    order: Ints,
    after: Floats,
    floors: Iterable[tuple[Level, float, float]] = (),
    core: tuple[Floats, Ints] | None = None,
) -> None:
    """Raise `BoundError` unless the tables prove that no decision is worth more than ``claim``.

    ``after[i, c]`` bounds the value of the jobs from place i on, on ``c`` GPUs of each class, if
    ``after[D] >= 0`` and, for every option of the i-th job with ``a`` GPUs,
    ``after[i, c] >= value + after[i + 1, c - a]``. The largest violation at each place is added to
    the proven bound.

    With a core, the inequalities are needed only for options that can be in a decision worth more
    than ``claim`` at its prices; GPUs then count beyond the fewest of each job.

    Parameters
    ----------
    order
        Jobs by place, shape (D,).
    after
        Tables, shape (D + 1, GPUs of the first class + 1, ...), at least as large as jobs can use.
    floors
        Goals that rank higher, each with the value that decisions reach and its weight.
    core
        Price of a GPU of each class, shape (T,), and GPUs that each job takes in any case, shape
        (J, T); None for tables of all options.
    """
    worth, less = level.value, 0.0
    for higher, least, weight in floors:
        worth = worth + weight * higher.value
        less += weight * least
    jobs = problem.jobs.count
    every = np.arange(jobs)
    if order.shape != (jobs,) or (np.sort(order) != every).any() or not (after < np.inf).all():
        raise BoundError(claim, np.inf)
    what = _what_may_be(problem)
    values = np.append(worth[what.option], np.zeros(what.job.size - what.option.size))
    size = float(np.abs(worth).max(initial=0.0)) * jobs + abs(less)
    if core is not None:
        what, values = _worth_more(what, values, *core, claim + less + TABLE_CLAIM * size)
        if np.bincount(what.job, minlength=jobs).min(initial=1) == 0:
            return  # a job has no option left, so no decision is worth more than the claim
    if after.shape[0] != jobs + 1 or (np.asarray(after.shape[1:]) <= what.most).any():
        raise BoundError(claim, np.inf)
    place = np.empty(jobs, dtype=np.int64)
    place[order] = every
    best = np.full((jobs, what.uses.shape[0]), -np.inf)
    np.maximum.at(best.reshape(-1), place[what.job] * best.shape[1] + what.which, values)
    lacks = _lacking(best, what.uses, after)
    # Missing entries are -inf or make NaN, which no claim reaches.
    proven = float(after[0].flat[-1]) + float(lacks.sum()) - min(0.0, float(after[-1].min())) - less
    if not claim >= proven - TABLE_CLAIM * size:
        raise BoundError(claim, proven)


def _lacking(best: Floats, uses: Ints, after: Floats) -> Floats:
    """Return the largest violation of the inequalities at each place, shape (D,).

    Parameters
    ----------
    best
        Largest value of each place's job for each size, -inf if it has none, shape (D, S).
    uses
        GPUs of each size, shape (S, T).
    after
        See `check_knapsack`.
    """
    lacks = np.zeros(best.shape[0])
    shape, flat = after.shape[1:], np.ascontiguousarray(after).reshape(-1)
    count = flat.size // after.shape[0]
    stride, free = _states(shape)
    # Overlapping windows of row length: the states left by a size are a shifted window.
    rows = np.ndarray((flat.size - count + 1, count), flat.dtype, flat, 0, flat.strides * 2)
    step = uses @ stride
    fits = free[0] >= uses[:, :1]
    for own, gpus in zip(free[1:], uses.T[1:], strict=True):
        fits &= own >= gpus[:, None]
    # A size that does not fit on all GPUs fits in no state.
    place, size = ((best > -np.inf) & fits[:, -1]).nonzero()
    some = max(1, KNAPSACK.checked // count)
    for first in range(0, place.size, some):
        at, use = place[first : first + some], size[first : first + some]
        if some == 1:
            gpus = uses[use[0]].tolist()
            room = tuple(slice(own, None) for own in gpus)
            rest = tuple(slice(0, -own or None) for own in gpus)
            here, behind = after[at[0]][room], after[at[0] + 1][rest] + best[at[0], use[0]]
            more = behind > here
        else:
            # Where the size does not fit, the shifted window reads another state: masked by fits.
            here = rows[at * count]
            behind = rows[(at + 1) * count - step[use]]
            behind += best[at, use][:, None]
            more = (behind > here) & fits[use]
        if more.any():
            short = np.subtract(behind, here, out=np.zeros(more.shape), where=more)
            np.maximum.at(lacks, at, short.reshape(at.size, -1).max(axis=1))
    return lacks


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
    what: _MayBe, values: Floats, prices: Floats, fewest: Ints, claim: float
) -> tuple[_MayBe, Floats]:
    """Return options of decisions worth more than a claim, with GPUs above each job's fewest."""
    if not (np.isfinite(prices) & (prices >= 0.0)).all():
        raise ValueError("prices must be at least 0 and finite")
    earned = values - (what.uses @ prices)[what.which]
    best = np.full(fewest.shape[0], -np.inf)
    np.maximum.at(best, what.job, earned)
    proven = float(prices @ what.most) + float(best.sum())
    kept = np.flatnonzero(proven - (best[what.job] - earned) > claim)
    job = what.job[kept]
    gpus = what.uses[what.which[kept]] - fewest[job]
    if (gpus < 0).any():
        raise BoundError(claim, np.inf)
    # A job can take at most the GPUs that are left when every job has its fewest.
    room = what.most - fewest.sum(axis=0)
    fits = (gpus <= room).all(axis=1)
    kept, job, gpus = kept[fits], job[fits], gpus[fits]
    more = np.zeros_like(fewest)
    np.maximum.at(more, job, gpus)
    uses, which = _distinct(gpus)
    most = np.minimum(room, more.sum(axis=0))
    return _MayBe(kept, job, uses, which, most), values[kept]


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
