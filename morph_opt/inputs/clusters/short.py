"""Short forms of clusters: ``8x8``, ``8x8:A800-80GB``, ``4x8:A100-80GB+2x4:V100``.

``NODESxGPUS[:GPU_TYPE]``, several pools joined by ``+``. CPU threads, host memory,
NVLink and RDMA bandwidth are those of the catalog's A800 node with 8 GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from morph_opt.core.documents import exists
from morph_opt.core.domain import A800_NODE, GPU_TYPES, Cluster, InputError, Node, NodeType, Range
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE, MOST_NODES
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.domain.options import documented, option, require_all
from morph_opt.inputs.clusters.spec import read_cluster
from morph_opt.inputs.topology.files import graph_format

_POOL = re.compile(r"([0-9]{1,9})x([0-9]{1,9})(?::([^+:]+))?")


def parse_short(text: str) -> Cluster:
    """Return the cluster of a short form.

    Raises
    ------
    InputError
        If the text is not a short form, or a count is 0 or a GPU type unknown.
    """
    pools = [_pool(part, text) for part in text.split("+")]
    if len(pools) == 1:
        return Cluster.uniform(pools[0][0], pools[0][1])
    if sum(count for count, _ in pools) > MOST_NODES:
        raise InputError(f"a cluster has at most {MOST_NODES} nodes, got {text!r}", field="cluster")
    nodes: list[Node] = []
    for index, (count, kind) in enumerate(pools):
        width = len(str(count - 1))
        nodes += [Node(f"pool{index}-{i:0{width}d}", kind) for i in range(count)]
    return Cluster(text, tuple(nodes))


def _pool(part: str, text: str) -> tuple[int, NodeType]:
    found = _POOL.fullmatch(part.strip())
    if not found:
        rule = f"must look like 8x8 or 4x8:A800-80GB+2x4:V100, got {text!r}"
        raise InputError(rule, field="cluster")
    count, gpus, gpu_name = int(found.group(1)), int(found.group(2)), found.group(3)
    if count < 1 or gpus < 1:
        rule = f"must have nodes and GPUs per node of at least 1, got {text!r}"
        raise InputError(rule, field="cluster")
    return count, sized_node(gpus, gpu_name, "cluster")


def sized_node(gpus: int, gpu_name: str | None = None, field: str | None = None) -> NodeType:
    """Return the catalog's A800 node with another number or type of GPUs.

    Parameters
    ----------
    field
        Option or parameter that named the type.

    Raises
    ------
    InputError
        If the GPU type is unknown.
    """
    gpu_type = GPU_TYPES.get(gpu_name or A800_NODE.gpu_type.name)
    if gpu_type is None:
        raise InputError(unknown("GPU type", str(gpu_name), GPU_TYPES), field=field)
    if gpus == A800_NODE.gpus and gpu_type == A800_NODE.gpu_type:
        return A800_NODE
    return replace(A800_NODE, name=f"{gpu_type.name.lower()}-x{gpus}", gpu_type=gpu_type, gpus=gpus)


def load_cluster(text: str | Path) -> Cluster:
    """Load a cluster from its short form or the path of a spec or a graph.

    Raises
    ------
    InputError
        If it is none of them, or the file breaks a rule.
    """
    text = str(require_type("text", text, str, Path))
    path = Path(text)
    if path.suffix != ".toml" and graph_format(path) is None and not exists(path):
        if not _POOL.match(text):
            rule = f"must be a file, or look like 8x8 or 4x8:A800-80GB+2x4:V100, got {text!r}"
            raise InputError(rule, field="cluster")
        return parse_short(text)
    return read_cluster(path)


_SPEED = Range(0.0, 1e9, above=True)


@documented
@dataclass(frozen=True, slots=True)
class EqualNodes:
    """Options of a cluster of equal nodes; the defaults describe the catalog's A800 node.

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
