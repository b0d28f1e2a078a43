"""Why a workload waits, and what would free what it asks for, in words."""

from __future__ import annotations

from morph_opt.core.domain.errors import some
from morph_opt.inputs.kueue.kube import amount_text
from morph_opt.scheduling.kueue.cycle import Head, Nominee, Outcome, nominate
from morph_opt.scheduling.kueue.order import in_candidate_order
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.places import lacks_places
from morph_opt.scheduling.kueue.rounds import Settled
from morph_opt.scheduling.kueue.site import Snapshot
from morph_opt.scheduling.kueue.workloads import PER_UNIT, Workload

_SHOWN = 4
"""Largest number of workloads that a sentence names."""


def spelled(resource: str, thousandths: float) -> str:
    """Return an amount of a resource, bytes in Ki, Mi or Gi."""
    return amount_text(resource, thousandths / PER_UNIT)


def waits(snapshot: Snapshot, pending: Pending, workload: Workload, last: Settled) -> str:
    """Return why a workload that is not admitted waits, after the cycles of an instant.

    Parameters
    ----------
    snapshot, pending
        What is held, and who waits.
    workload
        The workload.
    last
        Result of the cycles.
    """
    queue = workload.queue
    if why := snapshot.site.inactive.get(queue):
        return why
    place, ahead = pending.place(workload.name, queue)
    known = last.waiting.get(workload.name)
    strict = snapshot.site.queues.queues[queue].strict
    if strict and ahead and known is None:
        return f"place {place} of its StrictFIFO queue {queue}, whose head is {ahead}"
    one = nominate(snapshot, Head(workload))
    words = f"place {place} in cluster queue {queue}; {_lacking(snapshot, workload, one)}"
    if known is not None and known.outcome is Outcome.SKIPPED:
        words += "; in its cycle another took what it would have had"
    return words


def _lacking(snapshot: Snapshot, workload: Workload, one: Nominee) -> str:
    """Return what a workload lacks of each flavor, and what holds it."""
    if one.outcome is Outcome.NAMESPACE:
        return f"its queue does not select namespace {workload.namespace}"
    queue = snapshot.site.queues.queues[workload.queue]
    needs: dict[str, int] = {}
    for pods in workload.pod_sets:
        for resource, amount in pods.amounts(pods.count).items():
            needs[resource] = needs.get(resource, 0) + amount
    found: list[str] = []
    for resource, amount in needs.items():
        group = queue.group_of(resource)
        if group is None:
            found.append(f"its queue covers no {resource}")
            continue
        unsuited = {a.flavor: a.words for p in one.assignment.pod_sets for a in p.attempts}
        for flavor in group.flavors:
            slot = flavor, resource
            free, could = snapshot.free(queue.name, slot), snapshot.could(queue.name, slot)
            asks = f"asks for {spelled(resource, amount)} {resource}"
            if unsuited.get(flavor):
                found.append(unsuited[flavor])
            elif amount > could:
                found.append(
                    f"{asks}, flavor {flavor} never has more than {spelled(resource, could)}"
                )
            elif amount > free:
                has = f"{spelled(resource, free)} of {spelled(resource, could)}"
                frees = _frees(snapshot, workload, slot, amount - free)
                found.append(f"{asks}, flavor {flavor} has {has} free; {frees}")
    if snapshot.topologies and not found:
        found += filter(None, [lacks_places(snapshot, workload, one.assignment)])
    if one.victims:
        names = [victim.held.workload.name for victim in one.victims]
        found.append(f"it would preempt {some(names)}")
    return "; ".join(found) or "it has what it asks for and comes in a later cycle"


def _frees(snapshot: Snapshot, workload: Workload, slot: tuple[str, str], lacks: int) -> str:
    """Return which holders of a flavor would free what a workload lacks if they ended."""
    site, queue = snapshot.site, workload.queue
    leaves = site.leaves(site.root[queue])
    held = [h for leaf in leaves for h in snapshot.held[leaf].values() if h.usage.get(slot)]
    named, left = [], lacks
    # The last to be preempted is the first to end by itself: it has run longest.
    for one in reversed(in_candidate_order(snapshot, queue, held)):
        named.append(one.workload.name)
        left -= one.usage[slot]
        if left <= 0:
            break
    more = f"{spelled(slot[1], lacks)} more are needed"
    if left > 0 or not named:
        return f"{more} than all that is in use would free"
    if len(named) > _SHOWN:
        return f"{more}, held by {len(named)} workloads or more"
    return f"{more}, as the end of {some(named)} would free"
