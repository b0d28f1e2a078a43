"""Objective `saved-time`: completion time saved per root of the time that GPUs are held.

`lookahead` maximises seconds saved, however long GPUs are held; `jct` maximises the rate of
completions, however long other jobs wait. This objective is between the two: the seconds saved at
`lookahead`'s prices, over the square root of the seconds for which the GPUs are held.
Page: ``docs/formulations/saved-time.md``.
"""

from __future__ import annotations

import numpy as np

from formulations.objectives import seconds_left
from formulations.objectives.lookahead import saved_s
from formulations.parameters import SAVED_TIME, SavedTimeParams
from formulations.round.tables import Level, RoundProblem


def levels(
    problem: RoundProblem, wait_rounds: float = 2.0, params: SavedTimeParams = SAVED_TIME
) -> tuple[Level, ...]:
    """Return the weighted completion time saved per root of the seconds that GPUs are held.

    Parameters
    ----------
    wait_rounds
        See `formulations.objectives.lookahead.levels`.
    params
        Smallest values.
    """
    members, round_s = problem.options.members, problem.interval_s
    best_s = np.full(problem.jobs.count, np.inf)
    np.minimum.at(best_s, members.job, members.iteration_s)
    speed = best_s[members.job] / members.iteration_s
    least_s = round_s * speed * np.where(members.starts, params.least_start, params.least_stay)
    held_s = np.maximum(round_s, seconds_left(problem))
    worth = np.maximum(saved_s(problem, wait_rounds), least_s) / np.sqrt(held_s)
    return (Level.of(problem, "saved-time", "seconds saved per root second", worth),)
