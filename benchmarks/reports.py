"""Record what the files under ``reports/`` were made from, and list stale ones.

    python -m benchmarks.reports check           # list the stale: make reports-check
    python -m benchmarks.reports record scale    # once `make bench-scale` has made it anew
    python -m benchmarks.reports index           # rewrite reports/README.md

``reports/sources.toml`` lists the reports: their files, the command that makes them, and their
inputs besides the code, such as the zoo of models, the twins and the instances.
``reports/made.json`` holds the versions and digests when each was made. A report whose inputs have
another digest today is stale; code is not among the inputs, or every report would be stale daily.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import Fields, read_json, read_toml, write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table

ROOT = Path(__file__).resolve().parents[1]
SOURCES, MADE, INDEX = "sources.toml", "made.json", "README.md"
PACKAGES = ("morph-opt", "numpy", "scipy", "highspy", "ortools")


@dataclass(frozen=True)
class Source:
    """Files that one command makes.

    Parameters
    ----------
    name
        Of the entry; mostly that of the folder.
    title
        What they show.
    page
        The one to read first.
    files, inputs
        Patterns, from the root.
    command
        What makes them.
    """

    name: str
    title: str
    page: str
    files: tuple[str, ...]
    inputs: tuple[str, ...]
    command: str


def sources(root: Path = ROOT) -> tuple[Source, ...]:
    """The entries of ``sources.toml``, in its order.

    Raises
    ------
    InputError
        If it is not such a file.
    """
    path = root / "reports" / SOURCES
    tables, _ = read_toml(path)
    document = Fields(tables, "", str(path), ("report",))
    known = ("title", "page", "files", "inputs", "command")
    return tuple(
        Source(
            name,
            entry.text("title"),
            entry.text("page"),
            entry.value("files", tuple[str, ...]),
            entry.value("inputs", tuple[str, ...]),
            entry.text("command"),
        )
        for name, entry in document.named("report", known).items()
    )


def matching(patterns: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Files of these patterns, sorted, relative to the root."""
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return sorted(p.relative_to(root) for p in found if "__pycache__" not in p.parts)


def digest_of(contents: Mapping[str, bytes]) -> str:
    """Digest of files by name; the same for the same names and bytes."""
    hashed = hashlib.sha256()
    for name in sorted(contents):
        hashed.update(f"{name}\0{hashlib.sha256(contents[name]).hexdigest()}\n".encode())
    return hashed.hexdigest()


def digest(patterns: Iterable[str], root: Path = ROOT) -> str:
    """Digest of the files of these patterns as they are."""
    return digest_of({p.as_posix(): (root / p).read_bytes() for p in matching(patterns, root)})


def facts(source: Source, root: Path = ROOT) -> dict[str, Any]:
    """What a report is made from now."""
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "command": source.command,
        "versions": versions,
        "inputs": digest(source.inputs, root),
        "files": {
            path.as_posix(): hashlib.sha256((root / path).read_bytes()).hexdigest()
            for path in matching(source.files, root)
        },
    }


def made(root: Path = ROOT) -> dict[str, Any]:
    """What was recorded, by name of the entry."""
    path = root / "reports" / MADE
    found = read_json(path)
    if not isinstance(found, dict):
        raise InputError("must be an object", file=str(path))
    return found


def stale(source: Source, recorded: Mapping[str, Any], root: Path = ROOT) -> list[str]:
    """Why a report is not what its command would make today; empty: nothing is known against it."""
    then = recorded.get(source.name)
    if then is None:
        return ["was never recorded"]
    found = []
    if then["command"] != source.command:
        found.append("is made by another command now")
    if then["inputs"] != digest(source.inputs, root):
        found.append(f"inputs have changed ({', '.join(source.inputs)})")
    now = facts(source, root)["files"]
    found += [f"{name} is gone" for name in then["files"] if name not in now]
    for name, its in now.items():
        if then["files"].get(name) != its:
            found.append(f"{name} has changed since it was recorded")
    return found


def strays(root: Path = ROOT) -> list[Path]:
    """Files below ``reports/`` that belong to no entry."""
    known = {path for source in sources(root) for path in matching(source.files, root)}
    own = {Path("reports", name) for name in (SOURCES, MADE, INDEX)}
    return [path for path in matching(["reports/**/*"], root) if path not in known | own]


def index(root: Path = ROOT) -> str:
    """The page over all reports."""
    recorded = made(root)
    rows = []
    for source in sources(root):
        versions = recorded.get(source.name, {}).get("versions", {})
        shown = ", ".join(
            f"{name} {versions[name]}" for name in ("highspy", "numpy") if name in versions
        )
        title = f"[{source.title}]({Path(source.page).relative_to('reports').as_posix()})"
        rows.append((title, f"`{source.command}`", shown))
    table = Table(("report", "made by", "with"), rows, "l").to_markdown(spaced=True)
    return (
        "# Reports\n\n<!-- generated: python -m benchmarks.reports index -->\n"
        "Everything here is generated. `sources.toml` has the command and the inputs of each "
        "report, `made.json`\n"
        "the versions and digests when it was made; `make reports-check` lists stale reports.\n\n"
        f"{table}\n"
    )


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.reports", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("check", help="list what is stale; 1 if a file belongs to no report")
    record = commands.add_parser("record", help="what reports were made from, now that they were")
    record.add_argument("names", nargs="+", metavar="NAME", help="entries of sources.toml")
    commands.add_parser("index", help="rewrite reports/README.md")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    if options.command == "check":
        return _check()
    if options.command == "record":
        by_name = {source.name: source for source in sources()}
        for name in options.names:
            if name not in by_name:
                raise InputError(f"unknown; known are {', '.join(by_name)}", field=name)
        fresh = made() | {name: facts(by_name[name]) for name in options.names}
        ordered = {name: fresh[name] for name in by_name if name in fresh}
        write_atomically(ROOT / "reports" / MADE, json.dumps(ordered, indent=1) + "\n")
    write_atomically(ROOT / "reports" / INDEX, index())
    return 0


def _check() -> int:
    recorded = made()
    for source in sources():
        for why in stale(source, recorded):
            print(f"stale: {source.name}: {why}; {source.command}")
    without = strays()
    for path in without:
        print(f"{path}: belongs to no entry of reports/{SOURCES}", file=sys.stderr)
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(as_process(main))
