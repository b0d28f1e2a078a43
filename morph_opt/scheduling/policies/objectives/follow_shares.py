"""Objectives of the round MILP that go by target shares.

``cost`` keeps SLOs, then maximises work per dollar. In every round the share program
(`morph_opt.scheduling.shares.policies.cost`) drops the fewest SLOs such that the others can be
promised together. It requires constant rates, which is more than needed, so the round still tries
to meet a dropped SLO.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from formulations.objectives import cost
from formulations.objectives.cost import Bills
from formulations.objectives.fairness import FairFinish, OwedShares, ratio_levels, share_levels
from formulations.parameters import RATIOS, RatioParams
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.objectives.deadlines import prices_of
from morph_opt.scheduling.policies.objectives.plain import WorkRates
from morph_opt.scheduling.policies.objectives.share_book import ShareBook


class Makespan(Objective[OwedShares | None]):
    """Objective of the end of the last job: rates weighed by work; with GPU types, Gavel's shares.

    A rate in one round does not determine which job belongs on which type; a share program does.

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
        """Return the level ``makespan``, or the levels of `FollowShares`."""
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
