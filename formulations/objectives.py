"""Objectives: what a round is worth. Each maps a `RoundProblem` to ranked `Level` values.

A restart is priced, not forbidden: every objective values a configuration with the start-up that
is still ahead of it, a full restart for a change and what is left of one for a stay.

Guarantees (`guarantee`) rank before every other goal: with q the speed relative to the request, a
guaranteed job counts ``min(1, q)``, so the level's optimum is the number of guaranteed jobs
exactly when all of them can have the speed of their request at once, and otherwise its distance
from that number is the smallest total shortfall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Floats
from formulations.round_problem import Level, RoundProblem

SPEED_TOLERANCE = 1e-9
"""Relative slack in comparing a speed with a guaranteed one (same configuration, rounded)."""


def relative_speed(problem: RoundProblem) -> tuple[Floats, Floats]:
    """Speed relative to the request, of each candidate (K,) and of each stay (J,), 0 if queued."""
    jobs, candidates = problem.jobs, problem.candidates
    started = jobs.request_iteration_s[candidates.job] / candidates.iteration_s
    stays = jobs.running
    stayed = np.where(stays, jobs.request_iteration_s / np.where(stays, jobs.stay_iteration_s, 1), 0)
    return started, stayed


def guarantee(problem: RoundProblem) -> Level:
    """Level of the service-level guarantees: granted fraction of the promised speed."""
    started, stayed = relative_speed(problem)
    promised = problem.jobs.guaranteed
    return Level(
        "guarantee", "fraction of the promised speed",
        np.where(promised[problem.candidates.job], np.minimum(1.0, started), 0.0),
        np.where(promised, np.minimum(1.0, stayed), 0.0),
    )


@dataclass(frozen=True, slots=True)
class Throughput:
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

    horizon_s: float | None = None
    name: str = "throughput"

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in normalised speed."""
        started, stayed = relative_speed(problem)
        jobs, owner = problem.jobs, problem.candidates.job
        horizon = problem.interval_s if self.horizon_s is None else self.horizon_s
        moved = horizon / (horizon + jobs.restart_s)
        kept = horizon / (horizon + jobs.restart_left_s)
        return (
            Level(
                self.name, "normalised speed",
                (jobs.weight * moved)[owner] * started, jobs.weight * kept * stayed,
            ),
        )


@dataclass(frozen=True, slots=True)
class Jct:
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

    restart_weight: float = 2.0
    name: str = "jct"

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in completions per second."""
        jobs, candidates, stays = problem.jobs, problem.candidates, problem.jobs.running
        owner, least = candidates.job, problem.interval_s
        moved = (
            self.restart_weight * jobs.restart_s[owner]
            + jobs.iterations_left[owner] * candidates.iteration_s
        )
        pace = np.where(stays, jobs.stay_iteration_s, 1.0)
        kept = jobs.restart_left_s + jobs.iterations_left * pace
        return (
            Level(
                self.name, "completions per second",
                jobs.weight[owner] / np.maximum(least, moved),
                np.where(stays, jobs.weight / np.maximum(least, kept), 0.0),
            ),
        )


OBJECTIVES: dict[str, Callable[[], Throughput | Jct]] = {"throughput": Throughput, "jct": Jct}
"""Objectives by the name that command lines use."""
