"""Kueue's workloads: their requests, holdings and stated places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.core.domain.job import MOST_GPUS
from morph_opt.inputs.kueue.admissions import Admission, admission_of, ended_pods
from morph_opt.inputs.kueue.kube import (
    HOST,
    NODE_NAME,
    Expression,
    KubeNode,
    Toleration,
    conditions_of,
    gpus_in,
    holds,
    instant_of,
    is_gpu,
    is_share,
    meta_of,
    name_in_space,
    node_terms,
    priority_of,
    requests_of,
    tolerates,
    tolerations_of,
    true_of,
)
from morph_opt.inputs.kueue.queues import Flavor


@dataclass(frozen=True, slots=True)
class HeldPod:
    """Pod on a node: its name, the keys of its owners, its node and its GPUs."""

    name: str
    keys: frozenset[str]
    node: str
    gpus: int


_OWNER_LABELS = (
    "batch.kubernetes.io/job-name",
    "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
)


def read_held_pod(item: Fields) -> HeldPod | None:
    """Read a pod with GPUs that is on a node and has not ended; None for any other pod."""
    spec, meta = item.object("spec", None), meta_of(item)
    phase, node = item.part("status").text("phase", ""), spec.word("nodeName")
    if not node or phase in ("Succeeded", "Failed"):
        return None
    needs = requests_of(spec)
    gpus = sum(needs[key] for key in gpus_in(needs))
    if not gpus:
        return None
    space = meta.text("namespace", "default")
    notes, labels = meta.by_name("annotations"), meta.by_name("labels")
    named = [notes.get("kueue.x-k8s.io/workload"), labels.get("kueue.x-k8s.io/pod-group-name")]
    keys = {meta.text("uid", ""), *(f"workload {space}/{one}" for one in named if one)}
    keys |= _owners(meta) | {f"{space}/{labels[one]}" for one in _OWNER_LABELS if one in labels}
    return HeldPod(name_in_space(item), frozenset(keys - {""}), node, math.ceil(gpus))


def _owners(meta: Fields) -> frozenset[str]:
    """Return the uids of an object's owners, and their names with the namespace."""
    space = meta.text("namespace", "default")
    keys = [(one.text("uid", ""), one.text("name", "")) for one in meta.parts("ownerReferences")]
    return frozenset(key for uid, name in keys for key in (uid, f"{space}/{name}")) - {""}


_AGAIN = frozenset(("PodsReadyTimeout", "AdmissionCheck"))
"""Reasons of evictions after which a workload queues anew."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Requirements of a set's pods on a node, other than GPUs.

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

    def allows(self, node: KubeNode, flavor: Flavor) -> bool:
        """Return whether a pod with this flavor may be on a node."""
        bears = (*self.tolerations, *flavor.tolerations)
        if not flavor.labels.items() <= node.labels.items():
            return False
        # GPU nodes are often tainted for GPU jobs alone; such a taint names the resource.
        taints = (taint for taint in node.taints if not taint[0].endswith("/gpu"))
        if not all(tolerates(bears, taint) for taint in taints):
            return False
        if not dict(self.selector).items() <= node.labels.items():
            return False
        if self.terms is None:
            return True
        labels = {**node.labels, NODE_NAME: node.name}
        return any(term and all(holds(one, labels) for one in term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Asked:
    """A workload that runs or waits.

    Parameters
    ----------
    name, local
        Namespace and name of the workload, and of its local queue.
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
        Demands of its pods with GPUs on nodes.
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
        Parts of it that are not read.
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


@dataclass(slots=True)
class _Sets:
    """Collector of the pod sets of a workload."""

    pods: list[int] = field(default_factory=list)
    amounts: dict[str, float] = field(default_factory=dict)
    resources: dict[str, None] = field(default_factory=dict)
    shares: dict[str, None] = field(default_factory=dict)
    demands: dict[Demand, None] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    held: str = ""

    def note(self, text: str) -> None:
        """Add a note once."""
        self.notes[text] = None


