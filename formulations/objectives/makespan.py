"""Objective `makespan`: completion rates weighed by the work left.

Page: ``docs/formulations/makespan.md``.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats
from formulations.columns import joined
from formulations.objectives import seconds_left
from formulations.parameters import WORK, WorkParams
from formulations.round.tables import Level, RoundProblem


def levels(problem: RoundProblem, params: WorkParams = WORK) -> tuple[Level, ...]:
    """Return the level of ``A ** power`` per second to completion; A is a job's least work.

    Power 0 is `formulations.objectives.jct` without weights; power 1 counts GPU-seconds done per
    second as if at the job's best, whoever they belong to.
    """
    work = least_work(problem).min(axis=1, initial=np.inf)[problem.options.members.job]
    seconds = np.maximum(problem.interval_s, seconds_left(problem, params.restart_weight))
    return (Level.of(problem, "makespan", "work per second", work**params.power / seconds),)


def least_work(problem: RoundProblem) -> Floats:
    """Return the least GPU-seconds to complete each job on each class, (J, T); inf for none.

    Jobs with no option on a single class take those on several, counted for each of these.
    """
    options, members, classes = problem.options, problem.options.members, problem.nodes.classes
    work = np.full((problem.jobs.count, classes), np.inf)
    gpu_s = options.gpus[members.option] * seconds_left(problem)
    one = options.of_one_class[members.option]
    at = members.job * classes + options.node_class[members.option]
    np.minimum.at(work.reshape(-1), at[one], gpu_s[one])
    if not options.mixed.option.size:
        return work
    row, at = joined(members.option, options.mixed.option)
    none = np.isinf(work).all(axis=1)[members.job[row]]
    on = members.job[row[none]], options.mixed.node_class[at[none]]
    np.minimum.at(work, on, gpu_s[row[none]])
    return work
