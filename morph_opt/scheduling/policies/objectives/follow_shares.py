"""Objectives of the round MILP that follow target shares of GPU types."""

from __future__ import annotations

import numpy as np

from formulations.objectives.fairness import OwedShares, share_levels
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.objectives.plain import WorkRates
from morph_opt.scheduling.policies.objectives.share_book import ShareBook


class Makespan(Objective[OwedShares | None]):
    """Objective of the end of the last job: rates weighed by work; with GPU types, Gavel's shares.

    A rate in one round does not tell which job belongs on which type; a share program does.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    packing
        See `FollowShares`.
    """

    name = "makespan"

    def __init__(self, belief: SpeedModel, packing: PairSpeeds | None = None) -> None:
        self._shares = FollowShares(belief, "makespan", packing)

    def observe(self, state: RoundState) -> OwedShares | None:
        """Return the owed shares; None if all GPUs are of one type."""
        return self._shares.observe(state) if len(state.cluster.gpu_types) > 1 else None

    def levels(self, problem: RoundProblem, data: OwedShares | None) -> tuple[Level, ...]:
        """Return the level ``makespan``, or those of `FollowShares`."""
        return WorkRates().levels(problem) if data is None else self._shares.levels(problem, data)


class FollowShares(Objective[OwedShares]):
    """Objective that follows the target shares of a policy.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    policy
        See `morph_opt.scheduling.shares.request.SHARE_POLICIES`.
    packing
        Speeds of pairs of jobs on the same GPUs, for the target shares; None for no pairs.
    """

    def __init__(self, belief: SpeedModel, policy: str, packing: PairSpeeds | None = None) -> None:
        self.name = policy
        self.book = ShareBook(belief, policy)
        if packing is not None:
            self.book.pack(packing)

    def observe(self, state: RoundState) -> OwedShares:
        """Return the target shares, and what each job has missed of its own."""
        book, cluster = self.book, state.cluster
        book.observe(state)
        types = len(cluster.gpu_types)
        gang, speed, share = np.zeros(0), np.zeros((0, types)), np.zeros((0, types))
        if state.jobs and book.request is not None and book.shares is not None:
            gang = book.request.problem.gang.astype(np.float64)
            speed, share = book.request.problem.throughput, book.shares.x
        return OwedShares(
            gang=gang,
            speed=speed,
            share=share,
            lag_s=book.lag_s,
            type_of_class=np.asarray(
                [cluster.gpu_types.index(kind.gpu_type) for kind in cluster.node_types]
            ),
        )

    def levels(self, problem: RoundProblem, data: OwedShares) -> tuple[Level, ...]:
        """Return the levels ``share`` and ``spare``."""
        return share_levels(problem, data)
