"""Places on the empty cluster: against all ways to choose nodes, and the speeds that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import pytest

from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    ExecutionPlan,
    GpuType,
    Leaf,
    Node,
    NodeType,
    Shape,
    SideDemand,
    Span,
)
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.places import Places
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.topology.graph import topology_of
from tests.engine.toys import DP, GC, ToySpeeds, job

X = replace(A800_NODE, name="x", gpus=4, cpus=12, host_memory_gib=40.0, rdma_gb_per_s=10.0)
Y = replace(X, name="y", cpus=6)
SHAPES = [(2,), (4,), (1, 1), (2, 2), (3, 1), (2, 1, 1), (3, 2, 2), (4, 4), (2, 2, 2, 1)]


def random_cluster(draw: np.random.Generator) -> Cluster:
    """Up to six nodes of two classes under three leaves, of which most have limited uplinks."""
    nodes = []
    for i in range(int(draw.integers(2, 7))):
        leaf = str(draw.choice(["a", "b", "c"]))
        domain = f"d{leaf}" if draw.random() < 0.5 else None
        nodes.append(Node(f"n{i}", Y if draw.random() < 0.25 else X, leaf, domain))
    limited = sorted({node.leaf for node in nodes if draw.random() < 0.5})
    leaves = tuple(Leaf(name, float(draw.choice([2, 5, 8, 11]))) for name in limited)
    return Cluster("random", tuple(nodes), leaves)


def enumerated(
    cluster: Cluster, node_type: NodeType, span: Span, row: Configuration, cpus: int
) -> bool:
    """Whether any choice of nodes is a place, each looked at by itself."""
    side, parts, topology = row.side, row.shape.parts, topology_of(cluster)
    for nodes in permutations(cluster.nodes_of(node_type), len(parts)):
        if topology.span(nodes) is not span:
            continue
        used: dict[int, float] = {}
        for part, node in zip(parts, nodes, strict=True):
            leaf = topology.leaf[node]
            used[leaf] = used.get(leaf, 0.0) + part * side.rdma_gb_per_s
        if all(
            part <= node_type.gpus
            and part * max(cpus, side.cpus) <= node_type.cpus
            and part * side.host_memory_gib <= node_type.host_memory_gib
            and part * side.rdma_gb_per_s <= node_type.rdma_gb_per_s
            for part in parts
        ) and (
            span is not Span.POD
            or all(amount <= topology.uplink_gb_per_s[leaf] for leaf, amount in used.items())
        ):
            return True
    return False


@pytest.mark.parametrize("block", range(4))
def test_a_place_is_there_iff_enumeration_finds_one(block: int) -> None:
    answers = {(span, there): 0 for span in Span for there in (False, True)}
    for number in range(60):
        draw = np.random.default_rng((block, number))
        cluster = random_cluster(draw)
        places = Places(cluster)
        for parts in SHAPES:
            for span in (Span.NODE,) if len(parts) == 1 else (Span.NVLINK, Span.LEAF, Span.POD):
                side = SideDemand(
                    int(draw.integers(0, 4)),
                    float(draw.choice([0, 8, 12])),
                    float(draw.choice([0.0, 0.5, 1.0, 2.5])) if len(parts) > 1 else 0.0,
                )
                row, cpus = Configuration(Shape(parts), DP, 1.0, side), int(draw.integers(0, 3))
                for kind in cluster.node_types:
                    there = places.has(kind, span, row, SideDemand(cpus=cpus))
                    assert there is enumerated(cluster, kind, span, row, cpus), (number, row, span)
                    answers[span, there] += 1
    assert min(answers.values()) >= 20, answers


def test_uplinks_are_filled_by_parts_and_not_by_gpus() -> None:
    """7 and 5 GPUs of network share carry 4+4+4 no better than 4 and 4 do, and 4+3+3+2 entirely."""
    nodes = tuple(Node(f"n{i}", X, "ab"[i % 2]) for i in range(8))
    cluster = Cluster("two", nodes, (Leaf("a", 7.0), Leaf("b", 5.0)))
    side = SideDemand(rdma_gb_per_s=1.0)
    for parts, there in (((4, 4), True), ((4, 4, 4), False), ((4, 3, 3, 2), True)):
        row = Configuration(Shape(parts), DP, 1.0, side)
        assert Places(cluster).has(X, Span.POD, row) is there


@dataclass(frozen=True)
class BySpan(ToySpeeds):
    """Twice as slow under one leaf as in an NVLink domain, and again across leaves."""

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        seconds = super().iteration_s(model, node_type, shape, plan, span)
        wide = int(span) - 1 if shape.nodes > 1 else 0
        return None if seconds is None else seconds * 2.0**wide


@pytest.mark.parametrize(("gpus", "seconds"), [(4, 2.0), (8, 6.0 / 4.0)])
def test_a_gang_wider_than_its_leaf_has_the_speed_across_leaves(gpus: int, seconds: float) -> None:
    """8 s over the gang, times 1.5 on several nodes, times 4 across leaves."""
    one_each = Cluster("leaves", tuple(Node(f"n{i}", X, f"l{i}") for i in range(2)))
    scale = 4.0 if gpus == 8 else 1.0
    speeds = GangSpeeds.on(one_each, BySpan())
    assert speeds.iteration_s(job("j", gpus=gpus)) == pytest.approx(seconds * scale)
    assert speeds.row(job("j", gpus=gpus)).tolist() == [1.0 / (seconds * scale)]


def test_by_type_the_speed_is_that_of_a_place_on_this_type() -> None:
    other = replace(X, name="z", gpu_type=GpuType("Z", 80.0), cpus=8)
    cluster = Cluster("types", (Node("n0", X), Node("n1", other), Node("n2", other)))
    speeds = GangSpeeds.on(cluster, BySpan())
    # 3 threads per GPU: 12 for 4 GPUs of a node, which the other type gives to 2 on each of two.
    needy = job("j", gpus=4, cpus_per_gpu=3)
    assert speeds.row(needy).tolist() == [1.0 / 2.0, 1.0 / (2.0 * 1.5 * 2.0)]
    assert speeds.row(job("k", gpus=4)).tolist() == [1.0 / 2.0] * 2
    assert speeds.iteration_s(needy) == 2.0


def test_substitute_for_an_unplaceable_request_has_a_placement() -> None:
    """12 threads per GPU leave one GPU on each node; the slowest that is left is that on one."""
    cluster = Cluster.uniform(2, X)
    speeds = GangSpeeds.on(cluster, ToySpeeds())
    starved = job("j", gpus=4, cpus_per_gpu=12)
    assert speeds.iteration_s(starved) == 8.0 * 1.25  # one GPU, the slower plan
    assert speeds.row(starved).tolist() == [1.0 / (8.0 * 1.5 / 2)]  # 1+1, the fastest of all
    assert speeds.iteration_s(replace(starved, requested_plan=GC, cpus_per_gpu=13)) == 1.0


def test_speeds_of_requests_are_asked_once() -> None:
    asked: list[str] = []

    class Counted(ToySpeeds):
        def configurations(
            self, model: str, node_type: NodeType, max_gpus: int, span: Span
        ) -> Sequence[Configuration]:
            asked.append(model)
            return super().configurations(model, node_type, max_gpus, span)

    speeds = GangSpeeds.on(Cluster.uniform(2, X), Counted())
    for number in range(5):
        speeds.iteration_s(job(f"j{number}", gpus=4))
        speeds.row(job(f"k{number}", gpus=2))
    assert asked == ["m"]
