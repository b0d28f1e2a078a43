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


if __name__ == "__main__":
    sys.exit(as_process(main))
