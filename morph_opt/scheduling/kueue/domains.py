"""Domains of a topology: racks, blocks and nodes with what their nodes have and what is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from morph_opt.inputs.kueue.kube import BARRING, HOST, Taint, Toleration, holds, tolerates
from morph_opt.scheduling.kueue.workloads import PER_UNIT, PodSet

PODS = "pods"
"""Resource that counts pods on a node."""

MANY = 2**31 - 1
"""Pods that fit where nothing that is asked for limits them."""


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """Node of a cluster.

    Parameters
    ----------
    name, labels, taints
        Its name, labels and taints.
    amounts
        Thousandths of each resource that pods may have, less what pods outside Kueue hold.
    open
        Whether it is ready and schedulable.
    """

    name: str
    labels: Mapping[str, str]
    amounts: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    open: bool = True


@dataclass(slots=True, eq=False)
class Domain:
    """Domain of a topology with the counts of one search.

    Parameters
    ----------
    values
        Values of the levels down to its own.
    parent, children
        Its place in the tree.
    node
        Its node, where nodes are the lowest level.
    amounts
        Thousandths of its nodes together, at the lowest level.
    pods, slices
        Pods and slices that fit, later those that are given.
    pods_led, slices_led
        The same beside a leader.
    leaders
        Leaders that fit, later those that are given; at most 1.
    """

    values: tuple[str, ...]
    parent: Domain | None = None
    children: list[Domain] = field(default_factory=list)
    node: TopologyNode | None = None
    amounts: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    slices: int = 0
    pods_led: int = 0
    slices_led: int = 0
    leaders: int = 0

    def clear(self) -> None:
        """Forget the counts of the last search, here and below."""
        self.pods = self.slices = self.pods_led = self.slices_led = self.leaders = 0
        for child in self.children:
            child.clear()

    def copy(self, parent: Domain | None = None) -> Domain:
        """Return a copy of the subtree with counts of its own."""
        found = Domain(
            self.values, parent, [], self.node, self.amounts, self.pods, self.slices,
            self.pods_led, self.slices_led, self.leaders,
        )  # fmt: skip
        found.children = [child.copy(found) for child in self.children]
        return found


def fitting(requests: Mapping[str, int], amounts: Mapping[str, int]) -> int:
    """Return how many times requests fit in amounts."""
    counts = [amounts.get(r, 0) // n for r, n in requests.items() if n]
    return max(0, min(counts, default=MANY))


class Topology:
    """Tree of the domains of a flavor.

    Parameters
    ----------
    levels
        Labels of nodes from the top.
    nodes
        Nodes of the flavor; those that are closed or lack a label of a level are left out.
    tolerations
        Tolerations that pods of the flavor are given.
    """

    def __init__(
        self,
        levels: Sequence[str],
        nodes: Iterable[TopologyNode],
        tolerations: tuple[Toleration, ...] = (),
    ) -> None:
        self.levels = tuple(levels)
        self.tolerations = tolerations
        self.of_nodes = self.levels[-1:] == (HOST,)
        self.by_level: list[dict[tuple[str, ...], Domain]] = [{} for _ in self.levels]
        self.leaves: dict[tuple[str, ...], Domain] = {}
        for node in nodes:
            if node.open and all(level in node.labels for level in self.levels):
                self._add(node)

    def _add(self, node: TopologyNode) -> None:
        values = tuple(node.labels[level] for level in self.levels)
        key = self.key(values)
        if key not in self.leaves:
            leaf = self.leaves[key] = self._domain(values)
            leaf.node = node if self.of_nodes else None
        for resource, amount in node.amounts.items():
            mine = self.leaves[key].amounts
            mine[resource] = mine.get(resource, 0) + amount

    def _domain(self, values: tuple[str, ...]) -> Domain:
        known = self.by_level[len(values) - 1]
        if values not in known:
            parent = self._domain(values[:-1]) if len(values) > 1 else None
            known[values] = Domain(values, parent)
            if parent is not None:
                parent.children.append(known[values])
        return known[values]

    def key(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values that name a lowest domain: a node's alone, where nodes are lowest."""
        return values[-1:] if self.of_nodes else values

    def open_to(self, pods: PodSet) -> Iterator[tuple[tuple[str, ...], Domain]]:
        """Yield the lowest domains whose taints and labels suit pods, with their names."""
        tolerations = (*pods.tolerations, *self.tolerations)
        for key, leaf in self.leaves.items():
            node = leaf.node
            if node is not None:
                taints = (one for one in node.taints if one[2] in BARRING)
                if not all(tolerates(tolerations, one) for one in taints):
                    continue
                if not pods.selector.items() <= node.labels.items():
                    continue
                terms = pods.terms
                if terms and not any(all(holds(e, node.labels) for e in t) for t in terms):
                    continue
            yield key, leaf


@dataclass(slots=True)
class Used:
    """Thousandths in use by domain.

    Parameters
    ----------
    amounts
        By the values that name a domain, and resource.
    """

    amounts: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)

    def add(self, key: tuple[str, ...], requests: Mapping[str, int], pods: int) -> None:
        """Count pods in a domain; a negative number of them ends."""
        mine = self.amounts.setdefault(key, {})
        for resource, amount in {**requests, PODS: PER_UNIT}.items():
            mine[resource] = mine.get(resource, 0) + amount * pods

    def copy(self) -> Used:
        """Return a copy."""
        return Used({key: dict(mine) for key, mine in self.amounts.items()})

    def left(self, leaf: Domain, key: tuple[str, ...]) -> dict[str, int]:
        """Return what is left of a lowest domain."""
        mine = self.amounts.get(key, {})
        return {r: amount - mine.get(r, 0) for r, amount in leaf.amounts.items()}
