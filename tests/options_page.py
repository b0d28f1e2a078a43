"""Generated tables in docs, a JSON schema: ``python -m tests.options_page`` rewrites them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morph_opt.core.domain.options import Setting, asked, settings
from morph_opt.inputs.clusters.short import EqualNodes
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions
from morph_opt.replay.scenario import CONFIG_VERSION, PARTS
from morph_opt.scheduling.policies.steps import STEPS
from morph_opt.simulation.runs.summary import FIGURES

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "options.md"
METRICS = DOCS / "metrics.md"
REPLAY = DOCS / "replay.md"
SCHEMA = DOCS / "schema" / "config-v2.json"
SUBJECTS: dict[str, type] = {"log": LogOptions, **PARTS, "nodes": EqualNodes}


def table(options: Mapping[str, Setting]) -> str:
    """Markdown of options: a row each."""
    rows = [("option", "in files", "takes", "what"), ("---",) * 4]
    for name, one in options.items():
        flag = "-" if one.about.hidden else f"`{one.flag}`"
        rows.append((flag, f"`{name}`", one.takes, one.help.replace("|", "\\|")))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def tables() -> dict[str, str]:
    """The tables of the page by subject; what a log may be told stands in its own."""
    found = {name: asked(kind) for name, kind in SUBJECTS.items()}
    found["workload"] = {n: one for n, one in found["workload"].items() if n not in LOG_OPTIONS}
    return {name: table(options) for name, options in found.items()}


def figures() -> str:
    """Markdown of the figures of a run: a row each."""
    rows = [("key", "what", "unit", "unfinished jobs"), ("---",) * 4]
    rows += [(f"`{name}`", *[*one.metadata.values()][:3]) for name, one in FIGURES.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def steps() -> str:
    """Markdown of the steps that settle rounds: a row each."""
    rows = [("step", "in the output of a run", "what", "decided by a MIP solver"), ("---",) * 4]
    rows += [
        (f"`{name}`", one.text(name, "SOLVER"), one.meaning, "yes" if one.asks else "no")
        for name, one in STEPS.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page(text: str) -> str:
    """A page with the tables as they are."""
    for name, rows in (tables() | {"figures": figures(), "steps": steps()}).items():
        begin, end = f"<!-- generated:{name} -->\n", f"\n<!-- /generated:{name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        text = re.sub(pattern, lambda _, b=begin, r=rows, e=end: b + r + e, text, flags=re.DOTALL)
    return text


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


def schema() -> str:
    """Text of the schema of ``config.toml``."""
    return json.dumps(scenario_schema(), indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    METRICS.write_text(page(METRICS.read_text("utf-8")), "utf-8")
    REPLAY.write_text(page(REPLAY.read_text("utf-8")), "utf-8")
    SCHEMA.write_text(schema(), "utf-8")
