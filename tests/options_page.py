"""Generated tables in docs, a JSON schema: ``python -m tests.options_page`` rewrites them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from morph_opt.core.domain.options import Setting, asked
from morph_opt.inputs.clusters.short import EqualNodes
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions
from morph_opt.replay.scenario import PARTS
from morph_opt.scheduling.policies.steps import STEPS
from morph_opt.simulation.runs.summary import FIGURES
from tests.options_schema import scenario_schema

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


def schema() -> str:
    """Text of the schema of ``config.toml``."""
    return json.dumps(scenario_schema(), indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    METRICS.write_text(page(METRICS.read_text("utf-8")), "utf-8")
    REPLAY.write_text(page(REPLAY.read_text("utf-8")), "utf-8")
    SCHEMA.write_text(schema(), "utf-8")
