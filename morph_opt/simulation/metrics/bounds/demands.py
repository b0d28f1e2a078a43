"""Demands of jobs for the lower bounds, from trace, cluster and true speeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from formulations import tolerances
from formulations.resources import SIDES
from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    Job,
    JobState,
    NodeType,
    PlanFamily,
    RoundState,
    SideDemand,
    Span,
    Trace,
)
from morph_opt.core.domain.job import LONGEST_JOB_S
from morph_opt.core.domain.placement import NOTHING, Sides, gpus_beside
from morph_opt.inputs.perf.ests import why_no_vector, worker_times
from morph_opt.inputs.perf.speed import Configuration, SpeedModel, pair_speeds
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.simulation.metrics.bounds.completion import JobDemand
from morph_opt.simulation.metrics.bounds.lower import Demands

_Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
_Columns = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
"""GPUs, seconds per iteration and GPU type of some configurations."""


class Timing(Protocol):
    """Settings of an engine that the bounds depend on."""

    def first_s(self, time_s: float) -> float:
        """Return the earliest instant at or after ``time_s`` at which a round may begin."""

    def first_start_of(self, model: str) -> float:
        """Return the start-up seconds of a model's first start, the shortest of all."""


def reachable_spans(cluster: Cluster) -> tuple[Span, ...]:
    """Return the spans that a placement on several nodes of the cluster can have.

    A cluster of one node has `Span.LEAF`, the span of placements on one node.
    """
    topology = topology_of(cluster)
    alone = 1 < len(topology.leaf_names) == len(cluster.nodes)
    spans = topology.spans(range(len(cluster.nodes)))
    return tuple(span for span in spans if not (alone and span is Span.LEAF))


def by_gpu_type(cluster: Cluster) -> tuple[Cluster, ...]:
    """Return the cluster's parts of one GPU type each, in the order of its types."""
    return tuple(
        Cluster(cluster.name, tuple(n for n in cluster.nodes if n.type.gpu_type == kind))
        for kind in cluster.gpu_types
    )


def _joined(curves: Iterable[_Curve]) -> _Columns:
    """Concatenate the curves of the GPU types."""
    known = list(curves)
    return (
        np.concatenate([gpus for gpus, _ in known]),
        np.concatenate([iteration_s for _, iteration_s in known]),
        np.repeat(np.arange(len(known)), [gpus.size for gpus, _ in known]),
    )


def speed_curve(
    speeds: SpeedModel, model: str, cluster: Cluster, asked: SideDemand = NOTHING
) -> _Curve:
    """Return the smallest iteration time for every GPU count that fits the empty cluster.

    Returns
    -------
    gpus, iteration_s
        Two arrays of one length, ascending in GPUs; empty if nothing fits.
    """
    return _curve_of(fitting(speeds, model, cluster, asked))


def _curve_of(rows: Iterable[Configuration]) -> _Curve:
    best: dict[int, float] = {}
    for row in rows:
        if row.iteration_s < best.get(row.shape.gpus, np.inf):
            best[row.shape.gpus] = row.iteration_s
    counts = sorted(best)
    return np.array(counts, dtype=float), np.array([best[g] for g in counts], dtype=float)


def fitting(
    speeds: SpeedModel, model: str, cluster: Cluster, asked: SideDemand
) -> Iterator[Configuration]:
    """Return configurations that fit the empty cluster, once per node type and span."""
    for node_type in cluster.node_types:
        kinds = tuple(
            (kind, len(cluster.nodes_of(kind)))
            for kind in cluster.node_types
            if kind.gpu_type == node_type.gpu_type
        )
        most = sum(kind.gpus * count for kind, count in kinds)
        for span in reachable_spans(cluster):
            for row in speeds.configurations(model, node_type, most, span):
                parts = row.shape.parts
                room = _room(kinds, row.side.beside(asked), len(parts))
                if len(parts) <= len(room) and all(
                    part <= slots for part, slots in zip(parts, room, strict=False)
                ):
                    yield row


@lru_cache(maxsize=256)
def _room(nodes: tuple[tuple[NodeType, int], ...], sides: Sides, most: int) -> tuple[int, ...]:
    """Return the GPUs that a job with this side demand can hold on each empty node, most first.

    Nodes come as types with counts; no more than ``most`` of a type are listed.
    """
    room = [gpus_beside(sides, kind) for kind, count in nodes for _ in range(min(count, most))]
    return tuple(sorted(room, reverse=True))


