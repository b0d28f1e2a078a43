"""Graphs of clusters in files: GraphML and the node-link JSON of networkx."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from morph_opt.core.documents import (
    JSON_BYTES,
    LIMIT_VARIABLE,
    Fields,
    parse_json,
    read_text,
    write_atomically,
)
from morph_opt.core.documents.source import BYTES_PER_VALUE, raised
from morph_opt.core.domain import Cluster, InputError
from morph_opt.inputs.topology.graph import cluster_to_graph
from morph_opt.inputs.topology.reading import cluster_from_graph

if TYPE_CHECKING:
    import networkx as nx

GRAPHML, NODE_LINK = ".graphml", ".json"
_XML = "{http://graphml.graphdrawing.org/xmlns}"
_HALVES = ("port", "hyperedge")
"""Elements of GraphML without a meaning in a cluster."""


def graph_format(path: Path) -> str | None:
    """Return the suffix of a graph file, without a compressor's; None for other files."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".xz")
    return next((end for end in (GRAPHML, NODE_LINK) if name.endswith(end)), None)


def read_graph(path: Path) -> Cluster:
    """Return the cluster of a file with a graph, ``.graphml`` or ``.json`` (node-link).

    Raises
    ------
    InputError
        If the file cannot be read or is none, or as `cluster_from_graph`; names the file and the
        vertex or edge.
    """
    file, name = str(path), path.name.partition(".")[0]
    text = read_text(path, JSON_BYTES)
    graphml = graph_format(path) == GRAPHML
    try:
        graph = _graphml(text) if graphml else _node_link(parse_json(text, None))
        return cluster_from_graph(graph, name=name or "cluster")
    except InputError as error:
        raise error.located(file=file) from None


def write_graph(cluster: Cluster, path: Path) -> None:
    """Write the graph of a cluster into a file, ``.graphml`` or ``.json`` (node-link).

    Raises
    ------
    InputError
        If the file has another ending or cannot be written.
    """
    import networkx

    graph = cluster_to_graph(cluster)
    kind = path.suffix.lower()
    if kind == NODE_LINK:
        document = networkx.node_link_data(graph, edges="edges")
        text = json.dumps(document, indent=1, allow_nan=False)
    elif kind == GRAPHML:
        text = "\n".join(networkx.generate_graphml(graph, named_key_ids=True))
        text = '<?xml version="1.0" encoding="utf-8"?>\n' + text
    else:
        rule = f"must end in {GRAPHML} or {NODE_LINK}, got {path.name!r}"
        raise InputError(rule, field="--out")
    write_atomically(path, text + "\n")


# ---------------------------------------------------------------- node-link JSON


def _node_link(document: Any) -> nx.Graph:
    """Return the graph of a node-link document, whose edges are ``edges`` or ``links``."""
    import networkx

    whole = Fields(
        document, "", None, ("directed", "multigraph", "graph", "nodes", "edges", "links")
    )
    listed = [name for name in ("edges", "links") if whole.given(name)]
    if len(listed) != 1:
        rule = "must have the edges of the graph as 'edges' or 'links'"
        raise whole.error("edges", rule + (", not both" if listed else ""))
    whole.flag("multigraph", False)
    graph = networkx.MultiDiGraph() if whole.flag("directed", False) else networkx.MultiGraph()
    about = whole.raw("graph", {})
    if not isinstance(about, dict):
        raise whole.error("graph", "must be an object")
    graph.graph.update(about)
    for row in whole.objects("nodes", None):
        key = _key(row, "id")
        if key in graph:
            raise row.error("id", f"{key!r} is the id of two nodes")
        graph.add_node(key)
        graph.nodes[key].update((name, row.raw(name)) for name in row if name != "id")
    for row in whole.objects(listed[0], None):
        ends = _key(row, "source"), _key(row, "target")
        for end, key in zip(("source", "target"), ends, strict=True):
            if key not in graph:
                raise row.error(end, f"there is no node {key!r}")
        given = {name: row.raw(name) for name in row if name not in ("source", "target")}
        graph.add_edges_from([(*ends, None, given)])
    return graph


def _key(row: Fields, name: str) -> Any:
    """Return the id of a node, text or a whole number."""
    value = row.raw(name)
    return value if isinstance(value, str) else row.whole(name)


# ---------------------------------------------------------------- GraphML


def _graphml(text: str) -> nx.Graph:
    """Return the graph of a GraphML document, all attributes as text.

    networkx merges nodes of one id, adds missing ends of edges, and refuses a wrong number without
    its node: ids are checked before, and numbers are converted by the reader of attributes.
    """
    import networkx

    root = _parsed(text)
    graphs = list(root.iter(f"{_XML}graph"))
    if root.tag != f"{_XML}graphml" or not graphs:
        raise InputError(f"is not GraphML: no graph in the namespace {_XML[1:-1]}")
    if len(graphs) > 1:
        raise InputError("must have one graph, without nested ones or groups", field="graph")
    for name in _HALVES:
        if next(root.iter(_XML + name), None) is not None:
            raise InputError("has no meaning in a cluster", field=name)
    for key in root.iter(f"{_XML}key"):
        key.set("attr.type", "string")
    nodes = _ids(graphs[0])
    for number, edge in enumerate(graphs[0].iter(f"{_XML}edge")):
        for end in ("source", "target"):
            if edge.get(end) not in nodes:
                rule = f"there is no node {edge.get(end)!r}"
                raise InputError(rule, field=f"edge[{number}].{end}")
        edge.set("id", f"edge {number}")  # networkx merges parallel edges of one id
    wrong = (networkx.NetworkXException, KeyError, ValueError, TypeError, RecursionError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = networkx.parse_graphml(
                ElementTree.tostring(root, encoding="unicode"), force_multigraph=True
            )
    except wrong as error:
        raise InputError(f"is not GraphML that can be read: {error}") from None
    return found


def _parsed(text: str) -> ElementTree.Element:
    """Return the root of an XML text.

    Raises
    ------
    InputError
        If it is none, is too large, or has a document type, from which entities come.
    """
    most = raised(JSON_BYTES) // BYTES_PER_VALUE
    if text.count("<") > most:
        raise InputError(f"must hold at most {most} elements; {LIMIT_VARIABLE} raises that")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("must have no document type (<!DOCTYPE or <!ENTITY>)")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        line, _ = error.position
        raise InputError(f"is not XML: {str(error).partition(':')[0]}", line=line) from None


def _ids(graph: ElementTree.Element) -> set[str]:
    """Return the ids of the nodes.

    Raises
    ------
    InputError
        If one is missing or occurs twice.
    """
    found: set[str] = set()
    for number, node in enumerate(graph.iter(f"{_XML}node")):
        known, field = node.get("id"), f"node[{number}].id"
        if known is None:
            raise InputError("is missing", field=field)
        if known in found:
            raise InputError(f"{known!r} is the id of two nodes", field=field)
        found.add(known)
    return found
