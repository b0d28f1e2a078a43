"""What a chart of the report writes beside its marks, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the extra report is not installed")

from benchmarks.checks.browser import Browser, Page, needs_browser
from benchmarks.checks.browser import browser as started
from morph_opt.report.api import report
from tests.runs.views.worlds import moved

pytestmark = [pytest.mark.browser, needs_browser]
LABELS = """Bokeh.documents.flatMap((one) => one.all_roots)
    .flatMap((one) => one.renderers ?? []).find((one) => one.name === 'labels')"""
TICKS = """Bokeh.documents.flatMap((one) => one.all_roots).flatMap((chart) => [
    [chart.below, chart.x_range, chart.inner_width],
    [chart.left, chart.y_range, chart.inner_height]]
    .flatMap(([axes, range, size]) => (axes ?? []).filter((one) => one.type.endsWith('LogAxis'))
    .map((axis) => [size, range.start, range.end, ...axis.ticker.ticks])))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    report([moved(folder / f"run-{seed}", seed=seed) for seed in (1, 2)], folder / "page.html")
    return folder / "page.html"


def opened(browser: Browser, file: Path, width: int, *, dark: bool = False) -> Page:
    page = browser.page(width, dark=dark)
    page.open(file)
    page.until("document.documentElement.dataset.ready === 'true'")
    return page


@pytest.mark.parametrize("width", [400, 1280])
def test_logarithmic_axes_have_numbers_with_room_between(
    width: int, browser: Browser, file: Path
) -> None:
    page = opened(browser, file, width)
    page.until(f"{TICKS}.every((one) => one.length > 4)")
    axes = page.evaluate(TICKS)
    assert len(axes) >= 5  # three distributions, pairs have two
    for size, low, high, *ticks in axes:
        share = page.evaluate(f"Math.log({high} / {low})")
        for one, two in pairwise(ticks):
            apart = size * page.evaluate(f"Math.log({two} / {one})") / share
            assert apart >= 20.0, (ticks, size)  # pixels; letters are 11 high
    assert page.said == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_chosen_job_is_named_and_all_others_fade(
    dark: bool, browser: Browser, file: Path
) -> None:
    page = opened(browser, file, 1280, dark=dark)
    ground = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--back')")
    assert page.evaluate(f"{LABELS}.glyph.background_fill_color.value") == ground.strip()
    named = set(page.evaluate(f"[...{LABELS}.data_source.data.text]"))
    jobs = page.evaluate(
        "[...document.querySelectorAll('#jobs tbody button')].map((one) => one.textContent)"
    )
    for job in (*named, next(one for one in jobs if one not in named)):
        page.evaluate(
            f"""[...document.querySelectorAll('#jobs tbody button')]
            .find((one) => one.textContent === '{job}').click()"""
        )
        shown = page.evaluate(
            f"""(({{ text, alpha }}) => [...text].map((one, k) => [one, alpha[k]]))
            ({LABELS}.data_source.data)"""
        )
        assert {text for text, alpha in shown if alpha == 1} == {job}
    page.evaluate("[...document.querySelectorAll('#job button')][0].click()")
    assert set(page.evaluate(f"[...{LABELS}.data_source.data.alpha]")) <= {1}
    assert page.said == []
