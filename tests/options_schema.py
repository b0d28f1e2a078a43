"""The JSON schema of a run's configuration, as docs/schema states it."""

from __future__ import annotations

from typing import Any

from morph_opt.core.domain.options import Setting, settings
from morph_opt.replay.scenario import CONFIG_VERSION, PARTS


def scenario_schema() -> dict[str, Any]:
    """JSON schema of ``config.toml``."""
    parts = {name: options_schema(kind) for name, kind in PARTS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.toml of a run folder of morph-opt",
        "type": "object",
        "additionalProperties": False,
        "required": ["version", *parts, "cluster"],
        "properties": {
            "version": {"const": CONFIG_VERSION},
            **parts,
            "cluster": {"type": "object"},
        },
    }


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def options_schema(subject: type[Any]) -> dict[str, Any]:
    """JSON schema of the table."""
    known = settings(subject)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, one in known.items() if not one.optional],
        "properties": {name: _schema(one) for name, one in known.items()},
    }


def _schema(one: Setting) -> dict[str, Any]:
    found: dict[str, Any] = {"type": _TYPES[one.kind]}
    if one.option is None:
        return found
    found["description"] = one.option.help
    if one.default is not None:
        found["default"] = one.default
    if one.option.choices:
        found["enum"] = list(one.option.choices)
    limits: dict[str, Any] = {}
    if one.option.range is not None:
        low = "exclusiveMinimum" if one.option.range.above else "minimum"
        limits = {low: one.option.range.low, "maximum": one.option.range.high}
    if one.kind is dict:
        return found | {"additionalProperties": {"type": "number", **limits}}
    return found | limits
