"""Rounds in which places are short and GPUs are not.

All jobs would fit at once with the most GPUs that each can use, and yet one that waits fits on no
node, as what is free is scattered. Then a GPU-second has no price, and a job that gets nothing now
waits until enough GPUs of one place are free. Page: ``docs/formulations/lookahead.md``.
"""

from __future__ import annotations

from functools import cache
from itertools import islice

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import of_tables
from formulations.objectives import seconds_left
from formulations.round.tables import RoundProblem
from formulations.tolerances import FEASIBILITY


@of_tables
def is_scattered(problem: RoundProblem) -> bool:
    """Return whether places are short in a round, and GPUs are not."""
    nodes = problem.nodes
    waiting = ~problem.jobs.running
    if problem.shared.count or problem.candidates.mixed.any() or not waiting.any():
        return False
    held = nodes.node_class[usable(problem)]
    for node_class in range(nodes.classes):
        most = _largest(problem, node_class)
        if most.sum() > nodes.capacity[node_class, 0] * (held == node_class).sum():
            return False
    every = np.where(nodes.open, nodes.capacity[nodes.node_class, 0], 0.0)
    free = np.where(nodes.open, every - problem.held()[:, 0], 0.0)
    left_out = waiting & _fitting(problem, every) & ~_fitting(problem, free)
    return bool(left_out.any())


def usable(problem: RoundProblem) -> Bools:
    """Return which nodes are open or hold a job, shape (N,)."""
    usable: Bools = problem.nodes.open.copy()
    usable[problem.holds.node] = True
    return usable


def _largest(problem: RoundProblem, node_class: int) -> Floats:
    """Return the GPUs of the fastest option of each job on a node class, shape (J,).

    Of equally fast ones the smallest: larger ones are dominated, and may have been left out.
    """
    options, members = problem.options, problem.options.members
    gpus = options.gpus_on(node_class)[members.option]
    mine = np.flatnonzero(gpus > 0)
    order = mine[np.lexsort((gpus[mine], members.iteration_s[mine], members.job[mine]))]
    jobs, first = np.unique(members.job[order], return_index=True)
    largest = np.zeros(problem.jobs.count)
    largest[jobs] = gpus[order[first]]
    return largest


def _fitting(problem: RoundProblem, free: Floats) -> Bools:
    """Return which jobs have a start that fits on the nodes, by their free GPUs, shape (J,)."""
    nodes, table = problem.nodes, problem.candidates
    fits = np.zeros(problem.jobs.count, dtype=bool)
    most = [np.sort(free[nodes.node_class == kind])[::-1] for kind in range(nodes.classes)]
    for candidate, job in enumerate(table.job.tolist()):
        if not fits[job]:
            parts = np.sort(_parts(problem, candidate))[::-1]
            here = most[table.node_class[candidate]][: parts.size] + FEASIBILITY
            fits[job] = parts.size == here.size and bool((parts <= here).all())
    return fits


def _parts(problem: RoundProblem, candidate: int) -> Ints:
    """Return the GPUs of a candidate's parts."""
    table = problem.candidates
    found: Ints = table.part_gpus[table.part_start[candidate] : table.part_start[candidate + 1]]
    return found


def place_s(problem: RoundProblem) -> Floats:
    """Return when a job that gets nothing now finds a place as the others end, shape (J,).

    Its own nodes are taken meanwhile, and nobody else starts. At the latest it begins when all
    others have ended.
    """
    jobs, nodes, holds = problem.jobs, problem.nodes, problem.holds
    ends_s = _ends_s(problem)
    last_s = float(ends_s[jobs.running].max(initial=0.0))
    free = np.where(nodes.open, nodes.capacity[nodes.node_class, 0] - problem.held()[:, 0], 0.0)
    order = np.lexsort((ends_s[holds.job], holds.node))
    own: dict[int, set[int]] = {}
    for job, node in zip(holds.job.tolist(), holds.node.tolist(), strict=True):
        own.setdefault(job, set()).add(node)

    @cache
    def first(node_class: int, gpus: int) -> list[tuple[float, int]]:
        room_s = _room_s(problem, gpus, free, ends_s, order)
        mine = np.flatnonzero(nodes.node_class == node_class)
        return sorted(zip(room_s[mine].tolist(), mine.tolist(), strict=True))

    found = np.full(jobs.count, last_s)
    for candidate, job in enumerate(problem.candidates.job.tolist()):
        node_class, begins_s = int(problem.candidates.node_class[candidate]), 0.0
        for part, gpus in enumerate(np.sort(_parts(problem, candidate))[::-1].tolist()):
            others = (
                at_s for at_s, node in first(node_class, gpus) if node not in own.get(job, ())
            )
            begins_s = max(begins_s, next(islice(others, part, None), np.inf))
        found[job] = min(found[job], begins_s)
    return found


def _ends_s(problem: RoundProblem) -> Floats:
    """Return when each running job ends if it stays, shape (J,); 0 for others."""
    members = problem.options.members
    ends_s = np.zeros(problem.jobs.count)
    stays: Bools = ~members.starts
    ends_s[members.job[stays]] = seconds_left(problem)[stays]
    return ends_s


def _room_s(problem: RoundProblem, gpus: int, free: Floats, ends_s: Floats, order: Ints) -> Floats:
    """Return when so many GPUs of each node are free, shape (N,); inf for closed nodes."""
    holds, left = problem.holds, free + FEASIBILITY
    found = np.where(left >= gpus, 0.0, np.inf)
    for row in order.tolist():
        node = int(holds.node[row])
        if problem.nodes.open[node] and found[node] == np.inf:
            left[node] += holds.demand[row, 0]
            if left[node] >= gpus:
                found[node] = ends_s[holds.job[row]]
    return found
