"""Flavors and nodes open to each workload of Kueue, and quotas as rules of a round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape

from morph_opt.round.live.kube_gpus import is_gpu
from morph_opt.round.live.kube_nodes import HOST, KubeNode
from morph_opt.round.live.kueue_jobs import Asked, Running
from morph_opt.round.live.kueue_objects import some
from morph_opt.round.live.kueue_queues import (
    Flavor,
    Group,
    Queue,
    Queues,
    Slot,
    pool_of,
    quota_reason,
)
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.decision.rules.quota_tree import QuotaNode, quota_trees

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
    queues, nodes
        By name.
    levels
        Labels of topologies from the top, by name.
    free
        Free GPUs by node.
    used
        Amount by queue and slot that no job of the round uses.
    running
        Admitted workloads of the round.
    """

    def __init__(
        self,
        queues: Queues,
        nodes: Mapping[str, KubeNode],
        levels: Mapping[str, tuple[str, ...]],
        free: Mapping[str, Sequence[int]],
        used: Mapping[tuple[str, Slot], float],
        running: Sequence[Running],
    ) -> None:
        self._queues = queues
        self._nodes = nodes
        self._levels = levels
        self._free = {name: len(gpus) for name, gpus in free.items()}
        self._used = used
        self._running = running
        self._empty = queues.leaves(queues.slots())
        self._fits: dict[object, tuple[str, ...]] = {}
        self._on: dict[object, frozenset[str]] = {}
        self._placed: dict[str, Placed] = {}
        self._whys: dict[object, str] = {}
        self._waiting: list[tuple[Asked, str]] = []

    def held(self, job: Asked, queue: str) -> Asked:
        """Return the workload, held back if no flavor could ever satisfy its request."""
        if job.held:
            return job
        known = self._queues.queues[queue]
        for group, resources in _groups_of(job, known):
            suited = self._suited(job, known, group)
            if not suited:
                what = "flavors of its cluster queue fit its node selector and tolerations"
                more = f" and have {', '.join(job.required)}" if job.required else ""
                return replace(job, held=f"none of the {what}{more}: {', '.join(group.flavors)}")
            if self._eligible(job, known, group, resources):
                continue
            for resource in resources:
                needs = [((f, resource), job.amounts[resource]) for f in suited]
                limits = [(*one, self._could(queue, one[0])) for one in needs]
                if all(amount > limit + _SLACK for _, amount, limit in limits):
                    return replace(job, held=quota_reason(queue, limits))
            return replace(job, held="no flavor of its cluster queue has quota for all it asks for")
        return job

    def _could(self, queue: str, slot: Slot) -> float:
        leaf = self._empty.get((queue, slot))
        return 0.0 if leaf is None else max(0.0, leaf.could)

    def _suited(self, job: Asked, queue: Queue, group: Group) -> tuple[str, ...]:
        """Return the flavors whose labels, taints and topology suit a workload, in order."""
        key = queue.name, group, job.demands, job.required
        if key not in self._fits:
            known = {
                name: self._queues.flavors.get(name, Flavor(name, {})) for name in group.flavors
            }
            keys = frozenset(label for one in known.values() for label in one.labels)
            self._fits[key] = tuple(
                name
                for name, flavor in known.items()
                if all(demand.suits(flavor, keys) for demand in job.demands)
                and self._has_levels(flavor, job.required)
            )
        return self._fits[key]

    def _has_levels(self, flavor: Flavor, required: Sequence[str]) -> bool:
        """Return whether a flavor has a topology with these levels, as far as that is known."""
        if not required or not self._queues.flavors:
            return True
        levels = self._levels.get(flavor.topology)
        return bool(flavor.topology) and (levels is None or set(required) <= set(levels))

    def _eligible(
        self, job: Asked, queue: Queue, group: Group, resources: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the flavors that suit a workload and could hold it on an empty cluster."""
        return tuple(
            name
            for name in self._suited(job, queue, group)
            if all(
                job.amounts[one] <= self._could(queue.name, (name, one)) + _SLACK
                for one in resources
            )
        )

    def _nodes_of(self, job: Asked, flavor: str) -> frozenset[str]:
        """Return the nodes on which a workload's pods of one flavor may be."""
        key = job.demands, job.resource, flavor
        if key not in self._on:
            known = self._queues.flavors.get(flavor)
            levels = self._levels.get(known.topology, ()) if known is not None else ()
            self._on[key] = frozenset(
                name
                for name, node in self._nodes.items()
                if node.resource == job.resource
                and all(demand.allows(node, known) for demand in job.demands)
                and all(label in node.labels for label in levels)
            )
        return self._on[key]

    def assigned(self, jobs: Sequence[tuple[Asked, str]]) -> Mapping[str, Placed]:
        """Return the flavors and nodes that waiting workloads may use, by name.

        Where flavors of a queue have nodes in common, each workload is given the first that has
        quota for it after those before it in the list; else the round chooses.
        """
        now = self._used_now()
        for job, queue in jobs:
            known = self._queues.queues[queue]
            flavors: dict[Group, tuple[str, ...]] = {}
            nodes = frozenset(self._nodes)
            for group, resources in _groups_of(job, known):
                eligible = self._eligible(job, known, group, resources)
                first = self._first_free(job, queue, eligible, resources, now)
                for resource in resources:
                    if first and (leaf := now.get((queue, (first, resource)))) is not None:
                        leaf.add(job.amounts[resource])
                chosen: tuple[str, ...] = (first or eligible[0],)
                if job.resource in resources and not self._overlap(known, group, job.resource):
                    chosen = eligible
                if job.resource in resources:
                    nodes = frozenset().union(*(self._nodes_of(job, one) for one in chosen))
                flavors[group] = chosen
            if domains := [label for label in job.required if label != HOST]:
                nodes = self._domain(job, nodes, domains[0], flavors)
            self._placed[job.name] = Placed(nodes, flavors)
            self._waiting.append((job, queue))
        return self._placed

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
        if not flavors:
            return ""
        key = job.demands, job.resource, flavors, placed.nodes
        if key not in self._whys:
            self._whys[key] = self._why(job, flavors, placed.nodes)
        return self._whys[key]

    def _why(self, job: Asked, flavors: Sequence[str], nodes: frozenset[str]) -> str:
        """Return why a workload with these flavors may be on these of their nodes alone."""
        of_flavors = frozenset().union(*(self._of_flavor(one, job.resource) for one in flavors))
        if not of_flavors:
            labels = [
                f"{key}={value}"
                for one in flavors
                if one in self._queues.flavors
                for key, value in self._queues.flavors[one].labels.items()
            ]
            labelled = f" ({', '.join(labels)})" if labels else ""
            return f"no node with {job.resource} is of flavor {' or '.join(flavors)}{labelled}"
        taints: dict[str, list[str]] = defaultdict(list)
        for name in sorted(of_flavors - nodes):
            for one in self._not_borne(job, name, flavors):
                taints[one].append(name)
        if taints:
            named = "; ".join(f"{taint} ({some(names)})" for taint, names in taints.items())
            return f"it does not tolerate the taint {named}"
        if nodes:
            return ""
        named = " or ".join(flavors)
        return f"no node of flavor {named} fits its node selector, affinity and topology"

    def _not_borne(self, job: Asked, name: str, flavors: Sequence[str]) -> list[str]:
        """Return the taints that alone keep a workload from a node."""
        node = self._nodes[name]
        bare = replace(node, taints=())
        for flavor in flavors:
            known = self._queues.flavors.get(flavor)
            if all(demand.allows(bare, known) for demand in job.demands):
                return [
                    f"{key}={value}:{effect}" if value else f"{key}:{effect}"
                    for key, value, effect in node.taints
                    if not all(
                        demand.allows(replace(node, taints=((key, value, effect),)), known)
                        for demand in job.demands
                    )
                ]
        return []

    def _used_now(self) -> dict[tuple[str, Slot], QuotaNode]:
        """Return the nodes of queues in the trees, with their present usage."""
        return {
            (name, slot): node
            for slot, nodes in self._trees_now().items()
            for (_, name), node in nodes.items()
            if node.quota.tenants
        }

    def _trees_now(self) -> dict[Slot, dict[tuple[str, str], QuotaNode]]:
        """Return the trees with their present usage, by slot, pool and name."""
        found: dict[Slot, dict[tuple[str, str], QuotaNode]] = {}
        for slot in self._queues.slots():
            nodes = found[slot] = quota_trees(self._queues.tree(slot, self._used))
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
        now: Mapping[tuple[str, Slot], QuotaNode],
    ) -> str:
        """Return the first flavor with enough free quota for a workload; "" if none has."""
        for flavor in flavors:
            leaves = [(now.get((queue, (flavor, one))), job.amounts[one]) for one in resources]
            if all(leaf is not None and amount <= leaf.free + _SLACK for leaf, amount in leaves):
                return flavor
        return ""

    def _overlap(self, queue: Queue, group: Group, resource: str) -> bool:
        """Return whether two flavors of a group may be on one node."""
        key = "overlap", queue.name, group, resource
        if key not in self._fits:
            seen: set[str] = set()
            found = False
            for name in group.flavors:
                own = self._of_flavor(name, resource)
                found |= bool(seen & own)
                seen |= own
            self._fits[key] = ("yes",) if found else ()
        return bool(self._fits[key])

    def _of_flavor(self, name: str, resource: str) -> frozenset[str]:
        """Return the nodes with GPUs of a resource that have the labels of a flavor."""
        key = "flavor", name, resource
        if key not in self._on:
            labels = self._queues.flavors[name].labels if name in self._queues.flavors else {}
            self._on[key] = frozenset(
                node.name
                for node in self._nodes.values()
                if node.resource == resource and labels.items() <= node.labels.items()
            )
        return self._on[key]

    def _domain(
        self,
        job: Asked,
        nodes: frozenset[str],
        label: str,
        flavors: Mapping[Group, tuple[str, ...]],
    ) -> frozenset[str]:
        """Return the nodes of one domain of a topology for a workload that must be in one.

        It is the one with the fewest free GPUs among those that have room for it beside what was
        given to workloads before it, else the largest.
        """
        levels: tuple[str, ...] = (label,)
        for names in flavors.values():
            for one in names:
                known = self._queues.flavors.get(one)
                path = self._levels.get(known.topology, ()) if known is not None else ()
                if label in path:
                    levels = path[: path.index(label) + 1]
        domains: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in sorted(nodes):
            labels = self._nodes[name].labels
            if all(one in labels for one in levels):
                domains[tuple(labels[one] for one in levels)].append(name)
        each = job.pods[0]
        fits = {
            place: sum(self._free[name] // each * each for name in names if self._open(name))
            for place, names in domains.items()
        }
        enough = [place for place, free in fits.items() if free >= job.gpus]
        if enough:
            best = min(enough, key=lambda place: (fits[place], place))
            left = job.gpus
            for name in sorted(domains[best], key=lambda one: (-self._free[one], one)):
                taken = min(left, self._free[name] // each * each) if self._open(name) else 0
                self._free[name] -= taken
                left -= taken
            return frozenset(domains[best])
        size = {
            place: sum(self._nodes[name].gpus for name in names) for place, names in domains.items()
        }
        return (
            frozenset(domains[max(size, key=lambda place: (size[place], place))])
            if size
            else (frozenset())
        )

    def _open(self, name: str) -> bool:
        return not self._nodes[name].closed

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
                    here = sorted(self._nodes_of(job, one) & placed.nodes)
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
        asked = {resource for job, _ in self._waiting for resource in job.amounts}
        found: list[Rule] = []
        now = self._trees_now()
        for slot in self._queues.slots():
            if slot[1] not in asked:
                continue
            members = {
                name: self._members(queue, slot, types)
                for name, queue in self._queues.queues.items()
            }
            tree = self._queues.tree(slot, self._used, members)
            tree = [
                replace(one, tenants=()) if one.tenants and one.jobs == _NO_JOB else one
                for one in tree
            ]
            tree = [replace(one, jobs=()) if one.jobs == _NO_JOB else one for one in tree]
            if is_gpu(slot[1]) or not self._fits_all(tree):
                found += [replace(one, note=_in_use(now[slot][one.pool, one.name])) for one in tree]
        return found

    def _members(self, queue: Queue, slot: Slot, types: Mapping[str, str]) -> CohortQuota:
        """Return the rule of the jobs of a queue that count in a slot, outside of any tree."""
        flavor, resource = slot
        base = CohortQuota(queue.name, 0.0, tenants=(queue.name,))
        group = queue.group_of(resource)
        of_gpus = [one for one in (group.resources if group else ()) if is_gpu(one)]
        amounts: dict[str, float] = {}
        node_types: tuple[str, ...] = ()
        disjoint = bool(of_gpus) and not any(
            self._overlap(queue, group, one) for one in of_gpus if group is not None
        )
        if disjoint:
            here = {name for one in of_gpus for name in self._of_flavor(flavor, one)}
            node_types = tuple(sorted({escape(types[name]) for name in here}))
            if not node_types:
                return replace(base, jobs=_NO_JOB)
            if is_gpu(resource) and len(of_gpus) == 1:
                return replace(base, node_types=node_types)
        for job, name in self._waiting:
            placed = self._placed[job.name]
            mine = name == queue.name and group is not None and group in placed.flavors
            if mine and flavor in placed.flavors[group]:  # type: ignore[index]
                amounts[job.name] = job.amounts.get(resource, 0.0)
        for one in self._running:
            assert one.job.admission is not None
            if one.queue == queue.name:
                amounts[one.job.name] = one.job.admission.usage.get(slot, 0.0)
        amounts = {name: amount for name, amount in amounts.items() if amount}
        if not amounts:
            return replace(base, jobs=_NO_JOB)
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


_NO_JOB = ("no job",)


def _in_use(node: QuotaNode) -> str:
    """Return the usage at a node and in its whole tree."""
    if node.above is None:
        return f"{node.usage:g} in use"
    root = node
    while root.above is not None:
        root = root.above
    rest = "all" if root.usage >= root.subtree else f"{root.usage:g}"
    return f"{node.usage:g} in use; cohort {root.quota.name} lends {root.subtree:g}, {rest} in use"


def _groups_of(job: Asked, queue: Queue) -> list[tuple[Group, list[str]]]:
    """Return the groups of a queue with the resources of each that a workload asks for."""
    return [
        (group, mine)
        for group in queue.groups
        if (mine := [one for one in group.resources if job.amounts.get(one, 0.0) > 0.0])
    ]
