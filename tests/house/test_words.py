"""The glossary is in order, and pages use none of the words that it replaces."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = re.compile(r"^\| ([^|]+) \| [^|]+ \| ?([^|]*)\|$", re.MULTILINE)


def test_replaced_words_are_gone(project_root: Path) -> None:
    page = (project_root / "docs" / "glossary.md").read_text("utf-8")
    rows = ROWS.findall(page.partition("## Index letters")[0])[1:]
    assert [term.lower() for term, _ in rows] == sorted(term.lower() for term, _ in rows)
    banned = {word for _, instead in rows for word in re.findall(r"\b[a-z][\w-]+", instead)}
    assert banned
    kept = "|".join(term.replace(" ", "[ _-]") for term, _ in rows if " " in term)
    pages = [project_root / "README.md", project_root / "CONTRIBUTING.md"]
    for path in [*pages, *(project_root / "docs").rglob("*.md")]:
        if "decisions" not in path.parts and path.name != "glossary.md":
            text = re.sub(kept, "", path.read_text("utf-8").lower())
            assert not banned & set(re.findall("[a-z]+", text)), path
