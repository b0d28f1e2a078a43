"""From trace, cluster and true speeds to the demands that the lower bounds are computed from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from morph_opt.domain import Cluster, Job, NodeType, Span, Trace
from morph_opt.metrics.bounds import JobDemand
from morph_opt.perf.speed import SpeedModel
from morph_opt.replay.config import ReplayConfig

_Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def reachable_spans(cluster: Cluster) -> tuple[Span, ...]:
    """Spans that a placement on several nodes of the cluster can have."""
    domains = [n.nvlink_domain for n in cluster.nodes if n.nvlink_domain is not None]
    leaves = [node.leaf for node in cluster.nodes]
    spans = []
    if len(set(domains)) < len(domains):
        spans.append(Span.NVLINK)
    if len(set(leaves)) < len(leaves):
        spans.append(Span.LEAF)
    if len(set(leaves)) > 1:
        spans.append(Span.POD)
    return tuple(spans) or (Span.LEAF,)


def speed_curve(speeds: SpeedModel, model: str, cluster: Cluster) -> _Curve:
    """Smallest iteration time for every GPU count that fits the empty cluster.

    Returns
    -------
    gpus, iteration_s
        Two arrays of one length, ascending in GPUs; empty if nothing fits.
    """
    best: dict[int, float] = {}
    for node_type in cluster.node_types:
        sizes = _sizes(cluster, node_type)
        for span in reachable_spans(cluster):
            for row in speeds.configurations(model, node_type, sum(sizes), span):
                parts = row.shape.parts
                fits = len(parts) <= len(sizes) and all(
                    part <= size for part, size in zip(parts, sizes, strict=False)
                )
                if fits and row.iteration_s < best.get(row.shape.gpus, np.inf):
                    best[row.shape.gpus] = row.iteration_s
    counts = sorted(best)
    return np.array(counts, dtype=float), np.array([best[g] for g in counts], dtype=float)


def _sizes(cluster: Cluster, node_type: NodeType) -> list[int]:
    """GPUs per node, largest first, of the nodes that a job may share with this type."""
    return sorted(
        (
            node.type.gpus
            for node in cluster.nodes
            if node.type.gpu_type.name == node_type.gpu_type.name
        ),
        reverse=True,
    )


def impossible_jobs(jobs: Iterable[Job], speeds: SpeedModel, cluster: Cluster) -> tuple[Job, ...]:
    """Jobs that no configuration can ever run on this cluster."""
    fits: dict[str, bool] = {}
    found = []
    for job in jobs:
        if job.model not in fits:
            fits[job.model] = bool(speed_curve(speeds, job.model, cluster)[0].size)
        if not fits[job.model]:
            found.append(job)
    return tuple(found)


def job_demands(
    trace: Trace, cluster: Cluster, truth: SpeedModel, config: ReplayConfig
) -> tuple[JobDemand, ...]:
    """One demand per job of the trace, in its order.

    Raises
    ------
    InputError
        If a job can never run.
    """
    curves: dict[str, _Curve] = {}
    demands = []
    for job in trace.jobs:
        if job.model not in curves:
            curves[job.model] = speed_curve(truth, job.model, cluster)
        gpus, iteration_s = curves[job.model]
        boundary = config.boundary_at_or_after(job.submission_s)
        demands.append(
            JobDemand(
                job.name,
                job.submission_s,
                boundary * config.interval_s,
                gpus,
                config.restart_of(job.model) + job.iterations * iteration_s,
            )
        )
    return tuple(demands)
