"""Target shares with packing: pairs for Gavel's linear programs, and the rates they promise.

Source: Gavel (OSDI'20), section 3.1: rows of the throughput matrix are jobs and pairs of jobs.
The round's MILP follows rates, so a pair's share becomes, for either of its jobs, the share alone
that makes the same progress: ``y[p, t] T_p[i, t] / T[i, t]``. Which pairs then deliver it is the
round's to decide, with placement and restarts in view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from formulations.arrays import Floats
from formulations.shares.problem import PairTable, ShareProblem
from morph_opt.core.domain import Cluster, ExecutionPlan, JobState, RoundState, Shape
from morph_opt.inputs.perf.speed import PairSpeeds
from morph_opt.scheduling.shares.policies import Shares

Kind = tuple[str, ExecutionPlan]

PACKED_POLICIES = ("makespan", "max_throughput")
"""Share policies solved with pairs; the others promise rates of jobs that take turns."""


class PackedTargets:
    """Pairs of active jobs as columns of a share problem, with a cache of speeds.

    Parameters
    ----------
    speeds
        Measured pairs.
    """

    def __init__(self, speeds: PairSpeeds) -> None:
        self._speeds = speeds
        self._cluster: Cluster | None = None
        self._known: dict[tuple[Kind, Kind, int], Floats] = {}

    def use(self, cluster: Cluster) -> None:
        """Set the cluster and forget the speeds of another one."""
        if cluster is not self._cluster:
            self._cluster = cluster
            self._known.clear()

    def with_pairs(self, problem: ShareProblem, state: RoundState) -> ShareProblem:
        """Return the problem with the pairs of equal gangs that gain on some GPU type.

        On other types a pair is left out: taking turns is at least as good.
        """
        self.use(state.cluster)
        first, second, speed = [], [], []
        for i, one in enumerate(state.jobs):
            for j in range(i + 1, len(state.jobs)):
                if problem.gang[i] != problem.gang[j]:
                    continue
                both = self.together(one, state.jobs[j], int(problem.gang[i]))
                alone = np.stack([problem.speed[i], problem.speed[j]], axis=1)
                with np.errstate(divide="ignore", invalid="ignore"):
                    kept = np.where(alone > 0, both / alone, 0.0).sum(axis=1)
                if (kept > 1.0).any():
                    first.append(i)
                    second.append(j)
                    speed.append(np.where((kept > 1.0)[:, None], both, 0.0))
        if not first:
            return problem
        return replace(
            problem, pairs=PairTable(np.asarray(first), np.asarray(second), np.asarray(speed))
        )

    def together(self, one: JobState, two: JobState, gang: int) -> Floats:
        """Return steps per second of both on each GPU type, shape (T, 2); 0 if impossible."""
        key = (
            (one.job.model, one.job.requested_plan),
            (two.job.model, two.job.requested_plan),
            gang,
        )
        if key not in self._known:
            assert self._cluster is not None
            self._known[key] = self._ask(self._cluster, key[:2], Shape.of(gang))
        return self._known[key]

    def _ask(self, cluster: Cluster, kinds: Sequence[Kind], shape: Shape) -> Floats:
        found = np.zeros((len(cluster.gpu_types), 2))
        models, plans = (kinds[0][0], kinds[1][0]), (kinds[0][1], kinds[1][1])
        for kind in cluster.node_types:
            if shape.gpus <= kind.gpus:
                pace_s = self._speeds.paired_iteration_s(models, plans, kind, shape)
                if pace_s is not None:
                    row = cluster.gpu_types.index(kind.gpu_type)
                    found[row] = np.maximum(found[row], 1.0 / np.asarray(pace_s))
        return found


def alone_equivalent(problem: ShareProblem, shares: Shares) -> Shares:
    """Return the shares without pairs that make the same progress, shape (J, T)."""
    pairs = problem.pairs
    if not pairs.count:
        return shares
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(problem.throughput > 0, 1.0 / problem.throughput, 0.0)
    x = shares.x.copy()
    gained = pairs.throughput * shares.pair_x[:, :, None]
    np.add.at(x, pairs.first, gained[:, :, 0] * worth[pairs.first])
    np.add.at(x, pairs.second, gained[:, :, 1] * worth[pairs.second])
    return replace(shares, x=x)
