"""Cases of Kueue's scheduler as documents: what agrees, what differs, what cannot be decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kueue.__main__ import main
from benchmarks.kueue.losses import compared

NEVER = {"policy": "Never"}


def queue(name: str, nominal: float, within: str = "Never") -> dict[str, Any]:
    return {
        "name": name,
        "cohort": "",
        "strategy": "StrictFIFO",
        "groups": [[{"flavor": "main", "resources": {"cpu": {"nominal": nominal}}}]],
        "preemption": {
            "within_cluster_queue": within,
            "reclaim_within_cohort": "Never",
            "borrow_within_cohort": NEVER,
        },
        "fungibility": {"when_can_borrow": "MayStopSearch", "when_can_preempt": "TryNextFlavor"},
    }


def workload(name: str, cpu: float, priority: int = 0, *, held: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {
        "namespace": "ns",
        "name": name,
        "queue": "local",
        "priority": priority,
        "created_s": 0,
        "pod_sets": [{"name": "main", "count": 1, "requests": {"cpu": cpu}}],
    }
    if held:
        pods = {"name": "main", "count": 1, "flavors": {"cpu": "main"}, "usage": {"cpu": cpu}}
        row["admission"] = {"cluster_queue": "q", "pod_sets": [pods], "reserved_s": 0}
        row["conditions"] = {"QuotaReserved": {"status": "True"}}
    return row


def cycle_case(**changes: Any) -> dict[str, Any]:
    expect = {
        "admitted": {},
        "kept_in_cache": ["ns/low"],
        "preempted": {"ns/low": "InClusterQueue"},
        "pending": {"ns/high": "WaitingForPreemptedWorkloads"},
        "left_active": {"q": ["ns/high"]},
        "left_inadmissible": {},
    }
    return {
        "id": "one",
        "unread": [],
        "features": {},
        "cycles": 1,
        "flavors": [{"name": "main", "node_labels": {}, "taints": [], "tolerations": []}],
        "cohorts": [],
        "cluster_queues": [queue("q", 2.5, "LowerPriority")],
        "local_queues": [{"namespace": "ns", "name": "local", "cluster_queue": "q"}],
        "namespaces": {"ns": {}},
        "workloads": [workload("low", 2.5, held=True), workload("high", 0.5, 1)],
        "expect": {**expect, **changes},
    }


def write(folder: Path, kind: str, *cases: dict[str, Any]) -> None:
    document = {"kind": kind, "cases": list(cases)}
    (folder / f"{kind}.json").write_text(json.dumps(document), encoding="utf-8")


def test_cases_that_agree_and_that_cannot_be_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quotas = {
        "id": "two",
        "unread": [],
        "cluster_queues": [queue("q", 2)],
        "usage": {"q": [{"flavor": "main", "resource": "cpu", "amount": 0.5}]},
        "expect": {"available": {"q": [{"flavor": "main", "resource": "cpu", "amount": 1.5}]}},
    }
    write(tmp_path, "cycle", cycle_case(), {**cycle_case(), "id": "odd", "unread": ["a gate"]})
    write(tmp_path, "available", quotas)
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "| available | 1 | 0 | 0 |" in out
    assert "| cycle | 1 | 0 | 1 |" in out
    assert "odd undecidable: a gate" in out


def test_a_difference_is_printed_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "cycle", cycle_case(preempted={}))
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "one differs: preempted ns/low: 'InClusterQueue', expected None" in out


def test_pods_beyond_those_that_a_set_asks_for_use_no_quota(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set of 2 pods admitted with 4 leaves half of the quota for a newcomer of its priority."""
    low, high = workload("low", 1, held=True), workload("high", 2)
    low["pod_sets"][0]["count"] = 2
    low["admission"]["pod_sets"][0] |= {"count": 4, "usage": {"cpu": 4}}
    pods = {"name": "main", "count": 1, "flavors": {"cpu": "main"}, "usage": {"cpu": 2}}
    given = {"cluster_queues": [queue("q", 4)], "workloads": [low, high]}
    admitted = {"ns/high": {"cluster_queue": "q", "pod_sets": [pods]}}
    case = cycle_case(admitted=admitted, preempted={}, pending={}, left_active={}) | given
    write(tmp_path, "cycle", case)
    assert main([str(tmp_path)]) == 0, capsys.readouterr().out


def test_a_node_that_lacks_what_its_pods_have_is_not_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = workload("low", 1, held=True)
    place = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["x1"], "pods": 1}]}
    low["admission"]["pod_sets"][0]["topology"] = place
    node = {"name": "x1", "labels": {"kubernetes.io/hostname": "x1"}, "allocatable": {"pods": 1}}
    write(tmp_path, "cycle", cycle_case() | {"workloads": [low], "nodes": [node]})
    assert main([str(tmp_path)]) == 0
    assert "one undecidable: node x1 has pods with cpu and none" in capsys.readouterr().out


def test_victims_are_counted_where_a_test_names_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {"cpu": {"flavor": "main", "mode": "Preempt"}}
    case = cycle_case() | {
        "unread": ["count 1 != 0 named"],
        "incoming": {**workload("high", 2, 1), "cluster_queue": "q"},
        "workloads": [workload("low", 2.5, held=True)],
        "assignment": [{"name": "main", "count": 1, "flavors": chosen}],
    }
    right, wrong = (
        {**case, "id": name, "expect": {"preempted": {}, "count": n}}
        for name, n in (("right", 1), ("wrong", 2))
    )
    write(tmp_path, "preemption", right, wrong)
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "| preemption | 1 | 1 | 0 |" in out
    assert "wrong differs: answer: 1, expected 2" in out


def test_an_unknown_feature_is_not_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "cycle", {**cycle_case(), "features": {"Unheard": True}})
    assert main([str(tmp_path)]) == 0
    assert "one undecidable: feature Unheard" in capsys.readouterr().out


@pytest.mark.parametrize(("theirs", "lost"), [("young", 1320.0), ("old", 4320.0)])
def test_our_victims_lose_no_more_than_those_of_a_case(theirs: str, lost: float) -> None:
    """Two jobs of 2 cores, of 10 and 35 minutes, and one of a higher priority that waits."""
    old, young = workload("old", 2, held=True), workload("young", 2, held=True)
    old["admission"]["reserved_s"], young["admission"]["reserved_s"] = -2100.0, -600.0
    case = {
        **cycle_case(),
        "cluster_queues": [queue("q", 4)],
        "workloads": [old, young],
        "incoming": {**workload("high", 2, 1), "cluster_queue": "q"},
        "assignment": [{"flavors": {"cpu": {"flavor": "main", "mode": "Preempt"}}}],
        "expect": {"preempted": {f"ns/{theirs}": "InClusterQueue"}},
    }
    found = compared(case)
    assert found is not None
    assert found.starts
    assert found.ours == {"young"}
    # One GPU is two cores, which all amounts have in common.
    assert (found.lost, found.theirs_lost) == (660.0, lost / 2)
