"""Objects of a Kueue site as configuration: queues, cohorts, flavors, nodes and Kueue's own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, parse_json
from morph_opt.core.documents.source import read_text
from morph_opt.core.domain import InputError
from morph_opt.inputs.kueue.kube import (
    OBJECT_CHARACTERS,
    Taint,
    class_value,
    meta_of,
    name_in_space,
    name_of,
    quantity_of,
    taints_of,
)
from morph_opt.inputs.kueue.queues import (
    Queues,
    read_cohort,
    read_flavor,
    read_local_queue,
    read_queue,
)

MOST_BYTES = 64 * 2**20
"""Largest size of a file of objects."""

_QUOTAS = {"coveredResources": True, "flavors": {"name": True, "resources": {
    "name": True, "nominalQuota": True, "borrowingLimit": True, "lendingLimit": True}}}  # fmt: skip
_ANY: dict[str, Any] = {"*": True}
_MODELLED: dict[str, dict[str, Any]] = {
    "ClusterQueue": {
        "cohort": True,
        "cohortName": True,
        "resourceGroups": _QUOTAS,
        "queueingStrategy": True,
        "namespaceSelector": {},
        "stopPolicy": True,
        "flavorFungibility": {"whenCanBorrow": True, "whenCanPreempt": True, "preference": True},
        "preemption": {
            "withinClusterQueue": True,
            "reclaimWithinCohort": True,
            "borrowWithinCohort": {"policy": True, "maxPriorityThreshold": True},
        },
        "fairSharing": {"weight": True},
        "admissionScope": {"admissionMode": True},
    },
    "Cohort": {
        "parentName": True, "parent": True, "resourceGroups": _QUOTAS,
        "fairSharing": {"weight": True},
    },
    "LocalQueue": {"clusterQueue": True, "stopPolicy": True, "fairSharing": {"weight": True}},
    "ResourceFlavor": {
        "nodeLabels": _ANY, "nodeTaints": {}, "tolerations": {}, "topologyName": True,
    },
    "Topology": {"levels": {"nodeLabel": True}},
    "Configuration": {
        "fairSharing": {"enable": True, "preemptionStrategies": True},
        "waitForPodsReady": {
            "enable": True,
            "timeout": True,
            "blockAdmission": True,
            "requeuingStrategy": {
                "timestamp": True, "backoffBaseSeconds": True, "backoffMaxSeconds": True,
            },
        },
        "featureGates": _ANY,
        "admissionFairSharing": {
            "usageHalfLifeTime": True, "usageSamplingInterval": True, "resourceWeights": _ANY,
        },
    },
}  # fmt: skip
"""Fields of each kind that the policy goes by; of ``{}`` nothing below is."""
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_OF_SERVER = {"apiVersion", "kind", "metadata", "status"}
_OF_ROUND = {"Pod"}
"""Kinds whose content a round has from its own files."""


@dataclass(frozen=True, slots=True)
class SiteNode:
    """Labels and taints of a node, and what pods may have of each resource."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    amounts: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class KueueFiles:
    """Objects of a Kueue site.

    Parameters
    ----------
    queues
        Cluster queues, cohorts, flavors and local queues.
    nodes, spaces
        Nodes, and labels of namespaces, by name; empty if no file has them.
    levels
        Labels of topologies from the top, by name.
    workloads
        Workload objects by namespace and name.
    classes
        Values of priority classes by name.
    fair_sharing, strategies
        Whether queues share fairly, and the strategies of fair preemption; () for Kueue's own.
    by_eviction
        Whether a workload whose pods were not ready queues from its eviction.
    ready_s
        Seconds after which a workload without all of its pods is evicted; None for never.
    backoff_s, most_backoff_s
        Seconds before the first and the latest new try of such a workload.
    blocks
        Whether nobody is admitted while a workload that was waits for pods.
    half_life_s, sampling_s, resource_weights
        How usage of local queues fades, how often it is taken, and the weight of each resource;
        None and nothing without admission by usage.
    gates
        Feature gates of Kueue's configuration.
    unmodelled
        Fields that objects have and no policy goes by, by kind, with the names of the objects.
    """

    queues: Queues = field(default_factory=Queues)
    nodes: dict[str, SiteNode] = field(default_factory=dict)
    spaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    workloads: dict[str, Fields] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    fair_sharing: bool = False
    strategies: tuple[str, ...] = ()
    by_eviction: bool = True
    ready_s: float | None = None
    backoff_s: float = 60.0
    most_backoff_s: float = 3_600.0
    blocks: bool = False
    half_life_s: float | None = None
    sampling_s: float = 300.0
    resource_weights: dict[str, float] = field(default_factory=dict)
    gates: dict[str, bool] = field(default_factory=dict)
    unmodelled: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def read_files(paths: Sequence[str], rest: Sequence[str] = ()) -> KueueFiles:
    """Read the objects of JSON documents, in any order, as ``kubectl get -o json`` prints them.

    Parameters
    ----------
    paths
        The documents.
    rest
        Documents of which only kinds count that ``paths`` do not have; what cannot be read of them
        is left out and named, as in a round.

    Raises
    ------
    InputError
        If a file cannot be read, an object is not understood, or there is no ClusterQueue.
    """
    found = KueueFiles()
    own = _by_kind(paths)
    for kind, items in own.items():
        for item in items:
            _take(found, item, kind)
    for kind, items in _by_kind(rest, found.unmodelled).items():
        for item in items if kind not in own else ():
            try:
                _take(found, item, kind)
            except InputError as error:
                found.unmodelled[f"objects of kind {kind} that cannot be read"].append(str(error))
    if not found.queues.queues:
        given = ", ".join((*paths, *rest))
        raise InputError(f"no ClusterQueue in {given}", field="--policy kueue")
    return found


