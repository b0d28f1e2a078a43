"""Decode: give nodes to the parts of a choice; counted patterns become named nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.linear_model import Floats, Ints
from formulations.round_problem import STAY, HoldTable, RoundProblem, Selection


def free_after_stays(problem: RoundProblem, choice: Ints) -> Floats:
    """Free resources of each node once the staying jobs keep theirs, shape (N, R)."""
    nodes = problem.nodes
    free = nodes.capacity[nodes.node_class].copy()
    stays = choice[problem.holds.job] == STAY
    np.subtract.at(free, problem.holds.node[stays], problem.holds.demand[stays])
    free[~nodes.open] = 0.0
    return free


def pack(problem: RoundProblem, choice: Ints, order: str = "size") -> Selection | None:
    """Nodes for a choice by best-fit decreasing, or None when that heuristic finds none.

    Jobs are taken by their largest part (``order="size"``) or by their number of parts
    (``order="parts"``), each part goes to the open node of its class with the least free GPUs
    that still has room and carries no other part of the job. Not finding nodes proves nothing;
    the exact answer is `formulations.node_assignment` on `restricted`.
    """
    candidates, nodes = problem.candidates, problem.nodes
    free = free_after_stays(problem, choice)
    started = np.flatnonzero(choice >= 0).tolist()
    shapes = {job: candidates.parts(int(choice[job])) for job in started}

    def rank(job: int) -> tuple[int, ...]:
        parts = shapes[job]
        if order == "size":
            return (-parts[0], -len(parts), job)
        return (-len(parts), -parts[0], job)

    spots: list[tuple[int, ...]] = [()] * problem.jobs.count
    slack = 1e-9
    for job in sorted(started, key=rank):
        candidate = int(choice[job])
        usable = nodes.open & (nodes.node_class == candidates.node_class[candidate])
        chosen: list[int] = []
        for part in shapes[job]:
            demand = candidates.demand(candidate, part)
            fits = usable & (free >= demand - slack).all(axis=1)
            if not fits.any():
                return None
            node = int(np.where(fits, free[:, 0], np.inf).argmin())
            free[node] -= demand
            usable[node] = False
            chosen.append(node)
        spots[job] = tuple(chosen)
    return Selection(choice, tuple(spots))


def restricted(problem: RoundProblem, choice: Ints) -> RoundProblem:
    """The placement question of a choice alone: its candidates, its stays, nothing else.

    Candidate i of the result is the i-th smallest candidate index of the choice. Jobs that do
    not stay hold nothing there.
    """
    stays = choice == STAY
    kept = stays[problem.holds.job]
    return replace(
        problem,
        jobs=replace(
            problem.jobs,
            stay_iteration_s=np.where(stays, problem.jobs.stay_iteration_s, np.nan),
        ),
        candidates=problem.candidates.take(np.sort(choice[choice >= 0])),
        holds=HoldTable(
            problem.holds.job[kept], problem.holds.node[kept], problem.holds.demand[kept]
        ),
    )
