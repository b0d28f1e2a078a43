"""Objectives: what a round is worth. Each maps a `RoundProblem` to ranked `Level` values.

Pure functions: what an objective knows beyond the tables is a frozen value that it is given. One
page of ``docs/formulations``, one module of the same name; this one is ``objectives.md``.

An objective says what each option is worth to each of its members (`formulations.round.options`),
as if that job had it alone at its speed there; an option is worth the sum.

A restart is priced, not forbidden: every option is valued with the start-up that is still ahead of
a job in it, a full restart for a change and what is left of one for a stay.

Guarantees (`guarantee`) rank before every other goal. Whenever all guaranteed jobs can have the
speed of their request at once, they have it (rows ``guarantee[j]``, see the MILP policy). When
they cannot, the level of this name decides which do, or their worth is raised (`favoured`).
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.columns import stretches
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import SAME_SPEED


def relative_speed(problem: RoundProblem, own: slice = slice(None)) -> Floats:
    """Speed relative to the request that each member has in its option, shape (M,), or of some."""
    members = problem.options.members
    return problem.jobs.request_iteration_s[members.job[own]] / members.iteration_s[own]


def kept(problem: RoundProblem) -> Bools:
    """Whether an option gives its member the speed of its request, shape (M,)."""
    return np.asarray(relative_speed(problem) >= 1.0 - SAME_SPEED)


def seconds_left(problem: RoundProblem, restart_weight: float = 1.0) -> Floats:
    """Seconds until each member would be complete in its option, shape (M,).

    Parameters
    ----------
    restart_weight
        How often a start-up counts that the option would cause; what a running job still has ahead
        counts once.
    """
    members = problem.options.members
    startup_s = members.startup_s
    if restart_weight != 1.0:
        startup_s = np.where(members.starts, restart_weight, 1.0) * startup_s
    return startup_s + problem.jobs.iterations_left[members.job] * members.iteration_s


def guarantee(problem: RoundProblem) -> Level:
    """Which guarantees to keep when not all can be: the level that minimises their shortfall.

    The shortfall is the time that guaranteed jobs spend below their promised speed. A job whose
    promise is kept counts 1 / (start-up + remaining seconds at the promised speed), and 0
    otherwise, half a promise being none: as in shortest-remaining-time-first, serving first what
    leaves soonest minimises the time that the others are short. The unit of time is at least the
    round's length.
    """
    jobs, members = problem.jobs, problem.options.members
    work = (jobs.iterations_left * jobs.request_iteration_s)[members.job]
    settled = 1.0 / np.maximum(problem.interval_s, members.startup_s + work)
    worth = np.where(jobs.guaranteed[members.job] & kept(problem), settled, 0.0)
    return Level.of(problem, "guarantee", "guarantees settled per second", worth)


def favoured(problem: RoundProblem, levels: tuple[Level, ...], factor: float) -> tuple[Level, ...]:
    """The levels with what guaranteed jobs are worth multiplied; what is below 0 stays as it is.

    Other than the level of `guarantee`, it leaves a round in which not all promises can be kept
    to the objective: half a promise counts, and a promise may cost others only so much.
    """
    promised = problem.jobs.guaranteed[problem.options.members.job]
    return tuple(
        Level.of(
            problem,
            level.name,
            level.unit,
            np.where(promised & (level.worth > 0.0), factor * level.worth, level.worth),
        )
        for level in levels
    )


def throughput(problem: RoundProblem, horizon_s: float | None = None) -> tuple[Level, ...]:
    """Total normalised speed, restarts amortised (Morphling, MLSys'25).

    A job's speed q is counted relative to that of its request, so that an iteration of a small
    model and one of a large model are comparable. A configuration with start-up r ahead of it is
    worth ``q H / (H + r)``: its mean speed until it has made H seconds of progress. Unlike
    ``q (H - r)+ / H`` this never values a start at nothing, however long the restart.

    Parameters
    ----------
    horizon_s
        Seconds of progress H that a restart is charged to; None: the length of the round. The
        shorter, the more reluctant a move; ``docs/decisions`` records the measurements behind
        the default.
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
    """Completion rate: 1 / (start-up + remaining seconds), which favours what ends soon.

    For rigid jobs on one GPU this is shortest remaining time first; for malleable jobs it weighs
    how much sooner a job ends against the GPUs that this takes. Ends within the round count
    alike, because their GPUs are free at the same boundary: the denominator is at least the
    round's length.

    Parameters
    ----------
    restart_weight
        How often a restart that the round would cause is counted, at least 1. A move also makes
        a later move likely, when arrivals take GPUs back; ``docs/decisions`` records the
        measurements behind 2. Start-up that a running job still has ahead counts once.
    """
    weight = problem.jobs.weight[problem.options.members.job]
    worth = weight / np.maximum(problem.interval_s, seconds_left(problem, restart_weight))
    return (Level.of(problem, "jct", "completions per second", worth),)
