"""Clusters: GPU types, node types, nodes and their place in the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property

from formulations.resources import OPTIONAL, SIDES
from morph_opt.core.domain._validate import (
    require_finite,
    require_int,
    require_name,
    require_unique,
)
from morph_opt.core.domain.arguments import own_value, require_each, require_type, take_own
from morph_opt.core.domain.errors import InputError

MOST_GPUS_PER_NODE = 1024
"""Largest number of GPUs of a node; more is a typing error."""

MOST_NODES = 1_000_000
"""Largest number of nodes; more is a typing error."""

MOST_AMOUNT = 1e12
"""Largest number of CPU threads, GiB of memory, GB/s of bandwidth, and dollars per hour."""


class Span(IntEnum):
    """Parts of the topology, tightest first; a wider one never has a faster network."""

    NODE = 0
    """Span of GPUs in one node."""
    NVLINK = 1
    """Span of several nodes of one NVLink domain (an NVL72 rack)."""
    LEAF = 2
    """Span of several nodes under one leaf switch, or of a flat cluster."""
    POD = 3
    """Span of nodes under several leaf switches."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """Type of GPU.

    Parameters
    ----------
    name
        For example ``"A800-80GB"``; the key of speed models.
    memory_gib
        Memory of one GPU.
    price_per_hour
        Dollars per hour of one GPU, above 0; None if unknown.
    """

    name: str
    memory_gib: float
    # Not shown: the digest of a run without prices stays what it was, and prices are in its config.
    price_per_hour: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_name("gpu_type.name", self.name)
        require_finite("gpu_type.memory_gib", self.memory_gib, above=0.0, at_most=MOST_AMOUNT)
        if self.price_per_hour is not None:
            price = self.price_per_hour
            require_finite("gpu_type.price_per_hour", price, above=0.0, at_most=MOST_AMOUNT)


@dataclass(frozen=True, slots=True)
class NodeType:
    """Hardware of a node; nodes of one type are interchangeable (a node class).

    Parameters
    ----------
    name
        Name of the type.
    gpu_type
        Type of all its GPUs.
    gpus
        GPUs per node, from 1 to 1,024.
    cpus
        CPU threads per node.
    host_memory_gib
        Host memory per node.
    nvlink_gb_per_s
        Bandwidth between two GPUs of the node, gigabytes (1e9) per second.
    rdma_gb_per_s
        Bandwidth of the node's network cards together, gigabytes (1e9) per second.
    local_ssd_gib
        Space on the node's own disks for what jobs write while they run.
    """

    name: str
    gpu_type: GpuType
    gpus: int
    cpus: int
    host_memory_gib: float
    nvlink_gb_per_s: float
    rdma_gb_per_s: float
    local_ssd_gib: float = 0.0

    def __post_init__(self) -> None:
        take_own(self)
        require_name("node_type.name", self.name)
        require_type("node_type.gpu_type", self.gpu_type, GpuType)
        require_int("node_type.gpus", self.gpus, at_least=1, at_most=MOST_GPUS_PER_NODE)
        nvlink = self.nvlink_gb_per_s
        require_finite("node_type.nvlink_gb_per_s", nvlink, above=0.0, at_most=MOST_AMOUNT)
        for resource in SIDES:
            name, amount = f"node_type.{resource.field}", getattr(self, resource.field)
            if resource.whole:
                require_int(name, amount, at_least=0, at_most=int(MOST_AMOUNT))
            elif resource.uplink:
                require_finite(name, amount, above=0.0, at_most=MOST_AMOUNT)
            else:
                require_finite(name, amount, at_least=0.0, at_most=MOST_AMOUNT)

    def __repr__(self) -> str:
        """Return the fields, without zero optional ones, so that older digests stay valid."""
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        given = (f"{k}={v!r}" for k, v in every.items() if v or k not in OPTIONAL)
        return f"NodeType({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Node:
    """Machine and its place in the topology.

    Parameters
    ----------
    name
        Unique in the cluster.
    type
        Its hardware.
    leaf
        Leaf switch that it is connected to; a flat cluster has one.
    nvlink_domain
        Name of the NVLink domain that joins it with other nodes (NVL72 rack); None when NVLink
        ends at the node.
    """

    name: str
    type: NodeType
    leaf: str = "leaf-0"
    nvlink_domain: str | None = None

    def __post_init__(self) -> None:
        require_name("node.name", self.name)
        require_type("node.type", self.type, NodeType)
        require_name("node.leaf", self.leaf)
        if self.nvlink_domain is not None:
            require_name("node.nvlink_domain", self.nvlink_domain)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf switch with limited uplinks.

    Parameters
    ----------
    name
        As the nodes name it.
    uplink_gb_per_s
        Bandwidth of all its uplinks together, gigabytes (1e9) per second and direction.
    """

    name: str
    uplink_gb_per_s: float

    def __post_init__(self) -> None:
        require_name("leaf.name", self.name)
        rate = self.uplink_gb_per_s
        require_finite("leaf.uplink_gb_per_s", rate, above=0.0, at_most=MOST_AMOUNT)


