"""Step times of EasyScale: a fixed number of workers (ESTs) that take turns on any GPUs.

With ``n_t`` GPUs of type t, on which one worker takes ``tau_t`` seconds per mini-batch, M workers
take the least S among the multiples ``k tau_t`` with ``sum_t n_t floor(S / tau_t) >= M``. Times are
whole numbers of a small unit, so that ``floor`` is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, cast

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.core.domain import Assignment, Cluster, ExecutionPlan, Job, NodeType
from morph_opt.core.domain.placement import gpus_beside
from morph_opt.inputs.perf.parameters import ELASTIC, ElasticParams
from morph_opt.inputs.perf.speed import SpeedModel

UNIT_S = Fraction(1, 10**7)
"""Unit of integer times, in seconds."""


def _axes(most: Sequence[int], params: ElasticParams) -> list[Ints]:
    """Return the tried numbers of GPUs of each type, from 0 to the most."""
    axes = [np.arange(count + 1, dtype=np.int64) for count in most]
    growth = 1.0
    while np.prod([float(axis.size) for axis in axes]) > params.most_vectors:
        growth += params.growth
        axes = [_thinned(count, growth) for count in most]
    return axes


def _thinned(most: int, growth: float) -> Ints:
    """Return increasing numbers up to ``most``, spaced by at least one and by a factor."""
    found = [0]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, int(found[-1] * growth))))
    return np.asarray(found, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ElasticModel:
    """Workers of a job, and their speed on every GPU type.

    Parameters
    ----------
    workers
        Number M of workers, fixed for the job's life.
    tau
        Time of one worker's mini-batch by type, in units of `UNIT_S`, shape (T,).
    """

    workers: int
    tau: Ints

    @property
    def levels(self) -> Ints:
        """Possible step times, ascending, shape (L,)."""
        turns = np.arange(1, self.workers + 1, dtype=np.int64)
        return np.unique((turns[:, None] * self.tau[None, :]).ravel())

    def steps(self, vectors: Ints) -> Ints:
        """Return step times on GPU vectors of shape (V, T), shape (V,); 0 without GPUs."""
        levels = self.levels
        turns = levels[:, None] // self.tau[None, :]
        done = vectors @ turns.T >= self.workers
        found: Ints = np.where(done.any(axis=1), levels[done.argmax(axis=1)], 0)
        return found

    def step_s(self, vector: Sequence[int]) -> float:
        """Return seconds of a step on GPUs by type."""
        step = self.steps(np.asarray([vector], dtype=np.int64))[0]
        return float(int(step) * UNIT_S)

    def waste(self, vectors: Ints, steps: Ints) -> Floats:
        """Return the share of the GPUs' speed that a step leaves unused, shape (V,)."""
        speed = vectors @ (1.0 / self.tau.astype(np.float64))
        found: Floats = 1.0 - self.workers / steps.astype(np.float64) / speed
        return found

    def vectors(self, pools: Sequence[int], params: ElasticParams = ELASTIC) -> tuple[Ints, Ints]:
        """Return the GPU vectors within pools that waste no GPU, and their step times.

        A vector is dominated if one GPU less gives the same step: steps never grow with GPUs.
        """
        axes = _axes([min(pool, self.workers) for pool in pools], params)
        every = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(pools))
        every = every[every.any(axis=1)]
        steps = self.steps(every)
        if any(axis.size <= axis[-1] for axis in axes):
            return self._spared(every[steps > 0])
        kept = steps > 0
        for kind in range(len(pools)):
            fewer = every.copy()
            fewer[:, kind] = np.maximum(fewer[:, kind] - 1, 0)
            less = self.steps(fewer)
            kept &= ~((every[:, kind] > 0) & (less > 0) & (less <= steps))
        return every[kept], steps[kept]

    def _spared(self, vectors: Ints) -> tuple[Ints, Ints]:
        """Return the distinct vectors after removing GPUs that their steps do not need."""
        steps = self.steps(vectors)
        for kind in range(vectors.shape[1]):
            spare = vectors[:, kind] > 0
            while spare.any():
                vectors[spare, kind] -= 1
                less = self.steps(vectors[spare])
                needed = (less == 0) | (less > steps[spare])
                rows = np.flatnonzero(spare)
                vectors[rows[needed], kind] += 1
                spare[rows[needed]] = False
                spare &= vectors[:, kind] > 0
        vectors = np.unique(vectors, axis=0)
        return vectors, self.steps(vectors)