def _by_kind(
    paths: Sequence[str], unread: dict[str, list[str]] | None = None
) -> dict[str, list[Fields]]:
    """Return the objects of documents by kind; those without one go to ``unread`` if given."""
    found: dict[str, list[Fields]] = {}
    for path in paths:
        parsed = parse_json(read_text(Path(path), MOST_BYTES), path, characters=OBJECT_CHARACTERS)
        document = Fields(parsed, "", path, None)
        of_list = str(document.raw("kind", "")).removesuffix("List")
        rows = document.rows("items") if document.given("items") else [document]
        for at, row in enumerate(rows):
            try:
                item = row if isinstance(row, Fields) else Fields(row, f"items[{at}]", path, None)
                kind = item.text("kind") if item.has("kind") else of_list
            except InputError as error:
                if unread is None:
                    raise
                unread["objects that cannot be read"].append(str(error))
                continue
            found.setdefault(kind, []).append(item)
    return found


def _take(found: KueueFiles, item: Fields, kind: str) -> None:
    queues = found.queues
    if kind == "ClusterQueue":
        queue = read_queue(item)
        queues.queues[queue.name] = queue
    elif kind == "Cohort":
        cohort = read_cohort(item)
        queues.cohorts[cohort.name] = cohort
    elif kind == "LocalQueue":
        name, local = read_local_queue(item)
        queues.local[name] = local
    elif kind == "ResourceFlavor":
        flavor = read_flavor(item)
        queues.flavors[flavor.name] = flavor
    elif kind == "Topology":
        levels = item.object("spec", None).objects("levels", None)
        found.levels[name_of(item)] = tuple(one.text("nodeLabel") for one in levels)
    elif kind == "Configuration":
        _configure(found, item)
    else:
        if kind not in _OF_ROUND and not _take_plain(found, item, kind):
            found.unmodelled[f"objects of kind {kind or 'no kind'}"].append("")
        return
    spec = item if kind == "Configuration" else item.part("spec")
    name = name_of(item) if kind != "Configuration" else ""
    for path in _left(spec, _MODELLED[kind]):
        if not (kind == "Configuration" and path in _OF_SERVER):
            found.unmodelled[f"{kind} {path}"].append(name)


def _take_plain(found: KueueFiles, item: Fields, kind: str) -> bool:
    """Take in an object that is no setting of the site; return whether its kind is known."""
    if kind == "Node":
        labels, table = meta_of(item).by_name("labels"), item.part("status").part("allocatable")
        amounts: dict[str, float] = {}
        for key in table:
            try:
                amounts[key] = quantity_of(table, key)
            except InputError as error:  # taken to be without limit; its labels still count
                found.unmodelled["amounts of nodes that cannot be read"].append(str(error))
        found.nodes[name_of(item)] = SiteNode(labels, taints_of(item.part("spec")), amounts)
    elif kind == "Workload":
        found.workloads[name_in_space(item)] = item
    elif kind == "Namespace":
        found.spaces[name_of(item)] = meta_of(item).by_name("labels")
    elif kind in ("PriorityClass", "WorkloadPriorityClass"):
        found.classes[name_of(item)] = class_value(item)
    else:
        return False
    return True


def _left(table: Fields, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of fields that are not modelled."""
    for key in table:
        if "*" in known:
            continue
        value, below = table.raw(key), known.get(key)
        if below is None and value not in (None, {}, [], ""):
            yield key
        elif isinstance(below, dict) and below:
            parts = [table.part(key)] if isinstance(value, dict) else table.parts(key)
            yield from dict.fromkeys(
                f"{key}.{path}" for part in parts for path in _left(part, below)
            )


def _configure(found: KueueFiles, item: Fields) -> None:
    """Read Kueue's own configuration."""
    if item.has("fairSharing"):
        table = item.part("fairSharing")
        found.fair_sharing = not table.has("enable") or table.flag("enable")
        if table.has("preemptionStrategies"):
            found.strategies = table.value("preemptionStrategies", tuple[str, ...])
    gates = item.part("featureGates")
    found.gates = {name: gates.flag(name) for name in gates}
    ready = item.part("waitForPodsReady")
    if item.has("waitForPodsReady") and (not ready.has("enable") or ready.flag("enable")):
        found.ready_s = _seconds(ready, "timeout") if ready.has("timeout") else 300.0
        older = item.word("apiVersion").endswith("/v1beta1")  # where it is usual
        found.blocks = ready.flag("blockAdmission") if ready.has("blockAdmission") else older
        again = ready.part("requeuingStrategy")
        found.by_eviction = again.word("timestamp") != "Creation"
        found.backoff_s = float(again.whole("backoffBaseSeconds", 60))
        found.most_backoff_s = float(again.whole("backoffMaxSeconds", 3_600))
    if item.has("admissionFairSharing"):
        usage = item.part("admissionFairSharing")
        found.half_life_s = _seconds(usage, "usageHalfLifeTime")
        if usage.has("usageSamplingInterval"):
            found.sampling_s = _seconds(usage, "usageSamplingInterval")
        weights = usage.part("resourceWeights")
        found.resource_weights = {name: quantity_of(weights, name) for name in weights}


def _seconds(table: Fields, name: str) -> float:
    """Read a duration like ``5m`` or ``1h30m``."""
    text = table.text(name)
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise table.error(name, f"must be a duration like 5m or 1h30m, got {text[:20]!r}")
    return sum(float(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1), strict=True))
