"""Cluster specs in TOML.

::

    name = "two leaves"

    [gpu_type."My GPU"]          # only for GPUs that the catalog does not know
    memory_gib = 96
    price_per_hour = 2.5         # dollars; needed by the objective "cost" only

    [node_type.big]
    gpu_type = "A800-80GB"
    gpus = 8
    cpus = 96
    host_memory_gib = 1600
    nvlink_gb_per_s = 400
    rdma_gb_per_s = 100

    [[nodes]]
    type = "big"
    count = 4                    # default 1
    name = "a"                   # a-0 ... a-3; with count = 1 the name itself; default: the type
    leaf = "leaf-0"              # default leaf-0
    nvlink_domain = "rack-0"     # default: NVLink ends at the node

    [leaf.leaf-0]                # only for leaves whose uplinks are to be bounded
    uplink_gb_per_s = 200
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from morph_opt.documents import TOML_BYTES, Fields, key_lines, parse_toml, read_text
from morph_opt.domain import GPU_TYPES, Cluster, GpuType, InputError, Leaf, Node, NodeType
from morph_opt.domain.cluster import MOST_NODES
from morph_opt.domain.errors import shown

CLUSTER_FIELDS = ("name", "gpu_type", "node_type", "nodes", "leaf")
_GPU_TYPE = ("memory_gib", "price_per_hour")
_NODE_TYPE = (
    "gpu_type", "gpus", "cpus", "host_memory_gib", "nvlink_gb_per_s", "rdma_gb_per_s"
)  # fmt: skip
_NODES = ("type", "count", "name", "leaf", "nvlink_domain")


def read_cluster(path: Path) -> Cluster:
    """The cluster of a spec file.

    Raises
    ------
    InputError
        If the file is missing or breaks a rule; names file, line, field and rule.
    """
    return cluster_from_toml(read_text(path, TOML_BYTES), file=str(path), name=path.stem)


def cluster_from_toml(text: str, *, file: str | None = None, name: str = "cluster") -> Cluster:
    """The cluster of a spec.

    Parameters
    ----------
    text
        The spec.
    file
        Shown in errors.
    name
        Name of a cluster whose spec has none.
    """
    tables = parse_toml(text, file)
    return cluster_of(Fields(tables, "", file, CLUSTER_FIELDS, key_lines(text)), name)


def cluster_of(spec: Fields, name: str = "cluster") -> Cluster:
    """The cluster of a table with `CLUSTER_FIELDS`, which may be part of a larger file."""
    gpu_types = dict(GPU_TYPES)
    for key, table in spec.named("gpu_type", _GPU_TYPE).items():
        gpu_types[key] = _gpu_type(key, table)
    types = {
        key: _node_type(key, table, gpu_types)
        for key, table in spec.named("node_type", _NODE_TYPE).items()
    }
    rows = spec.objects("nodes", _NODES, ())
    if not rows:
        raise spec.error("nodes", "the cluster has no nodes ([[nodes]] is missing)")
    nodes: list[Node] = []
    for row in rows:
        nodes += _nodes(row, types, MOST_NODES - len(nodes))
    in_use = {node.leaf for node in nodes}
    leaves = tuple(
        _leaf(key, table, in_use) for key, table in spec.named("leaf", ("uplink_gb_per_s",)).items()
    )
    title = spec.text("name", name)
    try:
        return Cluster(title, tuple(nodes), leaves)
    except InputError as error:
        field = "name" if error.field == "cluster.name" else "nodes"
        raise spec.error(field, error.rule) from error


def _gpu_type(key: str, table: Fields) -> GpuType:
    """A type; of one that the catalog knows the price alone may be given."""
    known = GPU_TYPES.get(key)
    price = table.number("price_per_hour") if table.given("price_per_hour") else None
    if known and price is None:
        price = known.price_per_hour
    memory_gib = table.number("memory_gib", *([known.memory_gib] if known else []))
    return table.built(partial(GpuType, key, memory_gib, price))


def _leaf(key: str, table: Fields, in_use: set[str]) -> Leaf:
    uplink_gb_per_s = table.number("uplink_gb_per_s")
    if key not in in_use:
        listed = ", ".join(sorted(in_use))
        raise table.error(None, f"no node hangs on it; leaves are {shown(listed)}")
    return table.built(partial(Leaf, key, uplink_gb_per_s))


def _node_type(key: str, table: Fields, gpu_types: Mapping[str, GpuType]) -> NodeType:
    gpu = table.text("gpu_type")
    if gpu not in gpu_types:
        rule = f"unknown GPU type {gpu!r}; known are {', '.join(gpu_types)}"
        raise table.error("gpu_type", rule)
    counts = (table.whole("gpus"), table.whole("cpus"))
    rates = [table.number(name) for name in _NODE_TYPE[3:]]
    return table.built(partial(NodeType, key, gpu_types[gpu], *counts, *rates))


def _nodes(row: Fields, types: Mapping[str, NodeType], most: int) -> list[Node]:
    kind = row.text("type")
    if kind not in types:
        rule = f"unknown node type {kind!r}; known are {', '.join(types) or 'none'}"
        raise row.error("type", rule)
    count = row.whole("count", 1, least=1)
    if count > most:
        raise row.error("count", f"a cluster has at most {MOST_NODES} nodes, got {count}")
    base = row.text("name", kind)
    width = len(str(count - 1))
    names = [base] if count == 1 else [f"{base}-{i:0{width}d}" for i in range(count)]
    leaf = row.text("leaf", "leaf-0")
    domain = row.text("nvlink_domain") if row.given("nvlink_domain") else None
    return [row.built(partial(Node, name, types[kind], leaf, domain)) for name in names]
