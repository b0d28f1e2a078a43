"""Clusters from graphs of any naming, and graphs that no cluster can express."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from morph_opt.inputs.topology.graph import cluster_to_graph
from morph_opt.inputs.topology.reading import cluster_from_graph

Link = tuple[str, str, dict[str, Any]]


def machines(graph: nx.Graph, *names: str, **attributes: Any) -> None:
    """Add machines with 8 H100 GPUs."""
    graph.add_nodes_from(names, **({"gpus": 8, "gpu_type": "H100-80GB"} | attributes))


def racks(kind: type[nx.Graph] = nx.Graph, uplink: float | None = 200.0) -> nx.Graph:
    """Two racks of two machines under a core switch, each machine with 50 GB/s."""
    graph = kind(name="two racks")
    machines(graph, "m0", "m1", "m2", "m3")
    up = {} if uplink is None else {"gb_per_s": uplink}
    for rack, own in (("rack A", ("m0", "m1")), ("rack B", ("m2", "m3"))):
        graph.add_edge("core", rack, **up)
        graph.add_edges_from((rack, name, {"gb_per_s": 50.0}) for name in own)
    return graph


def three_levels(core: float = 1000.0) -> nx.Graph:
    """Four racks with 100 GB/s up, in two rows with ``core`` GB/s up."""
    graph = nx.Graph()
    machines(graph, *(f"m{i}" for i in range(4)))
    for i in range(4):
        graph.add_edge(f"rack{i}", f"m{i}", gb_per_s=50.0)
        graph.add_edge(f"row{i // 2}", f"rack{i}", gb_per_s=100.0)
    graph.add_edges_from((f"row{i}", "core", {"gb_per_s": core}) for i in range(2))
    return graph


def fat_tree(spine: float = 100.0) -> nx.Graph:
    """Three leaves, each with equal links to two spines."""
    graph = nx.Graph()
    for leaf in range(3):
        machines(graph, f"m{leaf}")
        graph.add_edge(f"leaf{leaf}", f"m{leaf}", gb_per_s=50.0)
        graph.add_edges_from((f"leaf{leaf}", f"s{s}", {"gb_per_s": spine}) for s in range(2))
    return graph


# ---------------------------------------------------------------- what is read


def test_racks_of_any_naming_are_leaves_with_uplinks() -> None:
    found = cluster_from_graph(racks())
    assert found.name == "two racks"
    assert [(node.name, node.leaf) for node in found.nodes] == [
        ("m0", "rack A"),
        ("m1", "rack A"),
        ("m2", "rack B"),
        ("m3", "rack B"),
    ]
    assert found.leaves == (Leaf("rack A", 200.0), Leaf("rack B", 200.0))
    assert found.node_types == (
        replace(
            A800_NODE,
            name="h100-80gb-x8",
            gpu_type=GPU_TYPES["H100-80GB"],
            rdma_gb_per_s=50.0,
        ),
    )


def test_links_without_a_bandwidth_are_unbounded() -> None:
    assert cluster_from_graph(racks(uplink=None)).leaves == ()


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.DiGraph, nx.MultiDiGraph])
def test_directions_and_parallel_links(kind: type[nx.Graph]) -> None:
    assert cluster_from_graph(racks(kind)) == cluster_from_graph(racks())
    graph = racks(kind)
    if graph.is_directed():
        graph.add_edge("rack A", "core", gb_per_s=200.0)  # the same link, seen from below
        assert cluster_from_graph(graph) == cluster_from_graph(racks())
    if graph.is_multigraph():
        graph = racks(kind)
        graph.add_edge("core", "rack A", gb_per_s=200.0)
        assert cluster_from_graph(graph).leaves[0] == Leaf("rack A", 400.0)


@pytest.mark.parametrize(
    ("attribute", "gb_per_s"),
    [
        ({"gb_per_s": 25}, 25.0),
        ({"gbit_per_s": 400}, 50.0),
        ({"gbit_per_s": "400"}, 50.0),
        ({"bandwidth": "400 Gbit/s"}, 50.0),
        ({"bandwidth": "400Gbps"}, 50.0),
        ({"bandwidth": "50 GB/s"}, 50.0),
        ({"bandwidth": "0.8 Tb/s"}, 100.0),
        ({"gb_per_s": "2000 MB/s"}, 2.0),
    ],
)
def test_bandwidths_have_units(attribute: dict[str, Any], gb_per_s: float) -> None:
    graph = racks()
    for rack in ("rack A", "rack B"):
        graph.remove_edge("core", rack)
        graph.add_edge("core", rack, **attribute)
    found = cluster_from_graph(graph).leaves
    assert [leaf.uplink_gb_per_s for leaf in found] == pytest.approx([gb_per_s] * 2)


def test_hardware_is_read_under_its_names_and_aliases() -> None:
    graph = nx.Graph()
    graph.add_node(
        1, name="big", gpu_count="4", gpu="X", gpu_memory_gib=96, gpu_price_per_hour=2.5,
        node_type="special", cpu_threads=64, host_memory_gib="512.5", local_ssd_gib=100,
        nvlink_gbit_per_s=3600, rdma_bandwidth="200 Gbit/s", note="bought 2024", label="no",
    )  # fmt: skip
    gpu = GpuType("X", 96.0, 2.5)
    kind = NodeType("special", gpu, 4, 64, 512.5, 450.0, 25.0, 100.0)
    assert cluster_from_graph(graph, name="one").nodes == (Node("big", kind),)


def test_a_type_of_the_catalog_is_a_gpu_type() -> None:
    graph = nx.Graph()
    graph.add_node("m", gpus=2, type="V100")
    kind = replace(A800_NODE, name="v100-x2", gpu_type=GPU_TYPES["V100"], gpus=2)
    assert cluster_from_graph(graph).nodes == (Node("m", kind),)


def test_equal_hardware_is_one_type_and_other_hardware_another() -> None:
    graph = racks()
    graph.nodes["m3"]["cpus"] = 32
    graph.nodes["m1"]["type"] = "h100-80gb-x8-2"
    names = [node.type.name for node in cluster_from_graph(graph).nodes]
    assert names == ["h100-80gb-x8", "h100-80gb-x8-2", "h100-80gb-x8", "h100-80gb-x8-3"]


@pytest.mark.parametrize("edge", [{"kind": "NVLink"}, {"type": "nvswitch"}, {}])
def test_an_nvlink_switch_is_a_domain(edge: dict[str, str]) -> None:
    graph = racks()
    graph.add_node("nvl", kind="nvswitch" if not edge else "domain", name="rack 7")
    graph.add_edges_from((("nvl", name, edge | {"gb_per_s": 7200.0})) for name in ("m0", "m1"))
    found = cluster_from_graph(graph)
    domains = [node.nvlink_domain for node in found.nodes]
    assert domains == ["rack 7", "rack 7", None, None]
    assert [node.type.nvlink_gb_per_s for node in found.nodes] == [900.0, 900.0, 400.0, 400.0]


def test_machines_linked_by_nvlink_are_a_domain() -> None:
    graph = racks()
    graph.add_edge("m2", "m3", kind="nvlink")
    domains = [node.nvlink_domain for node in cluster_from_graph(graph).nodes]
    assert domains == [None, None, "nvlink-m2", "nvlink-m2"]


def test_several_nvlink_switches_are_one_domain() -> None:
    graph = racks()
    links = [(f"nvs{s}", f"m{m}") for s in range(9) for m in (0, 1)]
    graph.add_edges_from(links, kind="nvlink", gb_per_s=800.0)
    nodes = cluster_from_graph(graph).nodes
    assert [node.nvlink_domain for node in nodes[:2]] == ["nvs0..nvs8"] * 2
    assert nodes[0].type.nvlink_gb_per_s == 9 * 800.0 / 8


def test_rails_are_one_leaf() -> None:
    graph = nx.Graph()
    machines(graph, "m0", "m1")
    for rail in range(4):
        graph.add_edges_from((f"rail{rail}", f"m{m}", {"gb_per_s": 50.0}) for m in (0, 1))
        graph.add_edge("spine", f"rail{rail}", gb_per_s=25.0)
    found = cluster_from_graph(graph)
    assert [node.leaf for node in found.nodes] == ["rail0..rail3"] * 2
    assert found.nodes[0].type.rdma_gb_per_s == 200.0
    assert found.leaves == (Leaf("rail0..rail3", 100.0),)


def test_levels_above_the_racks_that_limit_nothing_are_folded() -> None:
    found = cluster_from_graph(three_levels())
    assert [leaf.name for leaf in found.leaves] == ["rack0", "rack1", "rack2", "rack3"]
    assert cluster_from_graph(three_levels(core=200.0)).leaves == found.leaves


def test_a_level_of_kind_leaf_is_the_leaves() -> None:
    graph = three_levels(core=60.0)
    for row in ("row0", "row1"):
        graph.nodes[row]["kind"] = "leaf"
    found = cluster_from_graph(graph)
    assert [node.leaf for node in found.nodes] == ["row0", "row0", "row1", "row1"]
    assert found.leaves == (Leaf("row0", 60.0), Leaf("row1", 60.0))


def test_a_fat_tree_is_leaves_with_the_sum_of_their_links() -> None:
    found = cluster_from_graph(fat_tree())
    assert found.leaves == tuple(Leaf(f"leaf{leaf}", 200.0) for leaf in range(3))


def test_two_linked_leaves_need_no_spine() -> None:
    graph = racks()
    graph.remove_node("core")
    graph.add_edge("rack A", "rack B", gb_per_s=75.0)
    assert {leaf.uplink_gb_per_s for leaf in cluster_from_graph(graph).leaves} == {75.0}


# ---------------------------------------------------------------- round trip

NAMES = st.text("aZ0ä猫-:<&\"' .", min_size=1, max_size=5).map(str.strip).filter(bool)
AMOUNTS = st.floats(0.1, 1e6)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Random clusters: types, leaves with and without limits, domains, prices."""
    types = []
    for i in range(draw(st.integers(1, 3))):
        price = draw(st.none() | AMOUNTS)
        known = draw(st.sampled_from([GPU_TYPES["V100"], GpuType(f"X{i}", draw(AMOUNTS), price)]))
        local = draw(st.sampled_from([0.0, 100.0]))
        sizes = draw(st.tuples(st.integers(1, 1024), st.integers(0, 256)))
        amounts = draw(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS))
        types.append(NodeType(f"type {i}", known, *sizes, *amounts, local))
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    leaves = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    nodes = []
    for name in names:
        leaf = draw(st.sampled_from(leaves))
        domain = draw(st.sampled_from([None, f"{leaf}-0", f"{leaf}-1"]))
        nodes.append(Node(name, draw(st.sampled_from(types)), leaf, domain))
    used = list({node.leaf: None for node in nodes})
    bounded = draw(st.lists(st.sampled_from(used), unique=True))
    limits = tuple(Leaf(leaf, draw(AMOUNTS)) for leaf in bounded)
    return Cluster(draw(NAMES), tuple(nodes), limits)


