"""Objectives: what a round is worth. Each maps a `RoundProblem` to ranked `Level` values.

A restart is priced, not forbidden: over a horizon of H seconds a change runs for
``max(0, H - restart)`` of them, a stay for ``max(0, H - restart_left)``.

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

    A job's speed is counted relative to that of its request, so that an iteration of a small
    model and one of a large model are comparable.

    Parameters
    ----------
    horizon_s
        Seconds over which a restart is amortised.
    """

    horizon_s: float = 1800.0
    name: str = "throughput"

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level: ``q (H - restart)+ / H`` for a change, ``q (H - restart_left)+ / H`` to stay."""
        started, stayed = relative_speed(problem)
        jobs = problem.jobs
        usable = np.maximum(0.0, self.horizon_s - jobs.restart_s) / self.horizon_s
        left = np.maximum(0.0, self.horizon_s - jobs.restart_left_s) / self.horizon_s
        weight = jobs.weight
        return (
            Level(
                self.name, "normalised speed",
                weight[problem.candidates.job] * started * usable[problem.candidates.job],
                weight * stayed * left,
            ),
        )


@dataclass(frozen=True, slots=True)
class Jct:
    """Completion rate: 1 / (restart + remaining seconds), which favours what ends soon.

    For rigid jobs on one GPU this is shortest remaining time first; for malleable jobs it weighs
    how much sooner a job ends against the GPUs that this takes. Ends within the round count
    alike, because their GPUs are free at the same boundary: the denominator is at least the
    round's length.
    """

    name: str = "jct"

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in completions per second."""
        jobs, candidates = problem.jobs, problem.candidates
        seconds = (
            jobs.restart_s[candidates.job]
            + jobs.iterations_left[candidates.job] * candidates.iteration_s
        )
        stays = jobs.running
        left = jobs.restart_left_s + jobs.iterations_left * np.where(
            stays, jobs.stay_iteration_s, 1.0
        )
        least = problem.interval_s
        return (
            Level(
                self.name, "completions per second",
                jobs.weight[candidates.job] / np.maximum(least, seconds),
                np.where(stays, jobs.weight / np.maximum(least, left), 0.0),
            ),
        )


OBJECTIVES: dict[str, Callable[[], Throughput | Jct]] = {"throughput": Throughput, "jct": Jct}
"""Objectives by the name that command lines use."""
