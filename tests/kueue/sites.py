"""Small sites and workloads of Kueue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.queues import Cohort, Flavor, Group, Preemption, Queue, Queues
from morph_opt.scheduling.kueue.site import Settings, Site
from morph_opt.scheduling.kueue.workloads import Held, Placed, PodSet, Workload

GPU = "nvidia.com/gpu"
ANY = Preemption("LowerPriority", "Any")


def queue(
    name: str,
    gpus: float | Mapping[str, Any] = 8,
    cohort: str = "",
    preemption: Preemption | None = None,
    **more: Any,
) -> Queue:
    """A queue with GPUs of flavors, by default of the flavor `main`."""
    flavors = gpus if isinstance(gpus, Mapping) else {"main": gpus}
    quotas = {(f, GPU): q if isinstance(q, Quota) else Quota(q) for f, q in flavors.items()}
    groups = (Group((GPU,), tuple(flavors)),)
    return Queue(name, cohort, groups, quotas, preemption=preemption or Preemption(), **more)


def site(*queues: Queue, cohorts: Sequence[Cohort] = (), **settings: Any) -> Site:
    """A site of queues whose flavors have no labels."""
    flavors = {f: Flavor(f, {}) for q in queues for g in q.groups for f in g.flavors}
    found = Queues({one.name: one for one in queues}, {one.name: one for one in cohorts}, flavors)
    return Site(found, Settings(**settings))


def job(name: str, queue: str, gpus: float = 1, **more: Any) -> Workload:
    """A workload of one pod."""
    return Workload(f"team/{name}", queue, (PodSet({GPU: gpus}),), **more)


def held(name: str, queue: str, gpus: float = 1, flavor: str = "main", **more: Any) -> Held:
    """A workload that holds GPUs."""
    since_s = more.pop("since_s", 0.0)
    placed = Placed("main", 1, {GPU: flavor}, {GPU: round(1000 * gpus)})
    return Held(job(name, queue, gpus, **more), (placed,), since_s)
