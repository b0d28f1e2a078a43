"""Rules from TOML: one table array per kind of rule."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morph_opt.domain import Cluster, InputError
from morph_opt.rules.known import require_known_nodes
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
    file = str(path)
    try:
        with Path(path).open("rb") as stream:
            data = tomllib.load(stream)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not valid TOML: {error}", file=file) from error
    try:
        rules = rules_of(data)
        if cluster is not None:
            require_known_nodes(rules, cluster)
    except InputError as error:
        raise error.located(file=file) from None
    return rules


def rules_of(data: Mapping[str, Any]) -> OperatorRules:
    """Rules of the parsed file: table arrays named as in `KINDS`, and the flags."""
    found: list[Rule] = []
    for key, value in data.items():
        if key in FLAGS:
            if not isinstance(value, bool):
                raise InputError(f"must be true or false, got {value!r}", field=key)
            continue
        if key not in KINDS:
            raise InputError(f"unknown rule; known are {', '.join((*KINDS, *FLAGS))}", field=key)
        if not isinstance(value, list):
            raise InputError(f"must be an array of tables [[{key}]]", field=key)
        found += [_rule(key, KINDS[key], row, i) for i, row in enumerate(value, 1)]
    return OperatorRules(tuple(found), *(bool(data.get(flag, False)) for flag in FLAGS))


def to_dict(rules: OperatorRules) -> dict[str, Any]:
    """What `rules_of` reads back."""
    data: dict[str, Any] = {flag: True for flag in FLAGS if getattr(rules, flag)}
    names = {kind: name for name, kind in KINDS.items()}
    for rule in rules.rules:
        row = {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(rule)
            if (value := getattr(rule, field.name)) is not None and value != ()
        }
        if isinstance(rule, TenantQuota) and rule.borrow_gpus is None:
            row["borrow_gpus"] = "unlimited"
        data.setdefault(names[type(rule)], []).append(row)
    return data


def _rule(key: str, kind: type[Rule], row: Any, number: int) -> Rule:
    place = f"{key}[{number}]"
    if not isinstance(row, Mapping):
        raise InputError("must be a table", field=place)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(row) - set(fields))
    if unknown:
        raise InputError(
            f"unknown field {unknown[0]!r}; known are {', '.join(fields)}", field=place
        )
    missing = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and name not in row
    ]
    if missing:
        raise InputError(f"lacks the field {missing[0]!r}", field=place)
    values = {name: _value(f"{place}.{name}", value) for name, value in row.items()}
    if kind is TenantQuota and values.get("borrow_gpus") == "unlimited":
        values["borrow_gpus"] = None
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(error.rule, field=f"{place}: {error.field}") from None


def _value(place: str, value: Any) -> Any:
    """Lists of strings become tuples; everything else is checked by the rule itself."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(item, str) for item in value):
        raise InputError("must be a list of patterns", field=place)
    return tuple(value)
