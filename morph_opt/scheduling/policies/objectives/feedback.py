"""Objectives ``feedback``, ``feedback,jct`` and ``feedback,las``: rounds as time slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations.arrays import Floats
from formulations.objectives import feedback
from formulations.objectives.feedback import Turns
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.published import GANDIVA


class Feedback(Objective[tuple[Turns, Any]]):
    """Objective of first reports, then equal turns or another objective, then GPUs in use.

    Parameters
    ----------
    belief
        Speed model, for the seconds to a report.
    then
        Objective in place of equal turns; None for equal turns.
    share
        Largest share of the cluster's GPUs for jobs before their report, shortest first, at least
        one job; the others wait for their turn. Below 1 a stream of arrivals starves no job.
    """

    remembers = False

    def __init__(
        self,
        belief: SpeedModel,
        name: str = "feedback",
        then: Objective[Any] | None = None,
        share: float = 1.0,
    ) -> None:
        self.name = name
        self._tables = CandidateBuilder(belief)
        self._then = then
        self._share = share
        self.remembers = then is not None and then.remembers

    def observe(self, state: RoundState) -> tuple[Turns, Any]:
        """Return the distance of each job from its report and from its turn."""
        jobs = state.jobs
        asked = np.asarray([s.job.requested_gpus for s in jobs], dtype=np.float64)
        left_s = np.asarray([self._left_s(s, state) for s in jobs])
        gpus = float(state.cluster.gpus)
        turns = Turns(
            _hurried(left_s, asked, self._share * gpus),
            feedback.turn_weights(
                gpus,
                asked,
                np.asarray([state.time_s - s.job.submission_s for s in jobs]),
                np.asarray([s.executed_s for s in jobs]),
                state.interval_s,
            ),
        )
        return turns, None if self._then is None else self._then.observe(state)

    def _left_s(self, known: JobState, state: RoundState) -> float:
        """Return seconds of work until a job's report, at the speed of its request."""
        job = known.job
        at = job.feedback_iterations or min(GANDIVA.first_report, job.iterations)
        left = max(0.0, at - known.iterations_done)
        return left * self._tables.request_iteration_s(job, state.cluster) if left else 0.0

    def levels(self, problem: RoundProblem, data: tuple[Turns, Any]) -> tuple[Level, ...]:
        """Return the levels of reports, of turns or their replacement, and of GPUs in use."""
        turns, theirs = data
        if self._then is None:
            middle: tuple[Level, ...] = (feedback.turn_level(problem, turns),)
        else:
            middle = self._then.levels(problem, theirs)
        return feedback.feedback_level(problem, turns), *middle, feedback.work_level(problem)


def _hurried(left_s: Floats, asked: Floats, most_gpus: float) -> Floats:
    """Return seconds to the report of the urgent jobs: the shortest that fit, at least one."""
    found = np.zeros(left_s.size)
    used = 0.0
    for job in np.argsort(left_s, kind="stable").tolist():
        if left_s[job] > 0.0 and (used == 0.0 or used + asked[job] <= most_gpus):
            found[job] = left_s[job]
            used += asked[job]
    return found
