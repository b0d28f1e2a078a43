"""Kueue's cluster queues, cohorts, flavors and local queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from morph_opt.core.documents import Fields
from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.kube import (
    Expression,
    Taint,
    Toleration,
    amount_text,
    expressions_of,
    holds,
    meta_of,
    name_of,
    quantity_of,
    taints_of,
    tolerations_of,
)

Slot = tuple[str, str]
"""Flavor and resource to which a quota applies."""

USUAL = frozenset(("cpu", "memory", "ephemeral-storage", "pods"))
"""Resources of every pod, which some sites leave out of their quotas."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """Resource flavor: labels of its nodes, and tolerations of its pods.

    Parameters
    ----------
    labels
        Labels of its nodes.
    taints
        Taints of its nodes, which pods must tolerate to be given the flavor.
    tolerations
        Tolerations that its pods are given.
    topology
        Name of the topology of its nodes; "" without one.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Resources of a queue that get one flavor together, and the flavors in their order."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """Rules on the workloads that a queue may preempt.

    Parameters
    ----------
    within
        Workloads of their own queue: ``"Never"``, ``"LowerPriority"`` or
        ``"LowerOrNewerEqualPriority"``.
    reclaim
        Workloads of others beyond their quota: ``"Never"``, ``"LowerPriority"`` or ``"Any"``.
    borrow
        Workloads of others while borrowing: ``"Never"`` or ``"LowerPriority"``.
    threshold
        Highest priority of those preempted while borrowing; None for no limit.
    """

    within: str = "Never"
    reclaim: str = "Never"
    borrow: str = "Never"
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Fungibility:
    """Rules on trying the next flavor after one that needs borrowing or preemption.

    Parameters
    ----------
    when_can_borrow, when_can_preempt
        ``"MayStopSearch"`` or ``"TryNextFlavor"``.
    preference
        Preference between flavors: ``"BorrowingOverPreemption"`` prefers the one that borrows,
        ``"PreemptionOverBorrowing"`` the one that preempts.
    """

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = "BorrowingOverPreemption"


@dataclass(frozen=True, slots=True)
class Queue:
    """A cluster queue.

    Parameters
    ----------
    cohort
        Name of the cohort that it is in; "" for none.
    groups, quotas
        Its resource groups, and its limits by flavor and resource.
    strict
        Whether it is StrictFIFO.
    away
        Why nothing of it starts; "" if it is open.
    selector
        Conditions on labels of the namespaces that may use it; None where none is given.
    more
        Settings that are not read, for the notes.
    preemption, fungibility
        See the classes.
    weight
        Weight of its share.
    usage_based
        Whether local queues with less usage come first.
    """

    name: str
    cohort: str = ""
    groups: tuple[Group, ...] = ()
    quotas: Mapping[Slot, Quota] = field(default_factory=dict)
    strict: bool = False
    away: str = ""
    selector: tuple[Expression, ...] | None = None
    more: tuple[str, ...] = ()
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    weight: float = 1.0
    usage_based: bool = False

    def group_of(self, resource: str) -> Group | None:
        """Return the group that covers a resource; None if none does."""
        return next((one for one in self.groups if resource in one.resources), None)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """Local queue: its cluster queue, the reason for which it is closed or "", and its weight."""

    queue: str
    away: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Cohort:
    """Cohort: its parent, its own quotas, and the weight of its share."""

    name: str
    parent: str = ""
    quotas: Mapping[Slot, Quota] = field(default_factory=dict)
    weight: float = 1.0


@dataclass(slots=True)
class Queues:
    """All queues of a cluster.

    Parameters
    ----------
    queues, cohorts, flavors, local
        By name; local queues by namespace and name.
    """

    queues: dict[str, Queue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    flavors: dict[str, Flavor] = field(default_factory=dict)
    local: dict[str, LocalQueue] = field(default_factory=dict)

    def flavor(self, name: str) -> Flavor:
        """Return a flavor; one without labels, taints and topology if it has no object."""
        return self.flavors.get(name) or Flavor(name, {})

    def above(self, name: str) -> str:
        """Return the parent of a cohort; "" for a root or a cohort without an object."""
        known = self.cohorts.get(name)
        return known.parent if known is not None else ""

    def is_cyclic(self, cohort: str) -> bool:
        """Return whether a cohort is its own ancestor, in which case its queues are inactive."""
        seen: set[str] = set()
        while cohort:
            if cohort in seen:
                return True
            seen.add(cohort)
            cohort = self.above(cohort)
        return False

    def away(self, name: str) -> str:
        """Return why a cluster queue is closed; "" if it is open."""
        queue = self.queues[name]
        if queue.away:
            return queue.away
        if self.is_cyclic(queue.cohort):
            return f"cohort {queue.cohort} of its cluster queue {name} is below itself"
        named = [one for group in queue.groups for one in group.flavors]
        missing = [one for one in named if one not in self.flavors]
        if self.flavors and missing:
            return f"its cluster queue {name} is inactive: there is no flavor {missing[0]}"
        return ""

    def slots(self) -> list[Slot]:
        """Return every flavor and resource with a quota, in order of appearance."""
        of_queues = [slot for one in self.queues.values() for slot in one.quotas]
        of_cohorts = [slot for one in self.cohorts.values() for slot in one.quotas]
        return list(dict.fromkeys([*of_queues, *of_cohorts]))


def pool_of(slot: Slot) -> str:
    """Return the name of a flavor and resource in rules."""
    return f"{slot[0]} ({slot[1]})"


def read_flavor(item: Fields) -> Flavor:
    """Read a ResourceFlavor."""
    spec = item.object("spec", None, {})
    labels, topology = spec.by_name("nodeLabels"), spec.word("topologyName")
    taints, tolerations = taints_of(spec, "nodeTaints"), tolerations_of(spec)
    return Flavor(name_of(item), labels, taints, tolerations, topology)


def read_queue(item: Fields) -> Queue:
    """Read a ClusterQueue."""
    spec, name = item.object("spec", None), name_of(item)
    groups, quotas = _groups(spec)
    away = ""
    if stop := _stop(spec):
        away = f"its cluster queue {name} is stopped ({stop})"
    elif reason := _inactive(item):
        away = f"its cluster queue {name} is not active: {reason}"
    selector = None
    if spec.has("namespaceSelector"):
        selector = expressions_of(spec.object("namespaceSelector", None))
    return Queue(
        name,
        spec.word("cohort") or spec.word("cohortName"),
        groups,
        quotas,
        spec.word("queueingStrategy") == "StrictFIFO",
        away,
        selector,
        tuple(_not_read(spec)),
        _preemption(spec.part("preemption")),
        _fungibility(spec.part("flavorFungibility")),
        _weight(spec),
        spec.part("admissionScope").word("admissionMode") == "UsageBasedAdmissionFairSharing",
    )


def _preemption(table: Fields) -> Preemption:
    borrow = table.part("borrowWithinCohort")
    threshold = None
    if borrow.has("maxPriorityThreshold"):
        threshold = borrow.whole("maxPriorityThreshold", least=-(2**31), most=2**31)
    return Preemption(
        table.word("withinClusterQueue") or "Never",
        table.word("reclaimWithinCohort") or "Never",
        borrow.word("policy") or "Never",
        threshold,
    )


def _fungibility(table: Fields) -> Fungibility:
    old = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
    usual = Fungibility()
    borrow, preempt = table.word("whenCanBorrow"), table.word("whenCanPreempt")
    return Fungibility(
        old.get(borrow, borrow) or usual.when_can_borrow,
        old.get(preempt, preempt) or usual.when_can_preempt,
        table.word("preference") or usual.preference,
    )


def _weight(spec: Fields) -> float:
    table = spec.part("fairSharing")
    return quantity_of(table, "weight") if table.has("weight") else 1.0


def _not_read(spec: Fields) -> Iterable[str]:
    """Yield settings of a queue that are not read but may change which workloads start."""
    if spec.raw("admissionChecks", None) or spec.has("admissionChecksStrategy"):
        yield "admission checks, which may keep a workload waiting after it has quota"
    policy = spec.part("preemption")
    policies = {policy.word(word) for word in ("withinClusterQueue", "reclaimWithinCohort")}
    if policies - {"", "Never"}:
        yield "preemption, which only the policy kueue follows: under others whoever runs stays"
    if spec.has("fairSharing"):
        yield "fair sharing, which only the policy kueue follows"
    if spec.has("admissionScope"):
        yield "usage of local queues (admissionScope), which only the policy kueue follows"


def read_cohort(item: Fields) -> Cohort:
    """Read a Cohort."""
    spec = item.object("spec", None, {})
    _, quotas = _groups(spec)
    parent = spec.word("parentName") or spec.word("parent")
    return Cohort(name_of(item), parent, quotas, _weight(spec))


def read_local_queue(item: Fields) -> tuple[str, LocalQueue]:
    """Read a LocalQueue with its namespace and name."""
    spec, name = item.object("spec", None), name_of(item)
    away = ""
    if stop := _stop(spec):
        away = f"its local queue {name} is stopped ({stop})"
    space = meta_of(item).text("namespace", "default")
    return f"{space}/{name}", LocalQueue(spec.text("clusterQueue"), away, _weight(spec))


def _groups(spec: Fields) -> tuple[tuple[Group, ...], dict[Slot, Quota]]:
    """Return resource groups and limits by flavor and resource."""
    groups: list[Group] = []
    quotas: dict[Slot, Quota] = {}
    for group in spec.parts("resourceGroups"):
        resources: dict[str, None] = {}
        if group.has("coveredResources"):
            resources |= dict.fromkeys(group.value("coveredResources", tuple[str, ...]))
        flavors = group.objects("flavors", None)
        for flavor in flavors:
            for one in flavor.objects("resources", None, []):
                name = one.text("name")
                resources[name] = None
                borrow, lend = (
                    quantity_of(one, word) if one.has(word) else None
                    for word in ("borrowingLimit", "lendingLimit")
                )
                nominal = quantity_of(one, "nominalQuota") if one.has("nominalQuota") else 0.0
                quotas[flavor.text("name"), name] = Quota(nominal, borrow, lend)
        groups.append(Group(tuple(resources), tuple(one.text("name") for one in flavors)))
    return tuple(groups), quotas


def _stop(spec: Fields) -> str:
    """Return the policy by which a queue is stopped; "" if it is open."""
    return spec.word("stopPolicy").removeprefix("None")


def _inactive(item: Fields) -> str:
    """Return the stated reason of an inactive queue; "" if it is active or states nothing."""
    for one in item.part("status").objects("conditions", None, []):
        if one.text("type") == "Active" and one.text("status") == "False":
            return one.text("message", "") or one.text("reason", "") or "no reason is given"
    return ""


def allowed_spaces(queue: Queue, spaces: Mapping[str, Mapping[str, str]], space: str) -> str:
    """Return "yes", "no" or "unknown" on whether workloads of a namespace may use a queue."""
    if not queue.selector:
        return "yes"
    name = {"kubernetes.io/metadata.name": space}
    if space in spaces:
        known = {**name, **spaces[space]}
        return "yes" if all(holds(one, known) for one in queue.selector) else "no"
    if all(key in name for key, _, _ in queue.selector):
        return "yes" if all(holds(one, name) for one in queue.selector) else "no"
    return "unknown"


def quota_reason(queue: str, needs: Sequence[tuple[Slot, float, float]]) -> str:
    """Return why a queue can never grant a request, from each slot's amount and limit."""
    words = "; ".join(
        f"{amount_text(resource, limit)} of flavor {flavor}"
        if limit
        else f"none of flavor {flavor}"
        for (flavor, resource), _, limit in needs
    )
    (_, resource), amount, _ = needs[0]
    asks = f"asks for {amount_text(resource, amount)} {resource}"
    return f"{asks}, and its cluster queue {queue} may have at most {words}"
