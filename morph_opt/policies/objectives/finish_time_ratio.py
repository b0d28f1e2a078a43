"""Objectives that make nobody much later than fair, the fair finish being that of target shares."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from formulations.objectives.fairness import FairFinish, ratio_levels
from formulations.parameters import RATIOS, RatioParams
from formulations.round.tables import Level, RoundProblem
from morph_opt.decision.objective import Objective
from morph_opt.domain import InputError, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.objectives.share_book import ShareBook

PROMISED = {"ftf": "isolated", "fairness": "water-filling"}
"""Share policy whose rates are the promise, where it is not the one of the name: a private 1/n of
the cluster for finish-time fairness; max-min rates with nothing left over for max-min fairness."""


class EqualiseRatios(Objective[FairFinish]):
    """Keep the largest finish-time ratio small, the fair finish being that of a share policy.

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
        """When each job would be complete if it had been, and were, served fairly."""
        self.book.observe(state)
        elapsed_s = np.asarray([state.time_s - s.job.submission_s for s in state.jobs])
        return FairFinish(self.book.fair_finish_s, elapsed_s)

    def levels(self, problem: RoundProblem, data: FairFinish) -> tuple[Level, ...]:
        """The level ``ratio``."""
        return ratio_levels(problem, data, self._params)
