"""Objective `saved-time`: completion time saved per root of the time that GPUs are held.

`lookahead` maximises seconds saved, however long GPUs are held; `jct` maximises the rate of
completions, however long other jobs wait. This objective is between the two: the seconds saved at
`lookahead`'s prices, over the square root of the seconds for which the GPUs are held.
Page: ``docs/formulations/saved-time.md``.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats
from formulations.columns import of_tables
from formulations.objectives import seconds_left
from formulations.objectives.lookahead import (
    gpus_of_members,
    one_at_a_time,
    saved_s,
    soonest_first,
)
from formulations.objectives.scattered import is_scattered, usable
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
    if one_at_a_time(problem):
        worth = soonest_first(problem)
        return (Level.of(problem, "saved-time", "seconds saved per root second", worth),)
    members, round_s = problem.options.members, problem.interval_s
    best_s = np.full(problem.jobs.count, np.inf)
    np.minimum.at(best_s, members.job, members.iteration_s)
    speed = best_s[members.job] / members.iteration_s
    share = rigid_share(problem)[members.job]
    start_s = params.least_start * round_s + params.wide_start_s * share
    stay_s = params.least_stay * round_s + params.wide_stay_s * share
    least_s = speed * np.where(members.starts, start_s, stay_s)
    held_s = np.maximum(round_s, seconds_left(problem))
    worth = np.maximum(saved_s(problem, wait_rounds), least_s) / np.sqrt(held_s)
    return (Level.of(problem, "saved-time", "seconds saved per root second", worth),)


@of_tables
def rigid_share(problem: RoundProblem) -> Floats:
    """Return the share of all GPUs that a rigid job needs, shape (J,); 0 for malleable jobs.

    A job is rigid if no option with more GPUs than its smallest is faster than that one; so options
    that are dominated, which may be left out, change nothing. Jobs on the same GPUs count half of
    them each. On several node classes, and where places are short and GPUs are not, all shares
    are 0.
    """
    jobs, nodes, members = problem.jobs, problem.nodes, problem.options.members
    if nodes.classes > 1 or is_scattered(problem):
        return np.zeros(jobs.count)
    (gpus,) = gpus_of_members(problem)
    least, pace_s = np.full(jobs.count, np.inf), np.full(jobs.count, np.inf)
    np.minimum.at(least, members.job, gpus)
    smallest = gpus == least[members.job]
    np.minimum.at(pace_s, members.job[smallest], members.iteration_s[smallest])
    rigid = np.isfinite(least)
    rigid[members.job[~smallest & (members.iteration_s < pace_s[members.job])]] = False
    whole = nodes.capacity[nodes.node_class[usable(problem)], 0].sum()
    return np.asarray(np.where(rigid, least, 0.0) / max(1.0, whole))
