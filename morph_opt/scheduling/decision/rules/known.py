"""Check patterns of nodes and GPU types against the cluster of the rules."""

from __future__ import annotations

from glob import escape

from morph_opt.core.domain import Cluster, InputError
from morph_opt.scheduling.decision.rules.model import Maintenance, NodeRule, OperatorRules
from morph_opt.scheduling.decision.rules.organisation import ANY_TYPE, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.patterns import matches


def require_known_nodes(rules: OperatorRules, cluster: Cluster) -> None:
    """Refuse patterns of nodes and GPU types that match nothing in the cluster.

    Raises
    ------
    InputError
        With the pattern, the rule and the cluster; a misspelt node would otherwise be no rule.
    """
    nodes = {node.name for node in cluster.nodes}
    types = {node.type.gpu_type.name for node in cluster.nodes}
    for rule in rules.rules:
        fields: list[tuple[str, tuple[str, ...], set[str]]] = []
        if isinstance(rule, Maintenance):
            fields = [("maintenance.nodes", rule.nodes, nodes)]
        elif isinstance(rule, NodeRule):
            fields = [
                ("node_rule.only_nodes", rule.only_nodes, nodes),
                ("node_rule.not_nodes", rule.not_nodes, nodes),
                ("node_rule.only_gpu_types", rule.only_gpu_types, types),
                ("node_rule.not_gpu_types", rule.not_gpu_types, types),
            ]
        elif isinstance(rule, RunningLimit):
            fields = [("limit.gpu_types", rule.gpu_types, types)]
        elif isinstance(rule, Queue):
            fields = [
                (f"queue.{word}", tuple(escape(name) for name in amounts), types)
                for word, amounts in (
                    ("nominal", rule.nominal),
                    ("borrow", rule.borrow),
                    ("lend", rule.lend),
                )
                if ANY_TYPE not in amounts
            ]
        for field, patterns, names in fields:
            for pattern in patterns:
                if not any(matches(name, (pattern,)) for name in names):
                    raise InputError(
                        f"{pattern!r} matches nothing in cluster {cluster.name}", field=field
                    )
