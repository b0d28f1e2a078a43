"""Clusters from graphs of any naming: machines by their GPUs, leaves and domains by structure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from formulations.resources import SIDES
from morph_opt.core.domain import (
    A800_NODE,
    GPU_TYPES,
    Cluster,
    GpuType,
    InputError,
    Leaf,
    Node,
    NodeType,
)
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.cluster import MOST_NODES
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.topology.attributes import ALIASES, Attributes, words
from morph_opt.inputs.topology.graph import Kind, Link
from morph_opt.inputs.topology.levels import Network, group_name

if TYPE_CHECKING:
    import networkx as nx

_WHOLE = ("gpus", *(one.field for one in SIDES if one.whole))
_AMOUNTS = tuple(one.field for one in SIDES if not (one.whole or one.uplink))
_STEMS = {Link.NETWORK: "rdma", Link.NVLINK: "nvlink"}
"""First word of the names of a machine's bandwidths, by kind of link."""
_SWITCH = ("kind", "name")
_MACHINE = (
    *_SWITCH, "gpu_type", "gpu_memory_gib", "gpu_price_per_hour", "type", *_WHOLE, *_AMOUNTS,
    *(name for stem in _STEMS.values() for name in Attributes.rates(stem)),
)  # fmt: skip
_NVLINK = ("nvlink", "nvswitch")
_NETWORK = ("network", "ethernet", "infiniband", "ib", "roce", "rdma")
_AGREE = 1e-9
"""Largest relative difference of two statements of one bandwidth."""


def cluster_from_graph(graph: nx.Graph, *, name: str = "cluster") -> Cluster:
    """Return the cluster that a networkx graph describes.

    ``docs/topology.md`` has the rules.

    Parameters
    ----------
    graph
        Machines, which have the attribute ``gpus``, and switches, of any naming; directed or not,
        with parallel links or without.
    name
        Name of the cluster if the graph has none.

    Raises
    ------
    InputError
        If an attribute is wrong, or the graph has what no cluster can express: a mesh or torus,
        machines with different sets of leaf switches, unequal uplinks, limits other than those of
        the leaves. Names the vertex or edge.
    """
    import networkx

    require_type("graph", graph, networkx.Graph)
    return _Reader(graph, name).cluster()