@given(clusters())
def test_a_cluster_survives_its_graph(made: Cluster) -> None:
    found = cluster_from_graph(cluster_to_graph(made))
    assert found == made
    assert repr((found.nodes, found.leaves)) == repr((made.nodes, made.leaves))


@given(clusters(), st.randoms())
def test_order_of_edges_and_names_of_keys_do_not_matter(made: Cluster, draw: Any) -> None:
    graph = cluster_to_graph(made)
    keys = list(range(len(graph)))
    draw.shuffle(keys)
    renamed = nx.relabel_nodes(graph, dict(zip(graph, keys, strict=True)))
    other = nx.DiGraph(name=made.name)
    other.add_nodes_from(renamed.nodes(data=True))
    edges = list(renamed.edges(data=True))
    draw.shuffle(edges)
    for left, right, data in edges:
        ends = (left, right) if draw.random() < 0.5 else (right, left)
        other.add_edge(*ends, **data)
    assert cluster_from_graph(other) == made


# ---------------------------------------------------------------- what is refused

Change = Callable[[nx.Graph], object]


def link(left: str, right: str, **data: Any) -> Change:
    return lambda graph: graph.add_edge(left, right, **data)


def vertex(key: str, **data: Any) -> Change:
    return lambda graph: graph.add_node(key, **data)


