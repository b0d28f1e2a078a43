"""Tables of docs/policies.md, made of the specifications: `python -m benchmarks.policies_page`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from morph_opt.scheduling.policies.catalog import PolicySpec
from morph_opt.scheduling.policies.options import OPTIONS
from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES


def objectives_table() -> str:
    """Return the Markdown table of the objectives."""
    header = (
        "objective",
        "value of a round",
        "source",
        "needs the work left",
        "options",
        "page",
    )
    return _table(
        header,
        [
            (f"`{spec.name}`", spec.rule, spec.source, spec.rest, _options(spec), _link(spec))
            for spec in OBJECTIVES.values()
        ],
    )


def baselines_table() -> str:
    """Return the Markdown table of the policies other than ``milp``."""
    return _table(
        ("policy", "rule", "source", "options", "page"),
        [
            (f"`{spec.name}`", spec.rule, spec.source, _options(spec), _link(spec))
            for spec in POLICIES.values()
            if spec.name != "milp"
        ],
    )


def times_table() -> str:
    """Return the Markdown table of constants in seconds or GPU-seconds, grouped by constant."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind, specs in (("policy", POLICIES.values()), ("objective", OBJECTIVES.values())):
        for spec in specs:
            if spec.own_times:
                found.setdefault((spec.own_times, kind), []).append(f"`{spec.name}`")
    rows = [(times, kind, ", ".join(names)) for (times, kind), names in found.items()]
    return _table(("constants of the rule", "kind", "names"), rows)


def options_table() -> str:
    """Return the Markdown table of the options with their ranges."""
    rows = []
    for known in OPTIONS.values():
        names = [s.name for s in POLICIES.values() if known.name in s.options]
        names += [
            f"milp --objective {s.name}" for s in OBJECTIVES.values() if known.name in s.options
        ]
        told = ", ".join(f"`{name}`" for name in names)
        told = "every policy" if known.name == "rules" else told
        rows.append((f"`{known.flag}`", known.takes, told))
    return _table(("option", "value", "known to"), rows)


def _options(spec: PolicySpec[Any]) -> str:
    return ", ".join(f"`{OPTIONS[name].flag}`" for name in spec.options) or "-"


def _link(spec: PolicySpec[Any]) -> str:
    if not spec.page:
        return "-"
    return f"[{spec.page.removeprefix('formulations/').removesuffix('.md')}]({spec.page})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


if __name__ == "__main__":
    tables = (objectives_table, baselines_table, times_table, options_table)
    print("\n\n".join(table() for table in tables))
