"""Kueue's workloads: their requests, holdings and stated places."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.core.domain.job import MOST_GPUS
from morph_opt.round.live.kube_fields import (
    Expression,
    Toleration,
    holds,
    instant_of,
    meta_of,
    node_terms,
    requests_of,
    tolerates,
    tolerations_of,
    with_name,
)
from morph_opt.round.live.kube_gpus import gpus_in, is_share
from morph_opt.round.live.kube_nodes import KubeNode
from morph_opt.round.live.kueue_admitted import (
    Admission,
    admission_of,
    conditions_of,
    status_of,
    true_of,
)
from morph_opt.round.live.kueue_queues import Flavor

_AGAIN = frozenset(("PodsReadyTimeout", "AdmissionCheck"))
"""Reasons of evictions after which a workload queues anew."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Demands of a set's pods on a node besides GPUs.

    Parameters
    ----------
    selector, terms
        Labels that the node must have, and terms of affinity of which one must be met; None for
        no affinity.
    tolerations
        Taints that the pods bear.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Expression, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    def suits(self, flavor: Flavor, keys: frozenset[str]) -> bool:
        """Return whether Kueue may assign a flavor; ``keys`` are its group's labels."""
        bears = (*self.tolerations, *flavor.tolerations)
        if not all(tolerates(bears, taint) for taint in flavor.taints):
            return False
        labels = flavor.labels
        if any(labels.get(key) != value for key, value in self.selector if key in keys):
            return False
        if self.terms is None:
            return True
        known = [[one for one in term if one[0] in keys] for term in self.terms]
        return any(all(holds(one, labels) for one in term) for term in known)

    def allows(self, node: KubeNode, flavor: Flavor | None) -> bool:
        """Return whether a pod with this flavor may be on a node."""
        bears = (*self.tolerations, *(flavor.tolerations if flavor is not None else ()))
        if flavor is not None and not flavor.labels.items() <= node.labels.items():
            return False
        # GPU nodes are often tainted for GPU jobs alone; such a taint names the resource.
        taints = (taint for taint in node.taints if not taint[0].endswith("/gpu"))
        if not all(tolerates(bears, taint) for taint in taints):
            return False
        if not dict(self.selector).items() <= node.labels.items():
            return False
        if self.terms is None:
            return True
        labels = with_name(node.labels, node.name)
        return any(term and all(holds(one, labels) for one in term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Asked:
    """A workload that runs or waits.

    Parameters
    ----------
    name, local
        Namespace and name, and those of its local queue.
    submit_s, queued_s
        Creation, and since when it queues.
    priority
        Higher first.
    pods
        GPUs of each pod that is left, largest first.
    resource
        Resource that counts these GPUs; "" where they are of several or none.
    amounts
        All that it asks for, by resource.
    demands
        What its pods with GPUs demand of nodes.
    required
        Labels of domains in one of which all its pods must be.
    held
        Why it would not start however much is free; "" if nothing is known.
    passed
        Whether others of a StrictFIFO queue pass it while it is held.
    admission
        None for one that waits.
    owners
        Uids and names of what it was made for.
    limit_s
        Seconds that it may run; None without a limit.
    notes
        What is not read of it.
    """

    name: str
    local: str
    submit_s: float
    queued_s: float
    priority: int
    pods: tuple[int, ...]
    resource: str
    amounts: Mapping[str, float]
    demands: tuple[Demand, ...] = ()
    required: tuple[str, ...] = ()
    held: str = ""
    passed: bool = False
    admission: Admission | None = None
    owners: frozenset[str] = frozenset()
    limit_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return sum(self.pods)

    @property
    def grain(self) -> int:
        """Number of GPUs that are always together on a node."""
        return math.gcd(*self.pods) if self.pods else 1


@dataclass(frozen=True, slots=True)
class Running:
    """Admitted workload with its queue and its nodes."""

    job: Asked
    queue: str
    parts: tuple[tuple[str, tuple[int, ...]], ...]


def name_in_space(item: Fields) -> str:
    """Return namespace and name."""
    meta = meta_of(item)
    return f"{meta.text('namespace', 'default')}/{meta.text('name')}"


@dataclass(slots=True)
class _Sets:
    """Collector of the pod sets of a workload."""

    pods: list[int] = field(default_factory=list)
    amounts: dict[str, float] = field(default_factory=dict)
    resources: dict[str, None] = field(default_factory=dict)
    shares: dict[str, None] = field(default_factory=dict)
    demands: dict[Demand, None] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    each: dict[str, int] = field(default_factory=dict)
    held: str = ""
    notes: dict[str, None] = field(default_factory=dict)


def read_workload(item: Fields, now_s: float, classes: Mapping[str, int]) -> Asked:
    """Read a workload that has not finished.

    Parameters
    ----------
    now_s
        Latest instant of the documents.
    classes
        Values of priority classes by name.
    """
    meta, spec, status = meta_of(item), item.object("spec", None), status_of(item)
    conditions = conditions_of(item)
    true = true_of(conditions)
    admitted = admission_of(item)
    done: Counter[str] = Counter()
    for one in status.objects("reclaimablePods", None) if status.has("reclaimablePods") else ():
        done[one.text("name")] += one.whole("count", 0, least=0)
    sets = _Sets()
    for one in spec.objects("podSets", None):
        _take_set(sets, one, done)
    if len(sets.resources) > 1:
        sets.held = f"asks for GPUs of several kinds ({', '.join(sets.resources)}): not decided"
    if sets.shares:
        sets.held = f"asks for shares of GPUs ({', '.join(sets.shares)}): not decided"
    held, passed = _away(item, spec, status, conditions, now_s)
    submit_s = instant_of(meta, "creationTimestamp")
    queued_s = submit_s
    evicted = conditions.get("Evicted")
    if evicted is not None and "Evicted" in true and evicted.text("reason", "") in _AGAIN:
        queued_s = instant_of(evicted, "lastTransitionTime")
    space = meta.text("namespace", "default")
    owners: set[str] = set()
    for one in meta.objects("ownerReferences", None) if meta.has("ownerReferences") else ():
        owners |= {one.text("uid", ""), f"{space}/{one.text('name', '')}"}
    word = "maximumExecutionTimeSeconds"
    limit = spec.whole(word, 0, least=0) if spec.has(word) else 0
    pods = tuple(sorted(sets.pods, reverse=True))
    if admitted is not None:
        pods = _left(pods, admitted)
    if sum(pods) > MOST_GPUS:
        raise item.error("spec.podSets", f"must be at most {MOST_GPUS} GPUs, got {sum(pods)}")
    return Asked(
        name_in_space(item),
        f"{space}/{spec.text('queueName') if spec.has('queueName') else ''}",
        submit_s,
        queued_s,
        _priority(spec, sets, classes),
        pods,
        next(iter(sets.resources)) if len(sets.resources) == 1 and not sets.shares else "",
        dict(sets.amounts),
        tuple(sets.demands),
        tuple(sets.required),
        held or sets.held,
        passed,
        admitted,
        frozenset(owners - {""}),
        float(limit) if limit else None,
        tuple(sets.notes),
    )


def _priority(spec: Fields, sets: _Sets, classes: Mapping[str, int]) -> int:
    """Return the priority, from its class if the object only names one."""
    if spec.has("priority"):
        return spec.whole("priority", 0, least=-(2**31), most=2**31)
    name = spec.text("priorityClassName") if spec.has("priorityClassName") else ""
    if spec.has("priorityClassRef"):
        name = spec.object("priorityClassRef", None).text("name", "")
    if name and name not in classes:
        sets.notes[f"priority class {name} is in no file: taken as priority 0"] = None
    return classes.get(name, 0)


def _left(pods: tuple[int, ...], admitted: Admission) -> tuple[int, ...]:
    """Return the pods of a workload that still hold GPUs; Kueue may have admitted fewer of them."""
    held = round(sum(v for (_, r), v in admitted.usage.items() if gpus_in((r,))))
    if held == sum(pods) or not held:
        return pods if held else ()
    grain = math.gcd(held, *pods) if pods else held
    each = pods[0] if pods and len(set(pods)) == 1 and held % pods[0] == 0 else grain
    return (each,) * (held // each)


def _take_set(sets: _Sets, row: Fields, done: Mapping[str, int]) -> None:
    """Take in a pod set: its pods with GPUs that have not ended, and its demands."""
    spec = row.object("template", None).object("spec", None)
    needs = requests_of(spec)
    name = row.text("name", "main")
    # No more pods than GPUs that a job may have, however large the number is.
    count = max(0, row.whole("count", 1, least=0, most=MOST_GPUS) - done.get(name, 0))
    for key, value in needs.items():
        if value:
            sets.amounts[key] = sets.amounts.get(key, 0.0) + count * value
    claims = spec.has("resourceClaims") and bool(spec.raw("resourceClaims"))
    if claims and count:
        sets.held = "asks for resource claims, whose devices are not read: not decided"
    sets.shares |= dict.fromkeys(key for key, value in needs.items() if value and is_share(key))
    whole = [key for key in gpus_in(needs) if needs[key] > 0]
    if not whole or not count:
        return
    gpus = sum(needs[key] for key in whole)
    if gpus != int(gpus):
        raise spec.error("containers", f"must ask for whole GPUs, got {gpus:g}")
    sets.resources |= dict.fromkeys(whole)
    sets.demands[_demand(spec)] = None
    if row.has("minCount"):
        sets.notes["may be admitted with fewer pods (minCount): here all of them start or none"] = (
            None
        )
    for word in ("podAffinity", "podAntiAffinity"):
        if spec.has("affinity") and spec.object("affinity", None).has(word):
            sets.notes[f"{word} is not read, which may keep its pods from nodes"] = None
    if spec.has("topologySpreadConstraints") and spec.raw("topologySpreadConstraints"):
        sets.notes["topologySpreadConstraints are not read: may keep its pods from nodes"] = None
    parts = int(gpus)
    if row.has("topologyRequest"):
        parts = _topology(sets, row.object("topologyRequest", None), parts)
    sets.pods += [parts] * (count * int(gpus) // parts)


_TOPOLOGY = frozenset(
    (
        "required",
        "preferred",
        "unconstrained",
        "podIndexLabel",
        "subGroupIndexLabel",
        "subGroupCount",
        "podSetGroupName",
        "podSetSliceRequiredTopology",
        "podSetSliceSize",
    )
)
"""Fields of a topology request that are read, or do not affect where a gang fits."""


def _topology(sets: _Sets, request: Fields, each: int) -> int:
    """Take in a pod set's topology request; return the GPUs that stay together on a node."""
    strange = [one for one in request if one not in _TOPOLOGY and request.has(one)]
    if strange:
        sets.held = f"asks for {', '.join(strange)} of a topology: not decided"
    if request.has("required"):
        sets.required[request.text("required")] = None
    slice_of = request.has("podSetSliceRequiredTopology")
    if not slice_of:
        return each
    label = request.text("podSetSliceRequiredTopology")
    size = request.whole("podSetSliceSize", 1, least=1)
    if label != "kubernetes.io/hostname":
        sets.held = f"asks for slices of {size} pods within one {label}: not decided"
        return each
    return each * size


def _demand(spec: Fields) -> Demand:
    selector = spec.value("nodeSelector", dict[str, str]) if spec.has("nodeSelector") else {}
    return Demand(tuple(sorted(selector.items())), node_terms(spec), tolerations_of(spec))


def _away(
    item: Fields, spec: Fields, status: Fields, conditions: Mapping[str, Fields], now_s: float
) -> tuple[str, bool]:
    """Return why a waiting workload is not considered ("" if it is), and whether others pass it."""
    if spec.has("active") and not spec.flag("active"):
        return "it is not active", True
    if status.has("requeueState") and status.object("requeueState", None).has("requeueAt"):
        state = status.object("requeueState", None)
        if instant_of(state, "requeueAt") > now_s:
            return f"it is queued again at {state.text('requeueAt')}", True
    again = conditions.get("Requeued")
    if again is not None and again.text("status") == "False":
        return f"it is not queued again yet: {again.text('reason', 'no reason is given')}", True
    del item
    return "", False


def latest_of(items: Iterable[Fields]) -> float:
    """Return the latest instant that the objects state."""
    found = [0.0]
    for item in items:
        try:
            meta, status = meta_of(item), status_of(item)
            rows = [meta]
            rows += status.objects("conditions", None) if status.has("conditions") else []
            rows += meta.objects("managedFields", None) if meta.has("managedFields") else []
            for row in rows:
                for word in (
                    "creationTimestamp",
                    "lastTransitionTime",
                    "lastHeartbeatTime",
                    "time",
                ):
                    if row.has(word):
                        found.append(instant_of(row, word))
        except InputError:
            continue  # it is named where it is read
    return max(found)