def drop(*keys: str) -> Change:
    return lambda graph: graph.remove_nodes_from(keys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (vertex("m0", gpus="many"), r"nodes\[m0\].gpus: must be a finite number, got 'many'"),
        (vertex("m0", gpus=0), r"nodes\[m0\].gpus: must be"),
        (vertex("m0", gpus=2.5), r"nodes\[m0\].gpus: must be a whole number"),
        (vertex("m0", gpus=True), r"nodes\[m0\].gpus: must be a finite number"),
        (vertex("m0", gpus=""), r"nodes\[m0\].gpus: is missing"),
        (vertex("m0", gpus=[8]), r"nodes\[m0\].gpus: must be a finite number"),
        (vertex("m0", gpus="9" * 5000), r"nodes\[m0\].gpus: must be a finite number"),
        (vertex("m0", cpus=10**400), r"nodes\[m0\].cpus: must be a finite number"),
        (vertex("m0", cpus=math.nan), r"nodes\[m0\].cpus: must be a finite number"),
        (vertex("m0", num_gpus=8), r"nodes\[m0\].num_gpus: is given as gpus too"),
        (vertex("m0", gpu_type="H100"), r"nodes\[m0\].gpu_type: .*did you mean 'H100-80GB'"),
        (vertex("m9", gpus=8), r"nodes\[m9\].gpu_type: is missing"),
        (vertex("m0", gpu_type=8.5), r"nodes\[m0\].gpu_type: must be text, got 8.5"),
        (vertex("m0", gpu_memory_gib=-1), r"nodes\[m0\].gpu_memory_gib: must be"),
        (vertex("m0", gpu_memory_gib=94), r"nodes\[m1\].gpu_type: H100-80GB has two sizes"),
        (vertex("m0", memory_gib=1), r"nodes\[m0\].memory_gib: unknown field .*did you mean"),
        (vertex("rack A", cpus=1), r"nodes\[rack A\].cpus: unknown field"),
        (vertex("m0", name=" m"), r"nodes\[ m\].name: must be a non-empty name"),
        (vertex("m0", name="m1"), r"nodes: must be unique, 'm1' occurs twice"),
        (vertex("rack A", name="rack B"), r"nodes\[rack B\]: 'rack B' is the name of two leaves"),
        (vertex("m0", kind="leaf"), r"nodes\[m0\]: must have no GPUs to be a leaf"),
        (vertex("alone"), r"nodes\[alone\]: has neither GPUs nor machines below it"),
        (vertex("m0", rdma_gb_per_s=40), r"nodes\[m0\].rdma_gb_per_s: is 40 GB/s, but the links"),
        (link("core", "m0"), r"nodes\[m0\]: has unequal links to core, rack A|nodes\[m0\]"),
        (link("rack A", "rack A"), r"edges\[rack A, rack A\]: links a vertex with itself"),
        (link("m0", "m1", gb_per_s=1), r"nodes\[m0\]: is linked to the machine m1 directly"),
        (link("m0", "rack B", gb_per_s=50), r"nodes\[m0\]: is linked to rack A and rack B, and"),
        (link("rack A", "rack B", gb_per_s=9), r"nodes\[rack A\]: is linked to the leaf rack B"),
        (link("core", "rack A", weight=1), r"edges\[core, rack A\].weight: unknown field"),
        (link("core", "rack A", bandwidth=400), r"edges\[core, rack A\].bandwidth: is given as gb"),
        (link("core", "rack A", kind="pcie"), r"edges\[core, rack A\].kind: unknown kind of link"),
        (link("core", "rack A", gb_per_s=0), r"edges\[core, rack A\].gb_per_s: must be a fin"),
        (link("core", "rack A", gb_per_s="fast"), r"edges\[core, rack A\].gb_per_s: must be a fi"),
        (link("m0", "m2", kind="nvlink"), r"nodes: NVLink domain 'nvlink-m0' must lie under one"),
        (link("core", "rack A", kind="ib", type="ib"), r"edges\[core, rack A\].type: is given"),
        (link("nv", "nw", kind="nvlink"), r"nodes\[nv\]: is in no NVLink domain"),
        (drop("core"), r"nodes\[rack B\]: is not connected to rack A; these are two clusters"),
        (drop("rack A"), r"nodes\[m0\]: has no network link"),
        (drop("m0", "m1", "m2", "m3"), r"nodes: has no machine: no vertex has .* 'gpus'"),
    ],
)  # fmt: skip
def test_what_no_cluster_can_be_names_its_vertex(change: Change, message: str) -> None:
    graph = racks()
    change(graph)
    with pytest.raises(InputError, match="^" + message):
        cluster_from_graph(graph)


