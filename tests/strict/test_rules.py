"""Every rule of the strict check: one allocation that keeps it, several that break it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from morph_opt.core.domain import (
    GPU_TYPES,
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    Node,
    Placement,
    SideDemand,
    Trace,
)
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.tables.elastic import ElasticTable
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunLookup
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.engine import Engine
from tests.engine.packing_toys import PairedToys, pair
from tests.engine.toys import DP, GC, Scripted, ToySpeeds, cluster, hold, job, node_type

ROOMY = SideDemand()
A, B = job("a", cpus_per_gpu=2), job("b", cpus_per_gpu=3)


def rules(
    assignments: Sequence[Assignment],
    nodes: Cluster | None = None,
    *,
    side: SideDemand = ROOMY,
    **before: object,
) -> list[tuple[str, tuple[str, ...], str | None]]:
    """(rule, jobs, node) of every violation."""
    nodes = nodes or cluster(2, 4)
    lookup = RunLookup(ToySpeeds(side=side), nodes)
    where = StateFacts(
        active={"a": A, "b": B},
        known={"a", "b", "done"},
        **{"held": {}, **before},  # type: ignore[arg-type]
    )
    found = PlacementCheck(lookup).check(assignments, where)
    return [(v.rule, v.jobs, v.node) for v in found]


def packed(*assignments: Assignment) -> list[tuple[str, tuple[str, ...], str | None]]:
    """(rule, jobs, node) of every violation where the truth measures pairs."""
    nodes = cluster(2, 4, cpus=6)
    lookup = RunLookup(PairedToys(), nodes)
    where = StateFacts(active={"a": A, "b": B, "c": job("c")}, known={"a", "b", "c"}, held={})
    found = PlacementCheck(lookup).check(assignments, where)
    return [(v.rule, v.jobs, v.node) for v in found]


def named(job: str, parts: dict[int, list[int]], partner: str | None) -> Assignment:
    return replace(hold(job, parts), partner=partner)


def test_partners() -> None:
    assert packed(*pair("a", "b", {0: [0]})) == []
    alone = named("a", {0: [0]}, "b")
    assert packed(alone) == [("partners", ("a",), None)]
    for other in (named("b", {0: [0]}, None), named("b", {0: [0]}, "c")):
        broken = packed(alone, other)
        assert ("partners", ("a",), None) in broken
        assert ("one_holder", ("b",), "node-0") in broken
    apart = packed(alone, named("b", {0: [1]}, "a"))
    assert apart == [("partners", ("a",), None), ("partners", ("b",), None)]
    overlap = packed(named("a", {0: [0, 1]}, "b"), named("b", {0: [0]}, "a"))
    assert ("one_holder", ("b",), "node-0") in overlap
    assert [rule for rule, _, _ in overlap].count("partners") == 2
    itself = packed(named("a", {0: [0]}, "a"))
    assert itself == [("partners", ("a",), None)]
    across = packed(*pair("a", "b", {0: [0], 1: [0]}))
    assert [rule for rule, _, _ in across] == ["partners", "partners"]  # not measured


def test_gpu_has_at_most_two_partners() -> None:
    one, two = pair("a", "b", {0: [0]})
    for order in ((one, two), (two, one)):
        for third in (named("c", {0: [0]}, None), named("c", {0: [0, 1]}, "a")):
            for given in ((*order, third), (order[0], third, order[1]), (third, *order)):
                assert "one_holder" in [rule for rule, _, _ in packed(*given)]


def test_node_gpus_count_a_pair_once_and_node_cpus_twice() -> None:
    full = [[0, 1, 2, 3]]
    assert packed(*pair("c", "a", {0: [0]}), hold("b", {1: [0]})) == []
    assert packed(*pair("a", "b", {0: [0, 1]})) == [("node_cpus", ("a", "b"), "node-0")]
    assert "node_gpus" not in [rule for rule, _, _ in packed(*pair("a", "b", {0: full[0]}))]


def test_a_possible_allocation_breaks_nothing() -> None:
    assert rules([hold("a", {0: [0, 1]}), hold("b", {0: [2], 1: [0]}, GC)]) == []
    assert rules([]) == []


def test_one_config() -> None:
    twice = [hold("a", {0: [0]}), hold("a", {1: [0]})]
    assert rules(twice) == [("one_config", ("a",), None)]


@pytest.mark.parametrize("name", ["stranger", "A"])
def test_known_job(name: str) -> None:
    assert rules([hold(name, {0: [0]})]) == [("known_job", (name,), None)]


def test_active_job() -> None:
    assert rules([hold("done", {0: [0]})]) == [("active_job", ("done",), None)]


@pytest.mark.parametrize("node", [2, 99])
def test_known_node(node: int) -> None:
    assert rules([hold("a", {node: [0]})]) == [("known_node", ("a",), None)]


@pytest.mark.parametrize("gpus", [[4], [0, 7]])
def test_known_gpu(gpus: list[int]) -> None:
    assert rules([hold("a", {1: gpus})]) == [("known_gpu", ("a",), "node-1")]


def test_node_available_failed() -> None:
    held = hold("a", {0: [0]})
    down = frozenset({0})
    assert rules([held], unavailable=down, failed=down) == [("node_available", ("a",), "node-0")]
    # not even to stay
    assert rules([held], unavailable=down, failed=down, held={"a": held}) != []
    assert rules([hold("a", {1: [0]})], unavailable=down, failed=down) == []


def test_node_available_drained() -> None:
    held, down = hold("a", {0: [0]}), frozenset({0})
    assert rules([held], unavailable=down) == [("node_available", ("a",), "node-0")]
    assert rules([held], unavailable=down, held={"a": held}) == []
    for changed in (hold("a", {0: [1]}), hold("a", {0: [0]}, GC), hold("a", {0: [0, 1]})):
        assert rules([changed], unavailable=down, held={"a": held}) == [
            ("node_available", ("a",), "node-0")
        ]


def test_plan_gpus() -> None:
    """`Assignment` refuses this itself; the check does not rely on it."""
    wrong = object.__new__(Assignment)
    plan = ExecutionPlan.three_d(1, 2, 2)
    for name, value in (("job", "a"), ("plan", plan), ("placement", Placement.of({0: [0, 1]}))):
        object.__setattr__(wrong, name, value)
    object.__setattr__(wrong, "partner", None)
    assert rules([wrong]) == [("plan_gpus", ("a",), None)]


def test_one_gpu_type() -> None:
    other = replace(node_type(4), name="other", gpu_type=GPU_TYPES["V100"])
    mixed = Cluster("mixed", (Node("x", node_type(4)), Node("y", other)))
    assert rules([hold("a", {0: [0], 1: [0]})], mixed) == [("one_gpu_type", ("a",), None)]
    assert rules([hold("a", {0: [0]}), hold("b", {1: [0]})], mixed) == []


@pytest.mark.parametrize(
    ("asks", "runs", "on", "broken"),
    [
        ("d2", "d2", {"V100": 2, "P100": 1}, ""),
        ("d2", "d2", {"P100": 1}, ""),
        ("d1", "d1", {"V100": 3}, ""),
        ("d1", "d1", {"P100": 1}, "determinism"),
        ("d1", "d1", {"V100": 1, "P100": 1}, "one_gpu_type"),
        ("d1", "d2", {"V100": 1}, "determinism"),
        ("d0", "d0", {"V100": 4}, ""),
        ("d0", "d0", {"V100": 3}, "determinism"),
        ("d2", "", {"V100": 4}, "determinism"),
    ],
)
def test_determinism(asks: str, runs: str, on: dict[str, int], broken: str) -> None:
    nodes = load_cluster("1x8:V100+1x8:P100")
    lookup = RunLookup(ElasticTable({"m": {"V100": "0.1", "P100": "0.2"}}), nodes)
    known = Job("a", "m", 0.0, 10, 4, ExecutionPlan.ests(4, asks, "V100"))
    plan = ExecutionPlan.ests(4, runs, "V100") if runs else DP
    parts = {["V100", "P100"].index(kind): range(count) for kind, count in on.items()}
    given = Assignment("a", plan, Placement.of(parts))
    where = StateFacts(active={"a": known}, known={"a"}, held={})
    found = PlacementCheck(lookup).check((given,), where)
    assert [v.rule for v in found] == ([broken] if broken else [])


@pytest.mark.parametrize(
    "assignment",
    [hold("a", {0: [0, 1, 2]}), hold("a", {0: [0]}, ExecutionPlan.parse("zero-dp"))],
    ids=["count", "plan"],
)
def test_runnable(assignment: Assignment) -> None:
    assert rules([assignment]) == [("runnable", ("a",), None)]


def test_one_holder() -> None:
    """The same GPU twice: the later job is named, and the node holds more than it has."""
    assert rules([hold("a", {0: [0, 1]}), hold("b", {0: [1, 2]})]) == [
        ("one_holder", ("b",), "node-0")
    ]
    assert rules([hold("a", {0: [0, 1]}), hold("b", {1: [0, 1]})]) == []


def test_node_gpus() -> None:
    both = [hold("a", {0: [0, 1, 2, 3]}), hold("b", {0: [0, 1, 2, 3]})]
    assert ("node_gpus", ("a", "b"), "node-0") in rules(both)


def test_node_cpus() -> None:
    both = [hold("a", {0: [0, 1]}), hold("b", {0: [2, 3]})]
    assert rules(both, cluster(2, 4, cpus=10)) == []
    assert rules(both, cluster(2, 4, cpus=9)) == [("node_cpus", ("a", "b"), "node-0")]
    # the side demand counts where it is the larger
    assert rules(both, cluster(2, 4, cpus=10), side=SideDemand(cpus=4)) == [
        ("node_cpus", ("a", "b"), "node-0")
    ]


def test_node_host_memory() -> None:
    both = [hold("a", {0: [0, 1]}), hold("b", {0: [2]})]
    side = SideDemand(host_memory_gib=0.1)
    assert rules(both, cluster(2, 4, host_memory_gib=0.3), side=side) == []
    assert rules(both, cluster(2, 4, host_memory_gib=0.29), side=side) == [
        ("node_host_memory", ("a", "b"), "node-0")
    ]


def test_node_rdma() -> None:
    side = SideDemand(rdma_gb_per_s=30.0)
    both = [hold("a", {0: [0, 1], 1: [0, 1]}), hold("b", {0: [2], 1: [2]})]
    assert rules(both[:1], cluster(2, 4, rdma_gb_per_s=60.0), side=side) == []
    assert rules(both, cluster(2, 4, rdma_gb_per_s=60.0), side=side) == [
        ("node_rdma", ("a", "b"), "node-0"),
        ("node_rdma", ("a", "b"), "node-1"),
    ]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (
            [hold("a", {0: [0]}), hold("b", {0: [0]})],
            "round 0 at 60 s: one_holder: node node-0, job b: GPUs [0] are held by another job (a)",
        ),
        ([hold("a", {5: [0]})], "round 0 at 60 s: known_node: job a: node index 5 of 2 nodes"),
        (
            [hold("a", {0: [0]}), hold("c", {0: [1]})],
            "round 0 at 60 s: active_job: job c: is complete or not yet submitted",
        ),
        (
            [hold("a", {0: [0, 1, 2]}), hold("b", {1: [3, 4]})],
            "round 0 at 60 s: runnable: job a: m cannot run dp on 3 GPUs (and 1 more)",
        ),
    ],
)
def test_the_engine_stops_with_round_node_and_jobs(
    assignments: list[Assignment], message: str
) -> None:
    trace = Trace.of("three", [job("a"), job("b"), job("c", 500.0)])
    engine = Engine(trace, cluster(2, 4), ToySpeeds(), ReplayConfig())
    state = engine.advance()
    assert state is not None
    with pytest.raises(AllocationError) as caught:
        engine.apply(Decision(Allocation(tuple(assignments))))
    assert str(caught.value) == message
    # nothing was applied: a possible decision still goes through
    engine.apply(Decision(Allocation((hold("a", {0: [0]}),))))


def test_completed_jobs_may_not_run_on() -> None:
    trace = Trace.of("two", [job("a", 0.0, 1), job("b", 0.0, 1000)])
    first = [hold("a", {0: [0]}), hold("b", {0: [1]})]
    policy = Scripted({0: first, 1: first, 2: first})
    engine = Engine(trace, cluster(1, 4), ToySpeeds({"m": 1.0}), ReplayConfig(restart_s=0.0))
    state = engine.advance()
    assert state is not None
    engine.apply(policy.decide(state))
    state = engine.advance()
    assert state is not None
    with pytest.raises(AllocationError, match="active_job: job a"):
        engine.apply(policy.decide(state))


def test_mixed_node_types_of_one_gpu_type_run_at_the_pace_of_the_slowest() -> None:
    class Uneven(ToySpeeds):
        def iteration_s(self, model, node_type, shape, plan, span):  # type: ignore[no-untyped-def]
            base = super().iteration_s(model, node_type, shape, plan, span)
            return None if base is None else base * (3.0 if node_type.cpus == 1 else 1.0)

    slow = replace(node_type(4), name="slow", cpus=1)
    nodes = Cluster("uneven", (Node("x", node_type(4)), Node("y", slow)))
    lookup = RunLookup(Uneven(), nodes)
    alone = lookup.facts("m", hold("a", {0: [0]}))
    across = lookup.facts("m", hold("a", {0: [0], 1: [0]}))
    assert alone is not None
    assert across is not None
    assert (alone.iteration_s, across.iteration_s) == (8.0, 8.0 / 2 * 1.5 * 3.0)
    assert lookup.facts("m", hold("a", {0: [0]}, DP)) is alone
