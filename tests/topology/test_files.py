"""Graphs of clusters in files: GraphML and node-link JSON, written, read, and refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import morph_opt as mo
from morph_opt.core.domain import Cluster, InputError
from morph_opt.inputs.clusters import load_cluster, read_cluster
from morph_opt.inputs.clusters.cli import main
from morph_opt.inputs.topology.files import write_graph

SPECS = sorted((Path(__file__).resolve().parents[2] / "instances" / "clusters").glob("*.toml"))
BOTH = pytest.mark.parametrize("ending", [".graphml", ".json"])


@BOTH
@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_every_spec_survives_its_graph(spec: Path, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"graph{ending}"
    assert main(["export", str(spec), "--out", str(out)]) == 0
    made = read_cluster(spec)
    found = load_cluster(out)
    assert found == made
    assert repr((found.nodes, found.leaves)) == repr((made.nodes, made.leaves))


def sample(kind: type[nx.Graph] = nx.Graph) -> nx.Graph:
    graph = kind()
    graph.add_node("m <0>", gpus=8, gpu_type="H100-80GB", host_memory_gib=2048.0)
    graph.add_node("m1", gpus=4, gpu_type="H100-80GB")
    graph.add_edges_from([("tor", "m <0>"), ("tor", "m1")], gb_per_s=50.0)
    return graph


def check(found: Cluster, name: str) -> None:
    assert found.name == name
    assert [(node.name, node.type.gpus, node.leaf) for node in found.nodes] == [
        ("m <0>", 8, "tor"),
        ("m1", 4, "tor"),
    ]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_files_of_networkx_are_read(kind: type[nx.Graph], tmp_path: Path) -> None:
    for edges in ("edges", "links"):
        path = tmp_path / f"{edges}.json"
        path.write_text(json.dumps(nx.node_link_data(sample(kind), edges=edges)), "utf-8")
        check(load_cluster(path), edges)
    nx.write_graphml(sample(kind), tmp_path / "site.x.graphml")
    check(load_cluster(tmp_path / "site.x.graphml"), "site")
    packed = tmp_path / "packed.graphml.gz"
    packed.write_bytes(gzip.compress((tmp_path / "site.x.graphml").read_bytes()))
    check(load_cluster(packed), "packed")


HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
KEYS = (
    '<key id="g" for="node" attr.name="gpus" attr.type="int"/>'
    '<key id="t" for="node" attr.name="gpu_type" attr.type="string"/>'
    '<key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>'
)
GPUS = '<data key="g">8</data><data key="t">V100</data>'
NODES = f'<node id="a">{GPUS}</node><node id="b">{GPUS}</node><node id="s"/>'
EDGES = (
    '<edge source="a" target="s"/><edge source="b" target="s"><data key="b">100 Gb/s</data></edge>'
)


def graphml(body: str = NODES + EDGES, keys: str = KEYS, head: str = HEAD) -> str:
    return f"{head}{keys}<graph edgedefault='undirected'>{body}</graph></graphml>"


def test_links_of_one_switch_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "a.graphml"
    path.write_text(graphml(), "utf-8")
    found = load_cluster(path)
    assert [node.type.rdma_gb_per_s for node in found.nodes] == [100.0, 12.5]
    assert [node.type.name for node in found.nodes] == ["v100-x8", "v100-x8-2"]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB + graphml(), "must have no document type"),
        ('<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a SYSTEM "x">', "must have no document"),
        ("", "is not XML: no element found"),
        ("<graphml>\n<a></b></graphml>", "line 2: is not XML: mismatched tag"),
        ("<svg/>", "is not GraphML: no graph in the namespace"),
        (graphml(head="<graphml>"), "is not GraphML: no graph in the namespace"),
        (graphml(NODES + NODES), r"node\[3\].id: 'a' is the id of two nodes"),
        (graphml(NODES + "<node/>"), r"node\[3\].id: is missing"),
        (graphml(NODES + '<edge source="a" target="z"/>'), r"edge\[0\].target: there is no"),
        (graphml(NODES + '<edge source="a"/>'), r"edge\[0\].target: there is no node None"),
        (graphml(f'<node id="a">{GPUS}<graph/></node>'), "graph: must have one graph, without nes"),
        (graphml(NODES + '<hyperedge/>'), "hyperedge: has no meaning in a cluster"),
        (graphml('<node id="a"><port name="p"/></node>'), "port: has no meaning in a cluster"),
        (graphml('<node id="a"><data key="z">1</data></node>'), "is not GraphML that can be read"),
        (graphml('<node id="a"><data key="g">x</data></node>'), r"nodes\[a\].gpus: must be a"),
        (graphml('<node id="a"><data key="g"/></node>'), r"nodes\[a\].gpus: is missing"),
        (
            graphml(keys=KEYS.replace('"int"/>', '"int"><default>8</default></key>')),
            r"graph.node_default: has default values \(gpus\)",
        ),
        (graphml("<a>" * 100_000 + "</a>" * 100_000), "is not GraphML that can be read|no machine"),
    ],
)  # fmt: skip
def test_a_wrong_graphml_names_file_and_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.graphml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=f"a.graphml(, |: )(.*: )?({message})"):
        load_cluster(path)


def test_a_graphml_of_too_many_elements_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("morph_opt.inputs.topology.files.BYTES_PER_VALUE", 1 << 22)
    path = tmp_path / "a.graphml"
    path.write_text(graphml("<node/>" * 20), "utf-8")
    with pytest.raises(InputError, match="must hold at most 16 elements"):
        load_cluster(path)


def node_link(**other: Any) -> dict[str, Any]:
    gpus = {"gpus": 8, "gpu_type": "V100"}
    return {
        "nodes": [{"id": 0, **gpus}, {"id": "b", **gpus}, {"id": "s"}],
        "edges": [{"source": 0, "target": "s"}, {"source": "b", "target": "s"}],
        **other,
    }


def test_ids_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(node_link()), "utf-8")
    assert [node.name for node in load_cluster(path).nodes] == ["0", "b"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "document: must be an object, got a list"),
        (node_link(gpu_types=[]), "gpu_types: unknown field"),
        (node_link(links=[]), "edges: must have the edges .* as 'edges' or 'links', not both"),
        ({"nodes": []}, "edges: must have the edges of the graph as 'edges' or 'links'"),
        ({"edges": []}, "nodes: is missing"),
        (node_link(nodes=3), "nodes: must be a list"),
        (node_link(nodes=[3]), r"nodes\[0\]: must be an object"),
        (node_link(nodes=[{}]), r"nodes\[0\].id: is missing"),
        (node_link(nodes=[{"id": [1]}]), r"nodes\[0\].id: must be a whole number"),
        (node_link(nodes=[{"id": 1}, {"id": 1}]), r"nodes\[1\].id: 1 is the id of two nodes"),
        (node_link(edges=[{"source": 0}]), r"edges\[0\].target: is missing"),
        (node_link(edges=[{"source": 0, "target": 9}]), r"edges\[0\].target: there is no node 9"),
        (node_link(directed="yes"), "directed: must be true or false"),
        (node_link(graph=[]), "graph: must be an object"),
        (node_link(graph={"name": 0.5}), "graph.name: must be text, got 0.5"),
        (node_link(nodes=[{"id": 1, "gpus": {}}], edges=[]), r"nodes\[1\].gpus: must be a finite"),
    ],
)
def test_a_wrong_node_link_names_file_and_field(
    document: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(InputError, match=f"a.json, {message}"):
        load_cluster(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.graphml: cannot be read"):
        load_cluster(tmp_path / "none.graphml")
    path = tmp_path / "a.json"
    path.write_text("{", "utf-8")
    with pytest.raises(InputError, match=r"a.json, line 1: is not JSON"):
        load_cluster(path)
    with pytest.raises(InputError, match=r"must end in .graphml or .json, got 'a.dot'"):
        write_graph(load_cluster("2x8"), tmp_path / "a.dot")


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ("rack-0-tray-17", "span nvlink: rack-0-tray-00 - rack-0 - rack-0-tray-17; 7400 GB/s"),
        (
            "rack-1-tray-00",
            "span pod: rack-0-tray-00 - leaf-0 - spine - leaf-1 - rack-1-tray-00; 200 GB/s",
        ),
    ],
)
def test_what_is_between_two_nodes(
    other: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = next(str(path) for path in SPECS if path.stem == "nvl72-row")
    assert main(["between", spec, "rack-0-tray-00", other]) == 0
    assert capsys.readouterr().out == f"{shown} over all links\n"


def test_nodes_that_are_not_there_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["between", "2x8", "node-0", "node-7"]) == 2
    assert "the cluster has no node 'node-7'" in capsys.readouterr().err
    assert main(["between", "2x8", "node-0", "node-0"]) == 2
    assert "two disjoint sets of nodes" in capsys.readouterr().err


def test_a_graph_is_taken_where_a_spec_is(tmp_path: Path) -> None:
    path = tmp_path / "site.graphml"
    write_graph(load_cluster("2x4:V100"), path)
    by_graph, by_form = (
        mo.Scenario(trace="naive", cluster=given).to_toml() for given in (path, "2x4:V100")
    )
    assert by_graph == by_form
