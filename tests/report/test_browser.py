"""Reports in a real browser, with the network off: nothing is asked for, nothing complains."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bokeh", reason="the extra report is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from morph_opt.replay import cli
from morph_opt.report.api import report
from tests.runs.views.worlds import HOSTILE, hostile, moved, paired
from tests.waiting import until

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open pages with"),
]
SHOTS = os.environ.get("MORPH_OPT_SCREENSHOTS")
"""Folder for screenshots of every page, to be looked at."""

READY = """document.documentElement.dataset.ready === 'true'
    && Bokeh.documents.every((one) => one.is_idle)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Opened:
    """A page, and what it said and asked for while it was open."""

    def __init__(self, browser: Any, file: Path, width: int = 1280, scheme: str = "light") -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        self.page = context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        # Asked from outside: the page's policy forbids what a waiting function would need.
        until(lambda: bool(self.page.evaluate(READY)))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.said.append(message.text)

    def is_quiet(self) -> None:
        """No error, no request but the file and what it holds, no scrolling to the side."""
        assert self.said == []
        assert [url for url in self.asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert sum(url.startswith("file:") for url in self.asked) == 1
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.page.evaluate(wide) == 0
        canvases = "document.querySelectorAll('.chart').length > 0"
        assert self.page.evaluate(canvases)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Path]]:
    """Run folders by the name of their page, made when they are first asked for."""
    parent = tmp_path_factory.mktemp("pages")
    gavel = "--trace gavel-96 --interval 3600 --objective throughput --until-s 60000"

    @cache
    def replayed(name: str, line: str) -> Path:
        assert cli.main([*line.split(), "--out", str(parent / name), "--quiet"]) == 0
        return parent / name

    def explained() -> Path:
        return replayed("naive", "--trace naive --objective lookahead --explain --until-s 4000")

    def mixed() -> Path:
        return replayed("mixed", f"{gavel} --mtbf-s 90000 --mttr-s 20000")

    made: dict[str, Callable[[], list[Path]]] = {
        "explained": lambda: [explained()],
        "mixed": lambda: [mixed()],
        "packing": lambda: [replayed("packing", f"{gavel} --packing")],
        "promises": lambda: [replayed("mt", "--trace mt --objective throughput --until-s 9000")],
        "three": lambda: [moved(parent / f"run-{seed}", seed=seed) for seed in (1, 2, 3)],
        "unlike": lambda: [explained(), mixed(), paired(parent / "paired")],
        "many": lambda: [moved(parent / f"n{seed}", seed=seed) for seed in range(20)],
        "hostile": lambda: [hostile(parent / "hostile")],
    }
    return cache(lambda name: made[name]())


ALL = ("explained", "mixed", "three", "hostile", "packing", "promises", "unlike", "many")
PAGES = ALL if SHOTS else ALL[:4]
"""The others are opened where they are looked at: with MORPH_OPT_SCREENSHOTS."""


