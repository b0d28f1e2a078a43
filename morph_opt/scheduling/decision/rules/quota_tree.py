"""Trees of quotas with their usage, by the definitions of `CohortQuota`.

It shares no code with the rows of `decision.rules.cohorts`, which it checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from morph_opt.scheduling.decision.rules.queues import CohortQuota


class QuotaNode:
    """Node of a tree of quotas with its usage.

    Parameters
    ----------
    quota
        The rule.
    above
        The node above it; None for roots, and below what no rule names.
    """

    def __init__(self, quota: CohortQuota, above: QuotaNode | None) -> None:
        self.quota = quota
        self.above = above
        self.below: list[QuotaNode] = []
        self.usage = 0.0
        if above is not None:
            above.below.append(self)

    @property
    def subtree(self) -> float:
        """Quota of the node plus the quotas that its children lend."""
        return self.quota.gpus + sum(child.subtree - child.kept for child in self.below)

    @property
    def kept(self) -> float:
        """Part of the quota that the node lends to nobody."""
        return 0.0 if self.quota.lend is None else max(0.0, self.subtree - self.quota.lend)

    @property
    def free(self) -> float:
        """Amount that the node may still use; negative if a limit is exceeded already."""
        return self._free(used=True)

    @property
    def could(self) -> float:
        """Amount that the node could use if nothing were used anywhere."""
        return self._free(used=False)

    def _free(self, *, used: bool) -> float:
        usage = self.usage if used else 0.0
        if not self.quota.parent:
            return self.subtree - usage
        free = math.inf if self.above is None else self.above._free(used=used)
        if self.quota.borrow is not None:
            lent = self.subtree - self.kept
            free = min(free, lent - max(0.0, usage - self.kept) + self.quota.borrow)
        return max(0.0, self.kept - usage) + free

    def add(self, amount: float) -> None:
        """Use an amount; the excess over the node's kept part counts at its parent."""
        before = max(0.0, self.usage - self.kept)
        self.usage += amount
        beyond = max(0.0, self.usage - self.kept) - before
        if self.above is not None and beyond:
            self.above.add(beyond)


def quota_trees(quotas: Iterable[CohortQuota]) -> dict[tuple[str, str], QuotaNode]:
    """Build the nodes of all trees by pool and name, each with the usage by others."""
    nodes: dict[tuple[str, str], QuotaNode] = {}
    left = list(quotas)
    names = {(one.pool, one.name) for one in left}
    while left:  # parents first; no node is below itself, so that each turn makes some
        for one in left:
            above = (one.pool, one.parent)
            if not one.parent or above in nodes or above not in names:
                nodes[one.pool, one.name] = QuotaNode(one, nodes.get(above))
        left = [one for one in left if (one.pool, one.name) not in nodes]
    for node in nodes.values():
        node.add(node.quota.used)
    return nodes
