"""The documentation site as a reader sees it, once `make docs` has built it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.checks.browser import Browser, needs_browser
from benchmarks.checks.browser import browser as started


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
def site(project_root: Path) -> Path:
    """The site as `make docs` has just built it: strictly, so that a warning was an error."""
    folder = project_root / "build" / "site"
    if not folder.exists():
        pytest.skip("build/site is not there: `make docs` builds it and runs these")
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
        assert page.evaluate("[...document.images].every((one) => one.naturalWidth > 0)"), name
    assert page.said == []
    assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []


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