def read_workload(item: Fields, now_s: float, classes: Mapping[str, int]) -> Asked:
    """Read a workload that has not finished.

    Parameters
    ----------
    now_s
        Latest instant of the documents.
    classes
        Values of priority classes by name.
    """
    meta, spec, status = meta_of(item), item.object("spec", None), item.part("status")
    conditions = conditions_of(item)
    evicted = true_of(conditions).get("Evicted")
    admitted = admission_of(item)
    sets, done = _Sets(), ended_pods(status)
    for one in spec.objects("podSets", None):
        _take_set(sets, one, done)
    if len(sets.resources) > 1:
        sets.held = f"asks for GPUs of several kinds ({', '.join(sets.resources)}): not decided"
    if sets.shares:
        sets.held = f"asks for shares of GPUs ({', '.join(sets.shares)}): not decided"
    away = _away(spec, status, conditions, now_s)
    submit_s = queued_s = instant_of(meta, "creationTimestamp")
    if evicted is not None and evicted.text("reason", "") in _AGAIN:
        queued_s = instant_of(evicted, "lastTransitionTime")
    owners = _owners(meta)
    word = "maximumExecutionTimeSeconds"
    limit = spec.whole(word, 0, least=0) if spec.has(word) else 0
    pods = tuple(sorted(sets.pods, reverse=True))
    if admitted is not None:
        pods = _left(pods, admitted)
    priority, strange = priority_of(spec, classes)
    if strange:
        sets.note(f"priority class {strange} is in no file: taken as priority 0")
    if sum(pods) > MOST_GPUS:
        raise item.error("spec.podSets", f"must be at most {MOST_GPUS} GPUs, got {sum(pods)}")
    return Asked(
        name_in_space(item),
        f"{meta.text('namespace', 'default')}/{spec.word('queueName')}",
        submit_s,
        queued_s,
        priority,
        pods,
        next(iter(sets.resources)) if len(sets.resources) == 1 and not sets.shares else "",
        dict(sets.amounts),
        tuple(sets.demands),
        tuple(sets.required),
        away or sets.held,
        bool(away),
        admitted,
        owners,
        float(limit) if limit else None,
        tuple(sets.notes),
    )


def _left(pods: tuple[int, ...], admitted: Admission) -> tuple[int, ...]:
    """Return the pods of a workload that still hold GPUs; Kueue may have admitted fewer of them."""
    held = round(sum(v for (_, r), v in admitted.usage.items() if is_gpu(r)))
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
    selector = tuple(sorted(spec.by_name("nodeSelector").items()))
    sets.demands[Demand(selector, node_terms(spec), tolerations_of(spec))] = None
    if row.has("minCount"):
        sets.note("may be admitted with fewer pods (minCount): here all of them start or none")
    for word in ("podAffinity", "podAntiAffinity"):
        if spec.part("affinity").has(word):
            sets.note(f"{word} is not read, which may keep its pods from nodes")
    if spec.has("topologySpreadConstraints") and spec.raw("topologySpreadConstraints"):
        sets.note("topologySpreadConstraints are not read: may keep its pods from nodes")
    parts = int(gpus)
    if row.has("topologyRequest"):
        parts = _topology(sets, row.object("topologyRequest", None), parts)
    sets.pods += [parts] * (count * int(gpus) // parts)


_TOPOLOGY = re.compile(
    "required|preferred|unconstrained|podIndexLabel|subGroup(IndexLabel|Count)|podSetGroupName"
    "|podSetSlice(RequiredTopology|Size)"
)
"""Fields of a topology request that are read, or do not affect where a gang fits."""


def _topology(sets: _Sets, request: Fields, each: int) -> int:
    """Take in a pod set's topology request; return the GPUs that stay together on a node."""
    strange = [one for one in request if request.has(one) and not _TOPOLOGY.fullmatch(one)]
    if strange:
        sets.held = f"asks for {', '.join(strange)} of a topology: not decided"
    if request.has("required"):
        sets.required[request.text("required")] = None
    if not request.has("podSetSliceRequiredTopology"):
        return each
    label = request.text("podSetSliceRequiredTopology")
    size = request.whole("podSetSliceSize", 1, least=1)
    if label != HOST:
        sets.held = f"asks for slices of {size} pods within one {label}: not decided"
        return each
    return each * size


def _away(spec: Fields, status: Fields, conditions: Mapping[str, Fields], now_s: float) -> str:
    """Return why a waiting workload is not considered, so that others pass it; "" if it is."""
    if spec.has("active") and not spec.flag("active"):
        return "it is not active"
    state = status.part("requeueState")
    if state.has("requeueAt") and instant_of(state, "requeueAt") > now_s:
        return f"it is queued again at {state.text('requeueAt')}"
    again = conditions.get("Requeued")
    if again is not None and again.text("status") == "False":
        return f"it is not queued again yet: {again.text('reason', 'no reason is given')}"
    return ""


_INSTANTS = ("creationTimestamp", "lastTransitionTime", "lastHeartbeatTime", "time")


def latest_of(items: Iterable[Fields]) -> float:
    """Return the latest instant that the objects state."""
    found = [0.0]
    for item in items:
        try:
            meta = meta_of(item)
            rows = [meta, *item.part("status").parts("conditions"), *meta.parts("managedFields")]
            for row in rows:
                found += [instant_of(row, word) for word in _INSTANTS if row.has(word)]
        except InputError:
            continue  # it is named where it is read
    return max(found)
