"""Items of the knapsack: what every job may do, by the GPUs of open nodes that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.prices.relaxation import possible_options
from formulations.round.tables import NONE, Level, RoundProblem

WEIGHT = 100.0
"""What a goal that ranks higher counts, in units of the goal itself: see `find_items`."""

STAY, PAYS, NOTHING, LOSES = range(4)
"""Kinds of items in the order in which a job takes them where all are worth the same."""


@dataclass(frozen=True, slots=True)
class Items:
    """Items in the order in which the search takes jobs, those of a job in the order of ties.

    Parameters
    ----------
    capacity
        GPUs of the open nodes of each class, as far as jobs can use them, length T.
    job
        Jobs in their order, shape (D,).
    start
        First item of each of them and one behind the last, shape (D + 1,).
    option, value, gpus
        Which option, `NONE` for nothing; what it counts; the GPUs of open nodes that it takes, by
        class; shapes (I,), (I,) and (I, T).
    weights
        Of the goals that rank higher, in a value.
    promised
        What values count of these at least, to be taken off a sum.
    size
        Of the values that a sum has, at most: rounding is a share of it.
    """

    capacity: tuple[int, ...]
    job: Ints
    start: Ints
    option: Ints
    value: Floats
    gpus: Ints
    weights: tuple[float, ...]
    promised: float
    size: float


def find_items(
    problem: RoundProblem, level: Level, floors: Sequence[tuple[Level, float]] = ()
) -> Items:
    """The items of a round; nothing, at -inf, of a job that can do nothing that it may.

    Jobs are in the order of the most that one of their GPUs is worth; of equal ones those that had
    fewer GPU-seconds come first, then those submitted later, then those first in the table.
    A goal that ranks higher, ``level >= least``, is counted with the value: any weight w >= 0 is
    valid, as no decision that keeps to it is worth less with ``w (level - least)`` added.

    Parameters
    ----------
    floors
        Goals that rank higher, and the least that decisions are to reach of them.
    """
    options, jobs = problem.options, problem.jobs.count
    fine, idle = possible_options(problem)
    gpus, capacity = _gpus_on_open_nodes(problem)
    mine = np.flatnonzero(fine & (gpus <= capacity).all(axis=1))
    value, weights, promised = _with_floors(level, floors, mine)
    stuck = ~idle & (np.bincount(options.job[mine], minlength=jobs) == 0)
    rests = np.flatnonzero(idle | stuck)
    job = np.concatenate([options.job[mine], rests])
    option = np.concatenate([mine, np.full(rests.size, NONE)])
    value = np.concatenate([value, np.where(stuck[rests], -np.inf, 0.0)])
    gpus = np.concatenate([gpus[mine], np.zeros((rests.size, gpus.shape[1]), dtype=np.int64)])
    stays = np.zeros(options.count + 1, dtype=bool)
    stays[options.stays] = True
    kind = np.where(value > 0.0, PAYS, LOSES)
    kind[option == NONE] = NOTHING
    kind[stays[option]] = STAY
    total = gpus.sum(axis=1)
    best = np.full(jobs, -np.inf)
    np.maximum.at(best, job, value / np.maximum(1, total))
    place = np.empty(jobs, dtype=np.int64)
    table = problem.jobs
    order = np.lexsort((-table.submission_s, table.attained_gpu_s, -best))
    place[order] = np.arange(jobs)
    # Equal keys keep the order of the table.
    sort = np.lexsort((total, kind, place[job]))
    start = np.concatenate([[0], np.cumsum(np.bincount(place[job], minlength=jobs))])
    gpus, value = gpus[sort], value[sort]
    most = np.minimum(capacity, np.maximum.reduceat(gpus, start[:-1], axis=0).sum(axis=0))
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    size = float(np.maximum.reduceat(finite, start[:-1]).sum()) + abs(promised)
    return Items(
        tuple(most.tolist()), order, start, option[sort], value, gpus, weights, promised, size
    )  # fmt: skip


def _with_floors(
    level: Level, floors: Sequence[tuple[Level, float]], options: Ints
) -> tuple[Floats, tuple[float, ...], float]:
    """Values with those of goals that rank higher, their weights, and what they count at least."""
    value = level.value[options].copy()
    unit = WEIGHT * (float(np.abs(value).max(initial=0.0)) or 1.0)
    weights, promised = [], 0.0
    for higher, least in floors:
        own = higher.value[options]
        weights.append(unit / (float(np.abs(own).max(initial=0.0)) or 1.0))
        value += weights[-1] * own
        promised += weights[-1] * least
    return value, tuple(weights), promised


def _gpus_on_open_nodes(problem: RoundProblem) -> tuple[Ints, Ints]:
    """GPUs of open nodes by class: of each option, shape (O, T), and in all, shape (T,)."""
    nodes, options, held = problem.nodes, problem.options, problem.options.held
    gpus = np.zeros((options.count, nodes.classes))
    gpus[np.arange(options.count), options.node_class] = options.gpus
    if options.mixed.option.size:
        gpus[options.mixed.option] = 0.0
        gpus[options.mixed.option, options.mixed.node_class] = options.mixed.gpus
    closed = np.flatnonzero(~nodes.open[held.node])
    if closed.size:
        at = held.option[closed], nodes.node_class[held.node[closed]]
        np.subtract.at(gpus, at, held.demand[closed, 0])
    size = np.bincount(nodes.node_class[nodes.open], minlength=nodes.classes)
    return np.rint(gpus).astype(np.int64), np.rint(size * nodes.capacity[:, 0]).astype(np.int64)
