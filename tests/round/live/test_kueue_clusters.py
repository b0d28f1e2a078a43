"""Clusters under Kueue as operators have them: what is free, who may start, and what is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import RoundState
from morph_opt.plan.cli import main as plan
from morph_opt.round.live.sources import read_live
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.milp import MilpPolicy
from tests.round.live.kueue_objects import (
    GPU,
    Item,
    admitted,
    cohort,
    flavor,
    limits,
    local,
    node,
    nodes_of,
    queue,
    read,
    said,
    stamp,
    workload,
)

ONE = [flavor("f"), queue("a", {"f": 8}), local("a", "a")]
"""A queue of 8 GPUs."""


def at(name: str, gpus: int, of: str = "f", **more: Any) -> Item:
    return node(name, gpus, {"flavor": of} | more.pop("labels", {}), **more)


def test_a_quota_is_of_a_flavor(tmp_path: Path) -> None:
    """20 of one flavor are no quota for 10 of another, which the pods alone may have."""
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    items = [
        at("s0", 8, "spot"),
        at("s1", 8, "spot"),
        at("d0", 5, "base"),
        flavor("spot", nodeTaints=[taint]),
        flavor("base"),
        queue("a", {"spot": 20, "base": 5}),
        local("a", "a"),
    ]
    live = read(tmp_path, [*items, workload("w", 10, 1)])
    assert nodes_of(live) == {}
    assert live.held["ns/w"] == (
        "asks for 10 nvidia.com/gpu, and its cluster queue a may have at most 5 of flavor base"
    )
    bears = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    assert nodes_of(read(tmp_path, [*items, workload("w", 10, 1, pod=bears)]))["w"] == {"s0", "s1"}


def test_lending_and_borrowing_limits(tmp_path: Path) -> None:
    """b keeps 3 of its 6 for itself, and a borrows 2 of the other 3 at most."""
    items = [
        at("n0", 8),
        flavor("f"),
        queue("a", {"f": limits(2, borrow=2)}, "team"),
        queue("b", {"f": limits(6, lend=3)}, "team"),
        local("a", "a"),
    ]
    for gpus, starts in ((4, True), (5, False)):
        live = read(tmp_path, [*items, workload("w", gpus, 1)])
        assert ("w" in nodes_of(live)) is starts
        assert ("ns/w" in live.held) is not starts
    own = admitted(workload("own", 5, 1, "b"), "b", "f", 5)
    for gpus, starts in ((3, True), (4, False)):
        live = read(tmp_path, [*items, own, workload("w", gpus, 1)])
        assert ("w" in nodes_of(live)) is starts
        assert "ns/w" not in live.held


def test_cohorts_have_quotas_of_their_own_in_a_tree(tmp_path: Path) -> None:
    """4 of the cohort above and 2 of its own; the other tree's 8 are not lent."""
    items = [
        at("n0", 8),
        at("n1", 8),
        flavor("f"),
        queue("a", {"f": 2}, "low"),
        queue("b", {"f": 8}, "other"),
        cohort("low", {}, "top"),
        cohort("top", {"f": 4}),
        local("a", "a"),
    ]
    for gpus, starts in ((6, True), (7, False)):
        assert ("w" in nodes_of(read(tmp_path, [*items, workload("w", gpus, 1)]))) is starts


def test_a_quota_of_cpus_keeps_a_workload_waiting(tmp_path: Path) -> None:
    """GPUs for both, CPUs for one: a workload without GPUs has the rest of them."""
    quotas = groups_of({GPU: "8", "cpu": "10"})
    items = [at("n0", 8), flavor("f"), local("a", "a"), queue("a", {}, resourceGroups=quotas)]
    asks = {GPU: "2", "cpu": "4"}
    idle = admitted(workload("idle", 1, 0, needs={"cpu": "3"}), "a", "f", 0)
    idle["status"]["admission"]["podSetAssignments"][0] |= {
        "flavors": {"cpu": "f"},
        "resourceUsage": {"cpu": "3"},
    }
    jobs = [workload(name, 1, 2, needs=asks, minute=k) for k, name in enumerate("xy")]
    assert set(nodes_of(read(tmp_path, [*items, *jobs]))) == {"x", "y"}
    assert len(nodes_of(read(tmp_path, [*items, idle, *jobs]))) == 1


