"""The topology graph: capacities, spans, and what crosses a leaf."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import A800_NODE, Cluster, InputError, Leaf, Node, Placement, Span
from morph_opt.inputs.topology.graph import (
    Kind,
    Vertex,
    bandwidth_gb_per_s,
    oversubscription,
    span_of,
    topology_graph,
    uplink_load_gb_per_s,
)

SMALL = replace(A800_NODE, name="small", gpus=2)


def cluster(*places: tuple[str, str | None], uplink: float | None = None) -> Cluster:
    """Nodes n0, n1, ... of two GPUs on these leaves and NVLink domains."""
    nodes = tuple(Node(f"n{i}", SMALL, leaf, dom) for i, (leaf, dom) in enumerate(places))
    leaves = tuple(dict.fromkeys(leaf for leaf, _ in places)) if uplink else ()
    return Cluster("toy", nodes, tuple(Leaf(name, uplink or 1.0) for name in leaves))


TWO_LEAVES = cluster(("a", None), ("a", None), ("b", None), ("b", None), uplink=150.0)
RACKS = cluster(("a", "r0"), ("a", "r0"), ("b", "r1"), ("b", "r1"), uplink=150.0)


def test_every_gpu_node_leaf_and_domain_is_a_vertex_with_its_capacity() -> None:
    graph = topology_graph(RACKS)
    count = {kind: sum(v.kind is kind for v in graph) for kind in Kind}
    assert count == {Kind.SPINE: 1, Kind.LEAF: 2, Kind.NVLINK: 2, Kind.NODE: 4, Kind.GPU: 8}
    node = Vertex(Kind.NODE, "n0")
    capacity = {v.kind: data["gb_per_s"] for v, data in graph[node].items()}
    assert capacity == {Kind.LEAF: 100.0, Kind.NVLINK: 800.0, Kind.GPU: 400.0}
    assert graph[Vertex(Kind.SPINE, "spine")][Vertex(Kind.LEAF, "a")]["gb_per_s"] == 150.0
    assert nx.is_connected(graph)


def test_a_leaf_that_is_not_listed_has_unlimited_uplinks() -> None:
    flat = Cluster.uniform(2, A800_NODE)
    graph = topology_graph(flat)
    assert math.isinf(graph[Vertex(Kind.SPINE, "spine")][Vertex(Kind.LEAF, "leaf-0")]["gb_per_s"])
    assert oversubscription(flat, "leaf-0") == 0.0


@pytest.mark.parametrize(
    ("left", "right", "gb_per_s"),
    [
        (["n0"], ["n1"], 100.0),
        (["n0"], ["n2"], 100.0),
        (["n0", "n1"], ["n2", "n3"], 150.0),  # the uplink, not the 200 of the cards
    ],
)
def test_bandwidth_is_the_narrowest_cut(left: list[str], right: list[str], gb_per_s: float) -> None:
    assert bandwidth_gb_per_s(topology_graph(TWO_LEAVES), left, right) == gb_per_s


def test_nvlink_and_network_add_up_inside_a_domain() -> None:
    assert bandwidth_gb_per_s(topology_graph(RACKS), ["n0"], ["n1"]) == 900.0


@pytest.mark.parametrize(
    ("left", "right", "rule"),
    [
        (["n0"], ["n0"], "two disjoint sets"),
        ([], ["n0"], "two disjoint sets"),
        (["n0"], ["n9"], "no node 'n9'"),
    ],
)
def test_sides_that_make_no_sense_are_refused(left: list[str], right: list[str], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        bandwidth_gb_per_s(topology_graph(TWO_LEAVES), left, right)


def test_an_nvlink_domain_under_two_leaves_is_refused() -> None:
    with pytest.raises(InputError, match="must lie under one leaf switch"):
        cluster(("a", "r0"), ("b", "r0"))


@pytest.mark.parametrize(
    ("nodes", "span"),
    [((0,), Span.NODE), ((0, 1), Span.NVLINK), ((0, 2), Span.POD), ((2, 3), Span.NVLINK)],
)
def test_spans_by_hand(nodes: tuple[int, ...], span: Span) -> None:
    assert span_of(topology_graph(RACKS), [f"n{i}" for i in nodes]) is span


PLACES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, "r0", "r1"])), min_size=1, max_size=7
)


@given(places=PLACES, data=st.data())
def test_the_graph_and_the_cluster_agree_on_every_span(
    places: list[tuple[str, str | None]], data: st.DataObject
) -> None:
    # An NVLink domain lies under one leaf, so its name carries the leaf's.
    made = cluster(*((leaf, domain and f"{leaf}-{domain}") for leaf, domain in places))
    nodes = data.draw(st.lists(st.integers(0, len(places) - 1), max_size=5))
    graph = topology_graph(made)
    assert span_of(graph, [made.nodes[i].name for i in nodes]) is made.span(nodes)


def test_a_leaf_of_two_nodes_on_a_slim_uplink_is_oversubscribed() -> None:
    assert oversubscription(TWO_LEAVES, "a") == pytest.approx(200.0 / 150.0)
    with pytest.raises(InputError, match="leaf 'z' has no node"):
        oversubscription(TWO_LEAVES, "z")


def test_only_gangs_across_leaves_load_uplinks() -> None:
    inside = Placement.of({0: [0, 1], 1: [0]})
    across = Placement.of({1: [1], 2: [0, 1]})
    load = uplink_load_gb_per_s(TWO_LEAVES, [(inside, 10.0), (across, 7.0)])
    assert load == {"a": 7.0, "b": 14.0}
    assert uplink_load_gb_per_s(TWO_LEAVES, []) == {"a": 0.0, "b": 0.0}


@pytest.mark.parametrize(
    ("leaves", "rule"),
    [
        ((Leaf("z", 1.0),), "leaf 'z' has no node"),
        ((Leaf("a", 1.0), Leaf("a", 2.0)), "'a' occurs twice"),
    ],
)
def test_leaves_must_be_those_of_the_nodes(leaves: tuple[Leaf, ...], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        Cluster("toy", TWO_LEAVES.nodes, leaves)


@pytest.mark.parametrize("uplink", [0.0, -1.0, math.inf, math.nan])
def test_an_uplink_is_a_positive_number(uplink: float) -> None:
    with pytest.raises(InputError, match="uplink_gb_per_s"):
        Leaf("a", uplink)
