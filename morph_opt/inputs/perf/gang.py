"""Speed of a request: its fastest placement on the empty cluster, also by GPU type.

Promises, values relative to the request, fair shares and metrics use it, so that none of them
relies on a configuration for which the cluster has no place.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import (
    Cluster,
    ExecutionPlan,
    GpuType,
    InputError,
    Job,
    NodeType,
    PlanFamily,
    SideDemand,
    Span,
)
from morph_opt.inputs.perf.ests import allowed_types, elastic_model, worker_room
from morph_opt.inputs.perf.places import Places, configurations_of
from morph_opt.inputs.perf.speed import Configuration, SpeedModel


class _Offer(NamedTuple):
    """Configuration with the class of its nodes and its span."""

    row: Configuration
    node_type: NodeType
    span: Span


_Request = tuple[str, int, ExecutionPlan, SideDemand]
"""Model, GPUs, plan and side demand, on which the speed of a request depends."""


class GangSpeeds:
    """Speeds of requested gangs on the empty cluster, cached by request.

    Parameters
    ----------
    belief
        Speeds to use.
    """

    def __init__(self, belief: SpeedModel) -> None:
        self._belief = belief
        self._cluster: Cluster | None = None
        self._offers: dict[str, dict[tuple[int, ExecutionPlan], list[_Offer]]] = {}
        self._rows: dict[_Request, Floats] = {}
        self._asked_s: dict[_Request, float] = {}
        self.capacity: Floats = np.zeros(0)

    @classmethod
    def on(cls, cluster: Cluster, speeds: SpeedModel) -> Self:
        """Return the speeds on one cluster."""
        found = cls(speeds)
        found.use(cluster)
        return found

    def use(self, cluster: Cluster) -> None:
        """Set the cluster and forget the speeds of another one."""
        if cluster is self._cluster:
            return
        self._cluster, self._places = cluster, Places(cluster)
        for cache in (self._offers, self._rows, self._asked_s):
            cache.clear()
        self.capacity = np.asarray(
            [
                float(sum(n.type.gpus for n in cluster.nodes if n.type.gpu_type == kind))
                for kind in cluster.gpu_types
            ]
        )

    def iteration_s(self, job: Job) -> float:
        """Return seconds per iteration in the fastest placement on the empty cluster.

        A placement has the requested GPUs and plan on nodes of one class with the needed threads,
        memory and network share, and the speed of its span. Outages and operator's rules do not
        count, so that a promise stays the same from round to round. If the request has no placement
        (as some jobs of published traces), the slowest configuration with one counts, so that a
        speed relative to it is at least 1; without any, 1 second. Elastic workers take GPUs of
        their own type, at most those of the cluster.
        """
        key = _key(job)
        if key not in self._asked_s:
            self._asked_s[key] = self._ask_s(job)
        return self._asked_s[key]

    def row(self, job: Job) -> Floats:
        """Return steps per second of the job's gang on each type, shape (T,); 0 if it cannot run.

        The fastest placement on the empty cluster counts: in the requested plan on the requested
        number of GPUs, else in any plan on that number, else in any configuration.

        Raises
        ------
        InputError
            If the job runs on no type.
        """
        key = _key(job)
        if key not in self._rows:
            self._rows[key] = self._ask(job)
        return self._rows[key]

    def _ask_s(self, job: Job) -> float:
        if job.requested_plan.family is PlanFamily.EST:
            return self._workers_s(job)
        everything = self._offers_of(job.model)
        asked = everything.get((job.requested_gpus, job.requested_plan), ())
        least = self._first_s(asked, job)
        if least is not None:
            return least
        slowest = self._first_s(chain.from_iterable(everything.values()), job, slowest=True)
        return 1.0 if slowest is None else slowest

    def _ask(self, job: Job) -> Floats:
        cluster = self._cluster
        assert cluster is not None
        if job.requested_plan.family is PlanFamily.EST:
            return self._of_workers(job, cluster)
        everything = self._offers_of(job.model)
        on_as_many = (of for (gpus, _), of in everything.items() if gpus == job.requested_gpus)
        for offers in (
            everything.get((job.requested_gpus, job.requested_plan), ()),
            chain.from_iterable(on_as_many),
            chain.from_iterable(everything.values()),
        ):
            by_type: dict[GpuType, list[_Offer]] = {kind: [] for kind in cluster.gpu_types}
            for offer in offers:
                by_type[offer.node_type.gpu_type].append(offer)
            seconds = [self._first_s(mine, job) for mine in by_type.values()]
            if seconds != [None] * len(seconds):
                return np.asarray([0.0 if s is None else 1.0 / s for s in seconds])
        raise InputError(f"{job.model} runs on no GPU type of the cluster", field=f"job {job.name}")

    def _offers_of(self, model: str) -> dict[tuple[int, ExecutionPlan], list[_Offer]]:
        """Return all configurations of a model by GPUs and plan, also those without a place."""
        cluster = self._cluster
        assert cluster is not None
        if model not in self._offers:
            found: dict[tuple[int, ExecutionPlan], list[_Offer]] = {}
            for node_type in cluster.node_types:
                for span, row in configurations_of(self._belief, model, cluster, node_type):
                    offer = _Offer(row, node_type, span)
                    found.setdefault((row.shape.gpus, row.plan), []).append(offer)
            self._offers[model] = found
        return self._offers[model]

    def _first_s(
        self, offers: Iterable[_Offer], job: Job, *, slowest: bool = False
    ) -> float | None:
        """Return seconds of the fastest (or slowest) configuration with a place, or None."""
        in_order = sorted(offers, key=lambda offer: offer.row.iteration_s, reverse=slowest)
        for row, node_type, span in in_order:
            if self._places.has(node_type, span, row, job.side):
                return row.iteration_s
        return None

    def _of_workers(self, job: Job, cluster: Cluster) -> Floats:
        """Return the speed of elastic workers on the requested number of GPUs of each type."""
        speed = np.zeros(len(cluster.gpu_types))
        for kind, gpu_type in enumerate(cluster.gpu_types):
            found = elastic_model(self._belief, job.model, job.requested_plan, (gpu_type.name,))
            if found is not None:
                speed[kind] = 1.0 / found.step_s((job.requested_gpus,))
        return speed

    def _workers_s(self, job: Job) -> float:
        """Return seconds of a step on the requested GPUs, or on all GPUs if there are fewer.

        Without a GPU of its own type: on one GPU of the slowest type on which it may run.
        """
        cluster, plan = self._cluster, job.requested_plan
        assert cluster is not None
        alone_s: list[float] = []
        for name in allowed_types(self._belief, job.model, plan, cluster):
            room = worker_room(job, cluster, name)
            model = elastic_model(self._belief, job.model, plan, (name,))
            assert model is not None
            if room and name == plan.gpu_type:
                return model.step_s((min(room, job.requested_gpus),))
            alone_s += [model.step_s((1,))] if room else []
        return max(alone_s, default=1.0)


def _key(job: Job) -> _Request:
    return job.model, job.requested_gpus, job.requested_plan, job.side
