"""Network of a cluster as a networkx graph.

Vertices are `Vertex` values, edges carry ``gb_per_s``, the bandwidth of that link::

    spine --- leaf --- node --- GPU
                         |
                   NVLink domain          (only where NVLink joins several nodes)

A GPU hangs on its node with the NVLink bandwidth of one GPU, a node on its leaf with that of its
network cards, and on its NVLink domain, if it has one, with that of all its GPUs. A leaf hangs on
the spine with its uplinks, which are infinite unless the cluster bounds them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import networkx as nx

from morph_opt.core.domain import Cluster, InputError, Placement, Span


class Kind(StrEnum):
    """Kinds of vertices of the graph."""

    SPINE = "spine"
    LEAF = "leaf"
    NVLINK = "nvlink"
    NODE = "node"
    GPU = "gpu"


class Vertex(NamedTuple):
    """Vertex: kind, name (of the node for a GPU), and index of the GPU."""

    kind: Kind
    name: str
    gpu: int = 0


SPINE = Vertex(Kind.SPINE, "spine")


def topology_graph(cluster: Cluster) -> nx.Graph:
    """Return the graph of a cluster.

    Returns
    -------
    networkx.Graph
        Undirected, vertices of type `Vertex`, edge attribute ``gb_per_s`` (1e9 bytes per
        second); the order of vertices follows the cluster.
    """
    graph = nx.Graph(name=cluster.name)
    for name in cluster.leaf_names:
        graph.add_edge(SPINE, Vertex(Kind.LEAF, name), gb_per_s=cluster.uplink_gb_per_s(name))
    for node in cluster.nodes:
        vertex, kind = Vertex(Kind.NODE, node.name), node.type
        graph.add_edge(Vertex(Kind.LEAF, node.leaf), vertex, gb_per_s=kind.rdma_gb_per_s)
        if node.nvlink_domain is not None:
            domain = Vertex(Kind.NVLINK, node.nvlink_domain)
            graph.add_edge(domain, vertex, gb_per_s=kind.gpus * kind.nvlink_gb_per_s)
        for index in range(kind.gpus):
            gpu = Vertex(Kind.GPU, node.name, index)
            graph.add_edge(vertex, gpu, gb_per_s=kind.nvlink_gb_per_s)
    return graph


def span_of(graph: nx.Graph, nodes: Iterable[str]) -> Span:
    """Return the tightest part of the topology that contains these nodes, from the graph.

    Agrees with `Cluster.span`, which knows the same without a graph.

    Raises
    ------
    InputError
        If there is no node of that name.
    """
    held = _node_vertices(graph, nodes)
    if len(held) <= 1:
        return Span.NODE
    shared = set.intersection(*(set(graph.neighbors(vertex)) for vertex in held))
    kinds = {vertex.kind for vertex in shared}
    if Kind.NVLINK in kinds:
        return Span.NVLINK
    return Span.LEAF if Kind.LEAF in kinds else Span.POD


def bandwidth_gb_per_s(graph: nx.Graph, left: Iterable[str], right: Iterable[str]) -> float:
    """Return the largest rate from the nodes on the left to those on the right, a maximum flow.

    Raises
    ------
    InputError
        If a name is unknown, a side is empty, or a node is on both sides.
    """
    sides = (_node_vertices(graph, left), _node_vertices(graph, right))
    if not all(sides) or set(sides[0]) & set(sides[1]):
        raise InputError("must be two disjoint sets of nodes, none empty", field="nodes")
    # GPUs are left out: what a node sends is bounded by the node's own links
    network = graph.subgraph([v for v in graph if v.kind is not Kind.GPU]).copy()
    for end, side in zip(("left", "right"), sides, strict=True):
        network.add_edges_from((end, vertex, {"gb_per_s": math.inf}) for vertex in side)
    return float(nx.maximum_flow_value(network, "left", "right", capacity="gb_per_s"))


def _node_vertices(graph: nx.Graph, names: Iterable[str]) -> list[Vertex]:
    held = [Vertex(Kind.NODE, name) for name in dict.fromkeys(names)]
    for vertex in held:
        if vertex not in graph:
            raise InputError(f"the topology has no node {vertex.name!r}", field="node")
    return held


def oversubscription(cluster: Cluster, leaf: str) -> float:
    """Return node bandwidth over uplink bandwidth of a leaf; 0 if uplinks are unlimited.

    Raises
    ------
    InputError
        If there is no such leaf.
    """
    uplink = cluster.uplink_gb_per_s(leaf)
    return sum(n.type.rdma_gb_per_s for n in cluster.nodes if n.leaf == leaf) / uplink


def uplink_load_gb_per_s(
    cluster: Cluster, held: Iterable[tuple[Placement, float]]
) -> Mapping[str, float]:
    """Return the traffic that leaves each leaf.

    Parameters
    ----------
    held
        Placements with the network share of each of their GPUs (`SideDemand.rdma_gb_per_s`).
        All of it counts where the placement spans several leaves, nothing where it does not:
        a ring that leaves the leaf carries the same traffic on every link.

    Returns
    -------
    mapping
        Every leaf of the cluster to gigabytes (1e9) per second, to be held against
        `Cluster.uplink_gb_per_s`.
    """
    load = dict.fromkeys(cluster.leaf_names, 0.0)
    for placement, rdma_gb_per_s in held:
        if cluster.span(placement.nodes) is not Span.POD:
            continue
        for node, gpus in placement.parts:
            load[cluster.nodes[node].leaf] += len(gpus) * rdma_gb_per_s
    return load
