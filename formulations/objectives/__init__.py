"""Objectives: functions from a `RoundProblem` to the ranked `Level` values of a round.

They are pure: facts beyond the tables come as a frozen value. Each page of ``docs/formulations``
about an objective has a module of the same name; this one is ``objectives.md``.

An objective gives the worth of each option to each of its members (`formulations.round.options`),
as if that job had the option alone at its speed there; the value of an option is the sum.

A restart is priced, not forbidden: the value of an option counts the start-up ahead of its job, a
full restart for a change and the remaining one for a stay.

Guarantees (`guarantee`) rank before every other goal. If all guaranteed jobs can have the speed of
their request at once, they have it (rows ``guarantee[j]``, see the MILP policy). If not, the level
of this name decides which do, or their worth is raised (`favoured`).
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.columns import stretches
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import SAME_SPEED


def relative_speed(problem: RoundProblem, own: slice = slice(None)) -> Floats:
    """Return each member's speed relative to its request, shape (M,), of all rows or some."""
    members = problem.options.members
    return problem.jobs.request_iteration_s[members.job[own]] / members.iteration_s[own]


def kept(problem: RoundProblem) -> Bools:
    """Return whether an option gives its member the speed of its request, shape (M,)."""
    return np.asarray(relative_speed(problem) >= 1.0 - SAME_SPEED)


def seconds_left(problem: RoundProblem, restart_weight: float = 1.0) -> Floats:
    """Return the seconds until each member's completion in its option, shape (M,).

    Parameters
    ----------
    restart_weight
        Times that a start-up caused by the option counts; the remaining one of a stay counts once.
    """
    members = problem.options.members
    startup_s = members.startup_s
    if restart_weight != 1.0:
        startup_s = np.where(members.starts, restart_weight, 1.0) * startup_s
    return startup_s + problem.jobs.iterations_left[members.job] * members.iteration_s


def guarantee(problem: RoundProblem) -> Level:
    """Return the level that decides which guarantees to keep if not all can be kept.

    It minimises the shortfall, the time that guaranteed jobs spend below their promised speed. A
    job whose promise is kept counts 1 / (start-up + remaining seconds at the promised speed), and 0
    otherwise, because half a promise is none: as in shortest-remaining-time-first, serving the
    shortest first minimises the time that the others are short. The unit of time is at least the
    round's length.
    """
    jobs, members = problem.jobs, problem.options.members
    work = (jobs.iterations_left * jobs.request_iteration_s)[members.job]
    settled = 1.0 / np.maximum(problem.interval_s, members.startup_s + work)
    worth = np.where(jobs.guaranteed[members.job] & kept(problem), settled, 0.0)
    return Level.of(problem, "guarantee", "guarantees settled per second", worth)


def favoured(problem: RoundProblem, levels: tuple[Level, ...], factor: float) -> tuple[Level, ...]:
    """Return the levels with guaranteed jobs' positive values multiplied by ``factor``.

    Unlike the level of `guarantee`, this leaves a round in which not all promises can be kept to
    the objective: half a promise counts, and a promise costs other jobs only a limited value.
    """
    return scaled(problem, levels, np.where(problem.jobs.guaranteed, factor, 1.0))


def scaled(problem: RoundProblem, levels: tuple[Level, ...], factor: Floats) -> tuple[Level, ...]:
    """Return the levels with the positive values of each job multiplied by its factor.

    Parameters
    ----------
    factor
        Factor of each job, above 0, shape (J,).
    """
    of_member = factor[problem.options.members.job]
    return tuple(
        Level.of(
            problem,
            level.name,
            level.unit,
            np.where(level.worth > 0.0, of_member * level.worth, level.worth),
        )
        for level in levels
    )


def with_losses(
    problem: RoundProblem, levels: tuple[Level, ...], lost_s: Floats
) -> tuple[Level, ...]:
    """Return the levels with the work that stops and moves of running jobs lose.

    A round's value of a job is what the seconds of a round on its GPUs are worth. So a stop costs
    its stay's value for each round's length of progress and start-up that it loses, and a move for
    the progress alone, as its start-up is in its own value.

    Parameters
    ----------
    lost_s
        Seconds of progress that a stop or move loses, shape (J,); NaN for jobs that lose nothing,
        whose values stay as they are.
    """
    jobs, members = problem.jobs, problem.options.members
    counted = np.isfinite(lost_s) & jobs.running
    if not counted.any():
        return levels
    mine = np.flatnonzero(counted[members.job])
    job, starts = members.job[mine], members.starts[mine]
    rounds = jobs.restart_s[job] + np.where(starts, 0.0, lost_s[job])
    rounds /= problem.interval_s
    found: list[Level] = []
    for level in levels:
        stay = np.zeros(jobs.count)
        np.maximum.at(stay, job[~starts], level.worth[mine][~starts])
        worth, value = level.worth.copy(), level.value.copy()
        worth[mine] += stay[job] * rounds
        np.add.at(value, members.option[mine], stay[job] * rounds)
        found.append(Level(level.name, level.unit, value, worth))
    return tuple(found)


def throughput(problem: RoundProblem, horizon_s: float | None = None) -> tuple[Level, ...]:
    """Return total normalised speed, restarts amortised (Morphling, MLSys'25).

    A job's speed q is counted relative to its request's, so that an iteration of a small model and
    one of a large model are comparable. A configuration with start-up r ahead of it is worth ``q H
    / (H + r)``: its mean speed until it has made H seconds of progress. Unlike ``q (H - r)+ / H``
    this never values a start at nothing, however long the restart.

    Parameters
    ----------
    horizon_s
        Seconds of progress H that a restart is charged to; None for the length of the round. A
        shorter H makes moves rarer; ``docs/decisions`` has the measurements for the default.
    """
    members = problem.options.members
    horizon = problem.interval_s if horizon_s is None else horizon_s
    worth = np.empty(members.job.size)
    for own in stretches(worth.size):
        part = horizon / (horizon + members.startup_s[own])
        part *= problem.jobs.weight[members.job[own]]
        np.multiply(part, relative_speed(problem, own), out=worth[own])
    return (Level.of(problem, "throughput", "normalised speed", worth),)


def jct(problem: RoundProblem, restart_weight: float = 2.0) -> tuple[Level, ...]:
    """Return the completion rate 1 / (start-up + remaining seconds), which favours short jobs.

    For rigid jobs on one GPU this is shortest remaining time first; for malleable jobs it weighs
    how much sooner a job ends against the GPUs that this takes. Ends within the round count
    alike, because their GPUs are free at the same boundary: the denominator is at least the
    round's length.

    Parameters
    ----------
    restart_weight
        Times that a restart caused by the round counts, at least 1. A move also makes a later move
        likely, when arrivals take GPUs back; ``docs/decisions`` has the measurements for 2. The
        remaining start-up of a running job counts once.
    """
    weight = problem.jobs.weight[problem.options.members.job]
    worth = weight / np.maximum(problem.interval_s, seconds_left(problem, restart_weight))
    return (Level.of(problem, "jct", "completions per second", worth),)
