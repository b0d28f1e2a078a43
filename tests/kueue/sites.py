"""Small sites and workloads of Kueue, and random ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.queues import Cohort, Flavor, Group, Preemption, Queue, Queues, Slot
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


def random_site(rng: random.Random) -> Site:
    """Cohorts of up to three levels, up to six queues, two flavors and any policies."""
    cohorts = [Cohort("c0", "", _quotas(rng, 0.4))]
    for number in range(1, rng.randint(1, 4)):
        parent = rng.choice(cohorts).name
        cohorts.append(Cohort(f"c{number}", parent, _quotas(rng, 0.4), rng.choice((0.0, 1.0, 2.0))))
    queues = []
    for number in range(rng.randint(2, 6)):
        quotas = _quotas(rng, 1.0)
        rules = Preemption(
            rng.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
            rng.choice(("Never", "LowerPriority", "Any")),
            rng.choice(("Never", "LowerPriority")),
            rng.choice((None, 0, 1)),
        )
        cohort = rng.choice(["", *(one.name for one in cohorts)])
        one = queue(f"q{number}", {f: q for (f, _), q in quotas.items()}, cohort, rules)
        queues.append(replace(one, strict=rng.random() < 0.4, weight=rng.choice((0.0, 1.0, 3.0))))
    fair = rng.random() < 0.5
    return site(*queues, cohorts=cohorts, fair_sharing=fair, by_priority=rng.random() < 0.7)


def _quotas(rng: random.Random, chance: float) -> dict[Slot, Quota]:
    return {
        (flavor, GPU): Quota(
            rng.randint(0, 12),
            rng.choice((None, rng.randint(0, 8))),
            rng.choice((None, rng.randint(0, 8))),
        )
        for flavor in ("main", "spot")
        if rng.random() < chance
    }


def random_jobs(rng: random.Random, among: Site, count: int) -> list[Workload]:
    """Workloads of one or two pod sets, some of which may be admitted in part."""
    found = []
    for number in range(count):
        sets = tuple(
            PodSet(
                {GPU: rng.choice((0.5, 1, 2, 4))},
                pods := rng.randint(1, 4),
                f"set{at}",
                rng.choice((None, rng.randint(1, pods))),
            )
            for at in range(rng.choice((1, 1, 2)))
        )
        found.append(
            Workload(
                f"team/j{number}",
                rng.choice(list(among.queues.queues)),
                sets,
                rng.randint(-1, 2),
                float(rng.randint(0, 9)),
            )
        )
    return found
