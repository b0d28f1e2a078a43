"""Candidates of jobs whose workers take turns: GPUs by node class, without shapes."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.round.tables import Scope
from morph_opt.core.domain import Cluster, InputError, Job, Shape
from morph_opt.inputs.perf.ests import (
    UNIT_S,
    ElasticModel,
    allowed_types,
    elastic_model,
    why_no_vector,
    worker_slots,
)
from morph_opt.inputs.perf.speed import Configuration, SpeedModel
from morph_opt.scheduling.decision.candidates.dominance import Scoped
from morph_opt.scheduling.decision.candidates.slices import ModelSlice, side_table


def elastic_slice(
    job: Job,
    cluster: Cluster,
    speeds: SpeedModel,
    first: int,
    request_only: bool = False,
    waste_filter: float | None = None,
) -> ModelSlice:
    """Return undominated numbers of GPUs by node class, with the seconds of a step.

    A job of level d0 has only its request. With ``request_only`` every job has only that, if there
    are enough GPUs of its type.

    Parameters
    ----------
    first
        First row of the slice in the joint table of all slices.
    waste_filter
        Largest share of the GPUs' speed that a step over several classes may leave unused; others
        are filtered out, which may cost optima. None: no filter.

    Raises
    ------
    InputError
        If no number of GPUs serves the job.
    """
    plan, names = job.requested_plan, [kind.gpu_type.name for kind in cluster.node_types]
    allowed = allowed_types(speeds, job.model, plan, cluster)
    if request_only or plan.determinism == "d0":
        allowed = tuple(name for name in allowed if name == plan.gpu_type)
    classes = [t for t, name in enumerate(names) if name in allowed]
    kinds = [cluster.node_types[t] for t in classes]
    room = [worker_slots(job, kind) * len(cluster.nodes_of(kind)) for kind in kinds]
    types = [names[t] for t in classes]
    model = elastic_model(speeds, job.model, plan, types) if classes else None
    vectors: Ints = np.zeros((0, len(classes)), dtype=np.int64)
    steps: Ints = np.zeros(0, dtype=np.int64)
    if model is not None:
        fixed = request_only or plan.determinism == "d0"
        vectors, steps = _gang(model, job, room) if fixed else model.vectors(room)
        if request_only and not steps.size and plan.determinism != "d0":
            # A gang larger than its type runs as it can, the fastest first.
            vectors, steps = model.vectors(room)
            order = np.argsort(steps, kind="stable")
            vectors, steps = vectors[order], steps[order]
        if waste_filter is not None:
            single = (vectors > 0).sum(axis=1) == 1
            kept = single | (model.waste(vectors, steps) <= waste_filter)
            vectors, steps = vectors[kept], steps[kept]
    if not steps.size:
        rule = why_no_vector(speeds, job, cluster) or f"cannot run as {plan} asks"
        raise InputError(rule, field=f"job {job.name}")
    seconds = steps.astype(np.float64) * float(UNIT_S)
    return _slice_of(job, vectors, np.asarray(classes, dtype=np.int64), seconds, first)


def _gang(model: ElasticModel, job: Job, room: list[int]) -> tuple[Ints, Ints]:
    """Return the request as GPUs by class, filled class by class."""
    vector: Ints = np.zeros((1, len(room)), dtype=np.int64)
    left = job.requested_gpus
    for kind, most in enumerate(room):
        vector[0, kind] = min(left, most)
        left -= int(vector[0, kind])
    if left:
        return vector[:0], np.zeros(0, dtype=np.int64)
    return vector, model.steps(vector)


def _slice_of(job: Job, vectors: Ints, classes: Ints, seconds: Floats, first: int) -> ModelSlice:
    gpus = vectors.sum(axis=1)
    part_class = np.concatenate([np.repeat(classes, vector) for vector in vectors])
    start = np.cumsum(gpus) - gpus
    scope = np.where(gpus > 1, int(Scope.POD), int(Scope.NODE)).astype(np.int64)
    rows = tuple(
        Scoped(Scope(within), Configuration(Shape((1,) * n), job.requested_plan, step_s, job.side))
        for within, n, step_s in zip(scope.tolist(), gpus.tolist(), seconds.tolist(), strict=True)
    )
    return ModelSlice(
        model=job.model,
        rows=rows,
        node_class=part_class[start],
        scope=scope,
        strict=np.zeros(gpus.size, dtype=bool),
        iteration_s=seconds,
        gpus=gpus,
        part_count=gpus,
        part_gpus=np.ones(part_class.size, dtype=np.int64),
        side=side_table([job.side.each] * gpus.size),
        first=first,
        part_class=part_class,
        loose=np.ones(gpus.size, dtype=bool),
    )
