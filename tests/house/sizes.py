"""How large the house is: ``python -m tests.house.sizes BEFORE`` rewrites a table of decision 0034.

Per room the files and lines of code at a commit and now; then functions, circles of imports and the
largest folder. A line of code holds a token that is neither docstring nor comment.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from morph_opt.table import Table
from tests.imports import ROOT, circles, imports, rooms

PAGE = ROOT / "docs" / "decisions" / "0034-a-smaller-house.md"
BEGIN, END = "<!-- generated: python -m tests.house.sizes -->\n", "<!-- /generated -->"
PLACES = ("formulations", "morph_opt", "benchmarks", "tests")
OWN = ("formulations", "morph_opt")
"""What is installed; the rest measures and tests it."""
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Size:
    """A tree of sources in numbers.

    Parameters
    ----------
    rooms
        Files and lines of code by room: a folder of ``morph_opt``, or one of the other places.
    functions
        Lines of the bodies of the functions of `OWN`.
    folders
        Modules by folder.
    circles
        Sets of rooms of `OWN` that import each other, of modules, and of modules when they load.
    """

    rooms: dict[str, tuple[int, int]]
    functions: tuple[int, ...]
    folders: dict[str, int]
    circles: tuple[int, int, int]


def room_of(path: Path) -> str:
    """Room of a source, relative to the root of its tree."""
    if path.parts[0] == "morph_opt" and len(path.parts) > 2:
        return f"morph_opt.{path.parts[1]}"
    return path.parts[0]


def code_lines(text: str) -> int:
    """Lines of a source with a token that is neither docstring nor comment."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            prose.update(range(first.lineno, (first.end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def bodies(tree: ast.AST) -> Iterator[int]:
    """Lines of each function, without signature and docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                yield (body[-1].end_lineno or 0) - body[0].lineno + 1


def measured(root: Path) -> Size:
    """The size of the tree below a folder."""
    found: dict[str, tuple[int, int]] = {}
    functions: list[int] = []
    folders: Counter[str] = Counter()
    for place in PLACES:
        for path in sorted((root / place).rglob("*.py")):
            text, name = path.read_text("utf-8"), path.relative_to(root)
            files, lines = found.get(room_of(name), (0, 0))
            found[room_of(name)] = files + 1, lines + code_lines(text)
            folders[name.parent.as_posix()] += 1
            if place in OWN:
                functions += bodies(ast.parse(text))
    graph, loaded = imports(root), imports(root, inside_functions=False)
    loops = len(circles(rooms(graph))), len(circles(graph)), len(circles(loaded))
    return Size(found, tuple(functions), dict(folders), loops)


def tree_of(commit: str, folder: Path) -> Path:
    """The sources of a commit, below a folder."""
    command = ["git", "-C", str(ROOT), "archive", commit, *PLACES]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def page(before: Size, after: Size, commit: str) -> str:
    """Both as two tables."""
    names = sorted(before.rooms.keys() | after.rooms.keys(), key=order)
    rows = [
        (f"`{name}`", *_cells(before.rooms.get(name)), *_cells(after.rooms.get(name)))
        for name in names
    ]
    for words, places in (("installed", OWN), ("all", PLACES)):
        rows.append((words, *_sum(before, places), *_sum(after, places)))
    header = ("room", f"files, {commit}", "lines", "files, now", "lines")
    sizes = Table(header, rows, align="lrrrr").to_markdown()
    facts = [
        ("functions", len(before.functions), len(after.functions)),
        ("median of their bodies, lines", *map(_median, (before, after))),
        ("longest body, lines", max(before.functions), max(after.functions)),
        ("circles between rooms", before.circles[0], after.circles[0]),
        ("circles between modules", before.circles[1], after.circles[1]),
        ("of these, when modules load", before.circles[2], after.circles[2]),
        ("largest folder, modules", *map(_largest, (before, after))),
    ]
    table = Table(("installed packages", commit, "now"), facts, align="lrr").to_markdown()
    return f"{sizes}\n\n{table}\n"


def order(room: str) -> tuple[int, str]:
    """Packages first, then what is around them."""
    return PLACES.index(room.partition(".")[0]), room


def _cells(size: tuple[int, int] | None) -> tuple[str, str]:
    return ("", "") if size is None else (str(size[0]), f"{size[1]:,}")


def _sum(size: Size, places: Sequence[str]) -> tuple[str, str]:
    mine = [counts for room, counts in size.rooms.items() if room.partition(".")[0] in places]
    return _cells((sum(files for files, _ in mine), sum(lines for _, lines in mine)))


def _median(size: Size) -> str:
    return f"{statistics.median(size.functions):g}"


def _largest(size: Size) -> str:
    name, count = max(size.folders.items(), key=lambda item: item[1])
    return f"{count} ({name})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and rewrite the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.sizes", description=__doc__)
    parser.add_argument("before", metavar="BEFORE", help="commit to compare with")
    commit = parser.parse_args(arguments).before
    with tempfile.TemporaryDirectory() as folder:
        text = page(measured(tree_of(commit, Path(folder))), measured(ROOT), commit)
    print(text)
    head, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{begin}{text}{END}{rest.partition(END)[2]}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
