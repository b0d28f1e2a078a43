"""Objective `feedback`: rounds as time slices, first reports first, then equal turns.

Page ``docs/formulations/feedback.md``. Jobs without a report are served shortest first, then all
jobs by their lag on an equal share of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from formulations.objectives import relative_speed
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Turns:
    """Work of each job to its first report, and weight of its turn, shape (J,).

    Parameters
    ----------
    feedback_left_s
        Seconds of work to the first report at the speed of the request; 0 after the report, or if
        the report has no priority.
    weight
        Lag on its turn, in rounds, plus 1.
    """

    feedback_left_s: Floats
    weight: Floats


def turn_weights(
    gpus: float, asked: Floats, age_s: Floats, executed_s: Floats, interval_s: float
) -> Floats:
    """Return the lag of jobs on an equal share of the time, in rounds, plus 1.

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    asked, age_s, executed_s
        Gang, time since submission, and time with GPUs of each job.
    interval_s
        Length of a round.
    """
    share = min(1.0, gpus / max(1.0, float(asked.sum())))
    return np.maximum(0.0, share * age_s - executed_s) / interval_s + 1.0


def soon(interval_s: float, charge_s: Floats, left_s: Floats) -> Floats:
    """Return the value of running a job with ``left_s`` of work to its report; 0 if none left."""
    found: Floats = interval_s / np.maximum(interval_s, charge_s + left_s)
    return np.where(left_s > 0.0, found, 0.0)


def turn(interval_s: float, charge_s: Floats, weight: Floats) -> Floats:
    """Return the value of running a job in its turn: its weight times the share after start-up."""
    return weight * np.maximum(0.0, interval_s - charge_s) / interval_s


def feedback_level(problem: RoundProblem, data: Turns) -> Level:
    """Return the level that serves jobs nearest to their first report, weighted by speed."""
    members = problem.options.members
    worth = soon(problem.interval_s, members.startup_s, data.feedback_left_s[members.job])
    worth = worth * relative_speed(problem)
    return Level.of(problem, "feedback", "reports", worth)


def turn_level(problem: RoundProblem, data: Turns) -> Level:
    """Return the level that serves the jobs with the largest lag, weighted by speed."""
    members = problem.options.members
    worth = turn(problem.interval_s, members.startup_s, data.weight[members.job])
    worth = worth * relative_speed(problem)
    return Level.of(problem, "turn", "turns", worth)


def work_level(problem: RoundProblem) -> Level:
    """Return the level of GPUs in use; a pair's GPUs count once."""
    members, options = problem.options.members, problem.options
    several = np.bincount(members.option, minlength=options.count)[members.option]
    return Level.of(problem, "work", "GPUs", options.gpus[members.option] / several)
