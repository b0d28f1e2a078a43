"""Items of the knapsack: what every job may do, by the GPUs of open nodes that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.columns import of_tables, stretches, strides
from formulations.parameters import COLUMNS, KNAPSACK, ColumnParams
from formulations.prices.relaxation import possible_options
from formulations.round.tables import NONE, Level, RoundProblem

STAY, PAYS, NOTHING, LOSES = range(4)
"""Kinds of items in the order in which a job takes them where all are worth the same."""


class Core(NamedTuple):
    """What shows that items may be left out: see `formulations.check_knapsack`.

    Parameters
    ----------
    prices
        Of a GPU of each class, shape (T,).
    fewest
        GPUs that each job takes in any case, which do not count in its sizes, shape (J, T).
    worth
        No decision with another item is worth more.
    """

    prices: Floats
    fewest: Ints
    worth: float


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
    option, value
        Which option, `NONE` for nothing, and what it counts; shape (I,).
    sizes, which
        Distinct numbers of GPUs of open nodes, by class, in lexicographic order, shape (S, T), and
        which of them an item takes, shape (I,).
    weights
        Of the goals that rank higher, in a value.
    promised
        What values count of these at least, to be taken off a sum.
    size
        Of the values that a sum has, at most: rounding is a share of it.
    core
        By what some items were left out, if any were.
    """

    capacity: tuple[int, ...]
    job: Ints
    start: Ints
    option: Ints
    value: Floats
    sizes: Ints
    which: Ints
    weights: tuple[float, ...]
    promised: float
    size: float
    core: Core | None = None

    @property
    def left_out(self) -> float:
        """No decision with an item that was left out is worth more; -inf where none was."""
        return -np.inf if self.core is None else self.core.worth

    @property
    def gpus(self) -> Ints:
        """GPUs of open nodes that each item takes, by class, shape (I, T)."""
        return self.sizes[self.which]


def least_additions(problem: RoundProblem, enough: int, params: ColumnParams = COLUMNS) -> int:
    """No fewer additions than this make the tables of a round; the first options may be ``enough``.

    A job that may take GPUs of a class is counted with one of them: whose tables are too large by
    this alone needs no items, which are made by sorting all options. Rounds with options on nodes
    of several classes are not counted: 0.
    """
    options, nodes, jobs = problem.options, problem.nodes, problem.jobs.count
    size = np.bincount(nodes.node_class[nodes.open], minlength=nodes.classes) * nodes.capacity[:, 0]
    if options.mixed.option.size:
        return 0
    held, fine = options.held, possible_options(problem)[0].copy()
    # On closed nodes a job takes no GPU of any class.
    fine[held.option[~nodes.open[held.node]]] = False
    takes, least = np.zeros((nodes.classes, jobs), dtype=bool), jobs
    for near in stretches(options.count, params):
        there, job = options.node_class[near], options.job[near]
        mine = fine[near] & (options.gpus[near] <= size[there])
        takes[there[mine], job[mine]] = True
        states = np.minimum(size, takes.sum(axis=1)) + 1
        least = prod(int(of_class) for of_class in states.tolist()) * jobs
        if least > enough:
            break
    return least


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
    jobs, table, raw = problem.jobs.count, problem.jobs, _unvalued(problem)
    value, weights, promised = _with_floors(level, floors, raw.mine)
    value = np.concatenate([value, raw.rests])
    kind = np.where(raw.kind == PAYS, np.where(value > 0.0, PAYS, LOSES), raw.kind)
    best = np.full(jobs, -np.inf)
    np.maximum.at(best, raw.job, value / np.maximum(1, raw.total))
    place = np.empty(jobs, dtype=np.int64)
    order = np.lexsort((-table.submission_s, table.attained_gpu_s, -best))
    place[order] = np.arange(jobs)
    # Equal keys keep the order of the table.
    sort = np.lexsort((raw.total, kind, place[raw.job]))
    start = np.concatenate([[0], np.cumsum(np.bincount(place[raw.job], minlength=jobs))])
    value = value[sort]
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    size = float(np.maximum.reduceat(finite, start[:-1]).sum()) + abs(promised)
    return Items(
        raw.capacity,
        order,
        start,
        raw.option[sort],
        value,
        raw.sizes,
        raw.which[sort],
        weights,
        promised,
        size,
    )


class _Unvalued(NamedTuple):
    """Items of a round in the order of its options, whatever they are worth.

    Parameters
    ----------
    capacity, sizes
        As of `Items`.
    mine
        Options among them.
    rests
        What nothing counts of the jobs that may have it, which stand behind: -inf where they may
        not, but can do nothing else.
    option, job, which, total
        Of each item the option, the job, the row of ``sizes``, and its GPUs in all.
    kind
        Of each item, ``PAYS`` where that hangs on its value.
    """

    capacity: tuple[int, ...]
    sizes: Ints
    mine: Ints
    rests: Floats
    option: Ints
    job: Ints
    which: Ints
    total: Ints
    kind: Ints


@of_tables
def _unvalued(problem: RoundProblem) -> _Unvalued:
    """What of the items does not change with the work that is left."""
    options, jobs = problem.options, problem.jobs.count
    fine, idle = possible_options(problem)
    gpus, capacity = _gpus_on_open_nodes(problem)
    mine = np.flatnonzero(fine & (gpus <= capacity).all(axis=1))
    stuck = ~idle & (np.bincount(options.job[mine], minlength=jobs) == 0)
    rests = np.flatnonzero(idle | stuck)
    job = np.concatenate([options.job[mine], rests])
    option = np.concatenate([mine, np.full(rests.size, NONE)])
    gpus = np.concatenate([gpus[mine], np.zeros((rests.size, gpus.shape[1]), dtype=np.int64)])
    stays = np.zeros(options.count + 1, dtype=bool)
    stays[options.stays] = True
    kind = np.where(stays[option], STAY, PAYS)
    kind[option == NONE] = NOTHING
    needed = np.zeros((jobs, gpus.shape[1]), dtype=np.int64)
    np.maximum.at(needed, job, gpus)
    most = np.minimum(capacity, needed.sum(axis=0))
    sizes, which = numbered(gpus)
    total = gpus.sum(axis=1)
    return _Unvalued(
        tuple(most.tolist()),
        sizes,
        mine,
        np.where(stuck[rests], -np.inf, 0.0),
        option,
        job,
        which,
        total,
        kind,
    )


def numbered(gpus: Ints) -> tuple[Ints, Ints]:
    """Distinct rows, shape (S, T), in lexicographic order, and which of them each is."""
    width = gpus.max(axis=0, initial=0) + 1
    key = gpus @ strides(width)
    if np.prod(width, dtype=np.float64) > KNAPSACK.few_keys:
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return gpus[first], which
    # Few possible rows are counted, which is quicker than to sort those that there are.
    known = np.bincount(key) > 0
    sizes = np.column_stack(np.unravel_index(known.nonzero()[0], width))
    return sizes, (known.cumsum() - 1)[key]


def _with_floors(
    level: Level, floors: Sequence[tuple[Level, float]], options: Ints
) -> tuple[Floats, tuple[float, ...], float]:
    """Values with those of goals that rank higher, their weights, and what they count at least."""
    value = level.value[options].copy()
    unit = KNAPSACK.weight * (float(np.abs(value).max(initial=0.0)) or 1.0)
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
