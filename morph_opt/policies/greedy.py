"""Greedy filling: the stated fallback when no proven answer is at hand in time."""

from __future__ import annotations

import numpy as np

from formulations.decode import free_after_stays
from formulations.round_problem import NONE, STAY, Level, RoundProblem, Selection


def keep_and_fill(problem: RoundProblem, level: Level) -> Selection:
    """Keep the running allocation, then start queued jobs where they fit.

    Queued jobs are taken by their best value per GPU; each gets its most valuable candidate for
    which distinct nodes with room exist, parts going to the fullest such node. No running job is
    touched, so the result is feasible whenever the round is.
    """
    jobs, candidates, nodes = problem.jobs, problem.candidates, problem.nodes
    choice = np.where(jobs.running, STAY, NONE).astype(np.int64)
    free = free_after_stays(problem, choice)
    spots: list[tuple[int, ...]] = [()] * jobs.count
    density = level.value / np.maximum(1, candidates.gpus)
    best = np.full(jobs.count, -np.inf)
    np.maximum.at(best, candidates.job, density)
    start = np.searchsorted(candidates.job, np.arange(jobs.count + 1))
    queued = np.flatnonzero(~jobs.running)
    for job in queued[np.argsort(-best[queued], kind="stable")].tolist():
        mine = np.arange(start[job], start[job + 1])
        for candidate in mine[np.argsort(-level.value[mine], kind="stable")].tolist():
            usable = nodes.open & (nodes.node_class == candidates.node_class[candidate])
            found = place_parts(problem, candidate, free, usable)
            if found is not None:
                choice[job] = candidate
                spots[job] = found
                break
    return Selection(choice, tuple(spots))


def place_parts(
    problem: RoundProblem, candidate: int, free: np.ndarray, usable: np.ndarray
) -> tuple[int, ...] | None:
    """Distinct nodes for a candidate's parts, best fit; takes them from ``free`` if all fit."""
    chosen: list[int] = []
    demands = [problem.candidates.demand(candidate, p) for p in problem.candidates.parts(candidate)]
    for demand in demands:
        fits = usable & (free >= demand - 1e-9).all(axis=1)
        if chosen:
            fits[chosen] = False
        if not fits.any():
            return None
        chosen.append(int(np.where(fits, free[:, 0], np.inf).argmin()))
    for node, demand in zip(chosen, demands, strict=True):
        free[node] -= demand
    return tuple(chosen)
