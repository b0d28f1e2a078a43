"""Read rules from TOML: one table array per kind of rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, key_lines, names_of, plain
from morph_opt.core.documents.parse import parse_toml
from morph_opt.core.documents.source import TOML_BYTES, read_text
from morph_opt.core.domain import Cluster, InputError
from morph_opt.scheduling.decision.rules.accounts import is_of_slurm, read_accounts
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
from morph_opt.scheduling.decision.rules.organisation import (
    ANY_TYPE,
    PriorityClass,
    Queue,
    RunningLimit,
    Usage,
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
    "queue": Queue,
    "class": PriorityClass,
    "limit": RunningLimit,
}
"""Class of rule by the name of its table array, ``[[quota]]`` and so on."""

FLAGS = ("fewer_moves", "tighter_packing")

USAGE = "usage"

RULE_FIELDS = (*KINDS, *FLAGS, USAGE)
"""Names of all entries that a file of rules may have."""


def read_rules(path: Path | str, cluster: Cluster | None = None) -> OperatorRules:
    """Read the rules of a TOML file, or of what ``sacctmgr -P show assoc`` and ``qos`` print.

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
    text = read_text(path, TOML_BYTES)
    if is_of_slurm(text):
        rules = read_accounts(Path(path))
    else:
        tables = parse_toml(text, str(path))
        rules = rules_of(Fields(tables, "", str(path), RULE_FIELDS, key_lines(text)))
    if cluster is not None:
        try:
            require_known_nodes(rules, cluster)
        except InputError as error:
            raise error.located(file=str(path)) from None
    return rules


def rules_of(document: Fields) -> OperatorRules:
    """Return the rules of a table with `RULE_FIELDS`: arrays named as in `KINDS`, and flags."""
    found = [
        _rule(row, kind)
        for name in document
        if (kind := KINDS.get(name)) is not None
        for row in document.objects(name, (*names_of(kind, *_INTERNAL), *_SHORT.get(kind, ())))
    ]
    usage = None
    if document.given(USAGE):
        usage = document.object(USAGE, names_of(Usage)).make(Usage)
    try:
        return OperatorRules(
            tuple(found),
            document.flag("fewer_moves", False),
            document.flag("tighter_packing", False),
            usage,
        )
    except InputError as error:
        raise document.error(error.field, error.rule) from error


def to_dict(rules: OperatorRules) -> dict[str, Any]:
    """Return the table from which `rules_of` makes the same rules."""
    data: dict[str, Any] = {flag: True for flag in FLAGS if getattr(rules, flag)}
    names = {kind: name for name, kind in KINDS.items()}
    for rule in rules.rules:
        fields = plain(rule, *_INTERNAL)
        row = {name: value for name, value in fields.items() if value not in (None, [])}
        if isinstance(rule, TenantQuota) and rule.borrow_gpus is None:
            row["borrow_gpus"] = "unlimited"
        if isinstance(rule, Queue):
            row = {name: value for name, value in row.items() if value not in ({}, "")}
        data.setdefault(names[type(rule)], []).append(row)
    if rules.usage is not None:
        data[USAGE] = plain(rules.usage, optional=("least", "users", "used_by"))
    return data


_SHORT: dict[type[Rule], tuple[str, ...]] = {Queue: ("gpus",)}
"""Further fields of a table."""

_INTERNAL = ("owners_first",)
"""Fields that no table has."""


def _rule(row: Fields, kind: type[Rule]) -> Rule:
    given: dict[str, Any] = {}
    if kind is TenantQuota and row.raw("borrow_gpus", 0) == "unlimited":
        given = {"borrow_gpus": None}
    if kind is Queue:
        if row.given("gpus") and row.given("nominal"):
            raise row.error("gpus", "must be left out where nominal is given")
        for name, short in (("nominal", "gpus"), ("borrow", "borrow"), ("lend", "lend")):
            if row.given(short) and not isinstance(row.raw(short), dict):
                given[name] = {ANY_TYPE: row.number(short, least=0.0)}
    return row.make(kind, **given)
