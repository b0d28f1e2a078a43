"""Greedy filling: the stated fallback when no proven answer is at hand in time."""

from __future__ import annotations

import numpy as np

from formulations.decode import place_parts, room_after_stays
from formulations.round_problem import NONE, STAY, Level, RoundProblem, Selection


def keep_and_fill(problem: RoundProblem, level: Level) -> Selection:
    """Keep the running allocation, then start queued jobs where they fit.

    Queued jobs are taken by their best value per GPU; each gets its most valuable candidate for
    which distinct nodes with room exist, parts going to the fullest such node. No running job is
    touched, so the result is feasible whenever the round is.
    """
    jobs, candidates = problem.jobs, problem.candidates
    choice = np.where(jobs.running, STAY, NONE).astype(np.int64)
    room = room_after_stays(problem, choice)
    spots: list[tuple[int, ...]] = [()] * jobs.count
    density = level.value / np.maximum(1, candidates.gpus)
    best = np.full(jobs.count, -np.inf)
    np.maximum.at(best, candidates.job, density)
    start = np.searchsorted(candidates.job, np.arange(jobs.count + 1))
    queued = np.flatnonzero(~jobs.running)
    for job in queued[np.argsort(-best[queued], kind="stable")].tolist():
        mine = np.arange(start[job], start[job + 1])
        for candidate in mine[np.argsort(-level.value[mine], kind="stable")].tolist():
            found = place_parts(problem, candidate, room)
            if found is not None:
                choice[job] = candidate
                spots[job] = found
                break
    return Selection(choice, tuple(spots))
