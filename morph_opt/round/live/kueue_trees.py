"""Quotas of Kueue's queues and cohorts as rules of a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.queues import Cohort, Queues, Slot, pool_of
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.decision.rules.quota_tree import RuledNode, quota_trees


def label(queues: Queues, cohort: str) -> str:
    """Return the name of a cohort in rules, distinct from the names of queues."""
    return f"{cohort} (cohort)" if cohort in queues.queues else cohort


def quota_rules(
    queues: Queues,
    slot: Slot,
    used: Mapping[tuple[str, Slot], float],
    members: Mapping[str, CohortQuota] | None = None,
) -> list[CohortQuota]:
    """Return the rules of the quotas of a flavor and resource.

    Parameters
    ----------
    queues, slot
        All queues, and the flavor and resource.
    used
        Amount by cluster queue and slot that others than the jobs of the round use.
    members
        Jobs of a queue that are counted, by its name; other fields are set here. Without
        tenants no job is.
    """
    pool = pool_of(slot)
    found: list[CohortQuota] = []
    cohorts: dict[str, None] = {}
    for name, queue in queues.queues.items():
        limits = queue.quotas.get(slot)
        beside = used.get((name, slot), 0.0)
        if queues.is_cyclic(queue.cohort) or (limits is None and not beside):
            continue
        limits = limits or Quota(0.0)
        of = (members or {}).get(name, CohortQuota(name, 0.0, tenants=(name,)))
        of = replace(of, gpus=limits.nominal, pool=pool, used=beside)
        if queue.cohort:
            cohorts[queue.cohort] = None
            parent = label(queues, queue.cohort)
            of = replace(of, parent=parent, borrow=limits.borrow, lend=limits.lend)
        found.append(of)
    # A cohort without queues lends its own quota to others of its tree.
    cohorts |= {
        one.name: None
        for one in queues.cohorts.values()
        if slot in one.quotas and not queues.is_cyclic(one.name)
    }
    listed = list(cohorts)
    for cohort in listed:
        above = queues.above(cohort)
        if above and above not in cohorts:
            cohorts[above] = None
            listed.append(above)
    for name in listed:
        known = queues.cohorts.get(name, Cohort(name, "", {}))
        limits = known.quotas.get(slot, Quota(0.0))
        of = CohortQuota(label(queues, name), limits.nominal, pool)
        if known.parent:
            parent = label(queues, known.parent)
            of = replace(of, parent=parent, borrow=limits.borrow, lend=limits.lend)
        found.append(of)
    return found


def leaves(queues: Queues, slots: Iterable[Slot]) -> dict[tuple[str, Slot], RuledNode]:
    """Return the queues' nodes in unused trees, by queue and slot."""
    found: dict[tuple[str, Slot], RuledNode] = {}
    for slot in slots:
        nodes = quota_trees(quota_rules(queues, slot, {}))
        for (_, name), node in nodes.items():
            if node.quota.tenants:
                found[name, slot] = node
    return found
