"""Command ``python -m morph_opt.policies``: list policies, objectives and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import unknown

if TYPE_CHECKING:
    from morph_opt.scheduling.policies.catalog import PolicySpec


def make_parser() -> LineParser:
    """Return the parser of the command."""
    parser = LineParser(prog="python -m morph_opt.policies", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="policies and objectives to list (all)"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the tables of docs/policies.md"
    )
    parser.only("--markdown", "prints every name: give none", lambda given: not given.names)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _print_tables, arguments)


def _print_tables(given: argparse.Namespace) -> int:
    from morph_opt.scheduling.policies.options import OPTIONS
    from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES

    everything: list[PolicySpec[object]] = [*POLICIES.values(), *OBJECTIVES.values()]
    names = dict.fromkeys(spec.name for spec in everything)
    for name in given.names:
        if name not in names:
            raise InputError(unknown("policy or objective", name, names), field="NAME")
    if given.markdown:
        tables = (objectives_table, baselines_table, times_table, options_table)
        print("\n\n".join(table() for table in tables))
        return 0
    width = max(len(spec.name) for spec in everything)
    for title, specs in (
        ("policies (--policy)", POLICIES.values()),
        ("objectives of the policy milp (--objective)", OBJECTIVES.values()),
    ):
        wanted = [spec for spec in specs if not given.names or spec.name in given.names]
        if wanted:
            print(f"{title}:")
        for spec in wanted:
            options = "".join(f" [{OPTIONS[name].flag}]" for name in spec.options)
            print(f"  {spec.name:<{width}}  {spec.rule}{options}")
    return 0


def objectives_table() -> str:
    """Return the Markdown table of the objectives."""
    from morph_opt.scheduling.policies.registry import OBJECTIVES

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
    from morph_opt.scheduling.policies.registry import POLICIES

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
    from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES

    found: dict[tuple[str, str], list[str]] = {}
    for kind, specs in (("policy", POLICIES.values()), ("objective", OBJECTIVES.values())):
        for spec in specs:
            if spec.own_times:
                found.setdefault((spec.own_times, kind), []).append(f"`{spec.name}`")
    rows = [(times, kind, ", ".join(names)) for (times, kind), names in found.items()]
    return _table(("constants of the rule", "kind", "names"), rows)


def options_table() -> str:
    """Return the Markdown table of the options with their ranges."""
    from morph_opt.scheduling.policies.options import OPTIONS
    from morph_opt.scheduling.policies.registry import OBJECTIVES, POLICIES

    rows = []
    for known in OPTIONS.values():
        names = [s.name for s in POLICIES.values() if known.name in s.options]
        names += [
            f"milp --objective {s.name}" for s in OBJECTIVES.values() if known.name in s.options
        ]
        rows.append((f"`{known.flag}`", known.takes, ", ".join(f"`{name}`" for name in names)))
    return _table(("option", "value", "known to"), rows)


def _options(spec: PolicySpec[object]) -> str:
    from morph_opt.scheduling.policies.options import OPTIONS

    return ", ".join(f"`{OPTIONS[name].flag}`" for name in spec.options) or "-"


def _link(spec: PolicySpec[object]) -> str:
    if not spec.page:
        return "-"
    return f"[{spec.page.removeprefix('formulations/').removesuffix('.md')}]({spec.page})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


if __name__ == "__main__":
    sys.exit(as_process(main))
