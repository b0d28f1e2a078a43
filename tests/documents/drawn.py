"""What is wrong with a figure to a reader's eye, from the boxes of the texts that it draws."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from traceback import walk_stack
from typing import Any

import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from morph_opt.core.documents.style import INK, PALETTE

COLOURS = {colour.lower() for colour in (*PALETTE, INK)}
NUMBER = re.compile(r"[-\N{MINUS SIGN}]?\d[\d.,]*[kM%x]?")
BETWEEN_PX = 1.0
"""Two labels on a line that are nearer are read as one."""


def texts_of(figure: Figure) -> list[tuple[Text, Any]]:
    """Texts that are drawn, with their boxes; ticks beyond an axis are not."""
    canvas = FigureCanvasAgg(figure)
    found: list[Text] = []
    plain = Text.draw

    def noted(self: Text, renderer: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            found.append(self)
        plain(self, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        canvas.draw()
    renderer = canvas.get_renderer()
    once = {id(text): text for text in found}.values()
    return [(text, Text.get_window_extent(text, renderer)) for text in once]


def problems(figure: Figure) -> list[str]:
    """Texts on each other, tilted or beyond the page, axes without a unit, a ground, a colour."""
    texts = texts_of(figure)
    page = figure.bbox
    found = [
        f"{one.get_text()!r} and {two.get_text()!r} stand on each other"
        for (one, a), (two, b) in combinations(texts, 2)
        if a.x0 < b.x1 + BETWEEN_PX
        and b.x0 < a.x1 + BETWEEN_PX
        and a.y0 < b.y1 - BETWEEN_PX  # lines of text share the room between them
        and b.y0 < a.y1 - BETWEEN_PX
    ]
    found += [
        f"{text.get_text()!r} is beyond the page"
        for text, box in texts
        if min(box.x0, box.y0, page.x1 - box.x1, page.y1 - box.y1) < -1.0
    ]
    found += [f"{t.get_text()!r} is tilted" for t, _ in texts if t.get_rotation() % 90.0]
    drawn = {id(text) for text, _ in texts}
    for axes in figure.axes:
        found += _unlabelled(axes, drawn)
        grounds = axes.patch, figure.patch
        found += ["a ground is drawn" for one in grounds if one.get_visible() and one.get_fc()[3]]
        found += [
            f"{colour} is not of the palette" for colour in _colours(axes) if colour not in COLOURS
        ]
    return found


def _unlabelled(axes: Axes, drawn: set[int]) -> list[str]:
    found = []
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        labels = [one for one in axis.get_ticklabels() if id(one) in drawn]
        if not labels or not all(NUMBER.fullmatch(one.get_text()) for one in labels):
            continue  # names say themselves what they are
        alike = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
        figures = {axes.figure, axes.figure.figure}
        words = [getattr(one, f"get_{name}label")() for one in alike]
        words += [getattr(one, f"get_sup{name}label")() for one in figures]
        words += [axes.get_title(loc="left")] if name == "y" else []
        if not any(words):
            found.append(f"the {name} axis of {axes.get_title()!r} says no quantity")
    return found


def _colours(axes: Axes) -> Iterator[str]:
    """Of lines, surfaces and texts; white is of texts on a bar."""
    children: list[Artist] = [*axes.lines, *axes.collections, *axes.patches, *axes.texts]
    for one in children:
        for what in ("get_color", "get_facecolor"):
            given = getattr(one, what, lambda: "none")()
            for colour in given if getattr(given, "ndim", 1) == 2 else [given]:
                known = to_hex(colour) if not _empty(colour) else None
                if known is not None and not (isinstance(one, Text) and known == "#ffffff"):
                    yield known


def _empty(colour: Any) -> bool:
    return (isinstance(colour, str) and colour.lower() == "none") or (
        len(colour) == 4 and not isinstance(colour, str) and colour[3] == 0
    )


@contextmanager
def watched(found: dict[str, list[str]], callers: set[str]) -> Iterator[None]:
    """Figures that are written within are looked at: problems by the function that drew them."""
    plain = Figure.savefig

    def looked_at(self: Figure, *arguments: Any, **settings: Any) -> None:
        plain(self, *arguments, **settings)
        # The frame's own function calls this one; whoever called that has drawn.
        stack = [frame.f_code for frame, _ in walk_stack(None)]
        callers.update(f"{code.co_filename}:{code.co_name}" for code in stack)
        by = next(c for c in stack if c.co_name not in ("looked_at", "encoded", "<lambda>"))
        found.setdefault(by.co_name, []).extend(problems(self))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", looked_at)
        yield


class Gallery:
    """Makers of the pictures of a package, by name; what each draws is looked at once."""

    def __init__(self) -> None:
        self.makers: dict[str, Callable[[Path], object]] = {}
        self._seen: dict[str, tuple[dict[str, list[str]], set[str]]] = {}

    def __call__(self, maker: Callable[[Path], object]) -> Callable[[Path], object]:
        """Take a maker in; it is given a folder of its own."""
        self.makers[maker.__name__] = maker
        return maker

    def looked_at(self, name: str, folder: Path) -> tuple[dict[str, list[str]], set[str]]:
        """Problems by the function that drew, and which functions were called for it."""
        if name not in self._seen:
            found: tuple[dict[str, list[str]], set[str]] = ({}, set())
            (folder / name).mkdir()
            with watched(*found):
                self.makers[name](folder / name)
            self._seen[name] = found
        return self._seen[name]

    def unseen(self, package: Path, folder: Path) -> set[str]:
        """Functions of a package that open the frame of figures, and that no maker calls."""
        called = set().union(*(self.looked_at(name, folder)[1] for name in self.makers))
        return functions_that_draw(package) - called


def functions_that_draw(package: Path) -> set[str]:
    """Those that open the frame of figures, by file and name."""
    return {
        f"{path}:{function.name}"
        for path in package.rglob("*.py")
        if "drawing(" in (text := path.read_text("utf-8"))
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        and any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "drawing"
            for node in ast.walk(function)
        )
    }
