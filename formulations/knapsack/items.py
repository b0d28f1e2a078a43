"""Items of the knapsack: the options of every job by their GPUs on open nodes."""

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
"""Kinds of items, in the order in which a job takes items of equal value."""


class Core(NamedTuple):
    """Certificate that items may be left out; see `formulations.check_knapsack`.

    Parameters
    ----------
    prices
        Price of a GPU of each class, shape (T,).
    fewest
        GPUs that each job takes in any case, not counted in its sizes, shape (J, T).
    worth
        Upper bound on decisions with another item.
    """

    prices: Floats
    fewest: Ints
    worth: float


class Goal(NamedTuple):
    """One of several ranked goals of the items.

    Parameters
    ----------
    value
        Value of each item, shape (I,).
    size
        Largest sum of absolute values of a choice: rounding is a share of it.
    least
        Value that decisions have to reach; -inf if the goal is not solved yet.
    """

    value: Floats
    size: float
    least: float


@dataclass(frozen=True, slots=True)
class Items:
    """Items by job in the order of the search, and within a job in the order of ties.

    Parameters
    ----------
    capacity
        GPUs of each class on open nodes, at most what jobs can use, length T.
    job
        Jobs in their order, shape (D,).
    start
        First item of each job, and the number of items at the end, shape (D + 1,).
    option, value
        Option (`NONE` for nothing) of each item, and its value plus the weighted higher goals,
        shape (I,).
    sizes, which
        Distinct numbers of GPUs per class, in lexicographic order, shape (S, T), and the index of
        each item's number, shape (I,).
    weights
        Weights of the higher goals in the values.
    promised
        Weighted floors of the higher goals, to be subtracted from a sum of values.
    size
        Largest sum of absolute values of a choice: rounding is a share of it.
    core
        Certificate of the items that were left out; None if none were.
    goals
        Goals by rank; empty if ``value`` is the only one.
    rank
        Index of the goal to be maximised; those before it have a value to reach.
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
    goals: tuple[Goal, ...] = ()
    rank: int = 0

    @property
    def left_out(self) -> float:
        """Upper bound on the value of decisions with a dropped item; -inf if none was dropped."""
        return -np.inf if self.core is None else self.core.worth

    @property
    def gpus(self) -> Ints:
        """GPUs on open nodes of each item, by class, shape (I, T)."""
        return self.sizes[self.which]


def least_additions(problem: RoundProblem, enough: int, params: ColumnParams = COLUMNS) -> int:
    """Return a lower bound on the additions of the tables; stop once it exceeds ``enough``.

    Every job that may take GPUs of a class is counted with one of them. If that alone is too much,
    no items need be made, which takes a sort of all options. 0 for rounds with options on nodes of
    several classes, which are not counted.
    """
    options, nodes, jobs = problem.options, problem.nodes, problem.jobs.count
    size = np.bincount(nodes.node_class[nodes.open], minlength=nodes.classes) * nodes.capacity[:, 0]
    if options.mixed.option.size:
        return 0
    held, fine = options.held, possible_options(problem)[0].copy()
    # A stay on closed nodes takes no GPUs.
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
    problem: RoundProblem,
    level: Level,
    floors: Sequence[tuple[Level, float]] = (),
    later: Sequence[Level] = (),
    by_rank: bool = True,
) -> Items:
    """Return the items of a round; a job without an allowed option gets an empty item worth -inf.

    Jobs are in the order of the largest value per GPU of their items, goal after goal. Ties go to
    fewer attained GPU-seconds, then to the later submission, then to the order of the table. A goal
    that ranks higher, ``level >= least``, is counted with the value: any weight w >= 0 is valid,
    because no decision that keeps it is worth less with ``w (level - least)`` added.

    Parameters
    ----------
    floors
        Goals that rank higher, each with the value that decisions must reach.
    later
        Goals that rank lower, by rank.
    by_rank
        Whether the items have each goal by itself; False: the weighted sum of the goals alone.
    """
    jobs, table, raw = problem.jobs.count, problem.jobs, _unvalued(problem)
    value, weights, promised = _with_floors(level, floors, raw.mine)
    value = np.concatenate([value, raw.rests])
    ranked = [*(above for above, _ in floors), level, *later]
    worths, several = [value], by_rank and len(ranked) > 1
    if several:
        worths = [np.concatenate([one.value[raw.mine], raw.rests]) for one in ranked]
    pays, best = np.zeros(value.size, dtype=bool), []
    for own in reversed(worths):
        pays = (own > 0.0) | ((own == 0.0) & pays)
        best.append(np.full(jobs, -np.inf))
        np.maximum.at(best[-1], raw.job, own / np.maximum(1, raw.total))
    kind = np.where(raw.kind == PAYS, np.where(pays, PAYS, LOSES), raw.kind)
    place = np.empty(jobs, dtype=np.int64)
    order = np.lexsort((-table.submission_s, table.attained_gpu_s, *(-own for own in best)))
    place[order] = np.arange(jobs)
    # Equal keys keep the order of the table.
    sort = np.lexsort((raw.total, kind, place[raw.job]))
    start = np.concatenate([[0], np.cumsum(np.bincount(place[raw.job], minlength=jobs))])
    value = value[sort]
    goals = []
    if several:
        least = [least for _, least in floors] + [-np.inf] * (1 + len(later))
        for own, reached in zip(worths, least, strict=True):
            goals.append(Goal(own[sort], _largest_sum(own[sort], start), reached))
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
        _largest_sum(value, start) + abs(promised),
        goals=tuple(goals),
        rank=len(floors) if several else 0,
    )


def _largest_sum(value: Floats, start: Ints) -> float:
    """Return the largest sum of absolute finite values of one item per job."""
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    return float(np.maximum.reduceat(finite, start[:-1]).sum())


class _Unvalued(NamedTuple):
    """Items of a round in the order of its options, without values.

    Parameters
    ----------
    capacity, sizes
        See `Items`.
    mine
        Items that are options; items of nothing follow these.
    rests
        Value of each item of nothing: 0, or -inf for a job that may not idle but has no option.
    option, job, which, total
        Option, job, row of ``sizes`` and total GPUs of each item.
    kind
        Kind of each item; ``PAYS`` if the kind depends on its value.
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
    """Return the items without values, the only part that depends on the work left."""
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
    """Return the distinct rows, (S, T), in lexicographic order, and the index of each row."""
    width = gpus.max(axis=0, initial=0) + 1
    key = gpus @ strides(width)
    if np.prod(width, dtype=np.float64) > KNAPSACK.few_keys:
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return gpus[first], which
    # Counting a few possible rows is faster than sorting the existing ones.
    known = np.bincount(key) > 0
    sizes = np.column_stack(np.unravel_index(known.nonzero()[0], width))
    return sizes, (known.cumsum() - 1)[key]


def _with_floors(
    level: Level, floors: Sequence[tuple[Level, float]], options: Ints
) -> tuple[Floats, tuple[float, ...], float]:
    """Return values with weighted higher goals, the weights, and the weighted floors."""
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
    """Return GPUs on open nodes by class: of each option, (O, T), and in total, (T,)."""
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
