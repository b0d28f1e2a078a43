"""Pages of formulations use each index letter with the one meaning that the glossary gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
    """Letters of subscripts in prose: ``x[j,k]`` and ``thr_j``."""
    for found in BRACKETS.findall(text):
        yield from re.findall("[a-z]", found)
    for found in UNDERLINES.findall(text):
        yield from found


def test_pages_count_with_the_letters_of_the_glossary(project_root: Path) -> None:
    known = letters(project_root)
    assert len(known) > 20
    for page in sorted((project_root / "docs" / "formulations").glob("*.md")):
        text = page.read_text("utf-8")
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert set(of_maths(text)) | set(of_prose(prose)) <= set(known), page.name
