"""Engine, decision and metrics find the same: a possible and an impossible allocation per rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from formulations.resources import RESOURCES
from morph_opt.core.domain import (
    A800_NODE,
    GPU_TYPES,
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    Leaf,
    Node,
    NodeType,
    Placement,
    Shape,
    SideDemand,
    Span,
    Trace,
)
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.round.decide import decide_round
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.strict import rules
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts, Violation
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import (
    Event,
    NodeStatus,
    RoundDecided,
    Shared,
    Started,
    StartKind,
)
from morph_opt.simulation.metrics.capacity import CapacityCount
from tests.engine.packing_toys import PairedToys, pair
from tests.engine.toys import DP, GC, hold, job


@dataclass(frozen=True)
class Toys(PairedToys):
    """``dp+gc`` runs under one leaf only; no workers that take turns but on GPUs of two types."""

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        if plan == GC and span is Span.POD:
            return None
        return super().iteration_s(model, node_type, shape, plan, span)


SIDE = SideDemand(1, 2.0, 3.0)
KIND = replace(
    A800_NODE, name="t", gpus=4, cpus=8, host_memory_gib=6.0, rdma_gb_per_s=12.0, local_ssd_gib=90.0
)
OTHER = replace(KIND, name="o", gpu_type=GPU_TYPES["V100-32GB"])
NODES = Cluster(
    "six",
    (
        Node("n0", KIND, "a"),
        Node("n1", KIND, "a"),
        Node("n2", KIND, "b"),
        Node("failed", KIND, "b"),
        Node("other", OTHER, "a"),
        Node("drained", KIND, "b"),
    ),
    (Leaf("a", 5.0),),
)
JOBS = (
    job("a"),
    job("b"),
    job("c"),
    job("d"),
    job("late", 1e6),
    job("thready", cpus_per_gpu=5),
    *(job(name, local_ssd_gib=40.0) for name in ("writes", "stores", "keeps")),
    job("strange", model="z"),
)
EST = ExecutionPlan.ests(4, "d1", "A800-80GB")
WORKERS = (Job("w", "m", 0.0, 10, 4, EST),)

Given = Sequence[Assignment]

CASES: dict[str, tuple[Given, Given]] = {
    "known_job": ([hold("stranger", {0: [0]})], [hold("a", {0: [0]})]),
    "active_job": ([hold("late", {0: [0]})], [hold("a", {0: [0]})]),
    "known_node": ([hold("a", {9: [0]})], [hold("a", {2: [0]})]),
    "known_gpu": ([hold("a", {1: [4]})], [hold("a", {1: [3]})]),
    "node_available": ([hold("a", {3: [0]})], [hold("a", {2: [0]})]),
    "node_available, drained": ([hold("a", {5: [0]})], [hold("a", {2: [0]})]),
    "one_gpu_type": ([hold("a", {0: [0], 4: [0]})], [hold("a", {0: [0], 1: [0]})]),
    "runnable": ([hold("a", {0: [0, 1], 1: [0]})], [hold("a", {0: [0], 1: [0]})]),
    "runnable, across leaves": (
        [hold("a", {0: [0], 2: [0]}, GC)],
        [hold("a", {0: [0], 2: [0]}, DP), hold("b", {0: [1], 1: [1]}, GC)],
    ),
    "one_holder": (
        [hold("a", {0: [0]}), hold("b", {0: [0]})],
        [hold("a", {0: [0]}), hold("b", {0: [1]})],
    ),
    "partners": (
        [replace(hold("a", {0: [0]}), partner="b"), hold("b", {0: [1]})],
        list(pair("a", "b", {0: [0]})),
    ),
    "partners, not measured": (
        list(pair("a", "b", {0: [0], 1: [0]})),
        [*pair("a", "b", {0: [0]}), *pair("c", "d", {1: [0]})],
    ),
    "node_gpus": (
        [hold("a", {0: [0, 1, 2, 3]}), hold("b", {0: [0]})],
        [hold("a", {0: [0, 1]}), hold("b", {0: [2]})],
    ),
    "node_cpus": (
        [hold("thready", {0: [0, 1]})],
        [hold("thready", {0: [0]}), hold("a", {0: [1, 2]})],
    ),
    "node_host_memory": (
        [hold("a", {0: [0, 1]}), hold("b", {0: [2, 3]})],
        [hold("a", {0: [0, 1]}), hold("b", {0: [2]})],
    ),
    "node_rdma": ([hold("a", {0: [0, 1, 2, 3]})], [hold("a", {0: [0, 1]})]),
    "node_local_ssd": (
        # The node has 90 GiB; each job holds 40 GiB there, whatever its GPUs.
        [hold("writes", {0: [0]}), hold("stores", {0: [1]}), hold("keeps", {0: [2]})],
        [hold("writes", {0: [0, 1]}), hold("stores", {0: [2]}), hold("keeps", {1: [0], 2: [0]})],
    ),
    "uplink": (
        [hold("a", {0: [0], 2: [0]}), hold("b", {1: [0], 2: [1]})],
        [hold("a", {0: [0], 2: [0]}), hold("b", {0: [1], 1: [1]})],
    ),
    "determinism": (
        [Assignment("w", ExecutionPlan.ests(4, "d2", "A800-80GB"), Placement.of({0: [0]}))],
        [Assignment("w", EST, Placement.of({0: [0, 1]}))],
    ),
}
"""By rule: what breaks it, and what does not."""

Found = set[tuple[str, tuple[str, ...], str | None]]


def world(rule: str) -> tuple[Trace, SpeedModel]:
    if rule == "determinism":
        return Trace.of("workers", WORKERS), ElasticTable({"m": {"A800-80GB": "0.1"}})
    roomy = rule not in ("node_host_memory", "node_rdma")
    side = replace(SIDE, host_memory_gib=0.0, rdma_gb_per_s=3.0) if roomy else SIDE
    side = replace(SIDE, host_memory_gib=0.0, rdma_gb_per_s=4.0) if rule == "node_rdma" else side
    return Trace.of("toys", JOBS), Toys({"m": 8.0, "z": 8.0}, side=side)


def begun(rule: str) -> Engine:
    """The engine at its first boundary: one node has failed, one is drained."""
    trace, truth = world(rule)
    down = (NodeEvent(1.0, 3, NodeStatus.FAILED), NodeEvent(1.0, 5, NodeStatus.DRAINED))
    return Engine(trace, NODES, truth, ReplayConfig(), down)


def shown(violations: Sequence[Violation]) -> Found:
    return {(v.rule, v.jobs, v.node) for v in violations}


def by_engine(rule: str, given: Given) -> Found:
    engine = begun(rule)
    assert engine.advance() is not None
    try:
        engine.apply(Decision(Allocation(tuple(given))))
    except AllocationError as error:
        return shown(error.violations)
    return set()


def by_decision(rule: str, given: Given) -> Found:
    """A policy of one's own in a round: what it decides is checked by its belief."""
    state = begun(rule).advance()
    assert state is not None
    _, truth = world(rule)

    class Own(Policy):
        name = "own"

        def decide(self, here: Any) -> Decision:
            return Decision(Allocation(tuple(given)))

    own = f"{__name__}:make_own"
    globals()["make_own"] = lambda belief, options: Own()
    try:
        decide_round(Snapshot(state, truth), policy=own)
    except AllocationError as error:
        found = shown(error.violations)
    else:
        found = set()
    again = BeliefChecks(truth).on(NODES).check(given, StateFacts.of(state))
    assert found == shown(again)
    return found


