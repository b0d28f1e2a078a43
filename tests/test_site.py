"""The documentation site has every page and every public name; mathematics becomes MathML."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import morph_opt
from tests.browser import Browser, needs_browser
from tests.browser import browser as started
from tests.formulations.families import emitted

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


LOOKS = [(width, dark) for width in (400, 1280) for dark in (False, True)]
SEEN = (
    "index.html", "docs/tutorial.html", "docs/policies.html", "docs/planning.html",
    "docs/how-to/notebook.html", "docs/how-to/planning.html", "docs/options.html",
    "reports/index.html", "reports/comparison/index.html", "reports/scale/index.html",
)  # fmt: skip
SHOTS = os.environ.get("MORPH_OPT_SCREENSHOTS")
"""Folder for screenshots, to be looked at."""

WIDER = """document.documentElement.scrollWidth - document.documentElement.clientWidth"""
BEYOND = """(() => {
    const scrolls = (one) => { for (; one; one = one.parentElement)
        if (/auto|scroll|hidden/.test(getComputedStyle(one).overflowX)) return true; };
    return [...document.querySelectorAll('article :is(p, h1, h2, h3, li, table, img, math, pre)')]
        .filter((one) => one.offsetParent && !scrolls(one.parentElement))
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5)
        .map((one) => one.outerHTML.slice(0, 100)); })()"""
HIDDEN = """[...document.querySelectorAll('article table:not([class])')]
    .filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1)
    .filter((one) => { const look = getComputedStyle(one);
        return look.overflowX !== 'auto' || !look.backgroundImage.includes('gradient'); })
    .map((one) => one.textContent.slice(0, 100))"""
BROKEN = """[...document.querySelectorAll('article table:not([class]) code')]
    .filter((one) => one.offsetParent && /^[\\w.]+$/.test(one.textContent))
    .filter((one) => one.getClientRects().length > 1).map((one) => one.textContent)"""
CONTRAST = """(() => {
    const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => {
        c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const ground = getComputedStyle(document.body).backgroundColor;
    const plain = (colour) => { // as painted, whatever it is written in and however transparent
        for (const one of [ground, colour]) { canvas.fillStyle = one; canvas.fillRect(0, 0, 1, 1); }
        const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data; return `${r} ${g} ${b}`; };
    const back = light(plain(ground));
    return [back, ...[...document.querySelectorAll('article :is(p, td, li, a:not(.headerlink))')]
        .filter((one) => one.offsetParent && one.textContent.trim())
        .map((one) => light(plain(getComputedStyle(one).color)))
        .map((own) => (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05))]; })()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_pages_are_read_on_any_screen(width: int, dark: bool, site: Path, browser: Browser) -> None:
    page = browser.page(width, dark=dark)
    for name in SEEN:
        page.open(site / name)
        page.until("[...document.images].every((one) => one.complete)")
        if SHOTS:
            shown = "dark" if dark else "light"
            page.screenshot(Path(SHOTS) / f"{name.replace('/', '-')}-{width}-{shown}.png")
        assert page.evaluate(WIDER) <= 0, name
        assert page.evaluate(BEYOND) == [], name
        assert page.evaluate(HIDDEN) == [], name
        assert page.evaluate(BROKEN) == [], name
        back, *ratios = page.evaluate(CONTRAST)
        assert (back < 0.1) == dark, name
        assert min(ratios) >= 4.0, name  # what the theme's links have; its texts have 8
        assert page.evaluate("[...document.images].every((one) => one.naturalWidth > 0)"), name
    assert page.said == []
    assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.browser
@needs_browser
def test_faults_of_a_page_are_found(tmp_path: Path, browser: Browser) -> None:
    """What the checks above are worth: a page that has every fault."""
    text = "word " * 30
    (tmp_path / "bad.html").write_text(
        f"""<body style="margin: 0"><article><p style="width: 900px">{text}</p>
        <div style="overflow: auto"><table style="display: block; overflow: hidden"><tr>
        {"<td><code style='word-break: break-all'>throughput</code></td>" * 40}</tr></table></div>
        <p style="color: #aaa">{text}</p></article>"""
    )
    page = browser.page(400)
    page.open(tmp_path / "bad.html")
    assert page.evaluate(WIDER) > 0
    assert len(page.evaluate(BEYOND)) == 1
    assert len(page.evaluate(HIDDEN)) == 1
    assert page.evaluate(BROKEN)
    assert min(page.evaluate(CONTRAST)[1:]) < 4.0


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_the_start_page_begins_with_its_picture(width: int, site: Path, browser: Browser) -> None:
    page = browser.page(width)
    page.open(site / "index.html")
    page.until("document.querySelector('article img').complete")
    picture = "document.querySelector('article img')"
    assert page.evaluate(f"{picture}.getBoundingClientRect().top") < 650  # pixels, of 900
    shown = page.evaluate(f"{picture}.currentSrc")
    assert shown.endswith("base-narrow.svg" if width == 400 else "base.svg")


@pytest.mark.browser
@needs_browser
def test_the_sidebar_is_short_and_the_switch_turns_the_page_dark(
    site: Path, browser: Browser
) -> None:
    page = browser.page(1280)
    page.open(site / "index.html")
    links = page.evaluate("""[...document.querySelectorAll('.md-nav--primary .md-nav__item')]
        .filter((one) => one.checkVisibility({ visibilityProperty: true })
            && one.getBoundingClientRect().height > 0 && !one.closest('[aria-expanded=false]'))
        .map((one) => one.textContent.trim().split('\\n')[0])""")
    assert links[1:6] == ["Start", "My cluster", "Study", "Mathematics", "Contribute"]
    assert len(links) <= 12  # decisions and reports are one line each
    scheme = "document.body.dataset.mdColorScheme"
    assert page.evaluate(scheme) == "default"
    page.evaluate("document.querySelector('label[title=Dark]').click()")
    page.until(f"{scheme} === 'slate'")


def test_links_say_where_they_lead_in_words(project_root: Path) -> None:
    """A file's name is a name to somebody who writes the pages; data files are what they are."""
    pages = [project_root / "README.md", project_root / "CONTRIBUTING.md"]
    for folder in ("docs", "reports", "instances"):
        pages += sorted((project_root / folder).rglob("*.md"))
    named = {
        f"{page.relative_to(project_root)}: {text}"
        for page in pages
        for text in re.findall(r"\[`?([\w./-]+\.md)`?\]\(", page.read_text("utf-8"))
    }
    assert named == set()


@pytest.mark.browser
@needs_browser
def test_formulas_are_drawn_whole_and_search_works_from_a_disk(
    site: Path, browser: Browser
) -> None:
    sizes = """[...document.querySelectorAll('math')].map((one) => {
        const room = one.parentElement;
        return [one.getBoundingClientRect().height, room.clientWidth - room.scrollWidth];
    })"""
    page = browser.page(1280)
    for path in sorted(site.glob("docs/formulations/*.html")):
        page.open(path)
        found = page.evaluate(sizes)
        assert found, path.name
        for height, room in found:
            assert height > 10, path.name  # pixels: a line of text is 16
            assert room >= 0, path.name
    page.evaluate("document.querySelector('label[for=__search]').click()")
    page.evaluate("document.querySelector('.md-search__input').focus()")
    page.write("guaranteed")
    page.until("document.querySelector('.md-search-result__item') !== null")
    assert page.said == []
    assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []
