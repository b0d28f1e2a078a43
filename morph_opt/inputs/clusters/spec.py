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

A snapshot of a round has the same tables as JSON: ``gpu_types``, ``node_types`` and ``leaves`` are
lists there, and every row has its ``name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morph_opt.core.documents import TOML_BYTES, Fields, key_lines, names_of, parse_toml, read_text
from morph_opt.core.domain import GPU_TYPES, Cluster, GpuType, InputError, Leaf, Node, NodeType
from morph_opt.core.domain.cluster import MOST_NODES
from morph_opt.core.domain.errors import shown
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.topology.files import graph_format, read_graph

CLUSTER_FIELDS = ("name", "gpu_type", "node_type", "nodes", "leaf")
LISTED = {"gpu_type": "gpu_types", "node_type": "node_types", "leaf": "leaves"}
"""Names of lists in JSON, by the table in TOML."""
LISTED_FIELDS = tuple(LISTED.get(name, name) for name in CLUSTER_FIELDS)


def read_cluster(path: Path) -> Cluster:
    """Return the cluster of a spec file: TOML, or a graph in a ``.graphml`` or ``.json`` file.

    Raises
    ------
    InputError
        If the file is missing or breaks a rule; names file, line, field and rule.
    """
    if graph_format(path) is not None:
        return read_graph(path)
    return cluster_from_toml(read_text(path, TOML_BYTES), file=str(path), name=path.stem)


def cluster_from_toml(text: str, *, file: str | None = None, name: str = "cluster") -> Cluster:
    """Return the cluster of a spec's text.

    Parameters
    ----------
    text
        The spec.
    file
        File name for errors.
    name
        Name if the spec has none.
    """
    tables = parse_toml(text, file)
    return cluster_of(Fields(tables, "", file, CLUSTER_FIELDS, key_lines(text)), name)


def cluster_of(spec: Fields, name: str = "cluster", *, listed: bool = False) -> Cluster:
    """Return the cluster of a table with `CLUSTER_FIELDS`, which may be part of a larger file.

    With ``listed`` it is an object with `LISTED_FIELDS`, which lists every GPU type and every node;
    nodes may have a ``status``.
    """
    gpu_types = {} if listed else dict(GPU_TYPES)
    for key, table in _tables(spec, "gpu_type", GpuType, listed).items():
        known = gpu_types.get(key)
        given = {} if known is None else _left_out(table, known)
        gpu_types[key] = table.make(GpuType, **(given | {"name": key}))
    types = {}
    for key, table in _tables(spec, "node_type", NodeType, listed).items():
        gpu = table.text("gpu_type")
        if gpu not in gpu_types:
            raise table.error("gpu_type", unknown("GPU type", gpu, gpu_types))
        types[key] = table.make(NodeType, name=key, gpu_type=gpu_types[gpu])
    rows = spec.objects("nodes", (*names_of(Node), "status" if listed else "count"), ())
    if not rows:
        raise spec.error("nodes", "the cluster has no nodes ([[nodes]] is missing)")
    nodes: list[Node] = []
    for row in rows:
        nodes += _nodes(row, types, MOST_NODES - len(nodes))
    in_use = {node.leaf for node in nodes}
    leaves = []
    for key, table in _tables(spec, "leaf", Leaf, listed).items():
        leaves.append(table.make(Leaf, name=key))
        if key not in in_use:
            rule = f"no node is connected to it; leaves are {shown(', '.join(sorted(in_use)))}"
            raise table.error("name" if listed else None, rule)
    title = spec.text("name", name)
    try:
        return Cluster(title, tuple(nodes), tuple(leaves))
    except InputError as error:
        field = "name" if error.field == "cluster.name" else "nodes"
        raise spec.error(field, error.rule) from error


def _tables(spec: Fields, name: str, kind: type[Any], listed: bool) -> dict[str, Fields]:
    """Return the tables of GPU types, node types or leaves by name."""
    if not listed:
        return spec.named(name, names_of(kind, "name"))
    found: dict[str, Fields] = {}
    for row in spec.objects(LISTED[name], names_of(kind), *([()] if name == "leaf" else [])):
        if found.setdefault(row.text("name"), row) is not row:
            raise row.error("name", f"{row.text('name')!r} is listed twice")
    return found


def _left_out(table: Fields, known: GpuType) -> dict[str, Any]:
    """Return the catalog's values of fields that a table leaves out."""
    return {name: getattr(known, name) for name in names_of(GpuType) if not table.given(name)}


def _nodes(row: Fields, types: Mapping[str, NodeType], most: int) -> list[Node]:
    kind = row.text("type")
    if kind not in types:
        raise row.error("type", unknown("node type", kind, types))
    count = row.whole("count", 1, least=1)
    if count > most:
        raise row.error("count", f"a cluster has at most {MOST_NODES} nodes, got {count}")
    base = row.text("name", kind)
    width = len(str(count - 1))
    names = [base] if count == 1 else [f"{base}-{i:0{width}d}" for i in range(count)]
    return [row.make(Node, name=name, type=types[kind]) for name in names]
