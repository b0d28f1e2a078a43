"""Index letters: one per set, on the pages of formulations, in docstrings and in loops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

MATHS = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"\\(?:mathit|mathtt|mathrm|text|operatorname)\{[^{}]*\}")
SUBSCRIPT = re.compile(r"_(?:\{([^{}]*)\}|([a-z]))")
BRACKETS = re.compile(r"\w[\])]?\[([a-z]'?(?:, ?[a-z]'?)*)\]")
UNDERLINES = re.compile(r"\b(?:[A-Za-z]|thr|sum|min|max|base|floor|ratio|lambda)_([a-z]{1,2})\b")


def letters(root: Path) -> dict[str, str]:
    """What each letter counts, as the glossary says."""
    text = (root / "docs" / "glossary.md").read_text("utf-8").partition("## Index letters")[2]
    return dict(re.findall(r"^\| ([a-z]) \| ([^|]+) \|", text, re.MULTILINE))


def of_maths(text: str) -> Iterator[str]:
    """Letters of subscripts in formulas."""
    for formula in MATHS.findall(text):
        for braced, bare in SUBSCRIPT.findall(NAMED.sub(" ", formula)):
            words = re.findall(r"(?<![\\A-Za-z])[a-z]+", braced or bare)
            yield from (letter for word in words if word != "in" for letter in word)


def of_prose(text: str) -> Iterator[str]:
    """Letters of subscripts in prose and in docstrings: ``x[j,k]`` and ``thr_j``."""
    for found in BRACKETS.findall(text):
        yield from re.findall("[a-z]", found)
    for found in UNDERLINES.findall(text):
        yield from found


def of_loops(tree: ast.AST) -> Iterator[str]:
    """Letters that loops count with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            names = (leaf.id for leaf in ast.walk(node.target) if isinstance(leaf, ast.Name))
            yield from (name for name in names if len(name) == 1 and name.islower())


def docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def test_pages_count_with_the_letters_of_the_glossary(project_root: Path) -> None:
    known = letters(project_root)
    assert len(known) > 20
    for page in sorted((project_root / "docs" / "formulations").glob("*.md")):
        text = page.read_text("utf-8")
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert set(of_maths(text)) | set(of_prose(prose)) <= set(known), page.name


def test_docstrings_and_loops_count_with_them_too(project_root: Path) -> None:
    known = letters(project_root)
    for path in sorted((project_root / "formulations").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        found = {letter for text in docstrings(tree) for letter in of_prose(text)}
        assert found | set(of_loops(tree)) <= set(known), path.name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```math\n\\sum_{j \\in J} \\mathit{cap}_{nr} x_{jk}^{2}\n```\n", "jnrjk"),
        ("```math\n\\mathtt{one\\_config}_{j} \\max_{q \\text{ strict}} y_o\n```\n", "jqo"),
    ],
)
def test_subscripts_are_found(text: str, found: str) -> None:
    assert sorted(of_maths(text)) == sorted(found)


def test_letters_of_prose_and_loops_are_found() -> None:
    assert sorted(of_prose("x[j,k] <= thr_j, sum_m T_jm, f[w,t,b,b']")) == sorted("jkjmjmwtbb")
    assert sorted(of_loops(ast.parse("[u for u in y]\nfor q, one in z: pass"))) == ["q", "u"]
