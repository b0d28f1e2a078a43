"""Objectives that make nobody much later than fair: finish-time ratios to the power of k.

With target shares a job would make ``R_i(t)`` steps per second; it would be complete at its *fair
finish*, ``T_i`` seconds after submission (one start-up included, as in a private cluster). The
finish-time ratio of a job is its completion time over ``T_i``. To minimise ``sum w ratio^(k+1)``,
which for large k is the largest ratio, a second of delay of job i costs

    w_i ratio_i^k / T_i,     ratio_i = (elapsed + start-up + rest) / T_i if it runs now.

Level **ratio**: that cost over the seconds until the end in a configuration, the weighted
shortest-processing-time rule, which is exact on one machine. A start pays its whole start-up, a
stay what is left of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import InputError, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.fairness_shares import ShareBook

Floats = npt.NDArray[np.float64]

POWER = 3.0
"""k: how much more a late job counts than a timely one."""

STRICT_POWER = 12.0
"""k of ``ftf``, which is about the largest ratio alone."""

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
        fair_s = fair_s + jobs.restart_s
        rest_s = np.maximum(problem.interval_s, jobs.iterations_left * jobs.request_iteration_s)
        start_s = np.where(jobs.running, jobs.restart_left_s, jobs.restart_s)
        ratio = (self._elapsed_s + start_s + rest_s) / fair_s
        cost = jobs.weight * ratio**self._power / fair_s
        owner = table.job
        moved = (
            self._restart_weight * jobs.restart_s[owner]
            + jobs.iterations_left[owner] * table.iteration_s
        )
        pace = np.where(jobs.running, jobs.stay_iteration_s, 1.0)
        kept = jobs.restart_left_s + jobs.iterations_left * pace
        least = problem.interval_s
        stay = np.where(jobs.running, cost / np.maximum(least, kept), 0.0)
        return (Level("ratio", "ratio^k / s^2", cost[owner] / np.maximum(least, moved), stay),)
