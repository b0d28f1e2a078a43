"""Operator's rules: what a cluster's owner demands of every round, each optional and named."""

from morph_opt.rules.compile import apply_rules
from morph_opt.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
    TenantQuota,
)
from morph_opt.rules.spec import read_rules

__all__ = [
    "GangLimit",
    "Maintenance",
    "MinimumRun",
    "NodeRule",
    "NonPreemptible",
    "OperatorRules",
    "RestartLimit",
    "Rule",
    "TenantQuota",
    "apply_rules",
    "read_rules",
]
