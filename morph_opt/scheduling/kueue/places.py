"""Places of a workload's pod sets in the topologies of its flavors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from morph_opt.inputs.kueue.queues import Flavor, Group, Queue
from morph_opt.scheduling.kueue.domains import Used, fitting
from morph_opt.scheduling.kueue.flavors import (
    Assignment,
    Attempt,
    Grade,
    Mode,
    Reason,
    SetAssignment,
    reason_of,
)
from morph_opt.scheduling.kueue.placing import Ask, Profile, level_of, place
from morph_opt.scheduling.kueue.site import Snapshot
from morph_opt.scheduling.kueue.victims import Victim
from morph_opt.scheduling.kueue.workloads import Domain, PodSet, Workload


def only_topologies(snapshot: Snapshot, queue: Queue) -> bool:
    """Return whether every flavor of a queue has a topology, so that all its pods are placed."""
    flavors = [flavor for group in queue.groups for flavor in group.flavors]
    return bool(snapshot.topologies) and all(one in snapshot.topologies for one in flavors)


def _explicit(pods: PodSet) -> bool:
    return pods.topology is not None and pods.topology.explicit


def topology_unsuited(
    snapshot: Snapshot, queue: Queue, pods: PodSet, flavor: Flavor, group: Group
) -> str:
    """Return why a flavor with or without topology does not suit pods; "" if it does."""
    if not _explicit(pods):
        if only_topologies(snapshot, queue) or not flavor.topology:
            return ""
        return f"flavor {flavor.name} is for pods that ask for a place in a topology"
    if not flavor.topology:
        if not set(pods.requests) & set(group.resources):
            return ""  # it provides quota alone, next to a flavor with nodes
        return f"flavor {flavor.name} has no topology"
    topology = snapshot.topologies.get(flavor.name)
    if topology is None:
        return f"the topology of flavor {flavor.name} is not known"
    assert pods.topology is not None
    wanted = [level_of(topology, pods.topology, implied=False)]
    wanted += [level for level, _ in pods.topology.slices]
    missing = [level for level in wanted if level not in topology.levels]
    return f"flavor {flavor.name} has no level {missing[0]}" if missing else ""


@dataclass(slots=True)
class _Found:
    """Places of pod sets, or the pod set without one and its flavor."""

    places: dict[str, tuple[Domain, ...]] = field(default_factory=dict)
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    failed: str = ""
    flavor: str = ""
    unknown: str = ""
    why: str = ""


def _find(
    snapshot: Snapshot, workload: Workload, assignment: Assignment, *, empty: bool
) -> tuple[_Found, list[str]]:
    """Find places of the pod sets that ask for one, and return their names."""
    found, asks = _Found(), dict[str, list[Ask]]()
    queue = snapshot.site.queues.queues[workload.queue]
    implied = only_topologies(snapshot, queue)
    for pods, given in zip(workload.pod_sets, assignment.pod_sets, strict=False):
        if not given.count or not (_explicit(pods) or implied):
            continue
        flavors = {c.flavor for c in given.flavors.values() if c.flavor in snapshot.topologies}
        if len(flavors) != 1:
            found.unknown = given.name
            continue
        asks.setdefault(flavors.pop(), []).append(Ask(pods, given.count, not _explicit(pods)))
    settings = snapshot.site.settings
    profile = Profile(settings.mixed, settings.balanced)
    beside: dict[int, Used] = {}
    for flavor in sorted(asks):
        used = snapshot.used[flavor]
        mine = beside.setdefault(id(used), Used() if empty else used.copy())
        answer = place(snapshot.topologies[flavor], asks[flavor], mine, profile)
        found.places |= answer.domains
        found.levels |= dict.fromkeys(answer.domains, answer.levels)
        if answer.why:
            found.failed, found.flavor, found.why = answer.failed, flavor, answer.why
            break
    return found, [ask.pods.name for listed in asks.values() for ask in listed]


def with_places(snapshot: Snapshot, workload: Workload, assignment: Assignment) -> Assignment:
    """Return an assignment with places in topologies, and its mode with regard to them.

    Parameters
    ----------
    snapshot
        What is held.
    workload, assignment
        The workload, and its flavors by quotas alone.
    """
    if not snapshot.topologies or assignment.mode is Mode.NO_FIT:
        return assignment
    mode, sets = assignment.mode, assignment.pod_sets
    if mode is Mode.FIT:
        found, names = _find(snapshot, workload, assignment, empty=False)
        if found.unknown:
            return replace(assignment, mode=Mode.NO_FIT)
        if not found.failed:
            return replace(assignment, places=found.places, levels=found.levels)
        mode, sets = Mode.PREEMPT, _with_mode(sets, [found.failed], Mode.PREEMPT)
    found, names = _find(snapshot, workload, assignment, empty=True)
    if found.unknown:
        return replace(assignment, mode=Mode.NO_FIT)
    if not found.failed:
        sets = _with_mode(sets, names, Mode.PREEMPT)
        return replace(assignment, pod_sets=sets, mode=Mode.PREEMPT)
    sets = _with_mode(sets, [found.failed], Mode.NO_FIT)
    sets = tuple(
        replace(one, attempts=_blamed(one.attempts, found.flavor))
        if one.name == found.failed
        else one
        for one in sets
    )
    queue = snapshot.site.queues.queues[workload.queue]
    return replace(assignment, pod_sets=sets, mode=Mode.NO_FIT, reason=reason_of(queue, sets))


def _with_mode(
    sets: Sequence[SetAssignment], names: Sequence[str], mode: Mode
) -> tuple[SetAssignment, ...]:
    return tuple(
        replace(one, flavors={r: replace(c, mode=mode) for r, c in one.flavors.items()})
        if one.name in names
        else one
        for one in sets
    )


def _blamed(attempts: Sequence[Attempt], flavor: str) -> tuple[Attempt, ...]:
    return tuple(
        replace(one, grade=Grade.NO_FIT, why=Reason.PLACEMENT) if one.flavor == flavor else one
        for one in attempts
    )


def fits_places(snapshot: Snapshot, workload: Workload, assignment: Assignment) -> bool:
    """Return whether the pod sets of a workload have places beside what is held."""
    found, _ = _find(snapshot, workload, assignment, empty=False)
    return not found.failed


def lacks_places(snapshot: Snapshot, workload: Workload, assignment: Assignment) -> str:
    """Return why pod sets of a workload have no places beside what is held; "" if they have."""
    found, _ = _find(snapshot, workload, assignment, empty=False)
    if found.unknown:
        return f"pod set {found.unknown} has not exactly one flavor with a topology"
    return f"in the topology of flavor {found.flavor} {found.why}" if found.failed else ""


def reserved_places(
    snapshot: Snapshot, workload: Workload, assignment: Assignment, victims: Sequence[Victim]
) -> Assignment:
    """Return an assignment that needs victims with the places that it would have after them.

    Without victims they are those on an empty cluster, which are kept from others.
    """
    queue = snapshot.site.queues.queues[workload.queue]
    asked = any(map(_explicit, workload.pod_sets)) or only_topologies(snapshot, queue)
    if not snapshot.topologies or assignment.mode is not Mode.PREEMPT or not asked:
        return assignment
    with snapshot.without([one.held for one in victims]):
        found, _ = _find(snapshot, workload, assignment, empty=not victims)
    return replace(assignment, places=found.places, levels=found.levels)


def has_places(snapshot: Snapshot, workload: Workload, assignment: Assignment) -> bool:
    """Return whether the places of an assignment are still free."""
    requests = {one.name: one.amounts(1) for one in workload.pod_sets}
    for one in assignment.placed:
        for flavor in {f for f in one.flavors.values() if f in snapshot.topologies}:
            topology, used = snapshot.topologies[flavor], snapshot.used[flavor]
            for key, count in one.domains or ():
                leaf = topology.leaves.get(key)
                if leaf is None or fitting(requests[one.name], used.left(leaf, key)) < count:
                    return False
    return True