class ElasticSpeeds(Protocol):
    """Protocol of speed models that know elastic workers."""

    def worker_units(self, model: str, gpu_type: str) -> int | None:
        """Return the time of one worker's mini-batch in `UNIT_S`; None if it does not run."""
        ...


def elastic_speeds(speeds: SpeedModel) -> ElasticSpeeds | None:
    """Return a speed model as `ElasticSpeeds`, or None if it knows no elastic workers."""
    known = callable(getattr(speeds, "worker_units", None))
    return cast(ElasticSpeeds, speeds) if known else None


def elastic_model(
    speeds: SpeedModel, model: str, plan: ExecutionPlan, gpu_types: Sequence[str]
) -> ElasticModel | None:
    """Return the workers of a plan on these GPU types; None if one type cannot run them.

    A job that must not mix types runs on its own type only.
    """
    known = elastic_speeds(speeds)
    if known is None or (plan.determinism != "d2" and set(gpu_types) != {plan.gpu_type}):
        return None
    units = [known.worker_units(model, kind) for kind in gpu_types]
    if any(unit is None for unit in units):
        return None
    return ElasticModel(plan.workers, np.asarray(units, dtype=np.int64))


def allowed_types(
    speeds: SpeedModel, model: str, plan: ExecutionPlan, cluster: Cluster
) -> tuple[str, ...]:
    """Return the GPU types of a cluster on which workers of a plan may run."""
    names = [kind.name for kind in cluster.gpu_types]
    return tuple(n for n in names if elastic_model(speeds, model, plan, (n,)) is not None)


def worker_times(speeds: SpeedModel, job: Job, cluster: Cluster) -> list[tuple[str, float]]:
    """Return GPU types on which a job's workers may run, with the seconds of a mini-batch."""
    known = elastic_speeds(speeds)
    assert known is not None, "jobs without times of their workers are refused before they run"
    names = allowed_types(speeds, job.model, job.requested_plan, cluster)
    times = ((name, known.worker_units(job.model, name)) for name in names)
    return [(name, float(unit * UNIT_S)) for name, unit in times if unit is not None]


def worker_slots(job: Job, node_type: NodeType) -> int:
    """Return the GPUs of an empty node that a job's workers can hold."""
    return gpus_beside(job.side.each, node_type)


def worker_room(job: Job, cluster: Cluster, gpu_type: str) -> int:
    """Return the GPUs of a type that a job's workers can hold on the empty cluster."""
    kinds = (kind for kind in cluster.node_types if kind.gpu_type.name == gpu_type)
    return sum(worker_slots(job, kind) * len(cluster.nodes_of(kind)) for kind in kinds)


def why_no_vector(speeds: SpeedModel, job: Job, cluster: Cluster) -> str | None:
    """Return why no GPUs of a cluster can run a job's workers; None if some can."""
    plan = job.requested_plan
    if elastic_model(speeds, job.model, plan, (plan.gpu_type,)) is None:
        return f"the speeds know no times of workers of {job.model} on {plan.gpu_type}"
    names = allowed_types(speeds, job.model, plan, cluster)
    room = sum(worker_room(job, cluster, name) for name in names)
    least = job.requested_gpus if plan.determinism == "d0" else 1
    if room >= least:
        return None
    where = "GPU types" if plan.determinism == "d2" else plan.gpu_type
    there = f"cluster {cluster.name!r} has room on {room} GPUs of its {where}"
    return f"its {plan.workers} workers ({plan}) need at least {least}, {there}"


def held_step_s(speeds: SpeedModel, model: str, held: Assignment, cluster: Cluster) -> float | None:
    """Return seconds of a step on a job's GPUs; None if its workers must not run there."""
    counts: dict[str, int] = {}
    for node, gpus in held.placement.parts:
        kind = cluster.nodes[node].type.gpu_type.name
        counts[kind] = counts.get(kind, 0) + len(gpus)
    found = elastic_model(speeds, model, held.plan, tuple(counts))
    return None if found is None else found.step_s(tuple(counts.values()))
