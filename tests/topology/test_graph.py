"""The topology graph: capacities, spans, and the tables that are read from it."""

from __future__ import annotations

import gc
import math
import weakref
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.domain import A800_NODE, Cluster, InputError, Leaf, Node, Span
from morph_opt.inputs.topology.graph import SPINE, Kind, cluster_to_graph, topology_of
from morph_opt.scheduling.decision.candidates.nodes import node_table

SMALL = replace(A800_NODE, name="small", gpus=2)


def cluster(*places: tuple[str, str | None], uplink: float | None = None) -> Cluster:
    """Nodes n0, n1, ... of two GPUs on these leaves and NVLink domains."""
    nodes = tuple(Node(f"n{i}", SMALL, leaf, dom) for i, (leaf, dom) in enumerate(places))
    leaves = tuple(dict.fromkeys(leaf for leaf, _ in places)) if uplink else ()
    return Cluster("toy", nodes, tuple(Leaf(name, uplink or 1.0) for name in leaves))


TWO_LEAVES = cluster(("a", None), ("a", None), ("b", None), ("b", None), uplink=150.0)
RACKS = cluster(("a", "r0"), ("a", "r0"), ("b", "r1"), ("b", "r1"), uplink=150.0)


def test_every_node_leaf_and_domain_is_a_vertex_with_its_capacity() -> None:
    graph = cluster_to_graph(RACKS)
    kinds = [kind for _, kind in graph.nodes(data="kind")]
    assert {kind: kinds.count(kind) for kind in Kind} == {
        Kind.SPINE: 1,
        Kind.LEAF: 2,
        Kind.NVLINK: 2,
        Kind.NODE: 4,
    }
    links = graph.adj[Kind.NODE.vertex("n0")].values()
    assert {link["kind"]: link["gb_per_s"] for link in links} == {"network": 100.0, "nvlink": 800.0}
    assert graph.edges[SPINE, Kind.LEAF.vertex("a")]["gb_per_s"] == 150.0
    assert nx.is_connected(graph)


def test_a_leaf_that_is_not_listed_has_unlimited_uplinks() -> None:
    flat = Cluster.uniform(2, A800_NODE)
    assert "gb_per_s" not in cluster_to_graph(flat).edges[SPINE, Kind.LEAF.vertex("leaf-0")]
    assert topology_of(flat).uplink_gb_per_s == (math.inf,)
    assert topology_of(flat).oversubscription(0) == 0.0


def test_a_topology_is_built_once_and_lives_no_longer_than_its_cluster() -> None:
    made = Cluster.uniform(3, A800_NODE)
    topology = topology_of(made)
    assert topology_of(made) is topology
    assert topology_of(replace(made)) is not topology
    with pytest.raises(nx.NetworkXError):
        topology.graph.add_node("more")
    gone = weakref.ref(topology)
    del made, topology
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("left", "right", "gb_per_s"),
    [
        (["n0"], ["n1"], 100.0),
        (["n0"], ["n2"], 100.0),
        (["n0", "n1"], ["n2", "n3"], 150.0),  # the uplink, not the 200 of the cards
    ],
)
def test_bandwidth_is_the_narrowest_cut(left: list[str], right: list[str], gb_per_s: float) -> None:
    assert topology_of(TWO_LEAVES).bandwidth_gb_per_s(left, right) == gb_per_s


def test_other_nodes_of_a_domain_forward_nothing() -> None:
    assert topology_of(RACKS).bandwidth_gb_per_s(["n0"], ["n2"]) == 100.0


def test_nvlink_and_network_add_up_inside_a_domain() -> None:
    assert topology_of(RACKS).bandwidth_gb_per_s(["n0"], ["n1"]) == 900.0


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
        topology_of(TWO_LEAVES).bandwidth_gb_per_s(left, right)


def test_an_nvlink_domain_under_two_leaves_is_refused() -> None:
    with pytest.raises(InputError, match="must lie under one leaf switch"):
        cluster(("a", "r0"), ("b", "r0"))


@pytest.mark.parametrize(
    ("nodes", "span"),
    [((0,), Span.NODE), ((0, 1), Span.NVLINK), ((0, 2), Span.POD), ((2, 3), Span.NVLINK)],
)
def test_spans_by_hand(nodes: tuple[int, ...], span: Span) -> None:
    assert topology_of(RACKS).span(nodes) is span


@pytest.mark.parametrize(
    ("ends", "names"),
    [
        (("n0", "n1"), ["n0", "r0", "n1"]),
        (("n0", "n2"), ["n0", "a", "spine", "b", "n2"]),
        (("n0", "n0"), ["n0"]),
    ],
)
def test_the_path_between_two_nodes(ends: tuple[str, str], names: list[str]) -> None:
    assert topology_of(RACKS).path(*ends) == names


PLACES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, "r0", "r1"])), min_size=1, max_size=7
)


@given(
    places=PLACES,
    bounded=st.dictionaries(st.sampled_from("abc"), st.floats(1.0, 1e3)),
    data=st.data(),
)
def test_tables_of_the_graph_are_those_of_the_node_fields(
    places: list[tuple[str, str | None]], bounded: dict[str, float], data: st.DataObject
) -> None:
    """Against the fields of the nodes, taken apart by hand."""
    # An NVLink domain lies under one leaf, so its name carries the leaf's.
    toy = cluster(*((leaf, domain and f"{leaf}-{domain}") for leaf, domain in places))
    limits = {leaf: rate for leaf, rate in bounded.items() if leaf in toy.leaf_names}
    made = replace(toy, leaves=tuple(Leaf(name, rate) for name, rate in limits.items()))
    topology, table = topology_of(made), node_table(made)
    leaves = [node.leaf for node in made.nodes]
    domains = [node.nvlink_domain or f"of {node.name}" for node in made.nodes]
    names, joined = list(dict.fromkeys(leaves)), list(dict.fromkeys(domains))
    uplinks = [limits.get(name, math.inf) for name in names]
    assert topology.leaf_names == made.leaf_names == tuple(names)
    assert topology.uplink_gb_per_s == tuple(uplinks)
    assert table.leaf.tolist() == [names.index(leaf) for leaf in leaves]
    assert table.domain.tolist() == [joined.index(domain) for domain in domains]
    assert table.uplink_gb_per_s.tolist() == (uplinks if len(names) > 1 else [np.inf])

    some = data.draw(st.lists(st.integers(0, len(places) - 1), max_size=5))
    distinct = set(some)
    in_leaves = len({leaves[node] for node in distinct})
    in_domains = len({domains[node] for node in distinct})
    span = Span.NODE if len(distinct) <= 1 else Span.NVLINK if in_domains == 1 else Span.LEAF
    assert topology.span(some) is (span if in_leaves <= 1 else Span.POD)
    assert topology.spans(distinct) == (
        *([Span.NVLINK] if in_domains < len(distinct) else []),
        Span.LEAF,
        *([Span.POD] if in_leaves > 1 else []),
    )


def test_a_leaf_of_two_nodes_on_a_slim_uplink_is_oversubscribed() -> None:
    assert topology_of(TWO_LEAVES).oversubscription(0) == pytest.approx(200.0 / 150.0)


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
