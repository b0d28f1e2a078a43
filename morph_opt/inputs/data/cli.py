"""Command ``python -m morph_opt.data list | fetch NAME | path NAME``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.inputs.data.datasets import DATASETS, Dataset, dataset
from morph_opt.inputs.data.store import DATA_VARIABLE, fetch, find, is_published, locate


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(
        prog="python -m morph_opt.data",
        description="Public data sets: list them, fetch one with checksums, print where one is.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list data sets and their folders on this machine")
    get = commands.add_parser("fetch", help="download a data set and verify its checksums")
    get.add_argument("name", help=", ".join(DATASETS))
    get.add_argument("--base-url", help="a mirror with the same files")
    where = commands.add_parser(
        "path", help=f"print the folder in use: ${DATA_VARIABLE}, else cache"
    )
    where.add_argument("name", nargs="?", default="morphling", help=", ".join(DATASETS))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return run_command(make_parser(), _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "list":
        _list()
    elif arguments.command == "fetch":
        print(fetch(arguments.name, base_url=arguments.base_url))
        for line in _terms(dataset(arguments.name)):
            print(line, file=sys.stderr)
    else:
        print(locate(arguments.name))
    return 0


def _terms(known: Dataset) -> list[str]:
    """Return licence, citation and checksums of a data set."""
    cited = [f"cite     {known.citation}"] if known.citation else []
    return [f"licence  {known.licence}", *cited, f"verified by {known.verified_by}"]


def _list() -> None:
    for name, known in DATASETS.items():
        print(f"{name}: {known.title}")
        print(f"  licence  {known.licence}")
        print(f"  source   https://github.com/{known.repository} at {known.commit}")
        print(f"  files    {len(known.files)}, by {known.verified_by}")
        print(f"  here     {_here(known)}")


def _here(known: Dataset) -> str:
    """Return the folder of a data set, with a count of files if some are not the published ones."""
    root = find(known.name)
    if root is None:
        return "no"
    listed = [path for path in known.files if (root / path).is_file()]
    same = sum(is_published(known.name, [root / path]) for path in listed)
    return str(root) if same == len(listed) else f"{root} ({same} of {len(listed)} as published)"


if __name__ == "__main__":
    sys.exit(as_process(main))
