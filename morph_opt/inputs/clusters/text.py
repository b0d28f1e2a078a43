"""Clusters as TOML text, which reads back to an equal cluster."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from formulations.resources import OPTIONAL
from morph_opt.core.documents import plain, toml_text
from morph_opt.core.domain import GPU_TYPES, Cluster, Node, NodeType


def cluster_to_toml(cluster: Cluster) -> str:
    """Return the spec of a cluster as the text of a file."""
    return toml_text(cluster_to_tables(cluster))


def cluster_to_tables(cluster: Cluster) -> dict[str, Any]:
    """Return the spec of a cluster as tables that `clusters.spec.cluster_of` reads back.

    Runs of nodes that differ only in a counted name become one ``[[nodes]]`` entry.
    """
    spec: dict[str, Any] = {"name": cluster.name}
    for gpu in cluster.gpu_types:
        if GPU_TYPES.get(gpu.name) != gpu:
            price = gpu.price_per_hour
            priced = {} if price is None else {"price_per_hour": float(price)}
            table = {"memory_gib": float(gpu.memory_gib)} | priced
            spec.setdefault("gpu_type", {})[gpu.name] = table
    spec["node_type"] = {kind.name: _node_type(kind) for kind in cluster.node_types}
    spec["nodes"] = _runs(cluster)
    if cluster.leaves:
        spec["leaf"] = {
            leaf.name: {"uplink_gb_per_s": float(leaf.uplink_gb_per_s)} for leaf in cluster.leaves
        }
    return spec


def _node_type(kind: NodeType) -> dict[str, Any]:
    given = plain(kind, "name", optional=OPTIONAL, gpu_type=kind.gpu_type.name)
    types = NodeType.__annotations__
    return {name: float(v) if types[name] == "float" else v for name, v in given.items()}


def _runs(cluster: Cluster) -> list[dict[str, Any]]:
    place = [(node.type.name, node.leaf, node.nvlink_domain, _stem(node)) for node in cluster.nodes]
    entries: list[dict[str, Any]] = []
    position = 0
    for _, run in groupby(place):
        count = len(list(run))
        entries += _entries(cluster.nodes[position : position + count])
        position += count
    return entries


def _stem(node: Node) -> str:
    """Return ``node`` of ``node-07``, or the whole name if it has no number."""
    head, dash, tail = node.name.rpartition("-")
    return head if dash and tail.isascii() and tail.isdigit() else node.name


def _entries(nodes: tuple[Node, ...]) -> list[dict[str, Any]]:
    stem, count = _stem(nodes[0]), len(nodes)
    width = len(str(count - 1))
    counted = [f"{stem}-{index:0{width}d}" for index in range(count)]
    if count > 1 and counted == [node.name for node in nodes]:
        return [_entry(nodes[0], stem, count)]
    return [_entry(node, node.name, 1) for node in nodes]


def _entry(node: Node, name: str, count: int) -> dict[str, Any]:
    entry = {"type": node.type.name, "count": count, "name": name, "leaf": node.leaf}
    return entry if node.nvlink_domain is None else entry | {"nvlink_domain": node.nvlink_domain}
