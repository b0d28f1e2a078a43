"""The documentation site has every page and every public name; mathematics becomes MathML."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import morph_opt
from tests.formulations.families import emitted


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
    pages = [
        "README.md",
        "docs/tutorial.md",
        "docs/round.md",
        "docs/formulations/round.md",
        "docs/formulations/index.md",
        "docs/new.md",
        "reports/a/b.md",
    ]
    first, *sections = hooks._nav(pages)
    assert first == {"morph-opt": "README.md"}
    placed = {name: found for section in sections for name, found in section.items()}
    assert sorted(page for found in placed.values() for page in found) == sorted(pages[1:])
    assert list(placed)[:3] == ["Start", "My cluster", "Study"]
    assert placed["Mathematics"] == pages[4:2:-1]  # the index first
    assert placed["Reference"] == ["docs/new.md"]  # what nobody has sorted yet


def test_every_name_in_the_order_is_a_page(hooks: Any, project_root: Path) -> None:
    made = {"docs/library.md"}
    for name in sum(hooks.ORDER.values(), ()):
        assert name in made or any(project_root.glob(name)), name


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


def test_a_fence_of_mathematics_becomes_mathml(hooks: Any) -> None:
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    rows = r"\mathtt{one\_config}_{j} & \sum_j x_{j} \le 1 \\ & \max_{i} \mathit{it}_{i}"
    page = hooks.on_page_markdown(
        f"a\n\n```math\n\\begin{{array}}{{ll}}\n{rows}\n\\end{{array}}\n\ny = 2\n```\n\nb\n"
    )
    assert page.startswith("a\n")
    assert page.count("<math") == 2
    assert page.count("<mtr>") == 2
    assert '<mtext style="font-family: monospace">one_config</mtext>' in page
    assert '<mtext style="font-style: italic">it</mtext>' in page
    assert "<munder><mo>max</mo>" in page
    assert "```" not in page


@pytest.mark.parametrize(
    "tex",
    [
        r"\foo{a}",  # a word that the converter writes out
        r"\begin{aligned} a &= b \end{aligned}",  # an environment that it does not know
        r"\frac{1}{2",
        r"\begin{array}{ll} a & b \\ c & \end{array}",  # it drops a last row that ends so
        r"\text{price in \$}",
    ],
)
def test_tex_that_would_be_written_out_ends_the_build(hooks: Any, tex: str) -> None:
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    with pytest.raises(ValueError, match="TeX that is not understood"):
        hooks.on_page_markdown(f"```math\n{tex}\n```\n")


def test_every_family_of_rows_stands_in_a_formula(project_root: Path) -> None:
    pages = sorted((project_root / "docs" / "formulations").glob("*.md"))
    fences = [re.findall(r"^```math\n(.*?)^```$", p.read_text("utf-8"), re.M | re.S) for p in pages]
    assert all(fences), [p.name for p, found in zip(pages, fences, strict=True) if not found]
    named = {
        word for page in fences for one in page for word in re.findall(r"\\mathtt\{(.+?)\}", one)
    }
    assert {word.replace("_", r"\_") for word in emitted()} <= named
