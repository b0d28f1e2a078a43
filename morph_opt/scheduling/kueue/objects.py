"""Workload objects of Kueue as its scheduler sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from morph_opt.core.documents import Fields
from morph_opt.inputs.kueue.admissions import AdmittedSet, ended_pods
from morph_opt.inputs.kueue.kube import (
    HOST,
    conditions_of,
    instant_of,
    meta_of,
    node_terms,
    priority_of,
    requests_of,
    tolerations_of,
    true_of,
)
from morph_opt.scheduling.kueue.workloads import (
    Held,
    Placed,
    PodSet,
    TopologyRequest,
    Workload,
    exact,
)

_MOST_PODS = 10**6


def read_workload(item: Fields, classes: Mapping[str, int]) -> Workload:
    """Read a workload; its queue is left open.

    Parameters
    ----------
    item
        The object.
    classes
        Values of priority classes by name.
    """
    meta, spec = meta_of(item), item.object("spec", None)
    true = true_of(conditions_of(item))
    space, name = meta.text("namespace", "default"), meta.text("name")
    done = ended_pods(item.part("status"))
    stopped = {
        kind: (true[kind].text("reason", ""), instant_of(true[kind], "lastTransitionTime"))
        for kind in ("Evicted", "Preempted")
        if kind in true
    }
    return Workload(
        f"{space}/{name}",
        "",
        tuple(_pod_set(one, done) for one in spec.objects("podSets", None)),
        priority_of(spec, classes)[0],
        instant_of(meta, "creationTimestamp"),
        meta.text("uid", ""),
        f"{space}/{spec.word('queueName')}",
        stopped.get("Evicted"),
        stopped.get("Preempted"),
    )


def _pod_set(row: Fields, done: Mapping[str, int]) -> PodSet:
    spec = row.object("template", None).object("spec", None)
    name = row.text("name", "main")
    least = row.whole("minCount", 1, least=1, most=_MOST_PODS) if row.has("minCount") else None
    asked = row.object("topologyRequest", None) if row.has("topologyRequest") else None
    needs = requests_of(spec)
    return PodSet(
        {key: value for key, value in needs.items() if value and key != "pods"},
        max(0, row.whole("count", 1, least=0, most=_MOST_PODS) - done.get(name, 0)),
        name,
        least,
        spec.by_name("nodeSelector"),
        node_terms(spec),
        tolerations_of(spec),
        None if asked is None else _topology(asked),
    )


def _topology(row: Fields) -> TopologyRequest:
    slices = [
        (one.text("topology"), one.whole("size", 1, least=1))
        for one in row.parts("podsetSliceRequiredTopologyConstraints")
    ]
    if row.has("podSetSliceRequiredTopology"):
        size = row.whole("podSetSliceSize", 1, least=1)
        slices.insert(0, (row.text("podSetSliceRequiredTopology"), size))
    return TopologyRequest(
        row.word("required"),
        row.word("preferred"),
        row.has("unconstrained") and row.flag("unconstrained"),
        row.word("podSetGroupName"),
        tuple(slices),
    )


def held_of(workload: Workload, sets: Iterable[AdmittedSet], since_s: float) -> Held:
    """Return the admission of a workload with the flavors and places that its object states."""
    return Held(workload, tuple(map(_placed, sets)), since_s)


def _placed(one: AdmittedSet) -> Placed:
    levels = one.levels[-1:] if one.levels[-1:] == (HOST,) else one.levels
    domains = None
    if one.domains is not None:
        domains = tuple((tuple(row[k] for k in levels if k in row), n) for row, n in one.domains)
    amounts = {resource: exact(amount) for resource, amount in one.amounts.items()}
    return Placed(one.name, one.count, one.flavors, amounts, domains, levels)
