"""Objectives: what a round is worth. Each maps a `RoundProblem` to ranked `Level` values.

Pure functions: what an objective knows beyond the tables is a frozen value that it is given. One
page of ``docs/formulations``, one module of the same name; this one is ``objectives.md``.

A restart is priced, not forbidden: every objective values a configuration with the start-up that
is still ahead of it, a full restart for a change and what is left of one for a stay.

Guarantees (`guarantee`) rank before every other goal. Whenever all guaranteed jobs can have the
speed of their request at once, they have it (rows ``guarantee[j]``, see the MILP policy). When
they cannot, the level of this name decides who does, or their worth is raised (`favoured`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.linear_model import Bools, Floats
from formulations.round.tables import Level, RoundProblem

SPEED_TOLERANCE = 1e-9
"""Relative slack in comparing a speed with a guaranteed one (same configuration, rounded)."""


def relative_speed(problem: RoundProblem) -> tuple[Floats, Floats]:
    """Speed relative to the request, of each candidate (K,) and of each stay (J,), 0 if queued."""
    jobs, candidates = problem.jobs, problem.candidates
    started = jobs.request_iteration_s[candidates.job] / candidates.iteration_s
    stays = jobs.running
    stayed = np.where(
        stays, jobs.request_iteration_s / np.where(stays, jobs.stay_iteration_s, 1), 0
    )
    return started, stayed


def kept(problem: RoundProblem) -> tuple[Bools, Bools]:
    """Whether a candidate (K,) or a stay (J,) gives its job the speed of its request."""
    started, stayed = relative_speed(problem)
    enough = 1.0 - SPEED_TOLERANCE
    return started >= enough, problem.jobs.running & (stayed >= enough)


def guarantee(problem: RoundProblem) -> Level:
    """Which guarantees to keep when not all can be: the level that minimises their shortfall.

    The shortfall is the time that guaranteed jobs spend below their promised speed. A job whose
    promise is kept counts 1 / (start-up + remaining seconds at the promised speed), and 0
    otherwise, half a promise being none: as in shortest-remaining-time-first, serving first what
    leaves soonest minimises the time that the others are short. The unit of time is at least the
    round's length.
    """
    jobs, owner = problem.jobs, problem.candidates.job
    started, stayed = kept(problem)
    work = jobs.iterations_left * jobs.request_iteration_s
    moved = 1.0 / np.maximum(problem.interval_s, jobs.restart_s + work)
    held = 1.0 / np.maximum(problem.interval_s, jobs.restart_left_s + work)
    return Level(
        "guarantee",
        "guarantees settled per second",
        np.where(jobs.guaranteed[owner] & started, moved[owner], 0.0),
        np.where(jobs.guaranteed & stayed, held, 0.0),
    )


def favoured(problem: RoundProblem, levels: tuple[Level, ...], factor: float) -> tuple[Level, ...]:
    """The levels with what guaranteed jobs are worth multiplied; what is below 0 stays as it is.

    Other than the level of `guarantee`, it leaves a round in which not all promises can be kept
    to the objective: half a promise counts, and a promise may cost others only so much.
    """
    promised = problem.jobs.guaranteed

    def times(worth: Floats, mine: Bools) -> Floats:
        return np.where(mine & (worth > 0.0), factor * worth, worth)

    return tuple(
        replace(
            level,
            value=times(level.value, promised[problem.candidates.job]),
            stay_value=times(level.stay_value, promised),
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
    started, stayed = relative_speed(problem)
    jobs, owner = problem.jobs, problem.candidates.job
    horizon = problem.interval_s if horizon_s is None else horizon_s
    moved = horizon / (horizon + jobs.restart_s)
    kept = horizon / (horizon + jobs.restart_left_s)
    return (
        Level(
            "throughput",
            "normalised speed",
            (jobs.weight * moved)[owner] * started,
            jobs.weight * kept * stayed,
        ),
    )


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
    jobs, candidates, stays = problem.jobs, problem.candidates, problem.jobs.running
    owner, least = candidates.job, problem.interval_s
    moved = (
        restart_weight * jobs.restart_s[owner]
        + jobs.iterations_left[owner] * candidates.iteration_s
    )
    pace = np.where(stays, jobs.stay_iteration_s, 1.0)
    kept = jobs.restart_left_s + jobs.iterations_left * pace
    return (
        Level(
            "jct",
            "completions per second",
            jobs.weight[owner] / np.maximum(least, moved),
            np.where(stays, jobs.weight / np.maximum(least, kept), 0.0),
        ),
    )
