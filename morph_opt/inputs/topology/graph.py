"""Topology of a cluster: one networkx graph, and the tables that rounds read from it.

Vertices have a ``kind`` and a ``name``, edges a ``kind`` (`Link`) and ``gb_per_s``::

    spine --- leaf --- node
                         |
                   NVLink domain          (only where NVLink joins several nodes)

A node has its hardware as attributes. It is linked to its leaf with the bandwidth of its network
cards, and to its NVLink domain, if it has one, with the NVLink bandwidth of all its GPUs. A leaf
is linked to the spine with the bandwidth of its uplinks. An edge without ``gb_per_s`` is unbounded.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from formulations.resources import OPTIONAL
from morph_opt.core.documents import plain
from morph_opt.core.domain import Cluster, InputError, NodeType, Span

if TYPE_CHECKING:  # imported where a graph is built: help and reports need none
    import networkx as nx


class Kind(StrEnum):
    """Kinds of vertices of the graph."""

    SPINE = "spine"
    LEAF = "leaf"
    NVLINK = "nvlink"
    NODE = "node"

    def vertex(self, name: str) -> str:
        """Return the key of the vertex of this kind and name."""
        return f"{self}:{name}"


class Link(StrEnum):
    """Kinds of edges of the graph."""

    NETWORK = "network"
    NVLINK = "nvlink"


SPINE = Kind.SPINE.vertex("spine")


def cluster_to_graph(cluster: Cluster) -> nx.Graph:
    """Return the topology of a cluster as a networkx graph.

    `cluster_from_graph` reads it back to an equal cluster.

    Returns
    -------
    networkx.Graph
        Undirected, keys are text, nodes in the order of the cluster. Attributes are text or
        numbers; ``gb_per_s`` of edges is in gigabytes (1e9) per second and direction.
    """
    import networkx as nx

    graph = nx.Graph(name=cluster.name)
    graph.add_node(SPINE, kind=str(Kind.SPINE), name="spine")
    network, nvlink = {"kind": str(Link.NETWORK)}, {"kind": str(Link.NVLINK)}
    uplinks = {leaf.name: {"gb_per_s": leaf.uplink_gb_per_s} for leaf in cluster.leaves}
    for name in dict.fromkeys((*uplinks, *cluster.leaf_names)):
        leaf = Kind.LEAF.vertex(name)
        graph.add_node(leaf, kind=str(Kind.LEAF), name=name)
        graph.add_edge(SPINE, leaf, **network, **uplinks.get(name, {}))
    links: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        kind.name: (
            _hardware(kind),
            network | {"gb_per_s": kind.rdma_gb_per_s},
            nvlink | {"gb_per_s": kind.gpus * kind.nvlink_gb_per_s},
        )
        for kind in cluster.node_types
    }
    for node in cluster.nodes:
        vertex, domain = Kind.NODE.vertex(node.name), node.nvlink_domain
        hardware, cards, gpus = links[node.type.name]
        graph.add_node(vertex, kind=str(Kind.NODE), name=node.name, **hardware)
        graph.add_edge(Kind.LEAF.vertex(node.leaf), vertex, **cards)
        if domain is not None:
            joined = Kind.NVLINK.vertex(domain)
            graph.add_node(joined, kind=str(Kind.NVLINK), name=domain)
            graph.add_edge(joined, vertex, **gpus)
    return graph


def _hardware(kind: NodeType) -> dict[str, Any]:
    """Return the attributes of the nodes of a type."""
    gpu = kind.gpu_type
    price = {} if gpu.price_per_hour is None else {"gpu_price_per_hour": gpu.price_per_hour}
    own = plain(kind, "name", optional=OPTIONAL, gpu_type=gpu.name)
    return {"type": kind.name, **own, "gpu_memory_gib": gpu.memory_gib, **price}


class Topology:
    """Network of a cluster: the graph, and the tables of a round, all read from the graph.

    Nodes have their index in the cluster; leaves and NVLink domains are numbered in the order of
    their first nodes.

    Parameters
    ----------
    cluster
        Its nodes and their places. No reference to it is kept.

    Attributes
    ----------
    graph
        As `cluster_to_graph` returns it, frozen.
    leaf_names
        Names of the leaves.
    leaf
        Leaf of each node.
    domain
        NVLink domain of each node; a node whose NVLink ends at it is a domain of its own.
    uplink_gb_per_s
        Bandwidth of the uplinks of each leaf, gigabytes (1e9) per second and direction; infinite
        if unbounded.
    """

    def __init__(self, cluster: Cluster) -> None:
        import networkx as nx

        self.graph: nx.Graph = nx.freeze(cluster_to_graph(cluster))
        kinds, links = self.graph.nodes(data="kind"), self.graph.adj
        leaves: dict[str, int] = {}
        domains: dict[str, int] = {}
        leaf: list[int] = []
        domain: list[int] = []
        for vertex, kind in kinds:
            if kind != Kind.NODE:
                continue
            home, joined = "", vertex
            for other, link in links[vertex].items():
                if link["kind"] == Link.NETWORK:
                    home = other
                else:
                    joined = other
            leaf.append(leaves.setdefault(home, len(leaves)))
            domain.append(domains.setdefault(joined, len(domains)))
        self.leaf, self.domain = tuple(leaf), tuple(domain)
        self.leaf_names = tuple(self.graph.nodes[name]["name"] for name in leaves)
        self.uplink_gb_per_s = tuple(
            float(links[SPINE][name].get("gb_per_s", math.inf)) for name in leaves
        )

    def span(self, nodes: Iterable[int]) -> Span:
        """Return the tightest part of the topology that contains these node indices."""
        distinct = set(nodes)
        if len(distinct) <= 1:
            return Span.NODE
        if len({self.domain[node] for node in distinct}) == 1:
            return Span.NVLINK
        return Span.LEAF if len({self.leaf[node] for node in distinct}) == 1 else Span.POD

    def spans(self, nodes: Iterable[int]) -> tuple[Span, ...]:
        """Return the spans of placements on several of these node indices, tightest first.

        `Span.LEAF` is always one of them: the span that is asked for if a cluster is flat.
        """
        inside = self.by_leaf(nodes)
        joined = any(count > 1 for of in inside.values() for count in of.values())
        across = len(inside) > 1
        return (Span.NVLINK,) * joined + (Span.LEAF,) + (Span.POD,) * across

    def by_leaf(self, nodes: Iterable[int]) -> dict[int, Counter[int]]:
        """Return the number of these node indices by leaf, and there by NVLink domain."""
        found: dict[int, Counter[int]] = {}
        for node in nodes:
            found.setdefault(self.leaf[node], Counter())[self.domain[node]] += 1
        return found

    def oversubscription(self, leaf: int) -> float:
        """Return bandwidth of nodes over bandwidth of uplinks of a leaf; 0 if unbounded."""
        links = self.graph.adj[Kind.LEAF.vertex(self.leaf_names[leaf])].items()
        down = sum(link["gb_per_s"] for other, link in links if other != SPINE)
        return float(down / self.uplink_gb_per_s[leaf])

    def bandwidth_gb_per_s(self, left: Iterable[str], right: Iterable[str]) -> float:
        """Return the largest rate from the nodes on the left to those on the right, a maximum flow.

        Other nodes forward nothing.

        Raises
        ------
        InputError
            If a name is unknown, a side is empty, or a node is on both sides.
        """
        import networkx as nx

        sides = self._vertices(left), self._vertices(right)
        if not all(sides) or set(sides[0]) & set(sides[1]):
            raise InputError("must be two disjoint sets of nodes, none empty", field="nodes")
        network = nx.Graph(self.graph)
        ends = {*sides[0], *sides[1]}
        nodes = (one for one, kind in self.graph.nodes(data="kind") if kind == Kind.NODE)
        network.remove_nodes_from([one for one in nodes if one not in ends])
        for end, side in zip(("left", "right"), sides, strict=True):
            network.add_edges_from((end, vertex) for vertex in side)
        return float(nx.maximum_flow_value(network, "left", "right", capacity="gb_per_s"))

    def path(self, left: str, right: str) -> list[str]:
        """Return the names between two nodes, both included, along the fewest links.

        NVLink is taken where it joins them.

        Raises
        ------
        InputError
            If a name is unknown.
        """
        import networkx as nx

        ends = self._vertices((left, right))
        weight = {Link.NVLINK: 1, Link.NETWORK: 2}
        found = nx.shortest_path(
            self.graph, ends[0], ends[-1], lambda _a, _b, link: weight[link["kind"]]
        )
        return [self.graph.nodes[vertex]["name"] for vertex in found]

    def _vertices(self, names: Iterable[str]) -> list[str]:
        found = [Kind.NODE.vertex(name) for name in dict.fromkeys(names)]
        for vertex in found:
            if vertex not in self.graph:
                name = vertex.removeprefix(Kind.NODE.vertex(""))
                raise InputError(f"the cluster has no node {name!r}", field="node")
        return found


_known: dict[int, Topology] = {}


def topology_of(cluster: Cluster) -> Topology:
    """Return the topology of a cluster, cached while the cluster exists.

    The key is the object: to hash or compare 8,192 nodes takes longer than a round may.
    """
    found = _known.get(id(cluster))
    if found is None:
        found = _known[id(cluster)] = Topology(cluster)
        weakref.finalize(cluster, _known.pop, id(cluster), None).atexit = False
    return found
