"""Admissions of Kueue's workloads, the places stated for them, and pods."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morph_opt.core.documents import Fields
from morph_opt.core.domain.job import MOST_GPUS
from morph_opt.round.live.kube_fields import instant_of, meta_of, quantity_of, requests_of
from morph_opt.round.live.kube_gpus import gpus_in
from morph_opt.round.live.kueue_queues import Slot


@dataclass(frozen=True, slots=True)
class Admission:
    """Admission of a workload.

    Parameters
    ----------
    queue
        Its cluster queue.
    usage
        Amounts by flavor and resource, less what has been given back.
    since_s
        Instant of the admission.
    places
        Labels of a domain of nodes, and GPUs there, where the document says it.
    waits
        Whether it has quota and waits for admission checks.
    """

    queue: str
    usage: Mapping[Slot, float]
    since_s: float
    places: tuple[tuple[Mapping[str, str], int], ...]
    waits: bool


def status_of(item: Fields) -> Fields:
    """Return the status of an object; empty if it has none."""
    return item.object("status", None) if item.has("status") else Fields({}, "status", None, None)


def conditions_of(item: Fields) -> dict[str, Fields]:
    """Return the conditions of an object by type."""
    status = status_of(item)
    listed = status.objects("conditions", None) if status.has("conditions") else ()
    return {one.text("type"): one for one in listed}


def true_of(conditions: Mapping[str, Fields]) -> set[str]:
    """Return the types of conditions that are true."""
    return {kind for kind, one in conditions.items() if one.text("status") == "True"}


def is_over(item: Fields) -> bool:
    """Return whether a workload has finished."""
    return "Finished" in true_of(conditions_of(item))


def admission_of(item: Fields) -> Admission | None:
    """Return the admission of a workload; None if it waits."""
    status, conditions = status_of(item), conditions_of(item)
    true = true_of(conditions)
    if (
        not status.has("admission")
        or not true & {"Admitted", "QuotaReserved"}
        or "Finished" in true
    ):
        return None
    admission = status.object("admission", None)
    spec = item.object("spec", None)
    counts = {one.text("name", "main"): one for one in spec.objects("podSets", None, [])}
    done: Counter[str] = Counter()
    for one in status.objects("reclaimablePods", None) if status.has("reclaimablePods") else ():
        done[one.text("name")] += one.whole("count", 0, least=0)
    usage: dict[Slot, float] = defaultdict(float)
    places: list[tuple[Mapping[str, str], int]] = []
    for one in admission.objects("podSetAssignments", None, []):
        name = one.text("name", "main")
        row = counts.get(name)
        total = row.whole("count", 1, least=0) if row is not None else one.whole("count", 1)
        flavors = one.value("flavors", dict[str, str]) if one.has("flavors") else {}
        table = one.object("resourceUsage", None) if one.has("resourceUsage") else None
        needs = (
            requests_of(row.object("template", None).object("spec", None))
            if row is not None and row.has("template")
            else {}
        )
        each = 0
        named = table if table is not None else needs
        for resource in dict.fromkeys((*flavors, *named)):
            flavor = flavors.get(resource, "")
            if table is not None and table.has(resource):
                amount = quantity_of(table, resource)
                per_pod = amount / max(1, total)
            else:
                per_pod = needs.get(resource, 0.0)
                amount = per_pod * one.whole("count", total)
            per_pod = needs.get(resource, per_pod) or per_pod
            usage[flavor, resource] += max(0.0, amount - done[name] * per_pod)
            if gpus_in((resource,)):
                each = round(per_pod)
        if one.has("topologyAssignment") and each:
            assigned = one.object("topologyAssignment", None)
            places += [(labels, each * pods) for labels, pods in domains_of(assigned)]
    since = conditions["Admitted" if "Admitted" in true else "QuotaReserved"]
    return Admission(
        admission.text("clusterQueue"),
        dict(usage),
        instant_of(since, "lastTransitionTime"),
        tuple(places),
        "Admitted" not in true,
    )


def domains_of(assigned: Fields) -> Iterator[tuple[dict[str, str], int]]:
    """Yield labels and pods of the domains of a topology assignment, in either encoding."""
    levels = assigned.value("levels", tuple[str, ...])
    if assigned.has("domains"):
        for one in assigned.objects("domains", None):
            values = one.value("values", tuple[str, ...])
            # Levels are left out from the top where the lowest says all.
            yield dict(zip(levels[-len(values) :], values, strict=True)), one.whole("count", 1)
    for one in assigned.objects("slices", None) if assigned.has("slices") else ():
        count = one.whole("domainCount", 1, least=0, most=MOST_GPUS)
        pods = _spelled(one.object("podCounts", None), count, "individual")
        columns = [_spelled(row, count) for row in one.objects("valuesPerLevel", None)]
        named = levels[-len(columns) :]
        for at in range(count):
            yield {k: str(v[at]) for k, v in zip(named, columns, strict=True)}, int(pods[at])


def _spelled(row: Fields, count: int, word: str = "individual") -> list[str | int]:
    """Return the entries of a column, which one value or a common prefix may abbreviate."""
    if row.has("universal"):
        return [row.raw("universal")] * count
    found = row.raw(word)
    if isinstance(found, dict):
        inner = row.object(word, None)
        head, tail = inner.text("prefix", "") or "", inner.text("suffix", "") or ""
        found = [f"{head}{root}{tail}" for root in inner.value("roots", tuple[str, ...])]
    if not isinstance(found, list) or len(found) < count:
        raise row.error(word, f"must have {count} entries")
    return found


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
    spec, status, meta = item.object("spec", None), status_of(item), meta_of(item)
    phase = status.text("phase", "")
    node = spec.text("nodeName") if spec.has("nodeName") else ""
    if not node or phase in ("Succeeded", "Failed"):
        return None
    needs = requests_of(spec)
    gpus = sum(needs[key] for key in gpus_in(needs))
    if not gpus:
        return None
    space = meta.text("namespace", "default")
    notes = meta.value("annotations", dict[str, str]) if meta.has("annotations") else {}
    labels = meta.value("labels", dict[str, str]) if meta.has("labels") else {}
    keys = {meta.text("uid", "")}
    named = [notes.get("kueue.x-k8s.io/workload"), labels.get("kueue.x-k8s.io/pod-group-name")]
    keys |= {f"workload {space}/{one}" for one in named if one}
    for one in meta.objects("ownerReferences", None) if meta.has("ownerReferences") else ():
        keys |= {one.text("uid", ""), f"{space}/{one.text('name', '')}"}
    keys |= {f"{space}/{labels[one]}" for one in _OWNER_LABELS if one in labels}
    name = f"{space}/{meta.text('name')}"
    return HeldPod(name, frozenset(keys - {""}), node, math.ceil(gpus))
