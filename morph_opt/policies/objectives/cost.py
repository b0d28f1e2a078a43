"""Objective ``cost`` of the round MILP: keep the SLOs, then the most work per dollar.

Which SLOs can be promised together the share program says anew in every round, and names the others
(`morph_opt.shares.policies.cost`, the fewest). It asks for constant rates, which is more than
is needed, so the round does not give up on a dropped SLO that can still be met. Within a round,
with n the seconds until a job would be complete in a configuration, its start-up counted
`RESTART_WEIGHT` times:

Level **slo**: a job with an SLO is worth ``1 / sqrt(n l)`` in a configuration that is
complete in the l seconds until the deadline, and nothing in one that is too slow. That is the
geometric mean of shortest first (1 / n) and earliest deadline first (1 / l); it grows as a job
progresses, so jobs do not take turns.

Level **dollar**: ``(m / k) / n``, k being what the configuration costs to the end, m the same for
the job's cheapest one: the work done per second, as far as it is worth its money.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import Cluster, JobState, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.objectives.deadlines import prices_of
from morph_opt.policies.objectives.share_book import ShareBook

Floats = npt.NDArray[np.float64]

RESTART_WEIGHT = 2.0
"""How often a restart that the round would cause is counted (as for ``jct``)."""


class CostWithSlos:
    """Work per dollar with SLOs.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    """

    name = "cost"

    def __init__(self, belief: SpeedModel) -> None:
        self.book = ShareBook(belief, "cost")
        self._left_s: Floats = np.zeros(0)
        self._price_of_class: Floats = np.zeros(0)
        self._held_price: Floats = np.zeros(0)

    def observe(self, state: RoundState) -> None:
        """See the round's snapshot before its problem; every round, in order.

        Raises
        ------
        InputError
            If a GPU type has no price.
        """
        cluster, prices = state.cluster, prices_of(state.cluster)
        self.book.observe(state)
        self._left_s = np.asarray([_left_s(s, state.time_s) for s in state.jobs])
        self._price_of_class = np.asarray(
            [prices[cluster.gpu_types.index(kind.gpu_type)] for kind in cluster.node_types]
        )
        self._held_price = np.asarray([_held_price(s, cluster, prices) for s in state.jobs])

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """The levels ``slo`` and ``dollar``.

        Raises
        ------
        ValueError
            If the problem is not of the snapshot that was observed last.
        """
        jobs, table = problem.jobs, problem.candidates
        if self._left_s.size != jobs.count:
            raise ValueError("the objective has not observed this round")
        owner, least_s, left_s = table.job, problem.interval_s, self._left_s
        run_s = jobs.iterations_left[owner] * table.iteration_s
        done_s = jobs.restart_s[owner] + run_s
        start_s = np.maximum(least_s, RESTART_WEIGHT * jobs.restart_s[owner] + run_s)
        pace = np.where(jobs.running, jobs.stay_iteration_s, 1.0)
        kept_s = jobs.restart_left_s + jobs.iterations_left * pace
        stay_s = np.maximum(least_s, kept_s)
        urgency = 1.0 / np.sqrt(np.maximum(least_s, left_s))
        slo = Level(
            "slo",
            "1 / s",
            np.where(done_s <= left_s[owner], urgency[owner] / np.sqrt(start_s), 0.0),
            np.where(jobs.running & (kept_s <= left_s), urgency / np.sqrt(stay_s), 0.0),
        )
        cost = self._price_of_class[table.node_class] * table.gpus * start_s
        stay_cost = np.where(jobs.running, self._held_price * stay_s, np.inf)
        cheapest = stay_cost.copy()
        np.minimum.at(cheapest, owner, cost)
        part = np.divide(cheapest, stay_cost, out=np.zeros(jobs.count), where=jobs.running)
        dollar = Level(
            "dollar", "work / s", cheapest[owner] / cost / start_s, part / stay_s
        )  # fmt: skip
        return slo, dollar


def _left_s(known: JobState, now_s: float) -> float:
    """Seconds until the deadline, 0 without one or past it."""
    return 0.0 if known.job.deadline_s is None else max(0.0, known.job.deadline_s - now_s)


def _held_price(known: JobState, cluster: Cluster, prices: Floats) -> float:
    """Dollars per hour of what a job holds, 0 for nothing."""
    parts = () if known.running is None else known.running.placement.parts
    kinds = [cluster.gpu_types.index(cluster.nodes[node].type.gpu_type) for node, _ in parts]
    return float(sum(prices[k] * len(gpus) for k, (_, gpus) in zip(kinds, parts, strict=True)))
