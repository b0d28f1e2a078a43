"""``python -m morph_opt.solvers``: solvers that are installed, and how to install the others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import unknown


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m morph_opt.solvers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="solvers to list (all)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 2 if installed versions must not be used together."""
    return run_command(make_parser(), _print_table, arguments)


def _print_table(given: argparse.Namespace) -> int:
    from morph_opt.scheduling.solvers.base import Capabilities
    from morph_opt.scheduling.solvers.registry import ENTRIES, installed, make_solver, unavailable
    from morph_opt.scheduling.solvers.selfcheck import clash, installed_versions, refused
    from morph_opt.scheduling.solvers.worker.isolated import WorkerError

    missing = unavailable()
    wanted = given.names or [*installed(), *missing]
    for name in wanted:
        if name not in ENTRIES:
            raise InputError(unknown("solver", name, ENTRIES), field="NAME")
    flags = [field.name for field in fields(Capabilities)]
    print("solver         " + " ".join(flags))
    for name in wanted:
        if name in missing:
            print(f"{name:<14} not installed: {missing[name]}")
            continue
        try:
            can = make_solver(f"worker:{name}").capabilities
        except (InputError, WorkerError) as error:
            print(f"{name:<14} {error}")
            continue
        print(
            f"{name:<14} "
            + " ".join(("yes" if getattr(can, f) else "-").center(len(f)) for f in flags)
        )
    versions = installed_versions()
    trouble = [sentence for sentence in (refused(versions), clash(versions)) if sentence]
    for sentence in trouble:
        print(sentence, file=sys.stderr)
    return 2 if trouble else 0


if __name__ == "__main__":
    sys.exit(as_process(main))
