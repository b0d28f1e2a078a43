"""Early feedback, then equal turns, then use: rounds as time slices.

Page ``docs/formulations/feedback.md``. Levels over jobs at their request: those that have not
reported yet are served shortest first, then all by how far they are behind their share of time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from formulations.objectives import relative_speed
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Turns:
    """What is known of each job, shape (J,).

    Parameters
    ----------
    feedback_left_s
        Seconds of work to its first report at the speed of its request; 0 once it has reported,
        or where its report is not hurried.
    weight
        How far it is behind its turn, in rounds, plus 1.
    """

    feedback_left_s: Floats
    weight: Floats


def turn_weights(
    gpus: float, asked: Floats, age_s: Floats, executed_s: Floats, interval_s: float
) -> Floats:
    """How far jobs are behind an equal share of the time, in rounds, plus 1.

    Parameters
    ----------
    gpus
        All there are.
    asked, age_s, executed_s
        Per job its gang, the time since its submission, and of that with GPUs.
    interval_s
        Length of a round.
    """
    share = min(1.0, gpus / max(1.0, float(asked.sum())))
    return np.maximum(0.0, share * age_s - executed_s) / interval_s + 1.0


def soon(interval_s: float, charge_s: Floats, left_s: Floats) -> Floats:
    """Worth of running a job with so much work left to its report; 0 where there is none."""
    found: Floats = interval_s / np.maximum(interval_s, charge_s + left_s)
    return np.where(left_s > 0.0, found, 0.0)


def turn(interval_s: float, charge_s: Floats, weight: Floats) -> Floats:
    """Worth of running a job in its turn: what of the round is not start-up, weighed."""
    return weight * np.maximum(0.0, interval_s - charge_s) / interval_s


def feedback_level(problem: RoundProblem, data: Turns) -> Level:
    """Reports soon: shortest to its report first, as far as rounds tell apart, times its speed."""
    members = problem.options.members
    worth = soon(problem.interval_s, members.startup_s, data.feedback_left_s[members.job])
    worth = worth * relative_speed(problem)
    return Level.of(problem, "feedback", "reports", worth)


def turn_level(problem: RoundProblem, data: Turns) -> Level:
    """Equal time: the jobs furthest behind first, times their speed."""
    members = problem.options.members
    worth = turn(problem.interval_s, members.startup_s, data.weight[members.job])
    worth = worth * relative_speed(problem)
    return Level.of(problem, "turn", "turns", worth)


def work_level(problem: RoundProblem) -> Level:
    """GPUs in use; those of a pair once."""
    members, options = problem.options.members, problem.options
    several = np.bincount(members.option, minlength=options.count)[members.option]
    return Level.of(problem, "work", "GPUs", options.gpus[members.option] / several)
