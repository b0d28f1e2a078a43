"""Objective ``cost`` of the round MILP: keep the SLOs, then maximise work per dollar.

In every round the share program (`morph_opt.scheduling.shares.policies.cost`) drops the fewest SLOs
such that the others can be promised together. It requires constant rates, which is more than
needed, so the round still tries to meet a dropped SLO.
"""

from __future__ import annotations

import numpy as np

from formulations.objectives import cost
from formulations.objectives.cost import Bills
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.objectives.deadlines import prices_of
from morph_opt.scheduling.policies.objectives.share_book import ShareBook


class CostWithSlos(Objective[Bills]):
    """Objective of work per dollar with SLOs.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    """

    name = "cost"

    def __init__(self, belief: SpeedModel) -> None:
        self.book = ShareBook(belief, "cost")

    def observe(self, state: RoundState) -> Bills:
        """Return prices and deadlines; drop SLOs that cannot be kept together.

        Raises
        ------
        InputError
            If a GPU type has no price.
        """
        cluster, prices = state.cluster, prices_of(state.cluster)
        self.book.observe(state)
        return Bills(
            left_s=np.asarray([_left_s(s, state.time_s) for s in state.jobs]),
            price_of_class=np.asarray(
                [prices[cluster.gpu_types.index(kind.gpu_type)] for kind in cluster.node_types]
            ),
        )

    def levels(self, problem: RoundProblem, data: Bills) -> tuple[Level, ...]:
        """Return the levels ``slo`` and ``dollar``."""
        return cost.levels(problem, data)

    def slo_changes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return SLOs dropped in the round observed last, and those restored."""
        return self.book.slos.newly_dropped, self.book.slos.restored


def _left_s(known: JobState, now_s: float) -> float:
    """Return seconds until the deadline; 0 if there is none or it has passed."""
    return 0.0 if known.job.deadline_s is None else max(0.0, known.job.deadline_s - now_s)
