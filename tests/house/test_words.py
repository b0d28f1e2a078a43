"""The glossary's words are used, and those that it replaces are not."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ?([^|]*)\|$", re.MULTILINE)
PLACES = (
    "formulations", "morph_opt", "benchmarks", "docs", "instances", "tests", "Makefile",
    "README.md", "CONTRIBUTING.md", "pyproject.toml",
)  # fmt: skip
KINDS = {".py", ".md", ".toml", ".json", ""}


def glossary(root: Path) -> list[tuple[str, str, list[str]]]:
    page = (root / "docs" / "glossary.md").read_text("utf-8")
    rows = ROWS.findall(page.partition("## Index letters")[0])[1:]
    return [(word, sense, re.findall(r"[\w-]+", instead)) for word, sense, instead in rows]


def texts(root: Path) -> dict[Path, str]:
    """What is written for readers; decisions are of their time."""
    found = [root / place for place in PLACES]
    found += [path for place in found for path in place.rglob("*.*")]
    kept = (path for path in found if path.suffix in KINDS and path.is_file())
    return {
        path: path.read_text("utf-8")
        for path in kept
        if "decisions" not in path.parts and path.name not in ("glossary.md", Path(__file__).name)
    }


def words_of(text: str) -> set[str]:
    """Words of prose and of names, which are taken apart at underlines and capitals."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)}


def without(phrases: list[str], text: str) -> str:
    """The text without these phrases, in prose, in names and in options."""
    for phrase in phrases:
        text = re.sub(phrase.replace(" ", "[ _-]"), "", text, flags=re.IGNORECASE)
    return text


def test_replaced_words_are_gone(project_root: Path) -> None:
    rows = glossary(project_root)
    banned = {word for _, _, instead in rows for word in instead}
    # A word may be part of what the glossary has in its place, as in "starvation knob".
    kept = [name for name, _, _ in rows if " " in name and words_of(name) & banned]
    # A job may be standing in a queue; the class of that name is what is gone.
    names = {word for word in banned if word[0].isupper()}
    assert names
    assert banned - names
    for path, text in texts(project_root).items():
        lower = text.lower()
        there = {word for word in banned - names if word in lower}  # the few to be looked for
        found = there & words_of(without(kept, text)) if there else set()
        found |= {name for name in names if re.search(rf"\bclass {name}\b", text)}
        assert not found, f"{path.relative_to(project_root)}: {', '.join(found)} (docs/glossary.md)"


def test_names_are_taken_apart() -> None:
    assert words_of("_freeze_hopeless = StateFacts()") == {"freeze", "hopeless", "state", "facts"}


def test_a_word_of_a_phrase_is_banned_by_itself() -> None:
    text = "--starvation-knob is a knob, starvation_knobs"
    assert words_of(without(["starvation knob"], text)) == {"is", "a", "knob", "s"}


def test_the_glossary_is_in_order_and_used(project_root: Path) -> None:
    rows = glossary(project_root)
    names = [word.lower() for word, _, _ in rows]
    assert names == sorted(names)
    missing = set().union(*map(words_of, names))
    for text in texts(project_root).values():
        missing -= words_of(text) if missing else missing
    assert not missing
