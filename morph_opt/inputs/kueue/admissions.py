"""Admissions of Kueue's workloads: flavors, amounts and places of their pod sets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morph_opt.core.documents import Fields
from morph_opt.core.domain.job import MOST_GPUS
from morph_opt.inputs.kueue.kube import (
    conditions_of,
    instant_of,
    is_gpu,
    quantity_of,
    requests_of,
    true_of,
)
from morph_opt.inputs.kueue.queues import Slot


@dataclass(frozen=True, slots=True)
class AdmittedSet:
    """Admission of a pod set.

    Parameters
    ----------
    name, count
        The pod set, and its pods less those that have ended.
    flavors
        Flavor of each resource.
    amounts
        Amount of each resource, less what ended pods gave back.
    gpus
        GPUs of each pod; 0 if it has none.
    levels, domains
        Levels of its topology from the top, and labels and pods of its domains; None without.
    """

    name: str
    count: int
    flavors: Mapping[str, str]
    amounts: Mapping[str, float]
    gpus: int = 0
    levels: tuple[str, ...] = ()
    domains: tuple[tuple[Mapping[str, str], int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """Admission of a workload.

    Parameters
    ----------
    queue
        Its cluster queue.
    sets
        Admissions of its pod sets.
    usage
        Amounts by flavor and resource, less what has been given back; flavor "" if not stated.
    since_s
        Instant of the admission.
    waits
        Whether it has quota and waits for admission checks.
    """

    queue: str
    sets: tuple[AdmittedSet, ...]
    usage: Mapping[Slot, float]
    since_s: float
    waits: bool

    @property
    def places(self) -> tuple[tuple[Mapping[str, str], int], ...]:
        """Labels of a domain of nodes, and GPUs there, as far as they are stated."""
        return tuple(
            (labels, one.gpus * pods)
            for one in self.sets
            if one.gpus
            for labels, pods in one.domains or ()
        )


def is_over(item: Fields) -> bool:
    """Return whether a workload has finished."""
    return "Finished" in true_of(conditions_of(item))


def admission_of(item: Fields) -> Admission | None:
    """Return the admission of a workload; None if it waits."""
    status, true = item.part("status"), true_of(conditions_of(item))
    since = true.get("Admitted") or true.get("QuotaReserved")
    if not status.has("admission") or since is None or "Finished" in true:
        return None
    admission = status.object("admission", None)
    spec = item.object("spec", None)
    rows = {one.text("name", "main"): one for one in spec.objects("podSets", None, [])}
    done = ended_pods(status)
    usage: dict[Slot, float] = defaultdict(float)
    sets = []
    for one in admission.objects("podSetAssignments", None, []):
        name = one.text("name", "main")
        made = _admitted(one, rows.get(name), done[name])
        for resource, amount in made.amounts.items():
            usage[made.flavors.get(resource, ""), resource] += amount
        sets.append(made)
    return Admission(
        admission.text("clusterQueue"),
        tuple(sets),
        dict(usage),
        instant_of(since, "lastTransitionTime"),
        "Admitted" not in true,
    )


def _admitted(one: Fields, row: Fields | None, done: int) -> AdmittedSet:
    """Return the admission of a pod set, given its row in the request and its ended pods."""
    total = row.whole("count", 1, least=0) if row is not None else one.whole("count", 1)
    flavors, table = one.by_name("flavors"), one.part("resourceUsage")
    needs: dict[str, float] = {}
    if row is not None and row.has("template"):
        needs = requests_of(row.object("template", None).object("spec", None))
    each = 0
    amounts: dict[str, float] = {}
    for resource in dict.fromkeys((*flavors, *(table if one.has("resourceUsage") else needs))):
        per_pod = needs.get(resource, 0.0)
        if table.has(resource):
            amount = quantity_of(table, resource)
            per_pod = per_pod or amount / max(1, total)
        else:
            amount = per_pod * one.whole("count", total)
        amounts[resource] = max(0.0, amount - done * per_pod)
        if is_gpu(resource):
            each = round(per_pod)
    levels: tuple[str, ...] = ()
    domains = None
    if one.has("topologyAssignment"):
        assigned = one.object("topologyAssignment", None)
        levels = assigned.value("levels", tuple[str, ...])
        domains = tuple(domains_of(assigned))
    count = max(0, one.whole("count", total) - done)
    return AdmittedSet(one.text("name", "main"), count, flavors, amounts, each, levels, domains)


def ended_pods(status: Fields) -> Counter[str]:
    """Return the pods of a workload that have ended while others run, by pod set."""
    found: Counter[str] = Counter()
    for one in status.parts("reclaimablePods"):
        found[one.text("name")] += one.whole("count", 0, least=0)
    return found


def domains_of(assigned: Fields) -> Iterator[tuple[dict[str, str], int]]:
    """Yield labels and pods of the domains of a topology assignment, in either encoding."""
    levels = assigned.value("levels", tuple[str, ...])
    for one in assigned.parts("domains"):
        values = one.value("values", tuple[str, ...])
        # Levels are left out from the top where the lowest says all.
        yield dict(zip(levels[-len(values) :], values, strict=True)), one.whole("count", 1)
    for one in assigned.parts("slices"):
        count = one.whole("domainCount", 1, least=0, most=MOST_GPUS)
        pods = _spelled(one.object("podCounts", None), count)
        columns = [_spelled(row, count) for row in one.objects("valuesPerLevel", None)]
        named = levels[-len(columns) :]
        for at in range(count):
            yield {k: str(v[at]) for k, v in zip(named, columns, strict=True)}, int(pods[at])


def _spelled(row: Fields, count: int) -> list[str | int]:
    """Return the entries of a column, which one value or a common prefix may abbreviate."""
    if row.has("universal"):
        return [row.raw("universal")] * count
    found = row.raw("individual")
    if isinstance(found, dict):
        inner = row.object("individual", None)
        head, tail = inner.text("prefix", ""), inner.text("suffix", "")
        found = [f"{head}{root}{tail}" for root in inner.value("roots", tuple[str, ...])]
    if not isinstance(found, list) or len(found) < count:
        raise row.error("individual", f"must have {count} entries")
    return found
