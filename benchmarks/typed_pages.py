"""The commands of pages as typed: ``python -m benchmarks.typed_pages PYTHON [PAGE...]``.

Each page is typed from its top in a folder of its own that has a copy of ``docs`` and nothing else
of the repository, by an interpreter that has the package installed, as from a wheel: what it says
and how long it took is printed as a table. A campaign, minutes long, and no part of `make test`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.table import Table

ROOT = Path(__file__).parents[1]
PATHS = {
    "newcomer: the tutorial": "docs/tutorial.md",
    "operator: an own CSV to nodes, and sacct": "docs/how-to/my-log.md",
    "researcher: a policy of one's own": "docs/how-to/policy.md",
    "optimiser: a solver of one's own": "docs/how-to/solver.md",
}
"""A page for each person."""
BLOCK = re.compile(r"^```(sh|python|toml|csv)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"python -m morph_opt|morph-opt ")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """What a page has one type, in order: ``("file", its name and content)`` or a command.

    A block of Python without prompts is the module ``mine`` where a command names it, else it is
    run; a TOML block whose first line is a comment is the file of that name.
    """
    for kind, body in BLOCK.findall(text):
        if kind == "sh":
            lines = body.replace("\\\n", " ").splitlines()
            yield from (("sh", line) for line in lines if COMMAND.match(line))
        elif kind == "csv":
            yield "file", f"jobs.csv\n{body}"
        elif kind == "toml" and body.startswith("# "):
            yield "file", body[2:]
        elif kind == "python" and ">>>" not in body:
            yield "file", f"{'mine' if 'mine:' in text else 'block'}.py\n{body}"
            if "mine:" not in text:
                yield "sh", "python block.py"


def typed(python: str, page: Path, folder: Path) -> Iterator[tuple[str, int, float, str]]:
    """Each command of a page: itself, its exit status, its seconds, and the last that it said."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    environment = {name: value for name, value in os.environ.items() if name != "MORPH_OPT_DATA"}
    environment |= {"PYTHONPATH": str(folder)} if "mine:" in page.read_text("utf-8") else {}
    for kind, text in blocks(page.read_text("utf-8")):
        if kind == "file":
            name, _, content = text.partition("\n")
            (folder / name).write_text(content, encoding="utf-8")
            continue
        words = [python, *shlex.split(text, comments=True)[1:]]
        began = time.monotonic()
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        yield text, done.returncode, time.monotonic() - began, said


def make_parser() -> LineParser:
    """The command line."""
    parser = LineParser(prog="python -m benchmarks.typed_pages", description=__doc__)
    parser.add_argument("python", help="interpreter of the environment to type them in")
    parser.add_argument("page", nargs="*", help="pages of docs (those of each person)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    """Type the pages; 1 if a command failed."""
    rows, failed = [], False
    for page in options.page or PATHS.values():
        with tempfile.TemporaryDirectory() as folder:
            for text, status, seconds, said in typed(options.python, ROOT / page, Path(folder)):
                rows.append((page, f"`{text[:70]}`", status, round(seconds, 1)))
                failed |= status != 0
                print(rows[-1], said if status else "", file=sys.stderr, flush=True)
    print(Table(("page", "typed", "exit status", "seconds"), rows).to_markdown(), end="")
    return int(failed)


if __name__ == "__main__":
    sys.exit(as_process(main))
