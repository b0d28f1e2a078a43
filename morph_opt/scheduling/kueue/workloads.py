"""Workloads as Kueue's scheduler sees them: pod sets, requests, admissions and their usage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from morph_opt.inputs.kueue.kube import Expression, Toleration
from morph_opt.inputs.kueue.queues import Slot

PER_UNIT = 1000
"""Steps in a unit of a resource: amounts are whole numbers of thousandths, as Kueue rounds them."""

Amounts = Mapping[Slot, int]
"""Thousandths by flavor and resource."""


def exact(amount: float) -> int:
    """Return an amount in whole thousandths, rounded up."""
    return math.ceil(amount * PER_UNIT - 1e-6)


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """Request of a place in a topology for the pods of a set.

    Parameters
    ----------
    required, preferred
        Level in one domain of which all pods must, or should be.
    unconstrained
        Whether any nodes of the topology do.
    group
        Name that pod sets have in common if they are placed together.
    slices
        Level and number of pods of the slices that must be in one domain, from the outermost.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    group: str = ""
    slices: tuple[tuple[str, int], ...] = ()

    @property
    def explicit(self) -> bool:
        """Whether a place is requested, in addition to a group."""
        return bool(self.required or self.preferred or self.unconstrained or self.slices)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of a workload.

    Parameters
    ----------
    requests
        Amount of each resource that a pod asks for, in cores, bytes or pieces.
    count, min_count
        Number of pods, and the least number; None if it is all.
    selector, terms
        Labels that a node must have, and alternative terms of required affinity; None for none.
    tolerations
        Taints that the pods tolerate.
    topology
        Request of a place in a topology; None without one.
    """

    requests: Mapping[str, float]
    count: int = 1
    name: str = "main"
    min_count: int | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Expression, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest | None = None

    def amounts(self, count: int) -> dict[str, int]:
        """Return the thousandths of each resource for a number of pods."""
        return {resource: exact(amount) * count for resource, amount in self.requests.items()}


Domain = tuple[tuple[str, ...], int]
"""Values of the levels of a topology, or of the lowest alone, and the pods there."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Admission of a pod set.

    Parameters
    ----------
    flavors
        Flavor of each resource.
    amounts
        Thousandths of each resource in all.
    domains
        Domains of its pods in the topology of its flavor; None if not stated.
    levels
        Levels that the domains have values of.
    """

    name: str
    count: int
    flavors: Mapping[str, str]
    amounts: Mapping[str, int]
    domains: tuple[Domain, ...] | None = None
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """Workload of a cluster queue.

    Parameters
    ----------
    name
        Namespace and name, which identify it.
    queue
        Cluster queue.
    pod_sets
        Its pods.
    priority
        The higher goes first.
    created_s
        Instant of its creation; ``-math.inf`` before all.
    uid
        Identifier, which breaks the last ties.
    local
        Namespace and name of its local queue.
    evicted, preempted
        Reason and instant of its latest eviction and preemption; None without one.
    """

    name: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    created_s: float = -math.inf
    uid: str = ""
    local: str = ""
    evicted: tuple[str, float] | None = None
    preempted: tuple[str, float] | None = None

    @property
    def namespace(self) -> str:
        """Namespace of the workload."""
        return self.name.rpartition("/")[0]

    @property
    def shape(self) -> object:
        """Properties on which assignments of flavors depend; equal shapes get equal assignments."""
        return self.priority, tuple(_shape(one) for one in self.pod_sets)


def _shape(pods: PodSet) -> object:
    return (
        pods.name, pods.count, pods.min_count, tuple(sorted(pods.requests.items())),
        tuple(sorted(pods.selector.items())), pods.terms, pods.tolerations, pods.topology,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Workload that holds quota.

    Parameters
    ----------
    workload, placed
        The workload, and the admission of its pod sets.
    since_s
        Instant at which it got quota; ``math.inf`` if it is not known, which is as late as can be.
    """

    workload: Workload
    placed: tuple[Placed, ...]
    since_s: float = math.inf
    usage: Amounts = field(init=False)

    def __post_init__(self) -> None:
        usage: dict[Slot, int] = {}
        for one in self.placed:
            for resource, flavor in one.flavors.items():
                slot = flavor, resource
                usage[slot] = usage.get(slot, 0) + one.amounts.get(resource, 0)
        object.__setattr__(self, "usage", usage)