def by_metrics(rule: str, given: Given) -> Found:
    """The log that an engine without a check would write."""
    engine = begun(rule)
    assert engine.advance() is not None
    trace, truth = world(rule)
    log: list[Event] = engine.take_events()
    log += [
        Started(60.0, a.job, StartKind.FIRST, a.plan, a.placement, 1.0, 0.0, 0.0) for a in given
    ]
    log += [Shared(60.0, a.job, a.partner, 1.0, 0.0) for a in given if a.partner is not None]
    log.append(RoundDecided(60.0, 1, 2, 2, 3, "heuristic", None, 0, 0.0, None))
    count = CapacityCount(trace, NODES, truth)
    for event in log:
        count.read(event)
    assert count.over == bool(count.broken)
    return shown(count.broken)


@pytest.mark.parametrize("case", CASES)
def test_the_same_is_found_by_engine_decision_and_metrics(case: str) -> None:
    broken, fine = CASES[case]
    rule = case.split(",", maxsplit=1)[0]
    assert by_engine(rule, fine) == by_decision(rule, fine) == by_metrics(rule, fine) == set()
    found = by_engine(rule, broken)
    assert rule in {word for word, _, _ in found}
    assert by_metrics(rule, broken) == found
    # A snapshot knows no jobs but those that are active.
    renamed = {("known_job" if word == "active_job" else word, *rest) for word, *rest in found}
    assert by_decision(rule, broken) == renamed


@pytest.mark.parametrize("limit", [0.001, 0.75])
def test_an_outside_policy_cannot_book_a_gigabyte_over_a_narrow_uplink(limit: float) -> None:
    """1 GB/s over an uplink of 0.001 passed engine and count alike; three quarters are too few."""
    nodes = replace(NODES, leaves=(Leaf("b", limit),))
    truth = Toys({"m": 8.0}, side=SideDemand(0, 0.0, 1.0))
    engine = Engine(Trace.of("one", JOBS[:1]), nodes, truth, ReplayConfig())
    assert engine.advance() is not None
    across = Decision(Allocation((hold("a", {0: [0], 2: [0]}),)))
    with pytest.raises(AllocationError, match=f"uplink: job a: .* leaf b would carry 1 of {limit}"):
        engine.apply(across)
    engine.apply(Decision(Allocation((hold("a", {0: [0], 1: [0]}),))))


def test_every_rule_of_the_page_has_a_case() -> None:
    """Two of them cannot be written down: `Assignment` and `Allocation` refuse them themselves."""
    listed = {
        word.strip("`,")
        for line in (rules.__doc__ or "").splitlines()
        if line.startswith("``")
        for word in line.split()
    }
    listed |= {resource.rule for resource in RESOURCES}
    assert listed - {case.split(",")[0] for case in CASES} == {"one_config", "plan_gpus"}
