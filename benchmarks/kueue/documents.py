"""Queues, workloads and settings of a case, as the package of the scheduler has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.kube import HOST, Expression, Toleration
from morph_opt.inputs.kueue.queues import (
    Cohort,
    Flavor,
    Fungibility,
    Group,
    LocalQueue,
    Preemption,
    Queue,
    Queues,
    Slot,
)
from morph_opt.scheduling.kueue.domains import TopologyNode
from morph_opt.scheduling.kueue.site import GATES, Settings, Site
from morph_opt.scheduling.kueue.workloads import (
    Held,
    Placed,
    PodSet,
    TopologyRequest,
    Workload,
    exact,
)

Case = Mapping[str, Any]

WITHOUT_EFFECT = {
    "AdmissionFairSharing",
    "ElasticJobsViaWorkloadSlices",
    "ElasticJobsViaWorkloadSlicesWithTAS",
    "PriorityBoost",
    "SchedulerLibraryIntegration",
    "SkipReassignmentForPodOwnedWorkloads",
    "TASFailedNodeReplacementFailFast",
    "TASMultiLayerTopology",
    "TASRespectNodeAffinityPreferred",
    "TopologyAwareScheduling",
}
"""Feature gates that are read elsewhere, or that only concern what cases name as unread."""
INT32 = 2**31


class Undecidable(Exception):
    """Case that holds what the model does not have."""


def settings_of(case: Case) -> Settings:
    """Return the settings of a case."""
    values: dict[str, Any] = {"fair_sharing": bool(case.get("fair_sharing"))}
    for name, value in case.get("features", {}).items():
        if name in GATES:
            values[GATES[name]] = value
        elif name not in WITHOUT_EFFECT:
            raise Undecidable(f"feature {name}")
    if "strategies" in case:
        values["strategies"] = tuple(case["strategies"])
    if "requeuing_timestamp" in case:
        values["by_eviction"] = case["requeuing_timestamp"] == "Eviction"
    if "admission_fair_sharing" in case:
        row = case["admission_fair_sharing"]
        values |= {"half_life_s": row["half_life_s"], "sampling_s": row["sampling_s"]}
    return Settings(**values)


def site_of(case: Case) -> Site:
    """Return the queues of a case."""
    queues = Queues(
        queues={row["name"]: _queue(row) for row in case["cluster_queues"]},
        cohorts={row["name"]: _cohort(row) for row in case.get("cohorts", ())},
        flavors={row["name"]: _flavor(row) for row in case.get("flavors", ())},
        local={
            f"{row['namespace']}/{row['name']}": LocalQueue(
                row["cluster_queue"], weight=row.get("fair_weight", 1.0)
            )
            for row in case.get("local_queues", ())
        },
    )
    if not queues.flavors:  # cases without any are about quotas alone
        named = (one for q in queues.queues.values() for g in q.groups for one in g.flavors)
        queues.flavors = {name: Flavor(name, {}) for name in named}
    return Site(queues, settings_of(case), case.get("namespaces"))


def _quotas(groups: Any) -> tuple[tuple[Group, ...], dict[Slot, Quota]]:
    found, quotas = [], {}
    for group in groups:
        resources: dict[str, None] = {}
        for row in group:
            for name, one in row["resources"].items():
                resources[name] = None
                quotas[row["flavor"], name] = Quota(
                    one["nominal"], one.get("borrowing_limit"), one.get("lending_limit")
                )
        found.append(Group(tuple(resources), tuple(row["flavor"] for row in group)))
    return tuple(found), quotas


def _queue(row: Case) -> Queue:
    groups, quotas = _quotas(row["groups"])
    rules, within = row["preemption"], row["preemption"]["borrow_within_cohort"]
    selector: tuple[Expression, ...] | None = None
    if "namespace_selector" in row:
        one = row["namespace_selector"]
        selector = ((one["label"], "In", tuple(one["in"])),)
    fungibility = row["fungibility"]
    return Queue(
        row["name"],
        row["cohort"],
        groups,
        quotas,
        strict=row["strategy"] == "StrictFIFO",
        away="it is stopped" if row.get("stop_policy", "None") != "None" else "",
        selector=selector,
        preemption=Preemption(
            rules["within_cluster_queue"],
            rules["reclaim_within_cohort"],
            within["policy"],
            within.get("max_priority_threshold"),
        ),
        fungibility=Fungibility(
            fungibility["when_can_borrow"],
            fungibility["when_can_preempt"],
            fungibility.get("preference", Fungibility.preference),
        ),
        weight=row.get("fair_weight", 1.0),
        usage_based=row.get("admission_mode") == "UsageBasedAdmissionFairSharing",
    )


def _cohort(row: Case) -> Cohort:
    _, quotas = _quotas(row["groups"])
    return Cohort(row["name"], row["parent"], quotas, row.get("fair_weight", 1.0))


def _flavor(row: Case) -> Flavor:
    taints = tuple((one["key"], one["value"], one["effect"]) for one in row["taints"])
    return Flavor(
        row["name"], row["node_labels"], taints, tolerations(row), row.get("topology", "")
    )


def tolerations(row: Case) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod set or a flavor."""
    return tuple(
        (
            one.get("key", ""),
            one.get("operator", "Equal"),
            one.get("value", ""),
            one.get("effect", ""),
        )
        for one in row.get("tolerations", ())
    )