def torus(graph: nx.Graph) -> None:
    graph.clear()
    for a in range(9):
        machines(graph, f"m{a}")
    graph.add_edges_from((f"m{a}", f"m{a // 3 * 3 + (a + 1) % 3}") for a in range(9))


def ring_of_leaves(graph: nx.Graph) -> None:
    graph.remove_node("core")
    machines(graph, "m4")
    graph.add_edges_from([("rack C", "m4"), ("rack A", "rack B"), ("rack B", "rack C")])
    graph.add_edge("rack C", "rack A")


def ring_above(graph: nx.Graph) -> None:
    graph.remove_node("core")
    graph.add_edges_from([("s0", "rack A"), ("s1", "rack B"), ("s2", "rack B")], gb_per_s=1.0)
    graph.add_edges_from([("s0", "s1"), ("s1", "s2"), ("s2", "s0")])


def thin_row(graph: nx.Graph) -> None:
    graph.clear()
    graph.update(three_levels(60.0))


def unequal(graph: nx.Graph) -> None:
    graph.clear()
    graph.update(fat_tree())
    graph.edges["leaf1", "s1"]["gb_per_s"] = 50.0


def short_spine(graph: nx.Graph) -> None:
    graph.clear()
    graph.update(fat_tree())
    graph.remove_edge("leaf2", "s1")


