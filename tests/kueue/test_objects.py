"""The policy of a Kueue site with Workload objects: pods, selectors, topologies and memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError, Trace
from morph_opt.replay.run import replay
from morph_opt.round.cli import main
from morph_opt.scheduling.kueue.clusters import KueueSite
from morph_opt.scheduling.policies.kueue import KueuePolicy
from morph_opt.scheduling.policies.registry import policy_files, with_policy_files
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus
from tests.engine.toys import cluster
from tests.kueue.test_policy import NODES, QUEUE, SPEEDS
from tests.round.live.kueue_objects import (
    GPU,
    Item,
    admitted,
    flavor,
    groups,
    local,
    node,
    queue,
    workload,
)

RACKS = [node(f"n{at}", 8, {"flavor": "f", "rack": f"r{at // 2}"}) for at in range(4)]
TREE = {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": [
    {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}  # fmt: skip
TAS = [*RACKS, TREE, flavor("f", topologyName="t"), queue("a", {"f": 40}), local("a", "a")]
PLAIN = [queue("a", {"f": 32}), local("a", "a"), flavor("f")]


def decided(
    capsys: pytest.CaptureFixture[str], folder: Path, items: Iterable[Any], *more: str
) -> dict[str, Any]:
    file = folder / "all.json"
    file.write_text(json.dumps({"kind": "List", "items": list(items)}))
    assert main(["--from", f"kueue:{file}", "--policy", "kueue", *more]) == 0
    out = capsys.readouterr().out
    found: dict[str, Any] = {"text": out} if more else json.loads(out)
    return found


def places(found: dict[str, Any]) -> dict[str, dict[str, int]]:
    """GPUs by node of each job that runs."""
    return {
        row["job"].removeprefix("ns/"): {one["node"]: len(one["gpus"]) for one in row["nodes"]}
        for row in found["jobs"]
        if row["nodes"] and row["job"].startswith("ns/")
    }


def why(capsys: pytest.CaptureFixture[str], folder: Path, items: Iterable[Any], job: str) -> str:
    found = decided(capsys, folder, items, "--why", f"ns/{job}")
    return str(found["text"]).strip()


def asked(**request: Any) -> dict[str, Any]:
    return {"sets": {"topologyRequest": request}}


def test_pods_are_placed_one_by_one_on_nodes_of_different_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("n0", 8, {"flavor": "f"}), node("n1", 7, {"flavor": "f"})]
    found = decided(capsys, tmp_path, [*PLAIN, *nodes, workload("w", 15, 1)])
    assert places(found) == {"w": {"n0": 8, "n1": 7}}


def test_pod_sets_of_different_sizes_share_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = workload("w", 2, 4)
    needs = {"containers": [{"name": "c", "resources": {"requests": {GPU: "2"}}}]}
    one["spec"]["podSets"].append({"name": "more", "count": 2, "template": {"spec": needs}})
    nodes = [node("n0", 6, {"flavor": "f"}), node("n1", 6, {"flavor": "f"})]
    found = decided(capsys, tmp_path, [*PLAIN, *nodes, one])
    assert places(found) == {"w": {"n0": 6, "n1": 6}}


def test_selectors_and_taints_of_the_flavor_that_kueue_chooses_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        node("n0", 8, {"flavor": "f", "zone": "x"}),
        node("n1", 8, {"flavor": "f", "zone": "y"}),
        node("n2", 8, {"flavor": "f", "zone": "y"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        workload("w1", 1, 8, minute=1, pod={"nodeSelector": {"zone": "y"}}),
        workload("w2", 1, 8, minute=2, pod={"nodeSelector": {"zone": "y"}}),
        workload("w3", 1, 8, minute=3, pod={"tolerations": [{"key": "k", "operator": "Exists"}],
                                            "nodeSelector": {"zone": "y"}}),
    ]  # fmt: skip
    assert places(decided(capsys, tmp_path, [*PLAIN, *items])) == {"w1": {"n1": 8}, "w3": {"n2": 8}}
    found = why(capsys, tmp_path, [*PLAIN, *items], "w2")
    assert found.endswith("and waits for nodes for 1 pod of 8 GPUs: 0 have them")


def test_a_rack_is_required_and_who_runs_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"levels": ["rack", "kubernetes.io/hostname"], "domains": [
        {"values": ["r0", "n0"], "count": 1}]}  # fmt: skip
    runs = admitted(workload("runs", 1, 8, minute=0), "a", "f", 8, topology=place)
    items = [
        *TAS,
        runs,
        workload("w1", 3, 4, minute=1, **asked(required="rack")),
        workload("w2", 2, 4, minute=2, **asked(required="rack")),
        workload("w3", 2, 4, minute=3, **asked(required="rack")),
        workload("w4", 1, 4, minute=4, **asked(unconstrained=True)),
    ]
    found = places(decided(capsys, tmp_path, items))
    assert found["runs"] == {"n0": 8}
    assert found["w1"] == {"n2": 8, "n3": 4}
    assert found["w2"] == {"n1": 8}
    assert found["w4"] == {"n3": 4}
    text = why(capsys, tmp_path, items[:-1], "w3")
    assert "no rack has room for 2 pods, the emptiest has room for 1" in text


def test_memory_is_a_quota_in_words_of_kubernetes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [*groups({"f": 16}), *groups({"f": {"nominalQuota": "48Gi"}}, "memory")]
    items = [
        node("n0", 8, {"flavor": "f"}),
        queue("a", {}, resourceGroups=both),
        local("a", "a"),
        flavor("f"),
        workload("w1", 1, 4, minute=1, needs={GPU: "4", "memory": "32Gi"}),
        workload("w2", 1, 4, minute=2, needs={GPU: "4", "memory": "32Gi"}),
    ]
    assert places(decided(capsys, tmp_path, items)) == {"w1": {"n0": 4}}
    text = why(capsys, tmp_path, items, "w2")
    assert "asks for 32Gi memory, flavor f has 16Gi of 48Gi free; 16Gi more are needed" in text


def test_other_queues_replace_those_of_the_round_and_the_rest_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [node("n0", 8, {"flavor": "f"}), *PLAIN, workload("w", 2, 4)]
    (tmp_path / "less.json").write_text(json.dumps(queue("a", {"f": 4})))
    every = tmp_path / "all.json"
    every.write_text(json.dumps({"kind": "List", "items": items}))
    less = f"kueue:{tmp_path / 'less.json'}"
    assert main(["--from", f"kueue:{every}", "--policy", less, "--why", "ns/w"]) == 0
    assert "flavor f never has more than 4" in capsys.readouterr().out


def test_unreadable_objects_of_the_round_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("n0", 8, {"flavor": "f"}), node("odd", 8, {"flavor": "f"})]
    nodes[1]["status"]["allocatable"]["cpu"] = "many"
    odd = queue("b", {"f": {"nominalQuota": "some"}})
    items = [*PLAIN, *nodes, odd, 7, workload("w", 2, 4)]
    items[-1]["spec"]["podSets"][0]["minCount"] = "few"
    found = decided(capsys, tmp_path, items)
    assert places(found) == {"w": {"n0": 8}}
    (note,) = (one for one in found["notes"] if one.startswith("kueue: not modelled"))
    assert "objects of kind ClusterQueue that cannot be read" in note
    assert "amounts of nodes that cannot be read" in note
    assert "objects that cannot be read" in note
    assert "Workload objects that cannot be read" in note


def test_words_are_no_files_of_a_policy() -> None:
    name = "kueue:a.json,nodes=spread,+b.json"
    assert policy_files(name) == ("a.json", "b.json")
    assert with_policy_files(name, ("x", "y")) == "kueue:x,nodes=spread,+y"


def site(folder: Path, *items: Item, words: str = "") -> KueueSite:
    file = folder / "site.json"
    file.write_text(json.dumps({"kind": "List", "items": list(items)}))
    return KueueSite.read(f"{file}{words}")


@pytest.mark.parametrize(("words", "complaint"), [
    (",topology=required:row", "topology=required:row names no level of a topology; the files"),
    (",topology=near", "or topology=unconstrained or topology=required:LEVEL"),
])  # fmt: skip
def test_unknown_levels_and_words_are_refused(tmp_path: Path, words: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        site(tmp_path, *TAS, words=words)


def test_replays_place_by_topology_and_evict_where_a_node_fails(tmp_path: Path) -> None:
    """Racks of two nodes of 4 GPUs, and jobs of up to 8: none is in two where one is required."""
    machines = cluster(4, 4)
    named = [
        node(one.name, 4, {"flavor": "f", "rack": f"r{at // 2}"})
        for at, one in enumerate(machines.nodes)
    ]
    queues = [queue("alice", {"f": 8}, "lab"), queue("bob", {"f": 8}, "lab")]
    given = [*named, TREE, flavor("f", topologyName="t"), *queues]
    racks = {}
    for words in ("", ",topology=required:rack"):
        policy = KueuePolicy(SPEEDS, site(tmp_path, *given, words=words))
        out = tmp_path / f"run{len(words)}"
        config = ReplayConfig(rounds="events", restart_s=0.0)
        fails = NodeEvent(30.0, 0, NodeStatus.FAILED), NodeEvent(60.0, 0, NodeStatus.UP)
        trace = Trace.of("toy", QUEUE)
        result = replay(trace, machines, policy, SPEEDS, config, node_events=fails, out=out)
        assert len(result.jobs) == len(QUEUE)
        assert policy.evictions["NodeFailures"] == 2
        events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
        starts = [one["placement"] for one in events if one["event"] == "start"]
        racks[words] = max(len({at // 2 for at, _ in placement}) for placement in starts)
    assert racks == {"": 2, ",topology=required:rack": 1}


def test_a_topology_without_labels_of_nodes_is_refused(tmp_path: Path) -> None:
    policy = KueuePolicy(SPEEDS, site(tmp_path, *TAS))
    with pytest.raises(InputError, match="labels of nodes: give the nodes of the cluster"):
        replay(Trace.of("toy", QUEUE), NODES, policy, SPEEDS)


def test_a_topology_that_is_in_no_file_is_named(tmp_path: Path) -> None:
    found = site(tmp_path, *PLAIN[:2], flavor("f", topologyName="t"))
    assert [*found.unmodelled()] == ["topology t of flavor f, which is in no file"]
