"""Brute force: the optimum of a small round by enumeration, from the definitions alone.

It knows no model, no solver and none of the code under test but the tables. Every combination of
a candidate, a stay or nothing per job is listed; in order of falling value the first one that
some choice of named nodes can carry is optimal, because all better ones have been refuted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np

from formulations.round_problem import NONE, STAY, Level, RoundProblem, Selection

LARGEST = 200_000
"""Combinations beyond which a round is not small."""


def options(problem: RoundProblem, job: int) -> list[int]:
    """Everything that a job may do, as entries of `Selection.choice`."""
    own = [k for k in range(problem.candidates.count) if int(problem.candidates.job[k]) == job]
    stay = [STAY] if job in problem.holds.job.tolist() else []
    return [NONE, *stay, *own]


def combinations(problem: RoundProblem) -> np.ndarray:
    """Every choice of the round, shape (combinations, J)."""
    rows = list(product(*(options(problem, job) for job in range(problem.jobs.count))))
    assert len(rows) <= LARGEST, "too large for brute force"
    return np.asarray(rows, dtype=np.int64).reshape(-1, problem.jobs.count)


def value(choice: Sequence[int], level: Level) -> float:
    """Worth of a choice."""
    total = 0.0
    for job, picked in enumerate(choice):
        if picked >= 0:
            total += float(level.value[picked])
        elif picked == STAY:
            total += float(level.stay_value[job])
    return total


def room_after_stays(problem: RoundProblem, choice: Sequence[int]) -> np.ndarray | None:
    """What is left on every node, or None if the stays alone do not fit; shape (N, R)."""
    room = np.asarray([problem.nodes.capacity[t] for t in problem.nodes.node_class.tolist()])
    for row in range(problem.holds.count):
        if choice[int(problem.holds.job[row])] == STAY:
            room[int(problem.holds.node[row])] -= problem.holds.demand[row]
    return room if (room >= -1e-9).all() else None


def spots(problem: RoundProblem, candidate: int) -> Iterator[tuple[int, ...]]:
    """Every way to give the parts of a candidate distinct open nodes of its class."""
    usable = [
        node
        for node in range(problem.nodes.count)
        if problem.nodes.open[node]
        and problem.nodes.node_class[node] == problem.candidates.node_class[candidate]
    ]
    yield from permutations(usable, len(problem.candidates.parts(candidate)))


def place(problem: RoundProblem, choice: Sequence[int]) -> Selection | None:
    """Nodes for a choice by trying all, or None if there are none."""
    room = room_after_stays(problem, choice)
    if room is None:
        return None
    nodes: list[tuple[int, ...]] = [()] * problem.jobs.count

    def descend(jobs: list[int], room: np.ndarray) -> bool:
        if not jobs:
            return True
        job, *rest = jobs
        table, picked = problem.candidates, choice[job]
        for where in spots(problem, picked):
            left = room.copy()
            for part, node in zip(table.parts(picked), where, strict=True):
                left[node] -= part * np.concatenate([[1.0], table.side[picked]])
            if (left >= -1e-9).all() and descend(rest, left):
                nodes[job] = where
                return True
        return False

    started = [job for job, picked in enumerate(choice) if picked >= 0]
    if not descend(started, room):
        return None
    return Selection(np.asarray(choice, dtype=np.int64), tuple(nodes))


def best(problem: RoundProblem, levels: Sequence[Level]) -> Selection:
    """An optimum under ranked levels, most important first."""
    rows = combinations(problem)
    worth = np.asarray([[value(row, level) for level in levels] for row in rows.tolist()])
    # Rounded, so that sums that differ in their last bits alone count as a tie.
    worth = np.round(worth / np.maximum(1e-300, np.abs(worth).max(axis=0)), 12)
    for row in np.lexsort(-worth.T[::-1]).tolist():
        found = place(problem, rows[row].tolist())
        if found is not None:
            return found
    raise AssertionError("doing nothing is always possible")


def feasible(problem: RoundProblem, selection: Selection) -> bool:
    """Whether a decision is one that the enumeration would come across."""
    jobs = problem.jobs.count
    if selection.choice.shape != (jobs,) or len(selection.nodes) != jobs:
        return False
    choice = selection.choice.tolist()
    if any(picked not in options(problem, job) for job, picked in enumerate(choice)):
        return False
    room = room_after_stays(problem, choice)
    if room is None:
        return False
    for job, picked in enumerate(choice):
        where = selection.nodes[job]
        if picked < 0:
            if where:
                return False
            continue
        if where not in set(spots(problem, picked)):
            return False
        for part, node in zip(problem.candidates.parts(picked), where, strict=True):
            room[node] -= part * np.concatenate([[1.0], problem.candidates.side[picked]])
    return bool((room >= -1e-9).all())
