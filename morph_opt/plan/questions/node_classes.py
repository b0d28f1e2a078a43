"""Classes of nodes that differ by name alone, and clusters with one more or fewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from morph_opt.core.domain import Cluster, Node


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of one type, leaf and NVLink domain, which differ by name alone."""

    name: str
    like: Node
    members: tuple[int, ...]


def classes_of(cluster: Cluster) -> tuple[NodeClass, ...]:
    """Return the classes of a cluster's nodes, in the order of their first nodes."""
    found: dict[tuple[str, str, str | None], list[int]] = {}
    for index, node in enumerate(cluster.nodes):
        key = node.type.name, node.leaf, node.nvlink_domain
        found.setdefault(key, []).append(index)
    flat = len({key[1:] for key in found}) == 1
    return tuple(
        NodeClass(
            key[0] if flat else "/".join(filter(None, key)), cluster.nodes[rows[0]], tuple(rows)
        )
        for key, rows in found.items()
    )


def with_one_more(cluster: Cluster, like: Node) -> Cluster:
    """Return the cluster with a further node like this one."""
    names = {node.name for node in cluster.nodes}
    name = next(f"{like.name}+{k}" for k in range(1, 10**6) if f"{like.name}+{k}" not in names)
    return replace(cluster, nodes=(*cluster.nodes, replace(like, name=name)))


def without(cluster: Cluster, members: Sequence[int]) -> Cluster:
    """Return the cluster without these nodes, and without leaves that become empty."""
    gone = set(members)
    nodes = tuple(node for k, node in enumerate(cluster.nodes) if k not in gone)
    left = {node.leaf for node in nodes}
    return replace(
        cluster, nodes=nodes, leaves=tuple(leaf for leaf in cluster.leaves if leaf.name in left)
    )
