"""What was ugly and how it looks now, side by side, into ``reports/looks``.

    python -m tests.report.looks

Pictures and pages of ``BEFORE``, the commit at which ten looks were listed, are taken from the
repository's history, those of today from where they lie; Chromium draws both.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser import Page, browser

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "reports" / "looks"
BEFORE = "7bf5549"
Show = Callable[[Page, Path, Path], None]
"""Draws a side from its tree into a file."""


@dataclass(frozen=True, slots=True)
class Look:
    """One of the ten.

    Parameters
    ----------
    name
        Of its two files.
    was, done
        What was wrong and what was done, a sentence each.
    before, after
        How each side is drawn.
    width
        Of the screen, pixels.
    dark
        Whether the screen is dark.
    """

    name: str
    was: str
    done: str
    before: Show
    after: Show
    width: int = 620
    dark: bool = False


def picture(*names: str) -> Show:
    """Files of a tree as a page shows them."""

    def show(page: Page, tree: Path, file: Path) -> None:
        images = "".join(f'<img src="{(tree / name).as_uri()}">' for name in names)
        shown = file.with_suffix(".html")
        shown.write_text(
            "<style>body { margin: 0; background: light-dark(#fff, #15181c); }"
            ":root { color-scheme: light dark; } div { padding: 8px; }"
            f"img {{ max-width: 100%; display: block; }}</style><div>{images}</div>"
        )
        page.open(shown)
        page.screenshot(file, "div")

    return show


def site(name: str, of: str = "") -> Show:
    """The top of a page of the documentation, or from an element on."""

    def show(page: Page, tree: Path, file: Path) -> None:
        page.open(tree / "build" / "site" / name)
        if of:
            page.evaluate(f"document.querySelector('{of}').scrollIntoView()")
        page.screenshot(file)

    return show


def report(of: str, chosen: str = "") -> Show:
    """A part of the example report, with a job of this name chosen."""

    def show(page: Page, tree: Path, file: Path) -> None:
        page.open(tree / "reports" / "example" / "base.html")
        page.until(
            "document.documentElement.dataset.ready && Bokeh.documents.every((d) => d.is_idle)"
        )
        if chosen:
            page.evaluate("document.querySelector('#find').focus()")
            page.write(chosen)
            page.evaluate("document.querySelector('#jobs tbody button').click()")
        page.evaluate("new Promise((done) => setTimeout(done, 500))")
        page.screenshot(file, of)

    return show


GANTT = "#run-0 .chart[data-root=gantt]"
LOOKS = (
    Look(
        "micro-batch",
        "Tick labels that collide, an axis called after a job, three units on it.",
        "A panel for each quantity with its unit, over time.",
        *[picture("reports/perf/micro-batch.svg")] * 2,
    ),
    Look(
        "tables",
        "Columns as wide as the screen allows, words broken anywhere.",
        "Words stay whole; too wide a table scrolls, with a shadow at the edge that says so.",
        site("index.html", "table"),
        site("reports/readme/index.html", "table"),
        width=400,
    ),
    Look(
        "comparison",
        "Eighteen thousand pixels of tables.",
        "Dots and intervals, a panel per trace, above them.",
        site("reports/comparison/index.html"),
        picture("reports/comparison/over-default.svg"),
    ),
    Look(
        "planning",
        "Whiskers on one spot, lines through sizes nobody tested, colours by place.",
        "A panel per policy, points alone, the colour that the policy has everywhere.",
        *[picture("reports/planning/chance.svg", "reports/planning/cost.svg")] * 2,
    ),
    Look(
        "scale",
        "Unlike instances joined by a line.",
        "Points alone.",
        *[picture("reports/scale/seconds.svg")] * 2,
    ),
    Look(
        "timeline",
        "At 400 pixels letters of four, two blues nearly one, white on a dark page.",
        "A picture of its own for narrow screens, colours told apart, a transparent ground.",
        picture("reports/readme/base.svg"),
        picture("reports/readme/base-narrow.svg"),
        400,
        True,
    ),
    Look(
        "axes",
        "Labels of logarithmic axes that collide, or one alone; dashed red over blue.",
        "Plain numbers, as many as have room, chosen anew at every zoom.",
        *[report("#h-distributions + .grid")] * 2,
        width=900,
    ),
    Look(
        "chosen",
        "A chosen job: names of all others stay, its own slivers have none.",
        "Other names fade, its own stands where it held most.",
        *[report(GANTT, "vit-21")] * 2,
        width=900,
    ),
    Look(
        "sidebar",
        "115 links in one list, no dark switch, no picture above the fold.",
        "Sections by person, decisions and reports folded, a switch, the picture first.",
        *[site("index.html")] * 2,
        width=1240,
    ),
    Look(
        "protocol",
        "Seven panels in a style of their own, ticks that overlap.",
        "Three abreast, plain numbers, one pair of labels.",
        picture("reports/perf/protocol.svg"),
        picture("reports/perf/protocol.svg"),
    ),
)


def main() -> int:
    """Draw both sides of every look, and the page."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory() as name, browser() as started:
        old, today = Path(name) / "before", Path(name) / "after"
        for tree, commit in ((old, BEFORE), (today, "HEAD")):
            tree.mkdir()
            packed = subprocess.run(
                ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
            )
            subprocess.run(["tar", "x", "-C", str(tree)], input=packed.stdout, check=True)
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
            subprocess.run(command, cwd=tree, check=True)
        for look in LOOKS:
            for tree, show, side in ((old, look.before, "before"), (today, look.after, "after")):
                page = started.page(look.width, 700, dark=look.dark)
                file = Path(name) / f"{look.name}-{side}.png"
                show(page, tree, file)
                (OUT / file.name).write_bytes(file.read_bytes())
                print(file.name, file.stat().st_size, flush=True)
    (OUT / "README.md").write_text(text(), "utf-8")
    return 0


def text() -> str:
    """The page."""
    lines = [
        "# Ten looks, before and after",
        "",
        f"Made by `python -m tests.report.looks`: on the left commit {BEFORE}, at which they were "
        "listed.",
        "",
    ]
    for number, look in enumerate(LOOKS, 1):
        lines += [
            f"## {number}. {look.name.capitalize()}",
            "",
            f"{look.was} {look.done}",
            "",
            "| before | after |",
            "| --- | --- |",
            f"| ![before]({look.name}-before.png) | ![after]({look.name}-after.png) |",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
