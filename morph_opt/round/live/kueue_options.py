"""Flavors and nodes open to each workload of Kueue, and quotas as rules of a round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from glob import escape

from morph_opt.core.domain.errors import some
from morph_opt.inputs.kueue.kube import HOST, Taint, is_gpu
from morph_opt.inputs.kueue.queues import Flavor, Group, Queue, Slot, pool_of, quota_reason
from morph_opt.round.live.kueue_jobs import Asked, Demand, Running
from morph_opt.round.live.kueue_objects import KueueObjects
from morph_opt.round.live.kueue_trees import leaves, quota_rules
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.decision.rules.quota_tree import RuledNode, quota_trees

_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Placed:
    """Flavors and nodes that a waiting workload may use.

    Parameters
    ----------
    nodes
        Nodes that it may be on.
    flavors
        Flavors that it may be given, by group of its queue; one, or several of which no two have
        nodes in common.
    """

    nodes: frozenset[str]
    flavors: Mapping[Group, tuple[str, ...]]


class Options:
    """Flavors and nodes of workloads.

    Parameters
    ----------
    cluster
        Objects of the cluster, with the GPUs that nobody holds.
    running
        Admitted workloads of the round.
    """

    def __init__(self, cluster: KueueObjects, running: Sequence[Running]) -> None:
        self._cluster, self._running = cluster, running
        self._queues, self._nodes = cluster.queues, cluster.nodes
        self._left = {name: len(gpus) for name, gpus in cluster.free.items()}
        self._empty = leaves(self._queues, self._queues.slots())
        self._placed: dict[str, Placed] = {}
        self._waiting: list[Asked] = []
        # Workloads are many, the kinds of them few.
        self._suited = cache(self._find_suited)
        self._nodes_of = cache(self._find_nodes_of)
        self._of_flavor = cache(self._find_of_flavor)
        self._overlap = cache(self._find_overlap)
        self._why = cache(self._find_why)

    def held(self, job: Asked) -> Asked:
        """Return the workload, held back if no flavor could ever satisfy its request."""
        if job.held:
            return job
        queue = self._cluster.queue_of(job)
        for group, resources in self._groups_of(job):
            suited = self._suited(group, job.demands, job.required)
            if not suited:
                what = "flavors of its cluster queue fit its node selector and tolerations"
                more = f" and have {', '.join(job.required)}" if job.required else ""
                return replace(job, held=f"none of the {what}{more}: {', '.join(group.flavors)}")
            if self._eligible(job, group, resources):
                continue
            for resource in resources:
                needs = [((f, resource), job.amounts[resource]) for f in suited]
                limits = [(*one, self._could(queue, one[0])) for one in needs]
                if all(amount > limit + _SLACK for _, amount, limit in limits):
                    return replace(job, held=quota_reason(queue, limits))
            return replace(job, held="no flavor of its cluster queue has quota for all it asks for")
        return job

    def _groups_of(self, job: Asked) -> list[tuple[Group, list[str]]]:
        """Return the groups of a workload's queue, with the resources of each that it asks for."""
        return [
            (group, mine)
            for group in self._queues.queues[self._cluster.queue_of(job)].groups
            if (mine := [one for one in group.resources if job.amounts.get(one, 0.0) > 0.0])
        ]

    def _could(self, queue: str, slot: Slot) -> float:
        leaf = self._empty.get((queue, slot))
        return 0.0 if leaf is None else max(0.0, leaf.could)

    def _find_suited(
        self, group: Group, demands: tuple[Demand, ...], required: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the flavors whose labels, taints and topology suit a workload, in order."""
        known = [self._queues.flavor(name) for name in group.flavors]
        keys = frozenset(label for one in known for label in one.labels)
        return tuple(
            flavor.name
            for flavor in known
            if all(demand.suits(flavor, keys) for demand in demands)
            and self._has_levels(flavor, required)
        )

    def _has_levels(self, flavor: Flavor, required: Sequence[str]) -> bool:
        """Return whether a flavor has a topology with these levels, as far as that is known."""
        if not required or not self._queues.flavors:
            return True
        levels = self._cluster.levels.get(flavor.topology)
        return bool(flavor.topology) and (levels is None or set(required) <= set(levels))

    def _eligible(self, job: Asked, group: Group, resources: Sequence[str]) -> tuple[str, ...]:
        """Return the flavors that suit a workload and could hold it on an empty cluster."""
        queue = self._cluster.queue_of(job)
        return tuple(
            name
            for name in self._suited(group, job.demands, job.required)
            if all(job.amounts[r] <= self._could(queue, (name, r)) + _SLACK for r in resources)
        )

    def _find_nodes_of(
        self, demands: tuple[Demand, ...], resource: str, flavor: str
    ) -> frozenset[str]:
        """Return the nodes on which a workload's pods of one flavor may be."""
        known = self._queues.flavor(flavor)
        levels = self._cluster.levels.get(known.topology, ())
        return frozenset(
            name
            for name, node in self._nodes.items()
            if node.resource == resource
            and all(demand.allows(node, known) for demand in demands)
            and all(label in node.labels for label in levels)
        )

    def assigned(self, jobs: Sequence[Asked]) -> Mapping[str, Placed]:
        """Return the flavors and nodes that waiting workloads may use, by name.

        Where flavors of a queue have nodes in common, each workload is given the first that has
        quota for it after those before it in the list; else the round chooses.
        """
        now = self._used_now()
        for job in jobs:
            queue = self._cluster.queue_of(job)
            flavors: dict[Group, tuple[str, ...]] = {}
            nodes = frozenset(self._nodes)
            for group, resources in self._groups_of(job):
                eligible = self._eligible(job, group, resources)
                first = self._first_free(job, queue, eligible, resources, now)
                for resource in resources:
                    if first and (leaf := now.get((queue, (first, resource)))) is not None:
                        leaf.add(job.amounts[resource])
                flavors[group] = (first or eligible[0],)
                if job.resource in resources:
                    if not self._overlap(group, job.resource):
                        flavors[group] = eligible
                    nodes = self._nodes_in(job, flavors[group])
            if domains := [label for label in job.required if label != HOST]:
                nodes = self._domain(job, nodes, domains[0], flavors)
            self._placed[job.name] = Placed(nodes, flavors)
            self._waiting.append(job)
        return self._placed

    def _nodes_in(self, job: Asked, flavors: Iterable[str]) -> frozenset[str]:
        """Return the nodes on which a workload's pods of some flavors may be."""
        found = (self._nodes_of(job.demands, job.resource, one) for one in flavors)
        return frozenset().union(*found)

    def barred_why(self, job: Asked) -> str:
        """Return why an assigned workload may not be on nodes of its flavors.

        With no node left it is the reason that fits all; else taints alone, "" without them.
        """
        placed = self._placed[job.name]
        flavors = tuple(
            one
            for group, names in placed.flavors.items()
            if job.resource in group.resources
            for one in names
        )
        return self._why(job.demands, job.resource, flavors, placed.nodes) if flavors else ""

    def _find_why(
        self,
        demands: tuple[Demand, ...],
        resource: str,
        flavors: tuple[str, ...],
        nodes: frozenset[str],
    ) -> str:
        """Return why a workload with these flavors may use only some of the flavors' nodes."""
        of_flavors = frozenset().union(*(self._of_flavor(one, resource) for one in flavors))
        if not of_flavors:
            pairs = [pair for one in flavors for pair in self._queues.flavor(one).labels.items()]
            labels = ", ".join(f"{key}={value}" for key, value in pairs)
            labelled = f" ({labels})" if labels else ""
            return f"no node with {resource} is of flavor {' or '.join(flavors)}{labelled}"
        taints: dict[str, list[str]] = defaultdict(list)
        for name in sorted(of_flavors - nodes):
            for one in self._not_borne(demands, name, flavors):
                taints[one].append(name)
        if taints:
            named = "; ".join(f"{taint} ({some(names)})" for taint, names in taints.items())
            return f"it does not tolerate the taint {named}"
        if nodes:
            return ""
        named = " or ".join(flavors)
        return f"no node of flavor {named} fits its node selector, affinity and topology"

    def _not_borne(self, demands: Sequence[Demand], name: str, flavors: Sequence[str]) -> list[str]:
        """Return the taints of a node that each suffice to keep a workload away."""
        node = self._nodes[name]

        def allowed(flavor: str, *taints: Taint) -> bool:
            known, tainted = self._queues.flavor(flavor), replace(node, taints=taints)
            return all(demand.allows(tainted, known) for demand in demands)

        flavor = next((one for one in flavors if allowed(one)), None)
        return [
            f"{key}={value}:{effect}" if value else f"{key}:{effect}"
            for key, value, effect in (node.taints if flavor is not None else ())
            if not allowed(str(flavor), (key, value, effect))
        ]

    def _used_now(self) -> dict[tuple[str, Slot], RuledNode]:
        """Return the nodes of queues in the trees, with their present usage."""
        return {
            (name, slot): node
            for slot, nodes in self._trees_now().items()
            for (_, name), node in nodes.items()
            if node.quota.tenants
        }

    def _trees_now(self) -> dict[Slot, dict[tuple[str, str], RuledNode]]:
        """Return the trees with their present usage, by slot, pool and name."""
        found: dict[Slot, dict[tuple[str, str], RuledNode]] = {}
        for slot in self._queues.slots():
            nodes = found[slot] = quota_trees(quota_rules(self._queues, slot, self._cluster.used))
            for one in self._running:
                assert one.job.admission is not None
                amount = one.job.admission.usage.get(slot, 0.0)
                if amount and (leaf := nodes.get((pool_of(slot), one.queue))) is not None:
                    leaf.add(amount)
        return found

    def _first_free(
        self,
        job: Asked,
        queue: str,
        flavors: Sequence[str],
        resources: Sequence[str],
        now: Mapping[tuple[str, Slot], RuledNode],
    ) -> str:
        """Return the first flavor with enough free quota for a workload; "" if none has."""
        for flavor in flavors:
            leaves = [(now.get((queue, (flavor, one))), job.amounts[one]) for one in resources]
            if all(leaf is not None and amount <= leaf.free + _SLACK for leaf, amount in leaves):
                return flavor
        return ""

    def _find_overlap(self, group: Group, resource: str) -> bool:
        """Return whether two flavors of a group may be on one node."""
        of_each = [self._of_flavor(name, resource) for name in group.flavors]
        return sum(map(len, of_each)) > len(frozenset().union(*of_each))

    def _find_of_flavor(self, name: str, resource: str) -> frozenset[str]:
        """Return the nodes with GPUs of a resource that have the labels of a flavor."""
        labels = self._queues.flavor(name).labels
        return frozenset(
            node.name
            for node in self._nodes.values()
            if node.resource == resource and labels.items() <= node.labels.items()
        )

    def _domain(
        self,
        job: Asked,
        nodes: frozenset[str],
        label: str,
        flavors: Mapping[Group, tuple[str, ...]],
    ) -> frozenset[str]:
        """Return the nodes of one domain of a topology for a workload that must be in one.

        It is the one with the fewest free GPUs among those with room for it after earlier workloads
        took theirs, else the largest.
        """
        each = job.pods[0]

        def room(name: str) -> int:
            return 0 if self._nodes[name].closed else self._left[name] // each * each

        levels: tuple[str, ...] = (label,)
        for one in (name for names in flavors.values() for name in names):
            path = self._cluster.levels.get(self._queues.flavor(one).topology, ())
            if label in path:
                levels = path[: path.index(label) + 1]
        domains: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in sorted(nodes):
            labels = self._nodes[name].labels
            if all(one in labels for one in levels):
                domains[tuple(labels[one] for one in levels)].append(name)
        fits = {place: sum(map(room, names)) for place, names in domains.items()}
        enough = [place for place, free in fits.items() if free >= job.gpus]
        if enough:
            best = min(enough, key=lambda place: (fits[place], place))
            left = job.gpus
            for name in sorted(domains[best], key=lambda one: (-self._left[one], one)):
                taken = min(left, room(name))
                self._left[name] -= taken
                left -= taken
            return frozenset(domains[best])

        def size(place: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
            return sum(self._nodes[name].gpus for name in domains[place]), place

        return frozenset(domains[max(domains, key=size)] if domains else ())

    def overdrawn(self) -> list[str]:
        """Return a note for each queue that holds more than its limit."""
        return [
            f"cluster queue {name} holds {leaf.usage:g} {slot[1]} of flavor {slot[0]}, "
            f"its quota is {leaf.could:g}"
            for (name, slot), leaf in self._used_now().items()
            if leaf.usage > leaf.could + _SLACK
        ]

    def order(self, job: Asked, types: Mapping[str, str]) -> tuple[str, ...]:
        """Return the node types that a workload may start on, in the order of its flavors."""
        placed = self._placed[job.name]
        for group, flavors in placed.flavors.items():
            if job.resource in group.resources and len(flavors) > 1:
                found: dict[str, None] = {}
                for one in flavors:
                    here = sorted(self._nodes_in(job, (one,)) & placed.nodes)
                    found |= dict.fromkeys(types[name] for name in here)
                return tuple(found)
        return ()

    def rules(self, types: Mapping[str, str]) -> list[Rule]:
        """Return the quotas of all resources that waiting workloads ask for.

        Those of other resources than GPUs are left out where all workloads together fit.

        Parameters
        ----------
        types
            Names of node types by node.
        """
        asked = {resource for job in self._waiting for resource in job.amounts}
        found: list[Rule] = []
        now = self._trees_now()
        for slot in self._queues.slots():
            if slot[1] not in asked:
                continue
            members = {
                name: self._members(queue, slot, types)
                for name, queue in self._queues.queues.items()
            }
            tree = quota_rules(self._queues, slot, self._cluster.used, members)
            if is_gpu(slot[1]) or not self._fits_all(tree):
                found += [replace(one, note=_in_use(now[slot][one.pool, one.name])) for one in tree]
        return found

    def _members(self, queue: Queue, slot: Slot, types: Mapping[str, str]) -> CohortQuota:
        """Return the rule of the jobs of a queue that count in a slot, outside of any tree.

        Without such jobs it has no tenants.
        """
        flavor, resource = slot
        base = CohortQuota(queue.name, 0.0, tenants=(queue.name,))
        group = queue.group_of(resource)
        of_gpus = [one for one in (group.resources if group else ()) if is_gpu(one)]
        amounts: dict[str, float] = {}
        node_types: tuple[str, ...] = ()
        if group and of_gpus and not any(self._overlap(group, one) for one in of_gpus):
            here = {name for one in of_gpus for name in self._of_flavor(flavor, one)}
            node_types = tuple(sorted({escape(types[name]) for name in here}))
            if not node_types:
                return replace(base, tenants=())
            if is_gpu(resource) and len(of_gpus) == 1:
                return replace(base, node_types=node_types)
        for job in self._waiting:
            given = self._placed[job.name].flavors.get(group, ()) if group is not None else ()
            if flavor in given and self._cluster.queue_of(job) == queue.name:
                amounts[job.name] = job.amounts.get(resource, 0.0)
        for one in self._running:
            assert one.job.admission is not None
            if one.queue == queue.name:
                amounts[one.job.name] = one.job.admission.usage.get(slot, 0.0)
        amounts = {name: amount for name, amount in amounts.items() if amount}
        if not amounts:
            return replace(base, tenants=())
        return replace(
            base,
            jobs=tuple(map(escape, amounts)),
            amounts=tuple(amounts.values()),
            node_types=node_types,
        )

    def _fits_all(self, tree: Iterable[CohortQuota]) -> bool:
        """Return whether a tree has room for all jobs that are counted in it together."""
        for node in quota_trees(tree).values():
            for amount in node.quota.amounts if node.quota.tenants else ():
                if amount > node.free + _SLACK:
                    return False
                node.add(amount)
        return True


def _in_use(node: RuledNode) -> str:
    """Return the usage at a node and in its whole tree."""
    if node.above is None:
        return f"{node.usage:g} in use"
    root = node
    while root.above is not None:
        root = root.above
    rest = "all" if root.usage >= root.subtree else f"{root.usage:g}"
    return f"{node.usage:g} in use; cohort {root.quota.name} lends {root.subtree:g}, {rest} in use"