@pytest.fixture(scope="module")
def opened(
    browser: Any, runs: Callable[[str], list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Opened]:
    parent = tmp_path_factory.mktemp("html")

    def made(name: str, width: int = 1280, scheme: str = "light") -> Opened:
        file = parent / f"{name}.html"
        if not file.exists():
            report(runs(name), file)
        found = Opened(browser, file, width, scheme)
        if SHOTS:
            target = Path(SHOTS) / f"{name}-{width}-{scheme}.png"
            found.page.screenshot(path=str(target), full_page=True)
        return found

    return made


@pytest.mark.parametrize("name", PAGES)
def test_report_loads_nothing_and_has_no_errors(name: str, opened: Callable[..., Opened]) -> None:
    scheme, width = ("dark", 1920) if PAGES.index(name) % 2 else ("light", 1280)
    page = opened(name, width, scheme)
    page.is_quiet()
    for tab in page.page.query_selector_all("[role=tab]")[:4]:
        tab.click()
    page.page.wait_for_timeout(100)
    page.is_quiet()


def test_numbers_in_the_page_are_those_of_the_summary(
    opened: Callable[..., Opened], runs: Callable[[str], list[Path]]
) -> None:
    page = opened("three").page
    shown = page.eval_on_selector_all(
        "#runs tbody tr td:nth-child(2)", "cells => cells.map((cell) => cell.textContent)"
    )
    for text, run in zip(shown, runs("three"), strict=False):
        average = json.loads((run / "summary.json").read_text())["avg_jct_s"]
        assert text.split(" ")[0] == f"{average:,.0f}"
    drawn = page.evaluate(
        """(() => { const d = Bokeh.documents.find((one) => one.rectangles).rectangles.data;
        return d.left.reduce((sum, x, i) => sum + (d.right[i] - x) * (d.top[i] - d.bottom[i]), 0);
        })()"""
    )
    held = json.loads((runs("three")[0] / "summary.json").read_text())["gpu_s_held"]
    assert 60.0 * drawn == pytest.approx(held, rel=1e-6)


def test_any_two_runs_are_chosen_and_drawn(opened: Callable[..., Opened]) -> None:
    page = opened("three", 400, "dark")
    named = """Bokeh.documents[0].all_roots.find((one) => one.name === 'gantt')
        .renderers.filter((one) => one.name === 'labels').map((one) => one.visible)"""
    assert page.page.evaluate(named) == [False]  # names would stand on each other
    points = """(() => { const d = Bokeh.documents.at(-1).get_model_by_name('pairs-points').data;
        return [...d.x].map((x, i) => [x, d.y[i]]); })()"""
    before = page.page.evaluate(points)
    page.page.select_option("#choose-pair select[data-which='1']", "2")
    page.page.select_option("#choose-pair select[data-which='0']", "1")
    after = page.page.evaluate(points)
    assert len(after) == len(before) == 12
    assert after != before
    assert page.page.inner_text("#pair h4").startswith("Completion in shuffler, run-3 less")
    assert "run-3 upwards" in page.page.inner_text("#pair-chart figcaption")
    page.page.select_option("#choose-pair select[data-which='0']", "2")
    assert page.page.inner_text("#pair") == "Choose two different runs."
    assert not page.page.is_visible("#pair-chart")
    page.is_quiet()


def test_everything_is_reached_by_keyboard(opened: Callable[..., Opened]) -> None:
    page = opened("three").page
    page.focus("[role=tab]")
    page.keyboard.press("ArrowRight")
    until(lambda: "run-2" in page.inner_text("#jobs-run"))
    page.focus("#jobs thead th:nth-child(9) button")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the other way round
    assert page.get_attribute("#jobs thead th:nth-child(9)", "aria-sort") == "descending"
    jcts = page.eval_on_selector_all(
        "#jobs tbody td:nth-child(9)",
        "cells => cells.map((cell) => Number(cell.textContent.replaceAll(',', '')))",
    )
    assert jcts == sorted(jcts, reverse=True)
    page.focus("#jobs tbody button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#job:not([hidden])")
    assert "running" in page.inner_text("#job")
    assert page.evaluate("document.activeElement.id") == "job"
    selected = """Bokeh.documents.filter((one) => one.rectangles)
        .reduce((sum, one) => sum + one.rectangles.selected.indices.length, 0)"""
    assert page.evaluate(selected) > 0
    page.focus("#run-1 .legend:not([hidden]) button")
    page.keyboard.press("Space")
    assert page.get_attribute("#run-1 .legend:not([hidden]) button", "aria-pressed") == "true"
    page.focus("#find")
    page.keyboard.type("j1")
    assert page.inner_text("#shown").startswith("3 of 12")  # j1, j10 and j11


def test_names_are_text_and_not_markup(opened: Callable[..., Opened]) -> None:
    page = opened("hostile").page
    found = page.eval_on_selector_all(
        "#jobs tbody button", "presses => presses.map((one) => one.textContent)"
    )
    assert found == list(HOSTILE)
    assert page.evaluate("document.querySelectorAll('img, #jobs script').length") == 0
    page.click("#jobs tbody button")
    page.wait_for_selector("#job:not([hidden])")
    assert page.inner_text("#job h3") == HOSTILE[0]


def test_report_has_labels_for_screen_readers(opened: Callable[..., Opened]) -> None:
    page = opened("explained").page
    assert page.get_attribute("html", "lang") == "en"
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.map((one) => Number(one.tagName[1]))"
    )
    assert all(two <= one + 1 for one, two in pairwise(levels))
    charts = page.evaluate(
        """[...document.querySelectorAll('figure')].every((one) =>
        one.querySelector('figcaption').textContent.trim().length > 20)"""
    )
    assert charts
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, select, input')].filter((one) =>
        !one.textContent.trim() && !one.closest('label') && !one.getAttribute('aria-label')
        && !one.getRootNode().host).length"""
    )
    assert unnamed == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(scheme: str, opened: Callable[..., Opened]) -> None:
    """WCAG: at least 4.5 between text and what is behind it."""
    page = opened("explained", 1280, scheme).page
    ratios = page.evaluate(
        """(() => {
        const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => {
            c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const behind = (one) => { while (one) { const c = getComputedStyle(one).backgroundColor;
            if (!/, 0\\)$/.test(c) && c !== 'transparent') return c; one = one.parentElement; }
            return 'rgb(255,255,255)'; };
        return [...document.querySelectorAll('p, td, th, summary, button, figcaption, h2, caption')]
            .filter((one) => one.textContent.trim() && one.offsetParent && !one.disabled)
            .map((one) => { const a = light(getComputedStyle(one).color), b = light(behind(one));
                return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); });
        })()"""
    )
    assert len(ratios) > 100
    assert min(ratios) >= 4.5
