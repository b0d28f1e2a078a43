"""Rules from TOML: one table array per kind of rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from morph_opt.documents import Fields, key_lines, names_of, plain, read_toml
from morph_opt.domain import Cluster, InputError

KINDS: dict[str, type[Rule]] = {
    "quota": TenantQuota,
    "minimum_run": MinimumRun,
    "restart_limit": RestartLimit,
    "non_preemptible": NonPreemptible,
    "node_rule": NodeRule,
    "gang_limit": GangLimit,
    "maintenance": Maintenance,
}
"""Rules by the name of their table array, ``[[quota]]`` and so on."""

FLAGS = ("fewer_moves", "tighter_packing")

RULE_FIELDS = (*KINDS, *FLAGS)
"""Everything that a file of rules may have."""


def read_rules(path: Path | str, cluster: Cluster | None = None) -> OperatorRules:
    """Rules of a TOML file.

    Parameters
    ----------
    path
        The file.
    cluster
        Where they shall hold; patterns that none of its nodes matches are then refused.

    Raises
    ------
    InputError
        Missing file, damaged TOML, unknown table or field, value outside its range, unknown node;
        the message names file, field and rule.
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
    """Rules of a table with `RULE_FIELDS`: table arrays named as in `KINDS`, and the flags."""
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
    """What `rules_of` reads back."""
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