def pod_set(row: Case) -> PodSet:
    """Return a pod set of a case."""
    topology = None
    if "topology" in row:
        asked = row["topology"]
        slices = tuple((one["level"], one["size"]) for one in asked.get("slices", ()))
        if "slice_required" in asked:
            slices = ((asked["slice_required"], asked.get("slice_size", 0)), *slices)
        topology = TopologyRequest(
            asked.get("required", ""),
            asked.get("preferred", ""),
            asked.get("unconstrained", False),
            asked.get("group", row.get("group", "")),
            slices,
        )
    elif "group" in row:
        topology = TopologyRequest(group=row["group"])
    return PodSet(
        row["requests"],
        row["count"],
        row["name"],
        row.get("min_count"),
        row.get("node_selector", {}),
        tolerations=tolerations(row),
        topology=topology,
    )


def nodes_of(case: Case, labels: Mapping[str, str]) -> list[TopologyNode]:
    """Return the nodes with these labels, less what pods outside Kueue hold."""
    held: dict[str, dict[str, int]] = {}
    for pod in case.get("pods", ()):
        if pod["node"] and pod["phase"] not in ("Succeeded", "Failed"):
            mine = held.setdefault(pod["node"], {})
            for resource, amount in {**pod["requests"], "pods": 1}.items():
                mine[resource] = mine.get(resource, 0) + exact(amount)
    return [
        TopologyNode(
            row["name"],
            row["labels"],
            {
                resource: exact(amount) - held.get(row["name"], {}).get(resource, 0)
                for resource, amount in row["allocatable"].items()
            },
            tuple(
                (one["key"], one.get("value", ""), one["effect"]) for one in row.get("taints", ())
            ),
            row.get("ready", True) and not row.get("unschedulable", False),
        )
        for row in case["nodes"]
        if labels.items() <= row["labels"].items()
    ]


def name_of(row: Case) -> str:
    """Return namespace and name of a workload."""
    return f"{row.get('namespace', '')}/{row['name']}"


def workload_of(row: Case, queue: str = "", features: Case | None = None) -> Workload:
    """Return a workload of a case in a cluster queue."""
    conditions = row.get("conditions", {})
    stopped = {
        kind: (one.get("reason", ""), one.get("at_s", -math.inf))
        for kind in ("Evicted", "Preempted")
        if (one := conditions.get(kind, {})).get("status") == "True"
    }
    created_s = row.get("created_s")
    return Workload(
        name_of(row),
        queue,
        tuple(pod_set(one) for one in row.get("pod_sets", ())),
        row.get("priority", 0) + _boost(row, features or {}),
        -math.inf if created_s is None else created_s,
        row.get("uid", ""),
        f"{row.get('namespace', '')}/{row.get('queue', '')}",
        stopped.get("Evicted"),
        stopped.get("Preempted"),
    )


def _boost(row: Case, features: Case) -> int:
    """Return the boost of a priority; 0 for one that is no whole number of 32 bits."""
    if not features.get("PriorityBoost"):
        return 0
    try:
        boost = int(row.get("priority_boost", 0))
    except ValueError:
        return 0
    return boost if -INT32 <= boost < INT32 else 0


def held_of(row: Case, features: Case | None = None) -> Held:
    """Return a workload of a case that holds quota."""
    admission = row.get("admission") or {"cluster_queue": "", "pod_sets": []}
    asked = {one["name"]: one["count"] for one in row.get("pod_sets", ())}
    placed = tuple(_placed(one, asked.get(one["name"], 0)) for one in admission["pod_sets"])
    known = row.get("conditions", {}).get("QuotaReserved", {}).get("status") == "True"
    since_s = admission.get("reserved_s", 0.0) if known else 0.0
    return Held(workload_of(row, admission["cluster_queue"], features), placed, since_s)


def _placed(row: Case, asked: int) -> Placed:
    """Return the admission of a pod set; pods beyond those that it asks for use no quota."""
    admitted = row["count"]
    count = min(admitted, asked)
    return Placed(
        row["name"],
        count,
        row["flavors"],
        {r: exact(amount) * count // max(1, admitted) for r, amount in row["usage"].items()},
        _domains(row),
        tuple(row.get("topology", {}).get("levels", ())),
    )


def _domains(row: Case) -> tuple[tuple[tuple[str, ...], int], ...] | None:
    if "topology" not in row:
        return None
    return tuple((tuple(one["values"]), one["pods"]) for one in row["topology"]["domains"])


def require_amounts(case: Case, held: Iterable[Held]) -> None:
    """Check that nodes have what the pods on them ask for.

    Raises
    ------
    Undecidable
        If a node states no amount of a resource that pods on it ask for: the document lost it.
    """
    nodes = {row["labels"].get(HOST): row["allocatable"] for row in case.get("nodes", ())}
    for one in held:
        asked = {pods.name: pods.requests for pods in one.workload.pod_sets}
        for placed in one.placed:
            for values, _ in placed.domains or ():
                for resource in asked.get(placed.name, {}):
                    if resource not in nodes.get(values[-1], {resource: 0}):
                        raise Undecidable(f"node {values[-1]} has pods with {resource} and none")


def amounts(rows: Any) -> dict[Slot, float]:
    """Return amounts by flavor and resource."""
    return {(row["flavor"], row["resource"]): row["amount"] for row in rows}