def groups_of(quotas: dict[str, str]) -> list[Item]:
    """One group of one flavor with several resources."""
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    return [{"coveredResources": list(quotas), "flavors": [{"name": "f", "resources": resources}]}]


def test_flavors_on_the_same_nodes_are_given_in_their_order(tmp_path: Path) -> None:
    """Both flavors may be on the node: 4 of the first, then 4 of the second, then none."""
    items = [
        node("n0", 12),
        flavor("first", {}),
        flavor("second", {}),
        queue("a", {"first": 4, "second": 4}),
        local("a", "a"),
    ]
    jobs = [workload(f"w{k}", 1, 4, minute=k, priority=-k) for k in range(3)]
    assert set(nodes_of(read(tmp_path, [*items, *jobs]))) == {"w0", "w1"}


def test_the_first_flavor_is_taken_where_nothing_else_decides(tmp_path: Path) -> None:
    for order in (("x", "y"), ("y", "x")):
        items = [at("nx", 8, "x"), at("ny", 8, "y"), flavor("x"), flavor("y"), local("a", "a")]
        live = read(tmp_path, [*items, queue("a", dict.fromkeys(order, 8)), workload("w", 4, 1)])
        assert nodes_of(live) == {"w": {f"n{order[0]}"}}
        assert nodes_of(live, "fifo") == {"w": {f"n{order[0]}"}}


DOMAINS = {
    "levels": ["kubernetes.io/hostname"],
    "domains": [{"values": ["n1"], "count": 3}, {"values": ["n0"], "count": 1}],
}
SLICES = {
    "levels": ["rack", "kubernetes.io/hostname"],
    "slices": [
        {
            "domainCount": 2,
            "podCounts": {"individual": [3, 1]},
            "valuesPerLevel": [
                {"universal": "r"},
                {"individual": {"prefix": "n", "roots": ["1", "0"]}},
            ],
        }
    ],
}


@pytest.mark.parametrize("topology", [DOMAINS, SLICES])
def test_admitted_workloads_are_where_their_assignment_says(tmp_path: Path, topology: Item) -> None:
    run = admitted(workload("run", 4, 1), "a", "f", 4, topology=topology)
    live = read(tmp_path, [at("n0", 4), at("n1", 4), *ONE, run])
    (job,) = (one for one in live.snapshot.state.jobs if one.job.name == "ns/run")
    assert job.running is not None
    assert {n: len(g) for n, g in job.running.placement.parts} == {0: 1, 1: 3}


def pod(name: str, on: str, gpus: int, phase: str = "Running", **meta: Any) -> Item:
    spec = {"nodeName": on, "containers": [{"resources": {"limits": {GPU: gpus}}}]}
    head = {"name": name, "namespace": "ns"} | meta
    return {"kind": "Pod", "metadata": head, "spec": spec, "status": {"phase": phase}}


def test_pods_say_where_workloads_are_and_what_others_hold(tmp_path: Path) -> None:
    """Of 8 and 8: 4 of the workload on n1, 6 of somebody else on n0; a pod of 4 fits on n1."""
    owner = [{"uid": "u1", "name": "job-run", "kind": "Job"}]
    run = admitted(workload("run", 1, 4, meta={"ownerReferences": owner}), "a", "f", 4)
    pods = [
        pod("p", "n1", 4, ownerReferences=owner),
        pod("serve", "n0", 6),
        pod("done", "n0", 8, "Succeeded"),
    ]
    items = [at("n0", 8), at("n1", 8), *ONE, run, workload("w", 1, 4)]
    live = read(tmp_path, [*items, *pods])
    assert nodes_of(live) == {"run": {"n1"}, "w": {"n1"}, "in use on n0": {"n0"}}
    assert not said(live, "pods outside Kueue are not seen")
    assert said(read(tmp_path, items), "pods outside Kueue are not seen")


def test_workload_on_an_unknown_node_keeps_all_quota_but_reclaimed_pods(tmp_path: Path) -> None:
    """The admitted workload's node is gone: 5 of 8 stay in use; with 4 of its pods done, 1."""
    gone = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["n9"], "count": 5}]}
    for done, starts in ((0, False), (4, True)):
        back = {"reclaimablePods": [{"name": "main", "count": done}]}
        run = admitted(workload("run", 5, 1), "a", "f", 5, topology=gone, **back)
        live = read(tmp_path, [at("n0", 8), *ONE, run, workload("w", 4, 1)])
        assert ("w" in nodes_of(live)) is starts
        assert said(live, "admitted, and on no node that is known: ns/run")
    run = admitted(workload("run", 6, 1), "a", "f", 6, **back)
    live = read(tmp_path, [at("n0", 8), *ONE, run, workload("w", 6, 1)])
    assert "w" in nodes_of(live)


