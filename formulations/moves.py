r"""Moves: a question about where running jobs could be, as rows and one goal of a round.

A question leaves each running job where it is or starts it elsewhere in the configuration that it
has, at the least loss, so that something becomes possible: a waiting job starts, places become
free, nodes become empty. It is a `RoundProblem` with another goal and a few rows more. A place that
is to be free is a job of the round that waits and needs GPUs alone: to start it is to free it.

Rows (families of `formulations.round.rule_table`, all of the form ``sum >= least``)
    wanted[0]      sum of the starts of the waiting job, or of the places >= how many
    running[j]     s[j] + sum_k x[j,k] >= 1      j runs and may not be stopped
    leaves[j]      -s[j] >= 0                    j is on a node that is to be empty
    most_moves[0]  sum_j s[j] >= running jobs - most moves

Goal
    maximise  sum_j (avoided[j] (s[j] + sum_k x[j,k]) - loss[j] sum_k x[j,k])
where ``loss[j]`` are the GPU-seconds that a move of j costs, and ``avoided[j]`` those that a stop
costs, 0 for jobs that may not be stopped. The loss is the sum of ``avoided`` less this value.

See ``docs/formulations/moves.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.rules import with_rows
from formulations.round.tables import CandidateTable, JobTable, Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Way:
    """Shape of a place on nodes of one class.

    Parameters
    ----------
    node_class
        Class of all its nodes.
    parts
        GPUs on each of them, largest first.
    scope
        `Scope` that contains them.
    """

    node_class: int
    parts: tuple[int, ...]
    scope: int


@dataclass(frozen=True, slots=True)
class Place:
    """GPUs that are to be free together.

    Parameters
    ----------
    ways
        Shapes of which one is to be free.
    nodes
        Nodes that it may use, shape (N,); None for all.
    """

    ways: tuple[Way, ...]
    nodes: Bools | None = None


def with_places(problem: RoundProblem, places: Sequence[Place]) -> RoundProblem:
    """Return the round with a waiting job for each place, after all other jobs.

    The round must have no options of several jobs and no prices of starts: their rows in rules
    come after the candidates.

    Raises
    ------
    ValueError
        If it has.
    """
    if problem.shared.count or problem.returns.count:
        raise ValueError("places are added before pairs and prices of starts")
    if not places:
        return problem
    first, table = problem.jobs.count, problem.candidates
    ways = [(first + at, way) for at, place in enumerate(places) for way in place.ways]
    job = np.asarray([owner for owner, _ in ways], dtype=np.int64)
    node_class = np.asarray([way.node_class for _, way in ways], dtype=np.int64)
    counts = [len(way.parts) for _, way in ways]
    part_gpus = np.asarray([gpus for _, way in ways for gpus in way.parts], dtype=np.int64)
    sets, set_of = _sets(problem, places)
    candidates = CandidateTable(
        job=np.concatenate([table.job, job]),
        node_class=np.concatenate([table.node_class, node_class]),
        iteration_s=np.concatenate([table.iteration_s, np.ones(job.size)]),
        gpus=np.concatenate([table.gpus, [sum(way.parts) for _, way in ways]]).astype(np.int64),
        part_start=np.concatenate(
            [table.part_start, table.part_start[-1] + np.cumsum(counts)]
        ).astype(np.int64),
        part_gpus=np.concatenate([table.part_gpus, part_gpus]),
        side=np.concatenate([table.side, np.zeros((job.size, table.side.shape[1]))]),
        scope=np.concatenate([table.scope, [int(way.scope) for _, way in ways]]).astype(np.int64),
        node_set=np.concatenate([table.node_set, set_of[job - first]]),
        strict=np.concatenate([table.strict, np.zeros(job.size, dtype=bool)]),
        part_class=np.concatenate([table.part_class, np.repeat(node_class, counts)]),
        loose=np.concatenate([table.loose, np.zeros(job.size, dtype=bool)]),
    )
    return replace(
        problem,
        jobs=_with_waiting(problem.jobs, len(places)),
        candidates=candidates,
        nodes=replace(problem.nodes, sets=sets),
        shared=replace(problem.shared, gang=_gangs_of(problem.shared.gang, len(places))),
    )


def _with_waiting(jobs: JobTable, count: int) -> JobTable:
    """Return the jobs and ``count`` waiting ones without work."""
    blank = {column.name: np.zeros(count) for column in fields(jobs)}
    blank |= {
        "guaranteed": np.zeros(count, dtype=bool),
        "request_iteration_s": np.ones(count),
        "stay_iteration_s": np.full(count, np.nan),
        "weight": np.ones(count),
    }
    joined = {name: np.concatenate([getattr(jobs, name), more]) for name, more in blank.items()}
    return JobTable(**joined)


def _gangs_of(gang: Ints, count: int) -> Ints:
    """Return the GPUs of each job with new numbers for jobs that hold none; empty stays empty."""
    if not gang.size:
        return gang
    return np.concatenate([gang, gang.max() + 1 + np.arange(count)])


def _sets(problem: RoundProblem, places: Sequence[Place]) -> tuple[Bools, Ints]:
    """Return the node sets, the places' own appended, and the set of each place."""
    rows = list(problem.nodes.sets)
    known = {row.tobytes(): at for at, row in reversed(list(enumerate(rows)))}
    found = []
    for place in places:
        row = rows[0] if place.nodes is None else place.nodes
        if row.tobytes() not in known:
            known[row.tobytes()] = len(rows)
            rows.append(row)
        found.append(known[row.tobytes()])
    return np.vstack(rows), np.asarray(found, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Demands:
    """Rows of a question.

    Parameters
    ----------
    wanted, least
        Jobs of which at least ``least`` are to start; places are among the jobs.
    running
        Jobs that may not be stopped.
    leaving
        Running jobs that may not stay.
    most_moves
        Largest number of running jobs that do not stay; None for any.
    """

    wanted: Ints
    least: int
    running: Ints
    leaving: Ints
    most_moves: int | None = None


class _Rows:
    """Rows ``sum >= least`` that are added to a round's rules."""

    def __init__(self, problem: RoundProblem) -> None:
        self.problem = problem

    def add(
        self, name: str, label: Ints, least: Floats | float, row: Ints, option: Ints, sign: float
    ) -> None:
        """Add a row per label; entries are a row of these and an option."""
        lower = np.broadcast_to(np.asarray(least, dtype=np.float64), label.shape)
        self.problem = with_rows(self.problem, name, label, lower, row, option, sign)


def with_demands(problem: RoundProblem, demands: Demands) -> RoundProblem:
    """Return the round with the rows of a question after its rules."""
    options, members, rows = problem.options, problem.options.members, _Rows(problem)
    first = np.zeros(1, dtype=np.int64)
    if demands.least:
        chosen = np.flatnonzero(np.isin(members.job, demands.wanted))
        rows.add("wanted", first, demands.least, np.zeros_like(chosen), chosen, 1.0)
    row_of = np.full(problem.jobs.count, -1, dtype=np.int64)
    row_of[demands.running] = np.arange(demands.running.size)
    mine = np.flatnonzero(row_of[members.job] >= 0)
    rows.add("running", demands.running, 1.0, row_of[members.job[mine]], mine, 1.0)
    stays = options.stay[demands.leaving]
    rows.add("leaves", demands.leaving, 0.0, np.arange(stays.size), stays, -1.0)
    if demands.most_moves is not None:
        stays, least = options.stays, options.stays.size - demands.most_moves
        rows.add("most_moves", first, least, np.zeros_like(stays), stays, 1.0)
    return rows.problem


def least_loss(problem: RoundProblem, loss: Floats, avoided: Floats) -> Level:
    """Return the goal of a question: the GPU-seconds that stops would cost, less those lost.

    Parameters
    ----------
    loss
        GPU-seconds that a move of each job costs, shape (J,); 0 for waiting ones.
    avoided
        GPU-seconds that a stop of each job costs, shape (J,); 0 for those that may not be stopped.
    """
    members = problem.options.members
    worth = avoided[members.job] - np.where(members.starts, loss[members.job], 0.0)
    return Level.of(problem, "least_loss", "GPU-seconds not lost", worth)


def most_wanted(problem: RoundProblem, wanted: Ints) -> Level:
    """Return the goal of the largest number of starts of these jobs."""
    members = problem.options.members
    found = np.isin(members.job, wanted) & members.starts
    return Level.of(problem, "most_wanted", "places", found.astype(np.float64))