@dataclass(frozen=True, slots=True)
class _Vertex(Attributes):
    """Vertex of the graph.

    Parameters
    ----------
    name
        Its attribute ``name``, else ``label``, else its key.
    """

    name: str = ""

    @classmethod
    def of(cls, key: Any, given: Mapping[str, Any]) -> _Vertex:
        """Return the vertex of a key and its attributes."""
        known = Attributes(f"nodes[{key}]", given)
        name = known.text("name") or known.text("label") or str(key)
        return cls(f"nodes[{name}]", given, name)

    @property
    def is_machine(self) -> bool:
        return any(name in self.given for name in ("gpus", *ALIASES["gpus"]))

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Add the vertex to errors about values made from it."""
        try:
            yield
        except InputError as error:
            owner, _, name = (error.field or "").rpartition(".")
            gpu = "gpu_" if owner == "gpu_type" and name != "name" else ""
            own = "gpu_type" if owner == "gpu_type" and name == "name" else f"{gpu}{name}"
            raise self.error(own, error.rule) from None

    def gpu(self) -> GpuType:
        """Return the type of a machine's GPUs: the stated one, else the catalog's."""
        stated = self.text("gpu_type")
        kind = self.text("type")
        name = kind if stated is None and kind in GPU_TYPES else stated
        if name is None:
            raise self.error("gpu_type", "is missing")
        memory, price = self.number("gpu_memory_gib"), self.number("gpu_price_per_hour")
        with self.placed():
            if memory is not None:
                return GpuType(name, memory, price)
            if name not in GPU_TYPES:
                rule = unknown("GPU type", name, GPU_TYPES, "or give gpu_memory_gib")
                raise self.error("gpu_type", rule)
            known = GPU_TYPES[name]
            return known if price is None else replace(known, price_per_hour=price)

    def type_name(self) -> str | None:
        """Return the stated node type; None if none is, or if it is a GPU type of the catalog."""
        kind = self.text("type")
        return None if self.text("gpu_type") is None and kind in GPU_TYPES else kind

    def hardware(self, linked: Mapping[Link, float]) -> NodeType:
        """Return the hardware of a machine; missing values come from the catalog's A800 node.

        Parameters
        ----------
        linked
            Bandwidth of its links by kind; infinite if they state none.
        """
        amounts: dict[str, Any] = {name: self.whole(name) for name in _WHOLE}
        if amounts["gpus"] is None:
            raise self.error("gpus", "is missing")
        amounts |= {name: self.number(name) for name in _AMOUNTS}
        for link, stem in _STEMS.items():
            # NVLink is stated by GPU, and its links carry all GPUs of the machine.
            share = amounts["gpus"] if link is Link.NVLINK and amounts["gpus"] else 1
            by_links = linked.get(link, math.inf) / share
            stated = self.rate_gb_per_s(stem)
            if stated is None:
                stated = by_links if by_links < math.inf else None
            elif by_links < math.inf and not math.isclose(stated, by_links, rel_tol=_AGREE):
                rule = f"is {stated:g} GB/s, but the links state {by_links:g} GB/s"
                raise self.error(f"{stem}_gb_per_s", rule)
            amounts[f"{stem}_gb_per_s"] = stated
        given = {name: amount for name, amount in amounts.items() if amount is not None}
        with self.placed():
            return replace(A800_NODE, name="unnamed", gpu_type=self.gpu(), **given)


class _Reader:
    """Reader of one graph."""

    def __init__(self, graph: nx.Graph, name: str) -> None:
        about = Attributes("graph", graph.graph)
        for part in ("node_default", "edge_default"):
            if graph.graph.get(part):
                names = words(graph.graph[part])
                raise about.error(part, f"has default values ({names}): state them one by one")
        about.require_known(("name", "node_default", "edge_default"))
        self._name = about.text("name") or name
        if len(graph) > 2 * MOST_NODES:
            rule = f"must have at most {2 * MOST_NODES} vertices, got {len(graph)}"
            raise InputError(rule, field="nodes")
        self._graph = graph
        self._vertices = {key: _Vertex.of(key, given) for key, given in graph.nodes(data=True)}
        self._names = {key: one.name for key, one in self._vertices.items()}
        self._position = {key: number for number, key in enumerate(self._vertices)}
        self._machines = [key for key, one in self._vertices.items() if one.is_machine]
        if not self._machines:
            rule = "has no machine: no vertex has the attribute 'gpus'"
            raise InputError(rule, field="nodes")
        for one in self._vertices.values():
            one.require_known(_MACHINE if one.is_machine else _SWITCH)

    def cluster(self) -> Cluster:
        """Return the cluster."""
        links = self._links()
        network = links[Link.NETWORK]
        domains = self._domains(links[Link.NVLINK], network)
        types = self._types(links)
        cards = {key: kind.rdma_gb_per_s for key, kind in types.items()}
        marked = {key for key in network if self._vertices[key].text("kind") == Kind.LEAF}
        leaves = Network(network, self._names, cards, marked).leaves()
        leaf_of = {key: leaf.name for leaf in leaves for key in leaf.machines}
        nodes = []
        for key, kind in types.items():
            with self._vertices[key].placed():
                nodes.append(Node(self._names[key], kind, leaf_of[key], domains.get(key)))
        uplinks = []
        for leaf in leaves:
            if leaf.uplink_gb_per_s < math.inf:
                with self._vertices[leaf.switches[0]].placed():
                    uplinks.append(Leaf(leaf.name, leaf.uplink_gb_per_s))
        try:
            return Cluster(self._name, tuple(nodes), tuple(uplinks))
        except InputError as error:
            field = "graph.name" if error.field == "cluster.name" else "nodes"
            raise InputError(error.rule, field=field) from None

    # ------------------------------------------------------------ links

    def _links(self) -> dict[Link, nx.Graph]:
        """Return network and NVLink, each with one edge for all links of two vertices.

        ``gb_per_s`` is their sum, infinite if they state none.
        """
        import networkx

        found = {kind: networkx.Graph() for kind in Link}
        for one in found.values():
            one.add_nodes_from(self._vertices)
        rates: dict[tuple[Any, Any, Link], list[float]] = {}
        for left, right, given in self._graph.edges(data=True):
            edge = Attributes(self._edge(left, right), given)
            edge.require_known(("kind", "type", *Attributes.rates()))
            if edge.has("kind") and edge.has("type"):
                raise edge.error("type", "is given as kind too")
            if left == right:
                raise edge.error(None, "links a vertex with itself")
            rate = edge.rate_gb_per_s()
            kind = self._kind(edge, left, right)
            rates.setdefault((left, right, kind), []).append(math.inf if rate is None else rate)
        for (left, right, kind), each in rates.items():
            back = rates.get((right, left, kind), each)
            if sorted(back) != sorted(each):
                rule = "has another bandwidth than the link in the other direction"
                raise InputError(rule, field=self._edge(left, right))
            if len({rate < math.inf for rate in each}) > 1:
                rule = "has parallel links, of which some state no bandwidth"
                raise InputError(rule, field=self._edge(left, right))
            found[kind].add_edge(left, right, gb_per_s=sum(each))
        return found

    def _edge(self, left: Any, right: Any) -> str:
        return f"edges[{self._names[left]}, {self._names[right]}]"

    def _kind(self, edge: Attributes, left: Any, right: Any) -> Link:
        """Return the kind of an edge: the stated one, else NVLink if either end is an NVSwitch."""
        named = "kind" if edge.has("kind") else "type"
        stated = edge.text(named)
        if stated is None:
            ends = (self._vertices[left].text("kind"), self._vertices[right].text("kind"))
            joined = any(str(end).lower() in _NVLINK for end in ends)
            return Link.NVLINK if joined else Link.NETWORK
        if stated.lower() in _NVLINK:
            return Link.NVLINK
        if stated.lower() not in _NETWORK:
            rule = unknown("kind of link", stated, (*_NVLINK, *_NETWORK))
            raise edge.error(named, rule)
        return Link.NETWORK

    def _domains(self, nvlink: nx.Graph, network: nx.Graph) -> dict[Any, str]:
        """Return the NVLink domain of each machine in one; take their switches off the network."""
        import networkx

        found: dict[Any, str] = {}
        named: set[str] = set()
        nvlink = networkx.Graph(nvlink.edges)
        for part in networkx.connected_components(nvlink):
            machines = [key for key in part if self._vertices[key].is_machine]
            switches = [key for key in part if not self._vertices[key].is_machine]
            self._require_domain(nvlink.subgraph(part), machines, switches)
            order = sorted(switches or machines, key=self._position.__getitem__)
            names = [self._names[key] for key in order]
            name = group_name(names) if switches else f"nvlink-{names[0]}"
            first = self._vertices[order[0]]
            if name in named:
                raise first.error(None, f"{name!r} is the name of two NVLink domains")
            for key in switches:
                if network.adj[key]:
                    rule = "has links of NVLink and of the network; a switch has one kind of links"
                    raise self._vertices[key].error(None, rule)
            named.add(name)
            network.remove_nodes_from(switches)
            found |= dict.fromkeys(machines, name)
        return found

    def _require_domain(
        self, part: nx.Graph, machines: Sequence[Any], switches: Sequence[Any]
    ) -> None:
        """Refuse machines that NVLink joins in another way than all with all."""
        pairs = len(machines) * len(switches) if switches else math.comb(len(machines), 2)
        switch = set(switches)
        across = not switch or all((a in switch) is not (b in switch) for a, b in part.edges)
        if not machines or part.number_of_edges() != pairs or not across:
            first = min(part, key=self._position.__getitem__)
            rule = (
                "is in no NVLink domain: link every machine to every NVLink switch of its domain, "
                "or, without switches, to every other machine"
            )
            raise self._vertices[first].error(None, rule)

    # ------------------------------------------------------------ hardware

    def _types(self, links: Mapping[Link, nx.Graph]) -> dict[Any, NodeType]:
        """Return the node type of every machine."""
        found: dict[Any, NodeType] = {}
        named: dict[str, NodeType] = {}
        gpus: dict[str, GpuType] = {}
        titles = {key: self._vertices[key].type_name() for key in self._machines}
        generated: dict[NodeType, str] = {}
        taken, unnamed = set(titles.values()), Counter[str]()
        for key, title in titles.items():
            vertex = self._vertices[key]
            linked = {
                kind: sum(one["gb_per_s"] for one in graph.adj[key].values())
                for kind, graph in links.items()
                if graph.adj[key]
            }
            kind = vertex.hardware(linked)
            gpu = gpus.setdefault(kind.gpu_type.name, kind.gpu_type)
            if gpu != kind.gpu_type:
                raise vertex.error("gpu_type", f"{gpu.name} has two sizes of memory or two prices")
            if title is None and kind not in generated:
                generated[kind] = _unused(f"{gpu.name.lower()}-x{kind.gpus}", unnamed, taken)
            with vertex.placed():
                made = replace(kind, name=generated[kind] if title is None else title)
            found[key] = named.setdefault(made.name, made)
            if found[key] != made:
                raise vertex.error("type", f"{made.name!r} has other hardware on another machine")
        return found


def _unused(name: str, used: Counter[str], taken: Collection[str | None]) -> str:
    """Return a name, with a number appended if it was used before or is taken."""
    while True:
        used[name] += 1
        found = name if used[name] == 1 else f"{name}-{used[name]}"
        if found not in taken:
            return found
