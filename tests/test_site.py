"""The documentation site has every page and every public name; mathematics becomes MathML."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import morph_opt


@pytest.fixture(scope="module")
def hooks(project_root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", project_root / "docs" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_library_reference_has_every_public_name(hooks: Any, project_root: Path) -> None:
    assert {name for name, _ in hooks._public(project_root)} == set(morph_opt.__all__)
    page = hooks._library(project_root)
    assert "::: morph_opt.replay.scenario.Scenario" in page
    assert page.count("\n::: ") == len(morph_opt.__all__)


def test_every_page_has_one_place(hooks: Any) -> None:
    pages = ["README.md", "docs/tutorial.md", "docs/round.md", "docs/formulations/round.md",
             "docs/formulations/index.md", "docs/new.md", "reports/a/b.md"]  # fmt: skip
    first, *sections = hooks._nav(pages)
    assert first == {"morph-opt": "README.md"}
    placed = {name: found for section in sections for name, found in section.items()}
    assert sorted(page for found in placed.values() for page in found) == sorted(pages[1:])
    assert list(placed)[:3] == ["Tutorial", "How to", "Explanation"]
    assert placed["The mathematics"] == pages[4:2:-1]  # the index first
    assert placed["Reference"] == ["docs/new.md"]  # what nobody has sorted yet


def test_links_are_staged_at_their_places(hooks: Any, tmp_path: Path) -> None:
    root, stage = tmp_path / "root", tmp_path / "stage"
    for name in ("docs/a.md", "reports/x/README.md", "reports/x/p.svg", "code.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text")
    text = (
        "[x](../reports/x) ![p](../reports/x/p.svg) [c](../code.py) [w](https://w.org) `[n](no)`\n"
    )
    (root / "docs" / "a.md").write_text(text)
    hooks._put(root, stage, Path("docs/a.md"))
    wanted = text.replace("(../reports/x)", "(../reports/x/README.md)")
    assert (stage / "docs" / "a.md").read_text() == wanted
    found = {p.relative_to(stage).as_posix() for p in stage.rglob("*") if p.is_file()}
    assert found == {"docs/a.md", "reports/x/p.svg", "code.py"}


def test_fences_of_mathematics_become_mathml(hooks: Any) -> None:
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    page = hooks.on_page_markdown("a\n\n```math\n\\sum_j x_j \\le 1\n\ny = 2\n```\n\nb\n")
    assert page.count("<math") == 2
    assert "```" not in page
    assert page.startswith("a\n")