@dataclass(frozen=True, repr=False)
class Cluster:
    """An ordered set of nodes; a node's index is its position.

    Parameters
    ----------
    name
        Name in reports.
    nodes
        At least one, with unique names.
    leaves
        Leaf switches with limited uplinks; a leaf that is not listed has no limit
        (`uplink_gb_per_s` is infinite).

    Raises
    ------
    InputError
        If there is no node, a name occurs twice, two types share a name but not hardware, an
        NVLink domain reaches under two leaves, or a listed leaf has no node.
    """

    name: str
    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...] = ()

    def __post_init__(self) -> None:
        require_name("cluster.name", self.name)
        object.__setattr__(self, "nodes", tuple(require_each("nodes", self.nodes, Node)))
        object.__setattr__(self, "leaves", tuple(require_each("leaves", self.leaves, Leaf)))
        if not self.nodes:
            raise InputError("the cluster has no nodes", field="nodes")
        if len(self.nodes) > MOST_NODES:
            rule = f"a cluster has at most {MOST_NODES} nodes, got {len(self.nodes)}"
            raise InputError(rule, field="nodes")
        require_unique("node.name", (node.name for node in self.nodes))
        by_name: dict[str, NodeType] = {}
        gpu_by_name: dict[str, GpuType] = {}
        for node in self.nodes:
            kind = node.type
            if by_name.setdefault(kind.name, kind) != kind:
                raise InputError(
                    f"node type {kind.name!r} is defined in two ways", field="node_type"
                )
            if gpu_by_name.setdefault(kind.gpu_type.name, kind.gpu_type) != kind.gpu_type:
                raise InputError(
                    f"GPU type {kind.gpu_type.name!r} is defined in two ways", field="gpu_type"
                )
        leaf_of: dict[str, str] = {}
        for node in self.nodes:
            domain = node.nvlink_domain
            if domain is not None and leaf_of.setdefault(domain, node.leaf) != node.leaf:
                raise InputError(
                    f"NVLink domain {domain!r} must lie under one leaf switch, it has nodes under "
                    f"{leaf_of[domain]!r} and {node.leaf!r}",
                    field="node.nvlink_domain",
                )
        require_unique("leaf.name", (leaf.name for leaf in self.leaves))
        in_use = set(self.leaf_names)
        for leaf in self.leaves:
            if leaf.name not in in_use:
                raise InputError(f"leaf {leaf.name!r} has no node", field="leaf.name")

    def __repr__(self) -> str:
        return f"<Cluster {self.name}: {len(self.nodes)} nodes, {self.gpus} GPUs>"

    @classmethod
    def uniform(cls, nodes: int, node_type: NodeType, name: str | None = None) -> Cluster:
        """Return a flat cluster of equal nodes named ``node-0`` onwards.

        Parameters
        ----------
        nodes
            Number of nodes, at least 1.
        node_type
            Hardware of each node.
        name
            Name of the cluster; None for a name from its size and GPU type.

        Raises
        ------
        InputError
            If the number of nodes is out of range.
        """
        nodes = own_value(nodes)
        require_int("nodes", nodes, at_least=1, at_most=MOST_NODES)
        require_type("node_type", node_type, NodeType)
        width = len(str(nodes - 1))
        return cls(
            name or f"{nodes}x{node_type.gpus} {node_type.gpu_type.name}",
            tuple(Node(f"node-{index:0{width}d}", node_type) for index in range(nodes)),
        )

    @cached_property
    def _classes(self) -> dict[NodeType, tuple[int, ...]]:
        """Indices of the nodes of each class, ascending, in order of first appearance."""
        found: dict[NodeType, list[int]] = {}
        for index, node in enumerate(self.nodes):
            found.setdefault(node.type, []).append(index)
        return {kind: tuple(indices) for kind, indices in found.items()}

    @cached_property
    def node_types(self) -> tuple[NodeType, ...]:
        """Node classes in order of first appearance."""
        return tuple(self._classes)

    @cached_property
    def gpu_types(self) -> tuple[GpuType, ...]:
        """GPU types in order of first appearance."""
        return tuple(dict.fromkeys(kind.gpu_type for kind in self.node_types))

    @cached_property
    def gpus(self) -> int:
        """GPUs of the whole cluster."""
        return sum(kind.gpus * len(indices) for kind, indices in self._classes.items())

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Position of each node by name."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def leaf_names(self) -> tuple[str, ...]:
        """Leaf switches of the nodes, in order of first appearance."""
        return tuple(dict.fromkeys(node.leaf for node in self.nodes))

    def with_prices(self, prices: Mapping[str, float]) -> Cluster:
        """Return the cluster with other prices: dollars per GPU-hour by GPU type.

        Upper and lower case are the same; a type that is not named keeps its price.

        Raises
        ------
        InputError
            If the cluster has no such type, one is named twice, or a price is not above 0.
        """
        known = {kind.name.lower(): kind.name for kind in self.gpu_types}
        found: dict[str, float] = {}
        for name, price in prices.items():
            kind = known.get(name.lower())
            if kind is None:
                has = ", ".join(known.values())
                rule = f"cluster {self.name!r} has no GPU type {name!r}; it has {has}"
                raise InputError(rule, field="prices")
            if kind in found:
                raise InputError(f"GPU type {name!r} is named twice", field="prices")
            found[kind] = price
        priced = {}
        for hardware in self.node_types:
            gpu = hardware.gpu_type
            dollars = found.get(gpu.name, gpu.price_per_hour)
            priced[hardware] = replace(hardware, gpu_type=replace(gpu, price_per_hour=dollars))
        nodes = (replace(node, type=priced[node.type]) for node in self.nodes)
        return replace(self, nodes=tuple(nodes))

    def nodes_of(self, node_type: NodeType) -> tuple[int, ...]:
        """Return the indices of the nodes of one class, ascending."""
        return self._classes.get(node_type, ())
