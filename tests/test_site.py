"""The documentation site has every page and every public name; mathematics becomes MathML."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import morph_opt
from tests.formulations.families import emitted

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SITE = ("mkdocs", "material", "mkdocstrings", "latex2mathml")


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


class Shown(HTMLParser):
    """What a page shows as running text, how many formulas it has, and what it fetches."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.text, self.formulas, self.fetched = "", 0, []  # type: str, int, list[str]
        self._quoted = 0
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._quoted += tag in ("code", "pre", "script", "style", "math")
        self.formulas += tag == "math"
        if tag in ("script", "img", "iframe") or given.get("rel") in ("stylesheet", "preload"):
            self.fetched.append(given.get("src") or given.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        self._quoted -= tag in ("code", "pre", "script", "style", "math")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._quoted else data


@pytest.fixture(scope="module")
def site(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: strictly, so that a warning is an error."""
    missing = [name for name in SITE if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra docs is not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("build") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_shows_tex_or_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = {
        path.relative_to(site).as_posix(): Shown(path) for path in site.rglob("docs/**/*.html")
    }
    assert len(pages) > 50
    for name, page in pages.items():
        assert not re.search(r"\\[a-zA-Z]+|\$[^$\n]+\$|```|_\{", page.text), name
        assert not [url for url in page.fetched if "//" in url], name
        assert page.formulas or not name.startswith("docs/formulations/"), name


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open pages with")
def test_formulas_are_drawn_whole_and_search_works_from_a_disk(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    sizes = """() => [...document.querySelectorAll('math')].map((one) => {
        const room = one.parentElement;
        return [one.getBoundingClientRect().height, room.clientWidth - room.scrollWidth];
    })"""
    asked: list[str] = []
    said: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        for path in sorted(site.glob("docs/formulations/*.html")):
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            found = page.evaluate(sizes)
            assert found, path.name
            for height, room in found:
                assert height > 10, path.name  # pixels: a line of text is 16
                assert room >= 0, path.name
        page.locator("html").press("/")
        page.keyboard.type("guaranteed")
        page.locator(".md-search-result__item").first.wait_for()
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
