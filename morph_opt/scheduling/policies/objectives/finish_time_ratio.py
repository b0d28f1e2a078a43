"""Objectives that keep finish times close to those under fair target shares."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from formulations.objectives.fairness import FairFinish, ratio_levels
from formulations.parameters import RATIOS, RatioParams
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import InputError, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.objectives.share_book import ShareBook

PROMISED = {"ftf": "isolated", "fairness": "water-filling"}
"""Share policies that define the fair finish, by policy, if the two differ."""


class EqualiseRatios(Objective[FairFinish]):
    """Objective of a small largest ratio of finish time to fair finish time under a share policy.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    policy
        ``fairness``, ``fairness-agnostic``, ``hierarchical``, ``hierarchical-fifo`` or ``ftf``.
    entity_weights
        Weight of a tenant by name, for the hierarchical policies; 1 where not given.
    power, restart_weight
        See `formulations.parameters.RatioParams`.
    """

    def __init__(
        self,
        belief: SpeedModel,
        policy: str,
        entity_weights: Mapping[str, float] | None = None,
        *,
        power: float = RATIOS.power,
        restart_weight: float = RATIOS.restart_weight,
    ) -> None:
        if power < 0 or restart_weight < 1:
            raise InputError("power must be at least 0, restart_weight at least 1", field=policy)
        self.name = policy
        self.book = ShareBook(belief, PROMISED.get(policy, policy), entity_weights)
        self._params = RatioParams(power, restart_weight)

    def observe(self, state: RoundState) -> FairFinish:
        """Return each job's completion time under fair service, past and future."""
        self.book.observe(state)
        elapsed_s = np.asarray([state.time_s - s.job.submission_s for s in state.jobs])
        return FairFinish(self.book.fair_finish_s, elapsed_s)

    def levels(self, problem: RoundProblem, data: FairFinish) -> tuple[Level, ...]:
        """Return the level ``ratio``."""
        return ratio_levels(problem, data, self._params)
