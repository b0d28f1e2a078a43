"""Quotas of all trees of a round: those of `CohortQuota` rules, and those of queues by GPU type."""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape

from morph_opt.core.domain import Cluster
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import ANY_TYPE, Queue, QueueTree
from morph_opt.scheduling.decision.rules.queues import CohortQuota


def quotas_of(rules: OperatorRules, cluster: Cluster) -> Sequence[CohortQuota]:
    """Return the nodes of all trees of quotas: those stated as such, then those of queues."""
    stated = [rule for rule in rules.rules if isinstance(rule, CohortQuota)]
    tree = rules.tree
    for queue in tree.queues:
        stated += _by_type(queue, tree, cluster)
    return stated


def _by_type(queue: Queue, tree: QueueTree, cluster: Cluster) -> list[CohortQuota]:
    """Return a node for each GPU type that the tree of a queue counts."""
    return [
        CohortQuota(
            queue.name,
            tree.own(queue, kind),
            # No pool of a file has a line break: trees of both kinds stay apart.
            f"\n{kind}",
            queue.parent,
            queue.most_borrowed(kind),
            queue.most_lent(kind),
            tuple(dict.fromkeys((queue.name, tree.path(queue)))),
            node_types=_node_types(kind, cluster),
            owners_first=True,
        )
        for kind in tree.kinds(tree.roots[queue.name])
    ]


def _node_types(kind: str, cluster: Cluster) -> tuple[str, ...]:
    """Return patterns of the types of nodes that have GPUs of a type."""
    if kind == ANY_TYPE:
        return ()
    return tuple(escape(one.name) for one in cluster.node_types if one.gpu_type.name == kind)
