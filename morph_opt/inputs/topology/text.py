"""A topology as a text tree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from formulations.resources import SIDES
from morph_opt.core.domain import Cluster, Node, NodeType
from morph_opt.core.domain.placement import sides_of
from morph_opt.inputs.topology.graph import Topology, topology_of

Tree = tuple[str, list["Tree"]]


def topology_text(cluster: Cluster) -> str:
    """Return spine, leaves, NVLink domains and runs of equal nodes, one line each."""
    types = Counter[str]()
    for node in cluster.nodes:
        types[node.type.gpu_type.name] += node.type.gpus
    gpus = ", ".join(f"{count} {name}" for name, count in types.items())
    lines = [f"{cluster.name}: {_count(len(cluster.nodes), 'node')}, {gpus}", "spine"]
    leaves = range(len(topology_of(cluster).leaf_names))
    return "\n".join([*lines, *_branches([_leaf(cluster, leaf) for leaf in leaves])])


def between_text(cluster: Cluster, one: str, other: str) -> str:
    """Return span, path and bandwidth between two nodes.

    Raises
    ------
    InputError
        If the cluster has no such node, or they are the same.
    """
    topology, index = topology_of(cluster), cluster.node_index
    rate = topology.bandwidth_gb_per_s([one], [other])
    span = topology.span([index[one], index[other]]).name.lower()
    path = " - ".join(topology.path(one, other))
    return f"span {span}: {path}; {rate:g} GB/s over all links"


def nodes_under(cluster: Cluster, leaf: int) -> list[Node]:
    """Return the nodes under a leaf, in the order of the cluster."""
    homes = topology_of(cluster).leaf
    return [node for node, home in zip(cluster.nodes, homes, strict=True) if home == leaf]


def link_text(topology: Topology, leaf: int) -> str:
    """Return the connection of a leaf to the spine, such as ``400 GB/s up, 2:1``."""
    uplink = topology.uplink_gb_per_s[leaf]
    if math.isinf(uplink):
        return "uplinks not bounded"
    return f"{uplink:g} GB/s up, {topology.oversubscription(leaf):.3g}:1"


def type_text(kind: NodeType) -> str:
    """Return the hardware of a node type in one line."""
    sides = ", ".join(
        f"{amount:g} {resource.unit}"
        for resource, amount in zip(SIDES, sides_of(kind), strict=True)
        if amount or not resource.optional
    )
    nvlink = f"NVLink {kind.nvlink_gb_per_s:g} GB/s per GPU"
    return f"{kind.name} ({kind.gpus} {kind.gpu_type.name}, {sides}, {nvlink})"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _size(nodes: Sequence[Node]) -> str:
    gpus = sum(node.type.gpus for node in nodes)
    return f"{_count(len(nodes), 'node')}, {_count(gpus, 'GPU')}"


def _leaf(cluster: Cluster, leaf: int) -> Tree:
    nodes, topology = nodes_under(cluster, leaf), topology_of(cluster)
    children: list[Tree] = []
    for domain, run in groupby(nodes, key=lambda node: node.nvlink_domain):
        members = list(run)
        if domain is None:
            children += _runs(members)
        else:
            children.append((f"NVLink domain {domain}: {_size(members)}", _runs(members)))
    return f"{topology.leaf_names[leaf]}: {_size(nodes)}, {link_text(topology, leaf)}", children


def _runs(nodes: Sequence[Node]) -> list[Tree]:
    """Return runs of neighbouring nodes of one type."""
    found: list[Tree] = []
    for kind, run in groupby(nodes, key=lambda node: node.type):
        names = [node.name for node in run]
        title = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
        found.append((f"{title}: {len(names)} x {type_text(kind)}", []))
    return found


def _branches(trees: Sequence[Tree], before: str = "") -> Iterator[str]:
    for index, (title, children) in enumerate(trees):
        last = index == len(trees) - 1
        yield f"{before}{'└── ' if last else '├── '}{title}"
        yield from _branches(children, before + ("    " if last else "│   "))
