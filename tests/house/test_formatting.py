"""The formatter lays code out; rows of a table alone may keep a layout of their own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOMS = ("formulations", "morph_opt", "benchmarks", "docs")
SKIP = "# fmt: skip"
DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
COMPUTED = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.IfExp)


def rows_of(value: ast.expr | None) -> ast.expr | None:
    """The display of an assigned value, also where `frozenset(...)` or a loop is around it."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
    if isinstance(value, ast.ListComp | ast.SetComp | ast.DictComp):
        value = value.generators[0].iter
    return value if isinstance(value, DISPLAYS) else None


def ends_of_tables(node: ast.AST, inside: bool = False) -> set[int]:
    """Last lines of tables: displays outside functions, and inside those that are all constants."""
    found = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign | ast.AnnAssign):
            rows = rows_of(child.value)
            if rows and not (inside and any(isinstance(n, COMPUTED) for n in ast.walk(rows))):
                found.add(child.end_lineno or 0)
        found |= ends_of_tables(child, inside or isinstance(child, ast.FunctionDef | ast.Lambda))
    return found


def skipped(text: str) -> set[int]:
    """Lines that keep the formatter from a statement that is no table."""
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith(SKIP)}
    return lines - ends_of_tables(ast.parse(text)) if lines else lines


def test_only_tables_are_laid_out_by_hand(project_root: Path) -> None:
    for room in ROOMS:
        for path in sorted((project_root / room).rglob("*.py")):
            found = skipped(path.read_text("utf-8"))
            assert not found, f"{path.relative_to(project_root)}, lines {sorted(found)}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"A = (\n    1, 2,\n)  {SKIP}\n", set()),
        (f"A = frozenset({{\n    f, g,\n}})  {SKIP}\n", set()),
        (f"def f():\n    a = [\n        1, 2,\n    ]  {SKIP}\n", set()),
        (f"def f():\n    a = [\n        b, 2,\n    ]  {SKIP}\n", {4}),
        (f"f(\n    1, 2,\n)  {SKIP}\n", {3}),
    ],
)
def test_a_call_is_no_table(text: str, found: set[int]) -> None:
    assert skipped(text) == found
