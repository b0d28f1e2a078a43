"""Who holds what, node by node: finds a GPU held twice and a node that holds more than it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from morph_opt.domain import Assignment, Cluster, Job, NodeType, SideDemand, Span
from morph_opt.domain.placement import DEMAND_TOLERANCE
from morph_opt.perf.memory.filter import MemoryFilter
from morph_opt.perf.speed import SpeedModel

RESOURCES = ("CPU threads", "GiB of host memory", "GB/s of network cards")


class Holding:
    """Collects what running jobs hold.

    Parameters
    ----------
    cluster, speeds
        Say what a node has and what a configuration needs next to its GPUs.
    failed
        Nodes that hold nothing.
    """

    def __init__(self, cluster: Cluster, speeds: SpeedModel, failed: Collection[int]) -> None:
        self._cluster = cluster
        # What candidates are judged by: adds the host memory of offloading plans.
        self._speeds = MemoryFilter(speeds)
        self._failed = failed
        self._holder: dict[tuple[int, int], tuple[str, str | None]] = {}
        self._side = np.zeros((len(cluster.nodes), len(RESOURCES)))

    def take(
        self, job: str, node: int, gpus: Sequence[int], partner: str | None = None
    ) -> str | None:
        """Note the GPUs of a part; the rule that this breaks, or None.

        A job and its partner, each naming the other, may hold the same.
        """
        name, has = self._cluster.nodes[node].name, self._cluster.nodes[node].type.gpus
        if node in self._failed:
            return f"node {name} has failed and holds nothing"
        for gpu in gpus:
            if not 0 <= gpu < has:
                return f"node {name} has the GPUs 0 to {has - 1}, got {gpu}"
            holder, mate = self._holder.setdefault((node, gpu), (job, partner))
            if holder != job and (holder, mate) != (partner, job):
                return f"GPU {gpu} of node {name} is held by job {holder} already"
        if len(set(gpus)) != len(gpus):
            return f"job {job} holds a GPU of node {name} twice"
        return None

    def add_side(self, job: Job, held: Assignment, node: int) -> str | None:
        """Note the other resources of a part; the rule that this breaks, or None."""
        nodes = self._cluster.nodes
        kind, first = nodes[node].type, nodes[held.placement.nodes[0]].type
        if kind.gpu_type != first.gpu_type:
            return f"job {job.name} holds GPUs of two types"
        side = self._side_of(job, held, first)
        per_gpu = (max(job.cpus_per_gpu, side.cpus), side.host_memory_gib, side.rdma_gb_per_s)
        gpus = next(len(indices) for where, indices in held.placement.parts if where == node)
        self._side[node] += gpus * np.asarray(per_gpu, dtype=np.float64)
        has = (kind.cpus, kind.host_memory_gib, kind.rdma_gb_per_s)
        for amount, limit, words in zip(self._side[node].tolist(), has, RESOURCES, strict=True):
            if amount > limit * (1.0 + DEMAND_TOLERANCE):
                return f"node {nodes[node].name} would hold {amount:g} {words}, it has {limit:g}"
        return None

    def _side_of(self, job: Job, held: Assignment, kind: NodeType) -> SideDemand:
        """Side demand per GPU of what runs; none where the speeds do not know it."""
        if job.model not in self._speeds.models():
            return SideDemand()
        span = self._cluster.span(held.placement.nodes)
        what = (held.placement.shape, held.plan)
        rows = self._speeds.configurations(
            job.model, kind, self._cluster.gpus, span if span is not Span.NODE else Span.LEAF
        )
        return next((row.side for row in rows if (row.shape, row.plan) == what), SideDemand())
