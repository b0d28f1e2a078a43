"""Linear models of target shares; rows ``time``, ``capacity``, ``share``, ``slo``.

All of them use the same polytope::

    (time)      sum_m x[j,m] + sum_{o contains j} sum_m y[o,m] <= 1            every job j
    (capacity)  sum_j s_j x[j,m] + sum_o s_o y[o,m] <= N_m                     every type m
    x, y >= 0

and differ in the rows on ``thr_j = sum_m T[j,m] x[j,m] + ...``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.parameters import SHARES
from formulations.shares.patterns import affine_shares
from formulations.shares.problem import ShareProblem
from formulations.tolerances import SMALLEST


@dataclass(frozen=True, slots=True)
class ShareModel:
    """A model with the way back from its columns to shares.

    Parameters
    ----------
    model
        The linear model.
    single, pair
        (job, type) and (pair, type) of the first columns, in order, shape (columns, 2).
    types, jobs, pairs
        Sizes of the share tables.
    """

    model: LinearModel
    single: Ints
    pair: Ints
    jobs: int
    types: int
    pairs: int

    def shares(self, point: Floats) -> tuple[Floats, Floats]:
        """Return the shares of jobs (J, T) and pairs (P, T) of a point of the model."""
        x = np.zeros((self.jobs, self.types))
        y = np.zeros((self.pairs, self.types))
        singles = self.single.shape[0]
        x[self.single[:, 0], self.single[:, 1]] = point[:singles]
        y[self.pair[:, 0], self.pair[:, 1]] = point[singles : singles + self.pair.shape[0]]
        return np.maximum(x, 0.0), np.maximum(y, 0.0)


class Polytope:
    """Columns x, y and the rows time and capacity; the throughput of a job as entries.

    Only jobs in ``free`` have columns; ``held`` GPUs of each type are taken by the others.
    """

    def __init__(
        self,
        name: str,
        problem: ShareProblem,
        pair: Ints | None,
        *,
        free: Bools | None = None,
        held: Floats | float = 0.0,
    ) -> None:
        self.problem = problem
        self.builder = ModelBuilder(name)
        offered = problem.allowed if free is None else problem.allowed & free[:, None]
        single = np.argwhere(offered)
        pair = np.argwhere(problem.pair_allowed) if pair is None else pair
        self.single, self.pair = single, pair
        self.x = self.builder.add_columns("x", single, 1.0, integer=False)
        self.y = self.builder.add_columns("y", pair, 1.0, integer=False)
        job, kind = single[:, 0], single[:, 1]
        one, two = problem.pairs.first[pair[:, 0]], problem.pairs.second[pair[:, 0]]
        every = np.arange(problem.jobs, dtype=np.int64)[:, None]
        self.builder.add_rows(
            "time",
            every,
            -np.inf,
            1.0,
            [(job, self.x, 1.0), (one, self.y, 1.0), (two, self.y, 1.0)],
        )
        self.builder.add_rows(
            "capacity",
            np.arange(problem.types, dtype=np.int64)[:, None],
            -np.inf,
            1.0 - held / np.maximum(problem.capacity, SMALLEST),
            [
                (kind, self.x, problem.gang[job] / problem.capacity[kind]),
                (pair[:, 1], self.y, problem.pair_gang[pair[:, 0]] / problem.capacity[pair[:, 1]]),
            ],
        )
        gained = np.zeros((0, 2))
        if pair.size:
            gained = problem.pairs.throughput[pair[:, 0], pair[:, 1]]
        self.throughput: list[tuple[Ints, Ints, Floats]] = [
            (job, self.x, problem.throughput[job, kind]),
            (one, self.y, gained[:, 0]),
            (two, self.y, gained[:, 1]),
        ]

    def scaled(self, factor: Floats) -> list[tuple[Ints, Ints, Floats | float]]:
        """Return the throughput entries, job j multiplied by ``factor[j]``."""
        return [(job, col, value * factor[job]) for job, col, value in self.throughput]

    def restricted(self, rows: Ints, factor: Floats) -> list[tuple[Ints, Ints, Floats | float]]:
        """Return the throughput entries of the jobs in ``rows``, numbered by position."""
        place = np.full(self.problem.jobs, -1, dtype=np.int64)
        place[rows] = np.arange(rows.size)
        out: list[tuple[Ints, Ints, Floats | float]] = []
        for job, col, value in self.throughput:
            keep = place[job] >= 0
            out.append((place[job[keep]], col[keep], (value * factor[job])[keep]))
        return out

    def done(self, cost: Floats) -> ShareModel:
        """Return the finished model."""
        p = self.problem
        return ShareModel(
            self.builder.build(cost), self.single, self.pair, p.jobs, p.types, p.pairs.count
        )


def fastest(problem: ShareProblem) -> Floats:
    """Return the largest throughput of each job at a share of 1, steps/s, shape (J,)."""
    return np.asarray(problem.speed.max(axis=1))


def value_model(problem: ShareProblem, value: Floats, floor: Floats | None = None) -> ShareModel:
    """Maximise ``sum value[j,m] T[j,m] x[j,m]`` with ``thr_j >= floor_j`` (row **slo**).

    Parameters
    ----------
    value
        Value of one step of job j on type m, shape (J, T).
    floor
        Steps per second that must be reached, shape (J,); 0 for none. Floors below
        ``SHARES.negligible`` of the job's top speed have no row: the caller grants them afterwards.
    """
    top = Polytope("target shares: value", problem, None)
    cost = np.zeros(top.x.size + top.y.size)
    for entry, columns in ((0, top.single), (1, top.pair), (2, top.pair)):
        job, place, throughput = top.throughput[entry]
        np.add.at(cost, place, value[job, columns[:, 1]] * throughput)
    rows = np.flatnonzero((0.0 if floor is None else floor) > SHARES.negligible * fastest(problem))
    if floor is not None and rows.size:
        size = np.zeros(problem.jobs)
        size[rows] = 1.0 / floor[rows]
        top.builder.add_rows("slo", rows[:, None], 1.0, np.inf, top.restricted(rows, size))
    return top.done(cost)


def slo_model(problem: ShareProblem, floor: Floats) -> ShareModel:
    """Maximise the number of jobs that reach ``floor`` (steps/s, shape (J,); 0: no objective).

    Columns ``keep[j]`` in {0, 1} follow the shares; row **slo**: ``thr_j / floor_j >= keep_j``.
    """
    top = Polytope("target shares: keep SLOs", problem, None)
    rows = np.flatnonzero(floor > 0)
    keep = top.builder.add_columns("keep", rows[:, None], 1.0)
    size = np.zeros(problem.jobs)
    size[rows] = 1.0 / floor[rows]
    top.builder.add_rows(
        "slo",
        rows[:, None],
        0.0,
        np.inf,
        [*top.restricted(rows, size), (np.arange(rows.size), keep, -1.0)],
    )
    cost = np.zeros(top.x.size + top.y.size + keep.size)
    cost[keep] = 1.0
    return top.done(cost)


def headroom_model(
    problem: ShareProblem, floor: Floats, room: Floats, pattern: Ints | None = None
) -> ShareModel:
    """Maximise ``sum rise_j`` with ``thr_j >= floor_j + room_j rise_j``, rise in [0, 1].

    The optimum is 0 if and only if no job with ``room_j > 0`` can rise above its floor while all
    jobs keep theirs: the stopping test of water filling.

    Parameters
    ----------
    floor, room
        Steps per second, shape (J,).
    pattern
        Pattern of jobs at their floor (`formulations.shares.kernel.forced_patterns`), -1 for free
        jobs: fixed jobs have no columns, and reduce the capacity. By default all are free.
    """
    pattern = np.full(problem.jobs, -1, dtype=np.int64) if pattern is None else pattern
    constant, per_step = affine_shares(problem.speed, np.maximum(pattern, 0))
    held = problem.gang @ (constant + per_step * floor[:, None])
    top = Polytope("target shares: headroom", problem, None, free=pattern < 0, held=held)
    rows = np.flatnonzero((pattern < 0) & ((floor > 0) | (room > 0)))
    rise = top.builder.add_columns(
        "rise", rows[:, None], np.where(room[rows] > 0, 1.0, 0.0), integer=False
    )
    size = 1.0 / fastest(problem)
    top.builder.add_rows(
        "share",
        rows[:, None],
        (floor * size)[rows],
        np.inf,
        [*top.restricted(rows, size), (np.arange(rows.size), rise, -(room * size)[rows])],
    )
    cost = np.zeros(top.x.size + top.y.size + rise.size)
    cost[rise] = 1.0
    return top.done(cost)
