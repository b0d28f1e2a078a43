"""Operator's rules: optional, named demands of a cluster's owner on every round."""

from morph_opt.decision.rules.audit import Breach, BrokenRuleError, audit
from morph_opt.decision.rules.compile import apply_rules
from morph_opt.decision.rules.known import require_known_nodes
from morph_opt.decision.rules.model import (
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
from morph_opt.decision.rules.spec import read_rules
from morph_opt.decision.rules.stranded import stranded_jobs

__all__ = [
    "Breach",
    "BrokenRuleError",
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
    "audit",
    "read_rules",
    "require_known_nodes",
    "stranded_jobs",
]
