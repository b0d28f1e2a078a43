"""Speeds of requested gangs per GPU type: the throughput matrix that fairness is defined on."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats
from morph_opt.domain import Cluster, InputError, Job, PlanFamily, Span
from morph_opt.perf.ests import elastic_model
from morph_opt.perf.speed import SpeedModel


class GangSpeeds:
    """Steps per second of requested gangs on each GPU type of a cluster; cached.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    """

    def __init__(self, belief: SpeedModel) -> None:
        self._belief = belief
        self._cluster: Cluster | None = None
        self._rows: dict[tuple[str, int, object], Floats] = {}
        self.capacity: Floats = np.zeros(0)

    def use(self, cluster: Cluster) -> None:
        """Take a cluster; forgets the speeds of another one."""
        if cluster is self._cluster:
            return
        self._cluster = cluster
        self._rows.clear()
        self.capacity = np.asarray(
            [
                float(sum(n.type.gpus for n in cluster.nodes if n.type.gpu_type == kind))
                for kind in cluster.gpu_types
            ]
        )

    def row(self, job: Job) -> Floats:
        """Steps per second of the job's gang on each type, shape (T,); 0 where it cannot run.

        The requested plan where it exists on that many GPUs, else the fastest plan on that many,
        else the fastest configuration of all.
        """
        key = (job.model, job.requested_gpus, job.requested_plan)
        if key not in self._rows:
            self._rows[key] = self._ask(job)
        return self._rows[key]

    def _ask(self, job: Job) -> Floats:
        cluster = self._cluster
        assert cluster is not None
        if job.requested_plan.family is PlanFamily.EST:
            return self._of_workers(job, cluster)
        # Best speed by how well the configuration matches the request.
        best = np.zeros((3, len(cluster.gpu_types)))
        for node_type in cluster.node_types:
            kind = cluster.gpu_types.index(node_type.gpu_type)
            nodes = len(cluster.nodes_of(node_type))
            for row in self._belief.configurations(
                job.model, node_type, nodes * node_type.gpus, Span.LEAF
            ):
                if row.shape.nodes > nodes:
                    continue
                same = row.shape.gpus == job.requested_gpus
                match = 0 if same and row.plan == job.requested_plan else 1 if same else 2
                best[match, kind] = max(best[match, kind], 1.0 / row.iteration_s)
        for speeds in best:
            if speeds.any():
                return np.asarray(speeds)
        raise InputError(f"{job.model} runs on no GPU type of the cluster", field=f"job {job.name}")

    def _of_workers(self, job: Job, cluster: Cluster) -> Floats:
        """A job of workers on as many GPUs of each type as it asks for, be there as many or not."""
        speed = np.zeros(len(cluster.gpu_types))
        for kind, gpu_type in enumerate(cluster.gpu_types):
            found = elastic_model(self._belief, job.model, job.requested_plan, (gpu_type.name,))
            if found is not None:
                speed[kind] = 1.0 / found.step_s((job.requested_gpus,))
        return speed
