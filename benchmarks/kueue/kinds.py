"""Answers of the scheduler to the cases of each kind, in the words of the cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.kueue.documents import (
    Case,
    amounts,
    held_of,
    name_of,
    nodes_of,
    pod_set,
    require_amounts,
    settings_of,
    site_of,
    workload_of,
)
from morph_opt.scheduling.kueue.cycle import cycle, victims_of
from morph_opt.scheduling.kueue.domains import Topology, Used
from morph_opt.scheduling.kueue.fair import Targets
from morph_opt.scheduling.kueue.flavors import Grade, Mode, Search, assign
from morph_opt.scheduling.kueue.order import in_candidate_order, in_entry_order
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.places import topology_unsuited
from morph_opt.scheduling.kueue.placing import Ask, Profile, place
from morph_opt.scheduling.kueue.shares import shares
from morph_opt.scheduling.kueue.site import Site, Snapshot, available, cohort_key
from morph_opt.scheduling.kueue.usage import LocalUsage
from morph_opt.scheduling.kueue.victims import Preemptor
from morph_opt.scheduling.kueue.workloads import Held, Workload, exact

MODES = {Mode.NO_FIT: "NoFit", Mode.PREEMPT: "Preempt", Mode.FIT: "Fit"}
GRADES = {"NoCandidates": Grade.NO_VICTIMS, "Preempt": Grade.PREEMPT, "Reclaim": Grade.RECLAIM}
Answer = tuple[Any, Any]
"""What the scheduler answers, and what the case expects."""


def of_available(case: Case) -> Answer:
    """Return what each queue may take."""
    found = available(site_of(case), {q: amounts(rows) for q, rows in case["usage"].items()})
    expect = {
        (word, queue, slot): amount
        for word, queues in case["expect"].items()
        for queue, rows in queues.items()
        for slot, amount in amounts(rows).items()
    }
    words = ("available", "potentially_available")
    mine = {key: found[key[1]].get(key[2], (0, 0))[words.index(key[0])] for key in expect}
    return mine, expect


def of_share(case: Case) -> Answer:
    """Return the shares of queues and cohorts."""
    usage = {q: amounts(rows) for q, rows in case["usage"].items()}
    asked = amounts(case.get("asked_on_top", ()))
    site = site_of(case)
    mine, expect = [], []
    for row in case["expect"]["shares"]:
        queue = row["node"] == "cluster_queue"
        key = row["name"] if queue else cohort_key(row["name"])
        counted = usage
        if asked and queue:
            old = usage.get(key, {})
            more = {slot: old.get(slot, 0) + asked.get(slot, 0) for slot in {*old, *asked}}
            counted = {**usage, key: more}
        one = shares(site, counted, (key,))[key]
        value = "max" if one.rounded == math.inf else one.rounded
        mine.append((key, value, one.resource, bool(one.borrowed)))
        expect.append((key, row["share"], row["resource"], row["borrowing"]))
    return mine, expect


@dataclass(frozen=True, slots=True)
class _Entry:
    workload: Workload
    borrowing: int
    preemptor: bool
    usage: Mapping[tuple[str, str], int]


def of_entry_order(case: Case) -> Answer:
    """Return the order of the entries of a cycle."""
    entries = [
        _Entry(workload_of(row), row["borrow_level"], row.get("preemptor", False), {})
        for row in case["entries"]
    ]
    ordered = in_entry_order(settings_of(case), entries)
    return [one.workload.name[1:] for one in ordered], case["expect"]["order"]


def of_candidate_order(case: Case) -> Answer:
    """Return the order of candidates for preemption."""
    site = site_of({**case, "cluster_queues": []})
    held = [held_of(row, case["features"]) for row in case["workloads"]]
    ordered = in_candidate_order(Snapshot(site), case["preemptor_cluster_queue"], held)
    return [one.workload.name[1:] for one in ordered], case["expect"]["order"]


def _snapshot(case: Case) -> Snapshot:
    held = [held_of(row, case.get("features")) for row in case["workloads"] if "admission" in row]
    return Snapshot(site_of(case), held)


def of_queue_order(case: Case) -> Answer:
    """Return the order of queues whose workloads are preempted."""
    snapshot = _snapshot(case)
    queue = case["preemptor_cluster_queue"]
    candidates = [
        one
        for name in case["candidate_cluster_queues"]
        for one in in_candidate_order(snapshot, queue, snapshot.held[name].values())
    ]
    targets = Targets(snapshot, queue, candidates)
    actions = iter(case["actions"])
    found = []
    for target in targets:
        found.append(target)
        if next(actions, "pop") == "drop":
            targets.drop(target)
        else:
            targets.take(target)
    return found, case["expect"]["order"]


def _answers(case: Case) -> Search:
    """Return the search whose oracle answers as a case has it."""
    rows = case["preemption_oracle"]
    usual = GRADES[rows["default"][0]], rows["default"][1]
    given = {
        (one["flavor"], one["resource"]): (GRADES[one["possibility"]], one["borrow_after"])
        for one in rows["given"]
    }
    return Search(lambda _snapshot, _workload, slot, _amount: given.get(slot, usual))


def of_flavors(case: Case) -> Answer:
    """Return the flavors of a workload."""
    site = site_of(case)
    snapshot = Snapshot(site)
    for queue, rows in case["usage"].items():
        snapshot.use(queue, {slot: exact(one) for slot, one in amounts(rows).items()})
    sets = tuple(pod_set(one) for one in case["pod_sets"])
    workload = Workload("/in", case["cluster_queues"][0]["name"], sets)
    found = assign(snapshot, workload, _answers(case))
    expect = case["expect"]
    if "flavors" in expect:
        flavors = {r: one.flavor for pods in found.pod_sets for r, one in pods.flavors.items()}
        return {"mode": MODES[found.mode], "flavors": flavors}, expect
    return {
        "mode": MODES[found.mode],
        "borrowing": found.borrowing,
        "pod_sets": [
            {
                "name": pods.name,
                "count": pods.count,
                "flavors": {
                    r: {"flavor": one.flavor, "mode": MODES[one.mode]}
                    for r, one in pods.flavors.items()
                },
            }
            for pods in found.pod_sets
        ],
        "usage": {slot: amount / 1000 for slot, amount in found.usage.items()},
    }, {**expect, "usage": amounts(expect["usage"])}


def of_preemption(case: Case) -> Answer:
    """Return the victims of a workload with given flavors."""
    snapshot = _snapshot(case)
    workload = workload_of(case["incoming"], case["incoming"]["cluster_queue"])
    usage: dict[tuple[str, str], int] = {}
    needing = set()
    for row, pods in zip(case["assignment"], workload.pod_sets, strict=True):
        for resource, amount in pods.amounts(row["count"]).items():
            chosen = row["flavors"].get(resource)
            if chosen is not None:
                slot = chosen["flavor"], resource
                usage[slot] = usage.get(slot, 0) + amount
                if chosen["mode"] == "Preempt":
                    needing.add(slot)
    found = victims_of(snapshot, Preemptor(workload, usage, frozenset(needing)))
    mine = {one.held.workload.name: one.reason for one in found}
    expect = case["expect"]
    if expect.get("count", len(expect["preempted"])) != len(expect["preempted"]):
        return len(mine), expect["count"]  # the test counts victims and names none
    return mine, expect["preempted"]


def with_topologies(case: Case, site: Site) -> Snapshot:
    """Return an empty snapshot of a site with the topologies of its flavors."""
    levels = {row["name"]: row["levels"] for row in case.get("topologies", ())}
    topologies = {
        flavor.name: Topology(
            levels[flavor.topology], nodes_of(case, flavor.labels), flavor.tolerations
        )
        for flavor in site.queues.flavors.values()
        if flavor.topology in levels
    }
    snapshot = Snapshot(site, topologies=topologies)
    snapshot.suits = partial(topology_unsuited, snapshot)
    return snapshot


def of_cycle(case: Case) -> Answer:
    """Return what one or more cycles do."""
    site = site_of(case)
    features = case.get("features")
    snapshot = with_topologies(case, site)
    held = [held_of(row, features) for row in case["workloads"] if row.get("admission")]
    require_amounts(case, held)
    for one in held:
        snapshot.add(one)
    given = case.get("admission_fair_sharing", {}).get("usage", {})
    used = {
        name_of(row): sum(given.get(row["name"], {}).values())
        for row in case.get("local_queues", ())
    }
    usage = LocalUsage(site, used)
    pending = Pending(site, usage.now)
    for row in case["workloads"]:
        local = site.queues.local.get(f"{row['namespace']}/{row['queue']}")
        if not row.get("admission") and local is not None:
            pending.add(workload_of(row, local.queue, features))
    admitted: dict[str, Held] = {}
    preempted: dict[str, str] = {}
    waits: dict[str, str] = {}
    for _ in range(case["cycles"]):
        snapshot.local_usage = usage.now()
        result = cycle(snapshot, pending.heads(), 0.0)
        pending.requeue(result.nominees)
        admitted |= {one.workload.name: one for one in result.admitted}
        preempted |= {victim.held.workload.name: victim.reason for victim, _ in result.victims}
        waits |= {one.workload.name: one.reason for one in result.nominees}
        for one in result.admitted:
            waits.pop(one.workload.name, None)
            usage.admit(one)
    left: dict[str, dict[str, list[str]]] = {"left_active": {}, "left_inadmissible": {}}
    for queue in site.queues.queues:
        for word, found in zip(left, pending.of(queue), strict=True):
            if found:
                left[word][queue] = found
    expect = case["expect"]
    mine = {
        "admitted": {name: _admission(one) for name, one in admitted.items()},
        "preempted": preempted,
        "pending": waits,
        **left,
    }
    stated = any(expect[word] for word in left)
    if stated is not bool(expect["pending"]):  # a test looks at reasons, at queues, or at both
        mine = {
            word: one
            for word, one in mine.items()
            if word not in (("pending",) if stated else left)
        }
    return mine, {word: _plain(word, expect[word]) for word in mine}


def _plain(word: str, row: Any) -> Any:
    if word.startswith("left"):
        return {queue: sorted(names) for queue, names in row.items()}
    return row


def _admission(held: Held) -> dict[str, Any]:
    rows = []
    for one in held.placed:
        row: dict[str, Any] = {
            "name": one.name,
            "count": one.count,
            "flavors": dict(one.flavors),
            "usage": {r: amount / 1000 for r, amount in one.amounts.items()},
        }
        if one.domains is not None:
            domains = [{"values": list(v), "pods": pods} for v, pods in one.domains]
            row["topology"] = {"levels": list(one.levels), "domains": domains}
        rows.append(row)
    return {"cluster_queue": held.workload.queue, "pod_sets": rows}


def of_placement(case: Case) -> Answer:
    """Return the domains of pod sets, or that they do not fit."""
    settings = settings_of(case)
    topology = Topology(case["levels"], nodes_of(case, case["flavor_node_labels"]))
    sets = [pod_set(row) for row in case["pod_sets"]]
    asks = [Ask(one, one.count) for one in sets]
    found = place(topology, asks, Used(), Profile(settings.mixed, settings.balanced))
    mine = []
    for one in sets:
        row: dict[str, Any] = {"name": one.name, "fits": not found.why}
        if not found.why:
            domains = [{"values": list(v), "pods": pods} for v, pods in found.domains[one.name]]
            row["assignment"] = {"levels": list(found.levels), "domains": domains}
        mine.append(row)
    return mine, case["expect"]["pod_sets"]


KINDS: dict[str, Callable[[Case], Answer]] = {
    "available": of_available,
    "candidate-order": of_candidate_order,
    "cycle": of_cycle,
    "cycle-afs": of_cycle,
    "cycle-fair": of_cycle,
    "cycle-tas": of_cycle,
    "cycle-tas-cohorts": of_cycle,
    "cycle-tas-preemption": of_cycle,
    "entry-order": of_entry_order,
    "flavors": of_flavors,
    "flavors-hierarchical": of_flavors,
    "flavors-reclaim": of_flavors,
    "preemption": of_preemption,
    "preemption-fair": of_preemption,
    "preemption-hierarchical": of_preemption,
    "queue-order-fair": of_queue_order,
    "share": of_share,
    "tas": of_placement,
}
"""What answers the cases of each kind."""


def differences(mine: Any, expect: Any, place: str = "") -> Iterator[str]:
    """Yield where two answers differ."""
    if isinstance(mine, Mapping) and isinstance(expect, Mapping):
        for key in sorted({*mine, *expect}, key=str):
            yield from differences(mine.get(key), expect.get(key), f"{place} {key}")
    elif mine != expect:
        yield f"{place.strip() or 'answer'}: {mine!r}, expected {expect!r}"
