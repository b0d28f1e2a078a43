"""Cluster of equal nodes, from a few numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from morph_opt.core.domain import A800_NODE, Cluster, Range
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.core.domain.options import documented, option, require_all
from morph_opt.inputs.clusters.short import sized_node

_SPEED = Range(0.0, 1e9, above=True)


@documented
@dataclass(frozen=True, slots=True)
class EqualNodes:
    """Options of a cluster of equal nodes; defaults are those of the catalog's A800 node.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    nodes: int = option(8, "equal nodes", metavar="N", range=Range(1, MOST_NODES, whole=True))
    gpus_per_node: int = option(
        A800_NODE.gpus,
        "GPUs of a node",
        metavar="N",
        range=Range(1, MOST_GPUS_PER_NODE, whole=True),
    )
    gpu_type: str | None = option(
        None, f"type of the GPUs ({A800_NODE.gpu_type.name})", metavar="NAME"
    )
    cpus_per_node: int = option(
        A800_NODE.cpus, "CPU threads of a node", metavar="N", range=Range(0, 10**6, whole=True)
    )
    host_memory_gib: float = option(
        A800_NODE.host_memory_gib, "host memory of a node", metavar="GIB", range=Range(0.0, 1e9)
    )
    nvlink_gb_per_s: float = option(
        A800_NODE.nvlink_gb_per_s, "NVLink bandwidth of a GPU", metavar="GB/S", range=_SPEED
    )
    rdma_gb_per_s: float = option(
        A800_NODE.rdma_gb_per_s, "RDMA bandwidth of a node", metavar="GB/S", range=_SPEED
    )

    def __post_init__(self) -> None:
        require_all(self)

    def cluster(self) -> Cluster:
        """Return the cluster.

        Raises
        ------
        InputError
            If the GPU type is unknown.
        """
        node = replace(
            sized_node(self.gpus_per_node, self.gpu_type, "--gpu-type"),
            cpus=self.cpus_per_node,
            host_memory_gib=self.host_memory_gib,
            nvlink_gb_per_s=self.nvlink_gb_per_s,
            rdma_gb_per_s=self.rdma_gb_per_s,
        )
        return Cluster.uniform(self.nodes, node)
