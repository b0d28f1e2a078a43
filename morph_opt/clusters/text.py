"""Clusters back to TOML; reading the text gives an equal cluster."""

from __future__ import annotations

import json
import re
from itertools import groupby

from morph_opt.domain import GPU_TYPES, Cluster, Node, NodeType


def toml_string(value: str) -> str:
    """A basic TOML string."""
    return json.dumps(value, ensure_ascii=False)


def cluster_to_toml(cluster: Cluster, *, under: str = "") -> str:
    """The spec of a cluster.

    Runs of nodes that differ only in a counted name become one ``[[nodes]]`` entry.

    Parameters
    ----------
    cluster
        What to write.
    under
        Table that the spec is part of, for example ``"cluster"``; empty for a file of its own.
    """
    text = _spec(cluster)
    if not under:
        return text
    nested = re.sub(r"^(\[\[?)", rf"\g<1>{under}.", text, flags=re.MULTILINE)
    return f"[{under}]\n{nested}"


def _spec(cluster: Cluster) -> str:
    blocks = [f"name = {toml_string(cluster.name)}\n"]
    for gpu in cluster.gpu_types:
        if GPU_TYPES.get(gpu.name) != gpu:
            header = f"[gpu_type.{toml_string(gpu.name)}]"
            price = gpu.price_per_hour
            priced = "" if price is None else f"price_per_hour = {float(price)!r}\n"
            blocks.append(f"{header}\nmemory_gib = {gpu.memory_gib!r}\n{priced}")
    blocks += [_node_type(kind) for kind in cluster.node_types]
    place = [(node.type.name, node.leaf, node.nvlink_domain, _stem(node)) for node in cluster.nodes]
    position = 0
    for _, run in groupby(place):
        count = len(list(run))
        blocks += _entries(cluster.nodes[position : position + count])
        position += count
    for leaf in cluster.leaves:
        header = f"[leaf.{toml_string(leaf.name)}]"
        blocks.append(f"{header}\nuplink_gb_per_s = {float(leaf.uplink_gb_per_s)!r}\n")
    return "\n".join(blocks)


def _node_type(kind: NodeType) -> str:
    return (
        f"[node_type.{toml_string(kind.name)}]\n"
        f"gpu_type = {toml_string(kind.gpu_type.name)}\n"
        f"gpus = {kind.gpus}\n"
        f"cpus = {kind.cpus}\n"
        f"host_memory_gib = {float(kind.host_memory_gib)!r}\n"
        f"nvlink_gb_per_s = {float(kind.nvlink_gb_per_s)!r}\n"
        f"rdma_gb_per_s = {float(kind.rdma_gb_per_s)!r}\n"
    )


def _stem(node: Node) -> str:
    """``node`` of ``node-07``; the whole name if it is not counted."""
    head, dash, tail = node.name.rpartition("-")
    return head if dash and tail.isascii() and tail.isdigit() else node.name


def _entries(nodes: tuple[Node, ...]) -> list[str]:
    stem, count = _stem(nodes[0]), len(nodes)
    width = len(str(count - 1))
    counted = [f"{stem}-{index:0{width}d}" for index in range(count)]
    if count > 1 and counted == [node.name for node in nodes]:
        return [_entry(nodes[0], stem, count)]
    return [_entry(node, node.name, 1) for node in nodes]


def _entry(node: Node, name: str, count: int) -> str:
    lines = [
        "[[nodes]]",
        f"type = {toml_string(node.type.name)}",
        f"count = {count}",
        f"name = {toml_string(name)}",
        f"leaf = {toml_string(node.leaf)}",
    ]
    if node.nvlink_domain is not None:
        lines.append(f"nvlink_domain = {toml_string(node.nvlink_domain)}")
    return "\n".join(lines) + "\n"
