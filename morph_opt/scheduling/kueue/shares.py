"""Dominant shares of queues and cohorts, by which fair sharing ranks and preempts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from morph_opt.inputs.kueue.queues import Slot
from morph_opt.scheduling.kueue.site import Site, Snapshot
from morph_opt.scheduling.kueue.workloads import PER_UNIT, Amounts, exact


@dataclass(frozen=True, slots=True)
class Share:
    """Share of a queue or cohort.

    Parameters
    ----------
    ratio
        Largest ratio over resources of what is borrowed to what the parent's tree could lend, in
        thousandths.
    weight
        Divisor of the ratio; a node of weight 0 that borrows is above all others.
    resource
        The resource with that ratio.
    borrowed
        Flavors and resources that it borrows.
    """

    ratio: float = 0.0
    weight: float = 1.0
    resource: str = ""
    borrowed: frozenset[Slot] = frozenset()

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key of shares; the lowest is served first."""
        if self.weight == 0.0 and self.ratio:
            return True, self.ratio
        return False, self.ratio / self.weight if self.ratio else 0.0

    @property
    def rounded(self) -> float:
        """Weighted share, rounded up; infinite for a node of weight 0 that borrows."""
        above, value = self.rank
        return math.inf if above else math.ceil(value)

    def borrows_of(self, amounts: Amounts) -> bool:
        """Return whether it borrows some of the requested resources."""
        return any(amounts.get(slot, 0) > 0 for slot in self.borrowed)


def share(snapshot: Snapshot, key: str) -> Share:
    """Return the share of a queue or cohort in its present usage."""
    site = snapshot.site
    parent, weight = site.above[key], site.weights[key]
    if not parent:
        return Share(weight=weight)
    borrowed: dict[Slot, float] = {}
    for slot in site.slots[key]:
        node = snapshot.node(slot, key)
        if node.usage > node.subtree:
            borrowed[slot] = node.usage - node.subtree
    if not borrowed:
        return Share(weight=weight)
    amounts: dict[str, float] = {}
    for (_, resource), amount in borrowed.items():
        amounts[resource] = amounts.get(resource, 0) + amount
    ratio, dominant = 0.0, ""
    for resource, amount in sorted(amounts.items()):
        lendable = snapshot.lendable(parent, resource)
        if lendable > 0 and amount * PER_UNIT / lendable > ratio:
            ratio, dominant = amount * PER_UNIT / lendable, resource
    return Share(ratio, weight, dominant, frozenset(borrowed))


def shares(
    site: Site,
    usage: Mapping[str, Mapping[Slot, float]],
    keys: Iterable[str] | None = None,
) -> dict[str, Share]:
    """Return the shares of queues and cohorts.

    Parameters
    ----------
    site
        The queues.
    usage
        Amount of each flavor and resource that each queue uses, in the unit of the quotas.
    keys
        Queues, and cohorts as `cohort_key` names them; None for all.
    """
    snapshot = Snapshot(site)
    for queue, amounts in usage.items():
        snapshot.use(queue, {slot: exact(amount) for slot, amount in amounts.items()})
    return {key: share(snapshot, key) for key in (site.above if keys is None else keys)}
