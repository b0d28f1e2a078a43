"""Queues, cohorts and settings of a site, and a snapshot of what is held of their quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from morph_opt.core.domain.quotas import Quota, QuotaNode
from morph_opt.inputs.kueue.kube import holds
from morph_opt.inputs.kueue.queues import Flavor, Group, Queue, Queues, Slot
from morph_opt.scheduling.kueue.domains import Topology, Used
from morph_opt.scheduling.kueue.workloads import Amounts, Held, Placed, PodSet, Workload, exact

FAIR = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
"""Strategies of fair preemption in their usual order."""


GATES = {
    "FairSharingPreemptWithinNominal": "nominal_first",
    "FairSharingPrioritizeNonBorrowing": "unborrowed_first",
    "FlavorFungibilityPreserveScanProgress": "keep_tried",
    "PartialAdmission": "partial",
    "PrioritizePreemptorWorkloads": "preemptors_first",
    "PrioritySortingWithinCohort": "by_priority",
    "RecomputeAssignmentUponPreemptionTargetsOverlap": "assign_anew",
    "SchedulingEquivalenceHashing": "equal_shapes",
    "TASBalancedPlacement": "balanced",
    "TASProfileMixed": "mixed",
    "TASRecomputeAssignmentWithinSchedulingCycle": "replace_within_cycle",
}
"""Settings by the feature gates of Kueue that switch them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of Kueue itself.

    Parameters
    ----------
    fair_sharing
        Whether queues of a cohort share fairly.
    strategies
        Strategies of fair preemption, in order.
    partial
        Whether workloads may be admitted with fewer pods than they ask for.
    by_priority
        Whether workloads of a cohort are ordered by priority (PrioritySortingWithinCohort).
    by_eviction
        Whether a workload whose pods were not ready queues from its eviction, not its creation.
    preemptors_first
        Whether those that wait for their victims go first (PrioritizePreemptorWorkloads).
    replace_within_cycle
        Whether a topology that others took in the cycle is tried anew.
    half_life_s, sampling_s, resource_weights
        Half-life of the usage of local queues, interval of its samples, and weight of each
        resource; a half-life of None for no admission by usage.
    mixed, balanced
        Profiles of placements in topologies (TASProfileMixed, TASBalancedPlacement).
    declared_only
        Whether resources that a queue does not cover are left out of its quota.
    nominal_first, unborrowed_first
        Whether fair sharing lets those within their quota preempt whatever the shares, and serves
        them first.
    assign_anew
        Whether a workload is assigned anew where others in its cycle have chosen its victims.
    equal_shapes
        Whether workloads of the shape of one that does not fit wait with it.
    keep_tried
        Whether flavors that were tried stay tried when a workload loses what it needs in a cycle.
    requeue_s
        Seconds from the preemption of a workload to its next try.
    """

    fair_sharing: bool = False
    strategies: tuple[str, ...] = FAIR
    partial: bool = True
    by_priority: bool = True
    by_eviction: bool = True
    preemptors_first: bool = False
    replace_within_cycle: bool = True
    half_life_s: float | None = None
    sampling_s: float = 300.0
    resource_weights: Mapping[str, float] = field(default_factory=dict)
    mixed: bool = True
    balanced: bool = False
    declared_only: bool = False
    nominal_first: bool = True
    unborrowed_first: bool = True
    assign_anew: bool = True
    equal_shapes: bool = True
    keep_tried: bool = True
    requeue_s: float = 1.0

    def queued_s(self, workload: Workload) -> float:
        """Return the instant from which a workload queues."""
        if workload.evicted is not None:
            reason, at_s = workload.evicted
            if reason == "AdmissionCheck" or (reason == "PodsReadyTimeout" and self.by_eviction):
                return at_s
        if not self.by_priority and workload.preempted is not None:
            reason, at_s = workload.preempted
            if reason == "InCohortReclaimWhileBorrowing":
                return at_s + 0.001  # after the one that preempted it
        return workload.created_s


def cohort_key(name: str) -> str:
    """Return the name of a cohort in trees, distinct from the names of queues."""
    return f"/{name}"


class Site:
    """Queues of a site as trees.

    Parameters
    ----------
    queues
        Cluster queues, cohorts, flavors and local queues.
    settings
        Settings of Kueue.
    namespaces
        Labels of namespaces by name; a selector is not applied to those that are missing.
    """

    def __init__(
        self,
        queues: Queues,
        settings: Settings | None = None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.queues = queues
        self.settings = settings or Settings()
        self.namespaces = namespaces or {}
        self.above: dict[str, str] = {}
        self.quotas: dict[str, Mapping[Slot, Quota]] = {}
        self.weights: dict[str, float] = {}
        for queue in queues.queues.values():
            self._add(queue.name, queue.cohort, queue.quotas, queue.weight)
            cohort = queue.cohort
            while cohort and cohort_key(cohort) not in self.quotas:
                known = queues.cohorts.get(cohort)
                self._add(
                    cohort_key(cohort),
                    known.parent if known else "",
                    known.quotas if known else {},
                    known.weight if known else 1.0,
                )
                cohort = queues.above(cohort)
        left = [one for one in queues.cohorts.values() if cohort_key(one.name) not in self.quotas]
        for one in left:
            self._add(cohort_key(one.name), one.parent, one.quotas, one.weight)
        missing = set(self.above.values()) - {"", *self.quotas}
        for key in sorted(missing):
            self.above[key], self.quotas[key], self.weights[key] = "", {}, 1.0
        self.below: dict[str, list[str]] = {key: [] for key in self.above}
        for key, parent in self.above.items():
            if parent:
                self.below[parent].append(key)
        self.root = {key: self._root(key) for key in self.above}
        self.slots: dict[str, tuple[Slot, ...]] = {}
        for key in self.above:
            self._slots(key)
        self.inactive = {name: why for name in queues.queues if (why := queues.away(name))}

    def _add(self, key: str, cohort: str, quotas: Mapping[Slot, Quota], weight: float) -> None:
        above = cohort_key(cohort) if cohort and not self.queues.is_cyclic(cohort) else ""
        self.above[key] = above
        self.quotas[key] = {
            slot: Quota(
                exact(one.nominal),
                None if one.borrow is None else exact(one.borrow),
                None if one.lend is None else exact(one.lend),
            )
            for slot, one in quotas.items()
        }
        self.weights[key] = weight

    def _root(self, key: str) -> str:
        while self.above[key]:
            key = self.above[key]
        return key

    def _slots(self, key: str) -> tuple[Slot, ...]:
        """Return the flavors and resources with a quota at a node or below it."""
        if key not in self.slots:
            below = (slot for child in self.below[key] for slot in self._slots(child))
            self.slots[key] = tuple(dict.fromkeys((*self.quotas[key], *below)))
        return self.slots[key]

    def path(self, queue: str) -> Iterator[str]:
        """Yield the cohorts above a queue, from its own to the root."""
        key = self.above[queue]
        while key:
            yield key
            key = self.above[key]

    def leaves(self, key: str) -> Iterator[str]:
        """Yield the cluster queues at or below a node."""
        if key in self.queues.queues:
            yield key
        for child in self.below[key]:
            yield from self.leaves(child)

    def is_queue(self, key: str) -> bool:
        """Return whether a node is a cluster queue, not a cohort."""
        return key in self.queues.queues

    def selects(self, queue: Queue, namespace: str) -> bool:
        """Return whether workloads of a namespace may use a queue."""
        if not queue.selector or namespace not in self.namespaces:
            return True
        labels = {"kubernetes.io/metadata.name": namespace, **self.namespaces[namespace]}
        return all(holds(one, labels) for one in queue.selector)


class Snapshot:
    """Usage of the quotas of a site.

    Parameters
    ----------
    site
        The queues.
    held
        Workloads that hold quota.
    suits
        Function from a queue, a pod set, a flavor and a group of resources to why the flavor does
        not suit the pods, beyond its taints and labels; "" if it does.
    topologies
        Domains of the flavors that have a topology, by flavor.
    """

    def __init__(
        self,
        site: Site,
        held: Iterable[Held] = (),
        suits: Callable[[Queue, PodSet, Flavor, Group], str] = lambda *_: "",
        topologies: Mapping[str, Topology] | None = None,
    ) -> None:
        self.site = site
        self.suits = suits
        self.topologies = topologies or {}
        on_nodes = Used()  # pods on a node are there for every flavor that has it
        self.used = {
            flavor: on_nodes if one.of_nodes else Used() for flavor, one in self.topologies.items()
        }
        self._trees: dict[Slot, dict[str, QuotaNode]] = {}
        self._lendable: dict[tuple[str, str], float] = {}
        self.held: dict[str, dict[str, Held]] = {name: {} for name in site.queues.queues}
        self.local_usage: Mapping[str, float] = {}
        """Faded usage of each local queue over its weight, where queues admit by it."""
        for one in held:
            self.add(one)

    def node(self, slot: Slot, key: str) -> QuotaNode:
        """Return the node of a queue or cohort in the tree of a flavor and resource."""
        tree = self._trees.get(slot)
        if tree is None:
            tree = self._trees[slot] = self._tree(slot)
        return tree[key]

    def _tree(self, slot: Slot) -> dict[str, QuotaNode]:
        nodes: dict[str, QuotaNode] = {}

        def made(key: str) -> QuotaNode:
            if key not in nodes:
                above = self.site.above[key]
                limits = self.site.quotas[key].get(slot, Quota(0))
                nodes[key] = QuotaNode(limits, made(above) if above else None)
            return nodes[key]

        for key in self.site.above:
            made(key)
        return nodes

    def use(self, queue: str, amounts: Amounts, sign: int = 1) -> None:
        """Add amounts to a queue's usage, or subtract them with a sign of -1."""
        for slot, amount in amounts.items():
            self.node(slot, queue).add(sign * amount)

    @contextmanager
    def using(self, queue: str, amounts: Amounts, sign: int = 1) -> Iterator[None]:
        """Add amounts to a queue's usage, or subtract them, within this context."""
        self.use(queue, amounts, sign)
        try:
            yield
        finally:
            self.use(queue, amounts, -sign)

    def add(self, held: Held) -> None:
        """Add a workload with its usage."""
        name = held.workload.queue
        if name in self.held:
            self.held[name][held.workload.name] = held
            self.use(name, held.usage)
            self.occupy(held.workload, held.placed)

    def remove(self, held: Held) -> None:
        """Remove a workload with its usage."""
        name = held.workload.queue
        if self.held.get(name, {}).pop(held.workload.name, None) is not None:
            self.use(name, held.usage, -1)
            self.occupy(held.workload, held.placed, -1)

    def occupy(self, workload: Workload, placed: Iterable[Placed], sign: int = 1) -> None:
        """Count the pods of a workload in their domains, or give these back."""
        for one in placed:
            if one.domains is None:
                continue
            pods = next((s for s in workload.pod_sets if s.name == one.name), None)
            for flavor in {f for f in one.flavors.values() if f in self.used} if pods else ():
                for values, count in one.domains:
                    self.used[flavor].add(values, pods.amounts(1) if pods else {}, sign * count)

    @contextmanager
    def without(self, held: Sequence[Held]) -> Iterator[None]:
        """Remove workloads within this context."""
        mine = [one for one in held if one.workload.name in self.held.get(one.workload.queue, {})]
        for one in mine:
            self.remove(one)
        try:
            yield
        finally:
            for one in mine:
                self.add(one)

    def free(self, queue: str, slot: Slot) -> int:
        """Return the thousandths that a queue may still use; 0 if it is beyond its limits."""
        return max(0, int(self.node(slot, queue).free))

    def could(self, queue: str, slot: Slot) -> int:
        """Return the thousandths that a queue could use if nothing were used."""
        return int(self.node(slot, queue).could)

    def lendable(self, key: str, resource: str) -> float:
        """Return the thousandths of a resource that a node could use of all flavors."""
        found = self._lendable.get((key, resource))
        if found is None:
            slots = self.site.slots[self.site.root[key]]
            found = sum(self.node(slot, key).could for slot in slots if slot[1] == resource)
            self._lendable[key, resource] = found
        return found

    def fits(self, queue: str, amounts: Amounts) -> bool:
        """Return whether a queue may use these amounts in addition."""
        return all(amount <= self.free(queue, slot) for slot, amount in amounts.items())

    def borrows(self, queue: str, slot: Slot, amount: int = 0) -> bool:
        """Return whether a queue is beyond its nominal quota, with an amount more."""
        return not self.node(slot, queue).holds(amount)

    def within(self, key: str, slots: Iterable[Slot]) -> bool:
        """Return whether a node is within its quota in all of these."""
        return all(self.node(slot, key).holds() for slot in slots)


def available(
    site: Site, usage: Mapping[str, Mapping[Slot, float]]
) -> dict[str, dict[Slot, tuple[float, float]]]:
    """Return the amounts that each queue may still use, and could use if nothing were used.

    Parameters
    ----------
    site
        The queues.
    usage
        Amount of each flavor and resource that each queue uses, in the unit of the quotas.
    """
    snapshot = Snapshot(site)
    for queue, amounts in usage.items():
        snapshot.use(queue, {slot: exact(amount) for slot, amount in amounts.items()})
    return {
        queue: {
            slot: (snapshot.free(queue, slot) / 1000, snapshot.could(queue, slot) / 1000)
            for slot in site.slots[site.root[queue]]
        }
        for queue in site.queues.queues
    }
