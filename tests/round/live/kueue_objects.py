"""Objects of Kueue and Kubernetes for tests, invented after the published types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from morph_opt.round.decide import decide_round
from morph_opt.round.live.build import Live
from morph_opt.round.live.sources import read_live
from morph_opt.scheduling.policies.registry import PolicyOptions

GPU = "nvidia.com/gpu"
Item = dict[str, Any]


def stamp(minute: int) -> str:
    return f"2026-01-02T03:{minute:02d}:00Z"


def node(name: str, gpus: int, labels: Mapping[str, str] | None = None, **spec: Any) -> Item:
    """A node of A100s; ``resource`` names another resource, ``notes`` are annotations."""
    resource, notes = spec.pop("resource", GPU), spec.pop("notes", {})
    ready = "True" if spec.pop("ready", True) else "False"
    own = {"nvidia.com/gpu.product": "A100", "kubernetes.io/hostname": name} | dict(labels or {})
    status = {
        "allocatable": {"cpu": "64", resource: str(gpus)},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    meta = {"name": name, "labels": own, "annotations": notes}
    return {"kind": "Node", "metadata": meta, "spec": spec, "status": status}


def flavor(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Item:
    own = {"flavor": name} if labels is None else dict(labels)
    return {
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": own} | spec,
    }


def groups(quotas: Mapping[str, Any], resource: str = GPU) -> list[Item]:
    """One group of flavors; a quota is a number, or a dict of limits."""
    flavors = [
        {
            "name": name,
            "resources": [
                {"name": resource}
                | (quota if isinstance(quota, dict) else {"nominalQuota": str(quota)})
            ],
        }
        for name, quota in quotas.items()
    ]
    return [{"coveredResources": [resource], "flavors": flavors}]


def queue(name: str, quotas: Mapping[str, Any], cohort: str = "", **spec: Any) -> Item:
    own = {"resourceGroups": groups(quotas), "namespaceSelector": {}, "cohortName": cohort} | spec
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": own}


def cohort(name: str, quotas: Mapping[str, Any], parent: str = "") -> Item:
    spec = {"resourceGroups": groups(quotas), "parentName": parent}
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def local(name: str, queue: str, **spec: Any) -> Item:
    meta = {"name": name, "namespace": "ns"}
    return {"kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": queue} | spec}


def limits(nominal: int, borrow: int | None = None, lend: int | None = None) -> Item:
    found = {"nominalQuota": nominal, "borrowingLimit": borrow, "lendingLimit": lend}
    return {name: str(value) for name, value in found.items() if value is not None}


def workload(
    name: str, pods: int, gpus: int, queue: str = "a", minute: int = 0, **more: Any
) -> Item:
    """A workload of pods; ``pod`` are fields of their spec, ``sets`` of the pod set."""
    needs = more.pop("needs", {GPU: str(gpus)})
    spec = {"containers": [{"name": "c", "resources": {"requests": needs}}]} | more.pop("pod", {})
    sets = [{"name": "main", "count": pods, "template": {"spec": spec}} | more.pop("sets", {})]
    meta = {"name": name, "namespace": "ns", "creationTimestamp": stamp(minute)}
    status = more.pop("status", {})
    return {
        "kind": "Workload",
        "metadata": meta | more.pop("meta", {}),
        "spec": {"queueName": queue, "podSets": sets, "priority": 0} | more,
        "status": status,
    }


def admitted(item: Item, queue: str, of: str, gpus: int, **more: Any) -> Item:
    """The workload as admitted with a flavor; ``topology`` is its assignment."""
    since = {"status": "True", "lastTransitionTime": stamp(30)}
    assigned = {
        "name": "main",
        "flavors": {GPU: of},
        "resourceUsage": {GPU: str(gpus)},
        "count": item["spec"]["podSets"][0]["count"],
    }
    if "topology" in more:
        assigned["topologyAssignment"] = more.pop("topology")
    status = {
        "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
        "conditions": [{"type": "QuotaReserved"} | since, {"type": "Admitted"} | since],
    }
    return item | {"status": status | more}


def read(folder: Path, items: Iterable[Any]) -> Live:
    """The round of these objects in one file."""
    file = folder / "objects.json"
    file.write_text(json.dumps({"kind": "List", "items": list(items)}))
    return read_live(f"kueue:{file}")


def nodes_of(live: Live, policy: str = "milp") -> dict[str, set[str]]:
    """Nodes by job of what runs after the decision."""
    decided = decide_round(live.snapshot, PolicyOptions(), policy=policy)
    cluster = live.snapshot.state.cluster
    return {
        one.job.removeprefix("ns/"): {cluster.nodes[at].name for at in one.placement.nodes}
        for one in decided.decision.allocation.assignments
    }


def said(live: Live, words: str) -> bool:
    """Whether a note has these words."""
    return any(words in note for note in live.notes)
