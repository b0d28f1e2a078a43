"""Read rules from TOML: one table array per kind of rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, key_lines, names_of, plain, read_toml
from morph_opt.core.domain import Cluster, InputError
from morph_opt.scheduling.decision.rules.known import require_known_nodes
from morph_opt.scheduling.decision.rules.model import (
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
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StartBy,
    StrictOrder,
)

KINDS: dict[str, type[Rule]] = {
    "quota": TenantQuota,
    "minimum_run": MinimumRun,
    "restart_limit": RestartLimit,
    "non_preemptible": NonPreemptible,
    "node_rule": NodeRule,
    "gang_limit": GangLimit,
    "maintenance": Maintenance,
    "cohort_quota": CohortQuota,
    "strict_order": StrictOrder,
    "priority": Priority,
    "node_preference": NodePreference,
    "start_by": StartBy,
}
"""Class of rule by the name of its table array, ``[[quota]]`` and so on."""

FLAGS = ("fewer_moves", "tighter_packing")

RULE_FIELDS = (*KINDS, *FLAGS)
"""Names of all entries that a file of rules may have."""


def read_rules(path: Path | str, cluster: Cluster | None = None) -> OperatorRules:
    """Read the rules of a TOML file.

    Parameters
    ----------
    path
        Path of the file.
    cluster
        Cluster of the rules, if known; patterns that match none of its nodes are refused.

    Raises
    ------
    InputError
        If the file is missing or no TOML, has an unknown table or field or a value outside its
        range, or names an unknown node; the message names file, field and rule.
    """
    tables, text = read_toml(path)
    document = Fields(tables, "", str(path), RULE_FIELDS, key_lines(text))
    rules = rules_of(document)
    if cluster is not None:
        try:
            require_known_nodes(rules, cluster)
        except InputError as error:
            raise error.located(file=str(path)) from None
    return rules


def rules_of(document: Fields) -> OperatorRules:
    """Return the rules of a table with `RULE_FIELDS`: arrays named as in `KINDS`, and flags."""
    flags = [document.flag(name, False) for name in FLAGS]
    found = [
        _rule(row, kind)
        for name in document
        if (kind := KINDS.get(name)) is not None
        for row in document.objects(name, names_of(kind))
    ]
    try:
        return OperatorRules(tuple(found), *flags)
    except InputError as error:
        raise document.error(error.field, error.rule) from error


def to_dict(rules: OperatorRules) -> dict[str, Any]:
    """Return the table from which `rules_of` makes the same rules."""
    data: dict[str, Any] = {flag: True for flag in FLAGS if getattr(rules, flag)}
    names = {kind: name for name, kind in KINDS.items()}
    for rule in rules.rules:
        row = {name: value for name, value in plain(rule).items() if value not in (None, [])}
        if isinstance(rule, TenantQuota) and rule.borrow_gpus is None:
            row["borrow_gpus"] = "unlimited"
        data.setdefault(names[type(rule)], []).append(row)
    return data


def _rule(row: Fields, kind: type[Rule]) -> Rule:
    unlimited = kind is TenantQuota and row.raw("borrow_gpus", 0) == "unlimited"
    return row.make(kind, **({"borrow_gpus": None} if unlimited else {}))