def test_a_gang_is_on_nodes_of_which_one_lacks_a_gpu(tmp_path: Path) -> None:
    items = [at("n0", 4), at("n1", 3), flavor("f"), queue("a", {"f": 9}), local("a", "a")]
    live = read(tmp_path, [*items, workload("w", 7, 1)])
    assert nodes_of(live) == {"w": {"n0", "n1"}, "absent on n1": {"n1"}}
    live = read(tmp_path, [*items, workload("w", 4, 2)])
    assert "w" not in nodes_of(live)


def test_pods_of_two_sizes_are_not_torn_apart(tmp_path: Path) -> None:
    """A pod of 4 and two of 2 on what is free, 4 and 2 and 2; not where it is 3 and 3 and 2."""
    sets = workload("w", 1, 4)["spec"]["podSets"]
    sets += [one | {"name": "more"} for one in workload("w", 2, 2)["spec"]["podSets"]]
    for sizes, starts in (((4, 2, 2), True), ((3, 3, 2), False)):
        nodes = [at(f"n{k}", gpus) for k, gpus in enumerate(sizes)]
        live = read(tmp_path, [*nodes, *ONE, workload("w", 1, 4, podSets=sets)])
        assert ("w" in nodes_of(live)) is starts


def test_priority_comes_first_and_then_who_came_first(tmp_path: Path) -> None:
    """Under the optimum and under a baseline; a class in another object has the number."""
    value = {"kind": "WorkloadPriorityClass", "metadata": {"name": "gold"}, "value": 900}
    low, high = workload("low", 8, 1, priority=3), workload("high", 4, 1, minute=9)
    del high["spec"]["priority"]
    high["spec"]["priorityClassRef"] = {"kind": "WorkloadPriorityClass", "name": "gold"}
    live = read(tmp_path, [at("n0", 8), *ONE, low, high, value])
    for policy in ("milp", "fifo", "srtf"):
        assert set(nodes_of(live, policy)) == {"high"}
    live = read(tmp_path, [at("n0", 8), *ONE, low, high])
    assert set(nodes_of(live)) == {"low"}
    assert said(live, "ns/high: priority class gold is in no file")


def test_a_strict_queue_waits_for_its_head(tmp_path: Path) -> None:
    """The head may have 8 and 4 are free; in another queue the second passes it."""
    run = admitted(workload("run", 4, 1), "a", "f", 4)
    jobs = [run, workload("head", 8, 1), workload("next", 1, 1, minute=1)]
    for strategy, starts in (("StrictFIFO", False), ("BestEffortFIFO", True)):
        items = [at("n0", 8), flavor("f"), local("a", "a")]
        own = queue("a", {"f": 12}, queueingStrategy=strategy)
        assert ("next" in nodes_of(read(tmp_path, [*items, own, *jobs]))) is starts
    # A head that can never start blocks all the same.
    jobs[1] = workload("head", 99, 1)
    strict = queue("a", {"f": 12}, queueingStrategy="StrictFIFO")
    live = read(tmp_path, [at("n0", 8), flavor("f"), local("a", "a"), strict, *jobs])
    assert live.held["ns/next"] == "waits for ns/head, which is before it in its StrictFIFO queue"


