"""Command: target shares of a policy for instances from a file, with their proof.

    python -m morph_opt.shares INSTANCE.json --policy fairness

Prints one JSON object per instance: the policy's own objective recomputed from its definition, the
proven bound on it, and the shares. No round and no placement: see ``docs/target-shares.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.domain import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; exit with 2 and one line on bad input."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    from morph_opt.scheduling.shares.answer import solve_instance
    from morph_opt.scheduling.shares.share_file import read_instances

    instances = read_instances(options.file, oversize=options.oversize)
    if options.id is not None:
        instances = tuple(i for i in instances if i.name == options.id)
        if not instances:
            raise InputError(f"has no instance {options.id!r}", file=str(options.file))
    for instance in instances:
        print(json.dumps(solve_instance(instance, options.policy), allow_nan=False))
        sys.stdout.flush()
    unread = sorted({field for instance in instances for field in instance.unread})
    if unread:
        print(f"fields not looked at: {', '.join(unread)}", file=sys.stderr)
    return 0


def make_parser() -> LineParser:
    """Return the parser of the command."""
    from morph_opt.scheduling.shares.request import SHARE_POLICIES

    parser = LineParser(
        prog="python -m morph_opt.shares",
        description="Target shares of a policy for instances from a JSON file.",
    )
    parser.add_argument("file", type=Path, metavar="FILE.json", help="JSON file of share problems")
    parser.add_argument(
        "--policy",
        choices=SHARE_POLICIES,
        default="fairness",
        metavar="POLICY",
        help=f"{', '.join(SHARE_POLICIES)} (default fairness)",
    )
    parser.add_argument("--id", help="solve this instance of the file only")
    parser.add_argument(
        "--oversize",
        action="store_true",
        help="let gangs larger than a type have a share there, as in the published code",
    )
    return parser


if __name__ == "__main__":
    sys.exit(as_process(main))