_Fits = Callable[[str, SideDemand], tuple[Configuration, ...]]
"""Configurations from `fitting` on one cluster, by model and demand of a job."""


def why_impossible(job: Job, speeds: SpeedModel, cluster: Cluster) -> str | None:
    """Return the reason for which a job can never run as submitted, or None."""
    return _why_impossible(job, speeds, cluster, _fits(speeds, cluster))


def _fits(speeds: SpeedModel, cluster: Cluster) -> _Fits:
    """Return `fitting` as a function of model and side demand, cached as many jobs share them."""
    return cache(lambda model, side: tuple(fitting(speeds, model, cluster, side)))


def _why_impossible(job: Job, speeds: SpeedModel, cluster: Cluster, fits: _Fits) -> str | None:
    if job.requested_plan.family is PlanFamily.EST and job.model in speeds.models():
        return why_no_vector(speeds, job, cluster)
    if job.requested_gpus > cluster.gpus:
        return f"requests {job.requested_gpus} GPUs, cluster {cluster.name!r} has {cluster.gpus}"
    if job.model not in speeds.models():
        return f"unknown model {job.model!r}; known are {', '.join(speeds.models())}"
    rows = fits(job.model, job.side)
    if not rows:
        sizes = {
            kind.name: sum(n.type.gpus for n in cluster.nodes if n.type.gpu_type == kind)
            for kind in cluster.gpu_types
        }
        if job.requested_gpus > max(sizes.values()):
            types = ", ".join(f"{name} {gpus}" for name, gpus in sizes.items())
            return (
                f"its gang of {job.requested_gpus} GPUs ({job.model}) is larger than every GPU "
                f"type of cluster {cluster.name!r}: {types}"
            )
        rule = f"no configuration of {job.model} fits cluster {cluster.name!r}"
        return rule + _unknown_types(job.model, speeds, cluster)
    if all(row.plan != job.requested_plan for row in rows):
        return f"plan {job.requested_plan} of {job.model} fits no GPUs of cluster {cluster.name!r}"
    return None


def _unknown_types(model: str, speeds: SpeedModel, cluster: Cluster) -> str:
    """Return advice if a model has speeds on none of the cluster's GPU types, else ""."""
    kinds = cluster.gpu_types
    plenty: dict[str, Any] = {resource.field: 10**6 for resource in SIDES}
    at_home = replace(A800_NODE, **plenty)
    if any(
        speeds.configurations(model, replace(at_home, gpu_type=kind), A800_NODE.gpus, Span.NODE)
        for kind in kinds
    ) or not speeds.configurations(model, at_home, A800_NODE.gpus, Span.NODE):
        return ""
    names = " and ".join(kind.name for kind in kinds)
    return (
        f": its speeds on {names} are not known, built-in ones are of the "
        f"{A800_NODE.gpu_type.name} only; give measured tables, a model fitted to a profile "
        "(python -m morph_opt.perf), or a trace source of your own that brings speeds "
        "(docs/performance-model.md)"
    )


def impossible_jobs(
    jobs: Iterable[Job], speeds: SpeedModel, cluster: Cluster
) -> tuple[tuple[Job, str], ...]:
    """Return jobs that can never run on this cluster, each with the reason."""
    reasons: dict[tuple[object, ...], str | None] = {}
    fits = _fits(speeds, cluster)
    fastest_s: dict[tuple[str, SideDemand, str], float] = {}
    found = []
    for job in jobs:
        key = (job.model, job.requested_gpus, job.requested_plan, job.side)
        if key not in reasons:
            reasons[key] = _why_impossible(job, speeds, cluster, fits)
        reason = reasons[key]
        if reason is None:
            curve = (job.model, job.side, job.requested_plan.determinism)
            if curve not in fastest_s:
                fastest_s[curve] = _least_iteration_s(speeds, job, cluster, fits)
            needed_s = job.iterations * fastest_s[curve]
            if needed_s > LONGEST_JOB_S:
                reason = (
                    f"{job.iterations} iterations of {job.model} take {needed_s:g} s at its "
                    f"fastest, a job takes at most {LONGEST_JOB_S:g} s"
                )
        if reason is not None:
            found.append((job, reason))
    return tuple(found)