def test_a_forecast_asks_for_a_decision_where_something_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three workloads of a day, two at a time: three rounds change something, of 2,880."""
    asked = []
    decide = MilpPolicy.decide

    def counted(self: MilpPolicy, state: RoundState) -> Decision:
        asked.append(state.time_s)
        return decide(self, state)

    monkeypatch.setattr(MilpPolicy, "decide", counted)
    jobs = [workload(f"w{k}", 4, 1, minute=k, priority=-k) for k in range(3)]
    read(tmp_path, [at("n0", 8), *ONE, *jobs])
    words = ["eta", "--from", f"kueue:{tmp_path / 'objects.json'}", "--out", str(tmp_path / "eta")]
    assert plan(words) == 0
    said_of = capsys.readouterr()
    assert "ns/w2 starts in 1440 min" in said_of.out
    assert "futures: 50 of 50" in said_of.err
    assert len(asked) <= 6


def condition(kind: str, status: str, reason: str = "x") -> Item:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": stamp(1)}


HELD: dict[str, tuple[list[Item], str]] = {
    "inactive": ([*ONE, workload("w", 1, 1, active=False)], "it is not active"),
    "no queue": ([*ONE, workload("w", 1, 1, "")], "it names no local queue"),
    "lost queue": ([*ONE, workload("w", 1, 1, "z")], "its local queue z is in no file"),
    "queue of nothing": (
        [*ONE, local("z", "gone"), workload("w", 1, 1, "z")],
        "its local queue z is of gone, which is in no file",
    ),
    "held queue": (
        [*ONE, local("z", "a", stopPolicy="HoldAndDrain"), workload("w", 1, 1, "z")],
        "its local queue z is stopped (HoldAndDrain)",
    ),
    "stopped": (
        [
            flavor("f"),
            queue("a", {"f": 8}, stopPolicy="Hold"),
            local("a", "a"),
            workload("w", 1, 1),
        ],
        "its cluster queue a is stopped (Hold)",
    ),
    "flavor gone": (
        [flavor("z"), queue("a", {"f": 8}), local("a", "a"), workload("w", 1, 1)],
        "its cluster queue a is inactive: there is no flavor f",
    ),
    "later": (
        [*ONE, workload("w", 1, 1, status={"requeueState": {"requeueAt": stamp(40)}})],
        f"it is queued again at {stamp(40)}",
    ),
    "not again": (
        [*ONE, workload("w", 1, 1, status={"conditions": [condition("Requeued", "False")]})],
        "it is not queued again yet: x",
    ),
    "other vendor": (
        [*ONE, workload("w", 1, 1, needs={"amd.com/gpu": "1"})],
        "its cluster queue a covers no amd.com/gpu",
    ),
    "shares": (
        [*ONE, workload("w", 1, 1, needs={"nvidia.com/mig-1g.5gb": "1"})],
        "asks for shares of GPUs (nvidia.com/mig-1g.5gb): not decided",
    ),
    "memory of a GPU": (
        [*ONE, workload("w", 1, 1, needs={GPU: "1", "nvidia.com/gpumem": "4000"})],
        "asks for shares of GPUs (nvidia.com/gpumem): not decided",
    ),
    "claims": (
        [*ONE, workload("w", 1, 1, pod={"resourceClaims": [{"name": "g"}]})],
        "asks for resource claims, whose devices are not read: not decided",
    ),
    "selector": (
        [*ONE, workload("w", 1, 1, pod={"nodeSelector": {"flavor": "z"}})],
        "none of the flavors of its cluster queue fit its node selector and tolerations: f",
    ),
    "slices": (
        [
            *ONE,
            workload(
                "w",
                4,
                1,
                sets={
                    "topologyRequest": {
                        "podSetSliceRequiredTopology": "rack",
                        "podSetSliceSize": 2,
                    }
                },
            ),
        ],
        "asks for slices of 2 pods within one rack: not decided",
    ),
    "cycle": (
        [
            flavor("f"),
            queue("a", {"f": 8}, "x"),
            cohort("x", {}, "y"),
            cohort("y", {}, "x"),
            local("a", "a"),
            workload("w", 1, 1),
        ],
        "cohort x of its cluster queue a is below itself",
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_workload_that_may_not_start_waits_with_a_reason(tmp_path: Path, name: str) -> None:
    items, reason = HELD[name]
    live = read(tmp_path, [at("n0", 8), *items])
    assert live.held["ns/w"].startswith(reason)
    assert nodes_of(live) == {}


def test_namespaces_that_a_queue_selects(tmp_path: Path) -> None:
    term = {"key": "team", "operator": "In", "values": ["ml"]}
    picky = queue("a", {"f": 8}, namespaceSelector={"matchExpressions": [term]})
    items = [at("n0", 8), flavor("f"), picky, local("a", "a"), workload("w", 1, 1)]
    assert said(read(tmp_path, items), "namespaces that cluster queue a selects: not known")
    for team, starts in (("ml", True), ("web", False)):
        space = {"kind": "Namespace", "metadata": {"name": "ns", "labels": {"team": team}}}
        live = read(tmp_path, [*items, space])
        assert ("w" in nodes_of(live)) is starts
        assert ("ns/w" in live.held) is not starts


SHARED: dict[str, Item] = {
    "time-slicing": {"labels": {"nvidia.com/gpu.replicas": "4"}},
    "mps": {"labels": {"nvidia.com/gpu.sharing-strategy": "mps"}},
    "MIG": {"labels": {"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}},
    "vGPU": {"labels": {"nvidia.com/vgpu.present": "true"}},
    "HAMi": {"notes": {"hami.io/node-nvidia-register": "GPU-1,10"}},
}


@pytest.mark.parametrize("word", SHARED)
def test_shares_under_the_name_of_gpus_are_none(tmp_path: Path, word: str) -> None:
    live = read(tmp_path, [at("n0", 8, **SHARED[word]), *ONE, workload("w", 2, 1)])
    assert nodes_of(live) == {}
    assert said(live, f"nothing is started on n0 (sells shares of GPUs: {word})")


def test_other_kinds_of_gpus_are_another_type(tmp_path: Path) -> None:
    """A queue covers both: pods that ask for one kind are on its nodes alone."""
    quotas = groups_of({GPU: "8", "amd.com/gpu": "8"})
    items = [
        at("nv", 4),
        at("amd", 4, resource="amd.com/gpu"),
        flavor("f"),
        queue("a", {}, resourceGroups=quotas),
        local("a", "a"),
        workload("w", 4, 1, needs={"amd.com/gpu": "1"}),
        workload("x", 4, 1),
    ]
    live = read(tmp_path, items)
    assert nodes_of(live) == {"w": {"amd"}, "x": {"nv"}}
    assert {kind.gpu_type.name for kind in live.snapshot.state.cluster.node_types} == {
        "A100",
        "amd.com",
    }


def test_selectors_affinity_and_taints_of_nodes(tmp_path: Path) -> None:
    taint = {"key": "team", "value": "x", "effect": "NoExecute"}
    items = [
        at("n0", 8, labels={"disk": "hdd"}),
        at("n1", 8, labels={"disk": "ssd"}, taints=[taint]),
        at("n2", 8, labels={"disk": "ssd", "zone": "3"}, ready=False),
        *ONE,
    ]
    bears = [{"key": "team", "operator": "Equal", "value": "x"}]
    word = "requiredDuringSchedulingIgnoredDuringExecution"

    def affinity(*terms: tuple[str, str, list[str]]) -> Item:
        each = [{"key": k, "operator": o, "values": v} for k, o, v in terms]
        return {
            "affinity": {
                "nodeAffinity": {word: {"nodeSelectorTerms": [{"matchExpressions": each}]}}
            }
        }

    cases: list[tuple[Item, set[str]]] = [
        ({}, {"n0"}),
        ({"nodeSelector": {"disk": "ssd"}}, set()),
        ({"nodeSelector": {"disk": "ssd"}, "tolerations": bears}, {"n1"}),
        (affinity(("disk", "NotIn", ["ssd"])), {"n0"}),
        (affinity(("disk", "In", ["ssd"])) | {"tolerations": bears}, {"n1"}),
        (affinity(("zone", "Gt", ["2"])) | {"tolerations": bears}, set()),
    ]
    for spec, expected in cases:
        live = read(tmp_path, [*items, workload("w", 1, 8, pod=spec)])
        assert nodes_of(live).get("w", set()) == expected


TOPOLOGY = {
    "kind": "Topology",
    "metadata": {"name": "t"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}


def test_the_reason_of_a_wait_names_taints_and_flavors_without_nodes(tmp_path: Path) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    items = [flavor("f"), flavor("g"), local("a", "a"), queue("a", {"f": 8}), queue("b", {"g": 8})]
    items += [local("b", "b"), workload("w", 1, 4), workload("other", 1, 4, queue="b")]
    items += [workload("picky", 1, 1, pod={"nodeSelector": {"disk": "ssd"}})]
    held = read(tmp_path, [*items, at("n1", 8, taints=[taint])]).held
    assert held == {
        "ns/w": "it does not tolerate the taint x=y:NoSchedule (n1)",
        "ns/other": "no node with nvidia.com/gpu is of flavor g (flavor=g)",
        "ns/picky": "no node of flavor f fits its node selector, affinity and topology",
    }
    large = [flavor("f"), local("a", "a"), queue("a", {"f": 16}), workload("w", 4, 4)]
    live = read(tmp_path, [*large, at("n1", 8, taints=[taint]), at("n2", 8)])
    assert live.held["ns/w"] == (
        "asks for 16 GPUs and the nodes that it may have have 8 of one type; "
        "it does not tolerate the taint x=y:NoSchedule (n1)"
    )


def test_a_required_topology_is_one_domain(tmp_path: Path) -> None:
    """Racks of 8 and 4 on nodes of 4: 8 fit in one, 12 in none; on one node no more than 4."""
    nodes = [at(f"n{k}", 4, labels={"rack": f"r{k // 2}"}) for k in range(3)]
    items = [*nodes, flavor("f", topologyName="t"), TOPOLOGY]
    items += [queue("a", {"f": 12}), local("a", "a")]
    for level, gpus, starts in (
        ("rack", 8, True),
        ("rack", 12, False),
        ("kubernetes.io/hostname", 4, True),
        ("kubernetes.io/hostname", 5, False),
    ):
        asks = {"topologyRequest": {"required": level}}
        live = read(tmp_path, [*items, workload("w", gpus, 1, sets=asks)])
        assert ("w" in nodes_of(live)) is starts
    # A flavor without this level is none for it.
    live = read(tmp_path, [*items[:3], flavor("f"), *items[5:], workload("w", 4, 1, sets=asks)])
    assert "fit its node selector" in live.held["ns/w"]


BAD: list[tuple[Any, str]] = [
    ("text", "items["),
    ({"kind": "Workload", "metadata": {"name": "b"}, "spec": {}}, "Workload b is left out"),
    ({"kind": "Node", "metadata": {"name": "b"}, "spec": 3}, "Node b is left out"),
    (queue("b", {"f": "half"}), "ClusterQueue b is left out"),
    ({"kind": "LocalQueue", "metadata": {}}, "LocalQueue without a name is left out"),
    ({"kind": "Job", "metadata": {"name": "b"}}, "1 objects of kind Job are not read"),
    (workload("b", 1, 1) | {"metadata": {"name": "b"}}, "Workload b is left out"),
]


@pytest.mark.parametrize(("item", "words"), BAD)
def test_one_bad_object_is_named_and_left_out(tmp_path: Path, item: Any, words: str) -> None:
    live = read(tmp_path, [at("n0", 8), *ONE, item, workload("w", 8, 1)])
    assert nodes_of(live) == {"w": {"n0"}}
    assert said(live, words)


def test_a_bad_workload_that_was_admitted_keeps_its_quota(tmp_path: Path) -> None:
    bad = admitted(workload("bad", 4, 1), "a", "f", 4)
    del bad["metadata"]["creationTimestamp"]
    live = read(tmp_path, [at("n0", 8), *ONE, bad, workload("w", 5, 1)])
    assert nodes_of(live) == {}
    assert said(live, "its quota is counted, its GPUs are not")


def test_settings_that_are_not_read_are_named(tmp_path: Path) -> None:
    more = {
        "admissionChecks": ["prov"],
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "fairSharing": {"weight": "2"},
    }
    jobs = [
        workload("w", 4, 1, sets={"minCount": 2}),
        workload("x", 1, 1, pod={"affinity": {"podAntiAffinity": {}}}),
    ]
    live = read(
        tmp_path, [at("n0", 8), flavor("f"), local("a", "a"), queue("a", {"f": 8}, **more), *jobs]
    )
    for words in (
        "a has admission checks",
        "a has preemption",
        "a has fair sharing",
        "ns/w: may be admitted with fewer pods",
        "ns/x: podAntiAffinity is not read",
    ):
        assert said(live, words)


def test_a_single_object_and_a_typed_list_are_read(tmp_path: Path) -> None:
    """As ``kubectl get workload X`` and the API print them: no List, or no kind of items."""
    one, rest = tmp_path / "one.json", tmp_path / "rest.json"
    one.write_text(json.dumps(workload("w", 8, 1)))
    rest.write_text(json.dumps({"kind": "List", "items": ONE}))
    bare = at("n0", 8)
    del bare["kind"]
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps({"kind": "NodeList", "items": [bare]}))
    live = read_live(f"kueue:{one},{rest},{nodes}")
    assert nodes_of(live) == {"w": {"n0"}}
