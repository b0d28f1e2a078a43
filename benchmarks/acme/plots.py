"""What a figure is before it is drawn, and how it is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.documents import write_atomically
from morph_opt.documents.figures import drawing
from morph_opt.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart with any colour vision.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999",
    "#8C6D31", "#843C39",
)  # fmt: skip
_LINES = ("-", "--", "-.", ":")
PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class Series:
    """A curve: name and points.

    Parameters
    ----------
    points
        Whether it is only drawn as points, because it is no function.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    points: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """A panel of curves.

    Parameters
    ----------
    log_x
        Whether x is logarithmic; 0 then stands at the left edge.
    line
        An x that is marked, with its name.
    y_top
        Upper end of y; None for what the curves need.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    line: tuple[float, str] | None = None
    y_top: float | None = 100.0


@dataclass(frozen=True, slots=True)
class Shares:
    """A panel of stacked bars: percent of each part, by bar.

    Parameters
    ----------
    parts
        Names of the parts; ``rows`` has a value for each.
    """

    title: str
    parts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Bars:
    """A panel of single bars."""

    title: str
    y: str
    rows: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Boxes:
    """A panel of boxes: name, lower whisker, quartiles, upper whisker."""

    title: str
    y: str
    rows: Sequence[tuple[str, tuple[float, float, float, float, float]]]


Panel = Curves | Shares | Bars | Boxes


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure: its panels, what has to be said of it, and its numbers.

    Parameters
    ----------
    name
        For example ``"A1"``.
    title
        What is shown.
    panels
        At least one, but for tables.
    notes
        Contradictions and assumptions, a sentence each.
    table
        Numbers that the figure shows.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...]
    table: Table


def draw(plot: Plot, path: Path) -> None:
    """Write the picture of a figure with its caption."""
    count = len(plot.panels)
    width = 5.4 * count if count > 1 else 6.6
    caption = textwrap.wrap(" ".join(plot.notes), int(width * 16))
    below = 0.95 if any(isinstance(panel, Shares) for panel in plot.panels) else 0.0
    height = 4.3 + below + 0.16 * len(caption)
    with drawing((width, height), layout=None) as (figure, encoded):
        low = (0.72 + below + 0.16 * len(caption)) / height
        axes = figure.subplots(1, count, squeeze=False)[0]
        figure.subplots_adjust(
            left=0.75 / width, right=1 - 0.2 / width, bottom=low, top=1 - 0.62 / height,
            wspace=0.28,
        )  # fmt: skip
        for one, panel in zip(axes, plot.panels, strict=True):
            _panel(one, panel)
        figure.suptitle(f"{plot.name}  {plot.title}", fontsize=10.5, y=1 - 0.12 / height)
        figure.text(
            0.12 / width, 0.06 / height, "\n".join(caption), fontsize=7.0, va="bottom", color="0.25"
        )
        write_atomically(path, encoded(path.suffix, dpi=130))


def short_number(value: float) -> str:
    """A number of a few letters: 512, 4k, 262k, 2M."""
    for unit, word in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.0f}{word}"
    return f"{value:g}"


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=9.0)
    axes.spines[["top", "right"]].set_visible(False)
    match panel:
        case Curves():
            _curves(axes, panel)
        case Shares():
            _shares(axes, panel)
        case Bars():
            names = [name for name, _ in panel.rows]
            axes.bar(range(len(names)), [v for _, v in panel.rows], color=COLOURS[0], width=0.6)
            axes.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8.0)
            axes.set_ylabel(panel.y)
            axes.grid(axis="y", color="0.9", linewidth=0.6)
            axes.set_axisbelow(True)
        case Boxes():
            _boxes(axes, panel)


def _curves(axes: Axes, panel: Curves) -> None:
    for at, one in enumerate(panel.series):
        colour, line = COLOURS[at % len(COLOURS)], _LINES[at // 3 % len(_LINES)]
        if one.points:
            axes.plot(one.x, one.y, "x", color=colour, label=one.name, markersize=5.0)
        else:
            axes.plot(one.x, one.y, linestyle=line, color=colour, label=one.name, linewidth=1.6)
    if panel.log_x:
        axes.set_xscale("log", base=2 if max(max(s.x) for s in panel.series) > 64 else 10)
        axes.xaxis.set_major_formatter(lambda x, _: short_number(x))
    if panel.line is not None:
        axes.axvline(panel.line[0], color="0.4", linewidth=0.8, linestyle=":")
        axes.text(panel.line[0], 4, f" {panel.line[1]}", fontsize=7.5, color="0.3")
    axes.set(xlabel=panel.x, ylabel=panel.y)
    axes.set_ylim(0, panel.y_top)
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.legend(fontsize=7.5, frameon=True, framealpha=0.85)


def _shares(axes: Axes, panel: Shares) -> None:
    left = [0.0] * len(panel.rows)
    for at, part in enumerate(panel.parts):
        values = [row[at] for _, row in panel.rows]
        axes.barh(range(len(values)), values, left=left, label=part, color=COLOURS[at % 10])
        for row, (begin, value) in enumerate(zip(left, values, strict=True)):
            if value >= 5.0:
                axes.text(begin + value / 2, row, f"{value:.1f}", ha="center", va="center",
                          fontsize=7.0, color="white")  # fmt: skip
        left = [begin + value for begin, value in zip(left, values, strict=True)]
    axes.set_yticks(range(len(panel.rows)), [name for name, _ in panel.rows], fontsize=8.0)
    axes.invert_yaxis()
    axes.set(xlabel="percent", xlim=(0, 100))
    axes.legend(
        fontsize=7.0, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False
    )


def _boxes(axes: Axes, panel: Boxes) -> None:
    stats = [
        {"label": name, "whislo": a, "q1": b, "med": c, "q3": d, "whishi": e, "fliers": []}
        for name, (a, b, c, d, e) in panel.rows
    ]
    axes.bxp(stats, showfliers=False, patch_artist=True,
             boxprops={"facecolor": "#BBD7EA"}, medianprops={"color": "#D55E00"})  # fmt: skip
    axes.set_yscale("symlog", base=2, linthresh=1)
    axes.yaxis.set_major_formatter(lambda y, _: short_number(y))
    axes.set_ylabel(panel.y)
    axes.tick_params(axis="x", labelsize=7.5, rotation=30)
    axes.grid(axis="y", color="0.9", linewidth=0.6)
