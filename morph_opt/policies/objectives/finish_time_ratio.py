"""Objectives that make nobody much later than fair: finish-time ratios to the power of k.

With target shares a job would make ``R_i(t)`` steps per second; it would be complete at its *fair
finish*, ``T_i`` seconds after submission (one start-up included, as in a private cluster). The
finish-time ratio of a job is its completion time over ``T_i``. The goal is ``sum w ratio^(k+1)``,
which for large k is the largest ratio. Who is passed over in a round waits until a rival's GPUs
are free again, a start-up at least, and if it runs loses the start-up behind it. This adds

    c_i = w_i ((ratio_i + (d + s_i) / T_i)^(k+1) - ratio_i^(k+1)) / d      per second waited,

    ratio_i = (elapsed + start-up + rest) / T_i if it runs now,  d a start-up,  s_i what is lost.

Level **ratio**: ``c_i`` over the seconds until the end in a configuration, the weighted
shortest-processing-time rule, which is exact on one machine. A start pays its whole start-up, a
stay what is left of it. The increase over the whole wait, not its rate now, is what keeps large k
from taking GPUs back from a job that it gave them to a minute ago.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import InputError, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.objectives.share_book import ShareBook

Floats = npt.NDArray[np.float64]

POWER = 5.0
"""k: how much more a late job counts than a timely one."""

PROMISED = {"ftf": "isolated", "fairness": "water-filling"}
"""Share policy whose rates are the promise, where it is not the one of the name: a private 1/n of
the cluster for finish-time fairness; max-min rates with nothing left over for max-min fairness."""

RESTART_WEIGHT = 2.0
"""How often a restart that the round would cause is counted (as for ``jct``)."""


class EqualiseRatios:
    """Keep the largest finish-time ratio small, the fair finish being that of a share policy.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    policy
        ``fairness``, ``fairness-agnostic``, ``hierarchical``, ``hierarchical-fifo`` or ``ftf``.
    power, restart_weight
        See `POWER` and `RESTART_WEIGHT`.
    """

    def __init__(
        self,
        belief: SpeedModel,
        policy: str,
        *,
        power: float = POWER,
        restart_weight: float = RESTART_WEIGHT,
    ) -> None:
        if power < 0 or restart_weight < 1:
            raise InputError("power must be at least 0, restart_weight at least 1", field=policy)
        self.name = policy
        self.book = ShareBook(belief, PROMISED.get(policy, policy))
        self._power = power
        self._restart_weight = restart_weight
        self._elapsed_s: Floats = np.zeros(0)

    def observe(self, state: RoundState) -> None:
        """See the round's snapshot before its problem; every round, in order."""
        self.book.observe(state)
        self._elapsed_s = np.asarray([state.time_s - s.job.submission_s for s in state.jobs])

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """The level ``ratio``.

        Raises
        ------
        ValueError
            If the problem is not of the snapshot that was observed last.
        """
        jobs, table = problem.jobs, problem.candidates
        fair_s = self.book.fair_finish_s
        if self._elapsed_s.size != jobs.count or fair_s.size != jobs.count:
            raise ValueError("the objective has not observed this round")
        cost = self._cost(problem, fair_s + jobs.restart_s)
        owner = table.job
        moved = (
            self._restart_weight * jobs.restart_s[owner]
            + jobs.iterations_left[owner] * table.iteration_s
        )
        pace = np.where(jobs.running, jobs.stay_iteration_s, 1.0)
        kept = jobs.restart_left_s + jobs.iterations_left * pace
        least = problem.interval_s
        stay = np.where(jobs.running, cost / np.maximum(least, kept), 0.0)
        return (Level("ratio", "ratio^(k+1) / s^2", cost[owner] / np.maximum(least, moved), stay),)

    def _cost(self, problem: RoundProblem, fair_s: Floats) -> Floats:
        """Cost ``c`` of a second's wait, in powers of the largest ratio, shape (J,)."""
        jobs = problem.jobs
        rest_s = np.maximum(problem.interval_s, jobs.iterations_left * jobs.request_iteration_s)
        start_s = np.where(jobs.running, jobs.restart_left_s, jobs.restart_s)
        ratio = (self._elapsed_s + start_s + rest_s) / fair_s
        lost_s = jobs.restart_s - start_s
        wait_s = np.maximum(problem.interval_s, jobs.restart_s)
        later = ratio + (wait_s + lost_s) / fair_s
        # In units of the largest, so that no power overflows; the level's scale is free.
        unit, power = max(1.0, float(later.max(initial=0.0))), self._power + 1.0
        grown = (later / unit) ** power - (ratio / unit) ** power
        return np.asarray(jobs.weight * grown / wait_s)