def _least_iteration_s(speeds: SpeedModel, job: Job, cluster: Cluster, fits: _Fits) -> float:
    """Return a lower limit on seconds per iteration, alone on the cluster."""
    if job.requested_plan.family is PlanFamily.EST:
        return min(seconds for _, seconds in worker_times(speeds, job, cluster))
    _, iteration_s = _curve_of(fits(job.model, job.side))
    return float(iteration_s.min(initial=np.inf))


def _of_workers(
    job: Job, cluster: Cluster, truth: SpeedModel, start_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return least GPUs, least seconds and the type for elastic workers, per GPU type.

    A step takes no less than one worker's time on the fastest type, and each worker its time on a
    GPU of its own type: shares of these entries are within any numbers of GPUs by type, mixed ones
    too. No GPUs are counted for the start-up, which holds fewer than there are workers.
    """
    kinds = [kind.name for kind in cluster.gpu_types]
    gpus, duration_s, types = [], [], []
    for name, seconds in worker_times(truth, job, cluster):
        work_s = job.iterations * seconds
        pool = sum(n.type.gpus for n in cluster.nodes if n.type.gpu_type.name == name)
        workers = job.requested_plan.workers * work_s / (start_s + work_s)
        gpus.append(min(float(pool), workers))
        duration_s.append(start_s + work_s)
        types.append(kinds.index(name))
    return np.asarray(gpus), np.asarray(duration_s), np.asarray(types, dtype=np.int64)


def infeasible_slos(
    jobs: Iterable[Job], speeds: SpeedModel, cluster: Cluster
) -> tuple[tuple[Job, str], ...]:
    """Return jobs that miss their deadline even alone, started at once, with the reason.

    Of every GPU type the fastest configuration on all its nodes counts.
    """
    fastest: dict[tuple[str, SideDemand], tuple[float, str]] = {}
    found = []
    for job in jobs:
        key = (job.model, job.side)
        if job.deadline_s is None:
            continue
        if key not in fastest:
            fastest[key] = _fastest(speeds, *key, cluster)
        iteration_s, kind = fastest[key]
        needed_s, left_s = job.iterations * iteration_s, job.deadline_s - job.submission_s
        # A deadline that was written as a multiple of 1 must not fail by a rounding.
        if kind and needed_s > left_s * (1.0 + tolerances.SUMS):
            rule = (
                f"its SLO cannot be kept: {job.model} needs {needed_s:g} s alone on {kind}, its "
                f"fastest GPU type, and has {left_s:g} s from submission to deadline"
            )
            found.append((job, rule))
    return tuple(found)


def _fastest(
    speeds: SpeedModel, model: str, asked: SideDemand, cluster: Cluster
) -> tuple[float, str]:
    """Return the smallest iteration time and its GPU type; "" if the job runs nowhere."""
    best = (np.inf, "")
    for part in by_gpu_type(cluster):
        _, iteration_s = speed_curve(speeds, model, part, asked)
        best = min(best, (float(iteration_s.min(initial=np.inf)), part.gpu_types[0].name))
    return best if np.isfinite(best[0]) else (np.inf, "")


def paired_curve(speeds: SpeedModel, model: str, others: Iterable[str], cluster: Cluster) -> _Curve:
    """Return the smallest iteration time next to any other model, for every gang size of a pair.

    Returns
    -------
    gpus, iteration_s
        Two arrays of one length, ascending in GPUs; empty if the model shares with none.
    """
    measured = pair_speeds(speeds)
    best: dict[int, float] = {}
    if measured is None:
        return np.zeros(0), np.zeros(0)
    for kind in cluster.node_types:
        most = kind.gpus * len(cluster.nodes_of(kind))
        for span in reachable_spans(cluster):
            rows = speeds.configurations(model, kind, most, span)
            for other in others:
                for row in rows:
                    for beside in speeds.configurations(other, kind, most, span):
                        plans = row.plan, beside.plan
                        found = measured.paired_iteration_s((model, other), plans, kind, row.shape)
                        if found is not None and beside.shape == row.shape:
                            gpus = row.shape.gpus
                            best[gpus] = min(best.get(gpus, np.inf), found[0])
    counts = sorted(best)
    return np.array(counts, dtype=float), np.array([best[g] for g in counts], dtype=float)


def packed_demands(trace: Trace, cluster: Cluster, truth: SpeedModel, timing: Timing) -> Demands:
    """Return the demands of a trace whose jobs may share GPUs in pairs.

    Next to its configurations alone a job has one per gang size of a pair, on half of the GPUs
    (so that both jobs of a pair hold all of them together) at its best speed next to any model of
    the trace. Partners come and go without a restart, so a start-up cannot be charged to one
    configuration: it is counted as time before the work begins, and its GPUs not at all. See
    ``docs/metrics.md``, "with packing".
    """
    models = sorted({job.model for job in trace.jobs})
    parts = by_gpu_type(cluster)
    curves = {m: _joined(paired_curve(truth, m, models, part) for part in parts) for m in models}
    alone = job_demands(trace, cluster, truth, timing)
    demands = []
    for job, demand in zip(trace.jobs, alone.jobs, strict=True):
        restart_s = timing.first_start_of(job.model)
        gpus, iteration_s, kind = curves[job.model]
        demands.append(
            JobDemand(
                job.name,
                job.submission_s,
                demand.release_s + restart_s,
                np.concatenate([demand.gpus, 0.5 * gpus]),
                np.concatenate([demand.duration_s - restart_s, job.iterations * iteration_s]),
                np.concatenate([demand.kind, kind]),
                job.weight,
            )
        )
    return Demands(tuple(demands), alone.gpus)


def job_demands(trace: Trace, cluster: Cluster, truth: SpeedModel, timing: Timing) -> Demands:
    """Return one demand per job of the trace, in its order.

    Parameters
    ----------
    trace, cluster, truth
        Jobs, nodes and true speeds.
    timing
        Instants of rounds, and seconds of starts.

    Raises
    ------
    InputError
        If a job can never run.
    """
    parts = by_gpu_type(cluster)
    curves: dict[tuple[str, SideDemand], _Columns] = {}
    demands = []
    for job in trace.jobs:
        key = (job.model, job.side)
        start_s = timing.first_start_of(job.model)
        if job.requested_plan.family is PlanFamily.EST:
            gpus, duration_s, kind = _of_workers(job, cluster, truth, start_s)
        else:
            if key not in curves:
                curves[key] = _joined(
                    speed_curve(truth, job.model, part, job.side) for part in parts
                )
            gpus, iteration_s, kind = curves[key]
            duration_s = start_s + job.iterations * iteration_s
        demands.append(
            JobDemand(
                job.name,
                job.submission_s,
                timing.first_s(job.submission_s),
                gpus,
                duration_s,
                kind,
                job.weight,
            )
        )
    return Demands(tuple(demands), tuple(part.gpus for part in parts))


def initial_demands(demands: Demands, state: RoundState, timing: Timing) -> Demands:
    """Return the demands of a replay that starts from a state.

    A job of the state has the rest of its iterations to do and is not complete before the state's
    instant. A running one may stay as it is, so no start is counted for it; a queued one starts at
    a boundary not before that instant. Completion times still count from the submission.
    """
    first_s = timing.first_s(state.time_s)
    known = {one.job.name: one for one in state.jobs}

    def rest(demand: JobDemand) -> JobDemand:
        if demand.job not in known:
            return demand
        found = known[demand.job]
        left = found.iterations_left / found.job.iterations
        # If jobs may share GPUs, start-ups are part of the release and not of the durations.
        early_s = timing.first_s(demand.submission_s)
        start_up_s = max(0.0, demand.release_s - early_s)
        restart_s = timing.first_start_of(found.job.model) - start_up_s
        if found.running is not None:
            return replace(
                demand,
                release_s=max(state.time_s, demand.submission_s),
                duration_s=left * (demand.duration_s - restart_s),
            )
        again_s = min(_least_s(found), restart_s + start_up_s)
        return replace(
            demand,
            release_s=max(first_s, early_s),
            duration_s=again_s * (start_up_s == 0.0) + left * (demand.duration_s - restart_s),
        )

    return replace(demands, jobs=tuple(rest(demand) for demand in demands.jobs))


def _least_s(known: JobState) -> float:
    """Return the least cost in seconds of the next start of a queued job, wherever it starts."""
    return known.restart_s if known.last_held is None else known.prices.resume_s
