"""Trees of the quotas of `CohortQuota` rules with their usage.

It shares no code with the rows of `decision.rules.cohorts`, which it checks.
"""

from __future__ import annotations

from collections.abc import Iterable

from morph_opt.core.domain.quotas import Quota, QuotaNode
from morph_opt.scheduling.decision.rules.queues import CohortQuota


class RuledNode(QuotaNode):
    """Node of a tree of quotas with the rule that states it.

    Parameters
    ----------
    quota
        The rule.
    above
        The node above it; None for roots, and below what no rule names.
    """

    __slots__ = ("quota",)
    above: RuledNode | None

    def __init__(self, quota: CohortQuota, above: QuotaNode | None) -> None:
        limits = Quota(quota.gpus, quota.borrow, quota.lend)
        super().__init__(limits, above, unlimited=bool(quota.parent) and above is None)
        self.quota = quota


def quota_trees(quotas: Iterable[CohortQuota]) -> dict[tuple[str, str], RuledNode]:
    """Build the nodes of all trees by pool and name, each with the usage by others."""
    nodes: dict[tuple[str, str], RuledNode] = {}
    left = list(quotas)
    names = {(one.pool, one.name) for one in left}
    while left:  # parents first; no node is below itself, so that each turn makes some
        for one in left:
            above = (one.pool, one.parent)
            if not one.parent or above in nodes or above not in names:
                nodes[one.pool, one.name] = RuledNode(one, nodes.get(above))
        left = [one for one in left if (one.pool, one.name) not in nodes]
    for node in nodes.values():
        node.add(node.quota.used)
    return nodes