def pods(up: float) -> nx.Graph:
    """Two pods of two leaves with two spines: 100 GB/s down to its leaves, ``up`` to a core."""
    graph = nx.Graph()
    for leaf in range(4):
        machines(graph, f"m{leaf}")
        graph.add_edge(f"leaf{leaf}", f"m{leaf}", gb_per_s=50.0)
        spines = [f"s{leaf // 2}{i}" for i in range(2)]
        graph.add_edges_from(((f"leaf{leaf}", spine) for spine in spines), gb_per_s=50.0)
        graph.add_edges_from(((s, f"core{i}") for i, s in enumerate(spines)), gb_per_s=up)
    return graph


def two_paths_below(graph: nx.Graph) -> None:
    graph.nodes["core"]["kind"] = "leaf"
    graph.add_edge("rack A", "rack B")


def slow_below(graph: nx.Graph) -> None:
    graph.nodes["core"]["kind"] = "leaf"
    graph.edges["core", "rack A"]["gb_per_s"] = 99.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (torus, r"nodes\[m0\]: is linked to the machine m1 directly \(a torus or mesh\)"),
        (ring_of_leaves, r"nodes\[rack A\]: is linked to the leaf rack B directly \(a ring"),
        (ring_above, r"nodes\[s[0-2]\]: is linked to s[0-2] of the same level \(a ring"),
        (thin_row, r"nodes\[row[01]\]: has 60 GB/s up for 200 GB/s of uplinks of leaves"),
        (unequal, r"nodes\[leaf1\]: has unequal uplinks \(100 and 50 GB/s\)"),
        (short_spine, r"nodes\[s1\]: has no links up and reaches 2 of 3 leaves"),
        (two_paths_below, r"nodes\[m[0-3]\]: has several paths to core"),
        (slow_below, r"nodes\[rack A\]: has 99 GB/s up for 100 GB/s of machines"),
    ],
)
def test_networks_that_leaves_do_not_say_all_about_are_refused(
    change: Change, message: str
) -> None:
    graph = racks()
    change(graph)
    with pytest.raises(InputError, match="^" + message):
        cluster_from_graph(graph)


def test_a_fat_tree_of_three_levels_needs_as_much_up_as_down() -> None:
    leaves = cluster_from_graph(pods(100.0)).leaves
    assert [leaf.uplink_gb_per_s for leaf in leaves] == [100.0] * 4
    with pytest.raises(InputError, match=r"^nodes\[s00\]: has 40 GB/s up for 100 GB/s of uplinks"):
        cluster_from_graph(pods(40.0))


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(InputError, match="graph: must be a Graph"):
        cluster_from_graph({})  # type: ignore[arg-type]
    graph = racks()
    graph.graph["node_default"] = {"gpus": 8}
    with pytest.raises(InputError, match=r"graph.node_default: has default values \(gpus\)"):
        cluster_from_graph(graph)
    graph = racks(nx.DiGraph)
    graph.add_edge("rack A", "core", gb_per_s=1.0)
    with pytest.raises(InputError, match=r"edges\[.*\]: has another bandwidth than"):
        cluster_from_graph(graph)
