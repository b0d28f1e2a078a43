"""The independent check of a knapsack's bound: its tables are a certificate, looked at row by row.

It reads the tables of the round alone: which options a job may take and what they use is found as
in `formulations.check_bound`, and nothing is known of items, ties or dominated sizes, nor of how
the certificate was made. Any numbers that keep to the inequalities below prove what they claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.check_bound import BoundError, allowed_options
from formulations.columns import of_tables
from formulations.round.tables import Level, RoundProblem

TOLERANCE = 1e-11
"""How far, relative to the values in a sum, a claim may lie below what is proven."""

AT_ONCE = 2**14
"""Entries of tables that are looked at at once: few enough for a processor's cache."""


def check_knapsack(
    problem: RoundProblem,
    level: Level,
    claim: float,
    order: Ints,
    after: Floats,
    floors: Iterable[tuple[Level, float, float]] = (),
) -> None:
    """Raise `BoundError` unless the tables prove that no decision is worth more than ``claim``.

    ``after[i, c]`` says what the jobs from place i on are worth at most on ``c`` GPUs of each
    class. It does if ``after[D] >= 0`` and, for every option of the i-th job that takes ``a`` GPUs,
    ``after[i, c] >= value + after[i + 1, c - a]``. What a place lacks is added to what is proven.

    Parameters
    ----------
    order
        The jobs in their places, shape (D,).
    after
        Shape (D + 1, GPUs of the first class + 1, ...): as many as there are or jobs can use.
    floors
        Goals that rank higher, the least that decisions reach of them, and the weight of each.
    """
    worth, less = level.value.copy(), 0.0
    for higher, least, weight in floors:
        worth += weight * higher.value
        less += weight * least
    jobs = problem.jobs.count
    if not np.array_equal(np.sort(order), np.arange(jobs)) or not (after < np.inf).all():
        raise BoundError(claim, np.inf)
    what = _what_may_be(problem)
    shape = np.asarray(after.shape[1:])
    if after.shape[0] != jobs + 1 or (shape <= what.most).any():
        raise BoundError(claim, np.inf)
    place = np.empty(jobs, dtype=np.int64)
    place[order] = np.arange(jobs)
    best = np.full((jobs, what.uses.shape[0]), -np.inf)
    values = np.append(worth[what.option], np.zeros(what.job.size - what.option.size))
    np.maximum.at(best.reshape(-1), place[what.job] * best.shape[1] + what.which, values)
    lacks = np.zeros(jobs)
    some = max(1, AT_ONCE // after[0].size)
    for first in range(0, jobs, some):
        block = slice(first, first + some)
        lacks[block] = _lacking(best[block], what.uses, after[:-1][block], after[1:][block])
    # What is not there counts for nothing, or makes NaN, which no claim reaches.
    proven = float(after[0].flat[-1]) + float(lacks.sum()) - min(0.0, float(after[-1].min())) - less
    size = float(np.abs(worth).max(initial=0.0)) * jobs + abs(less)
    if not claim >= proven - TOLERANCE * size:
        raise BoundError(claim, proven)


def _lacking(best: Floats, uses: Ints, here: Floats, behind: Floats) -> Floats:
    """By how much each of some jobs breaks its inequalities at most, shape (jobs,).

    Parameters
    ----------
    best
        What the job is worth at most for each size, -inf where it has none of it, shape (jobs, S).
    uses
        GPUs of each size, shape (S, T).
    here, behind
        The tables at the jobs' places and at the next ones, shape (jobs, GPUs + 1, ..).
    """
    wanted, spare = np.full(here.shape, -np.inf), np.empty(here.shape)
    there = (best > -np.inf).any(axis=0)
    for worth, gpus in zip(best.T[there], uses[there].tolist(), strict=True):
        room = (slice(None), *(slice(own, None) for own in gpus))
        rest = (slice(None), *(slice(0, -own or None) for own in gpus))
        value = worth.reshape(-1, *(1 for _ in gpus))
        np.add(behind[rest], value, out=spare[room])
        np.maximum(wanted[room], spare[room], out=wanted[room])
    more = wanted > here
    if not more.any():
        return np.zeros(best.shape[0])
    short = np.subtract(wanted, here, out=np.zeros(more.shape), where=more)
    return np.asarray(short.reshape(best.shape[0], -1).max(axis=1))


class _MayBe(NamedTuple):
    """What jobs may do, nothing included, and what it takes.

    Parameters
    ----------
    option, job
        Options that may be, shape (M,), and of each its job; behind these the jobs that may have
        nothing.
    uses, which
        Distinct GPUs of each class, shape (S, T), and which of them is taken, as ``job``.
    most
        GPUs of each class up to which tables must go: as many as there are, or jobs can use.
    """

    option: Ints
    job: Ints
    uses: Ints
    which: Ints
    most: Ints


@of_tables
def _what_may_be(problem: RoundProblem) -> _MayBe:
    allowed, idle = allowed_options(problem)
    gpus, room = _gpus_of_options(problem)
    mine = np.flatnonzero(allowed & (gpus <= room).all(axis=1))
    rests = np.flatnonzero(idle)
    taken = np.concatenate([gpus[mine], np.zeros((rests.size, room.size), dtype=np.int64)])
    job = np.concatenate([problem.options.job[mine], rests])
    # More than all jobs together can use is never used.
    needed = np.zeros((problem.jobs.count, room.size), dtype=np.int64)
    np.maximum.at(needed, job, taken)
    stride = np.append(np.cumprod((room + 1)[:0:-1])[::-1], 1)
    _, first, which = np.unique(taken @ stride, return_index=True, return_inverse=True)
    return _MayBe(mine, job, taken[first], which, np.minimum(room, needed.sum(axis=0)))


def _gpus_of_options(problem: RoundProblem) -> tuple[Ints, Ints]:
    """GPUs of open nodes, by class: of each option, shape (O, T), and in all, shape (T,)."""
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
