"""What a figure is before it is drawn, and how it is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import dots, drawing, line, logarithmic, rules
from morph_opt.core.documents.style import BLUE, INK, ORANGE, PALETTE, Look, looks, plain_number
from morph_opt.core.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """A panel of single bars; ``y`` says what they measure."""

    title: str
    y: str
    rows: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Boxes:
    """A panel of boxes: name, lower whisker, quartiles, upper whisker; ``y`` is what of."""

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
    below = 0.16 * len(caption) + 0.12
    legend = 0.9 if any(isinstance(panel, Shares) for panel in plot.panels) else 0.0
    height = 4.0 + below + legend
    with drawing((width, height)) as (figure, encoded):
        figure.get_layout_engine().set(rect=(0.0, below / height, 1.0, 1.0 - below / height))  # type: ignore[union-attr,call-arg]
        axes = figure.subplots(1, count, squeeze=False)[0]
        for one, panel in zip(axes, plot.panels, strict=True):
            _panel(one, panel)
        figure.suptitle(f"{plot.name}  {plot.title}", fontsize=10.5)
        figure.text(0.12 / width, 0.06 / height, "\n".join(caption), fontsize=7.0, va="bottom")
        write_atomically(path, encoded(path.suffix, dpi=130))


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    match panel:
        case Curves():
            _curves(axes, panel)
        case Shares():
            _shares(axes, panel)
        case Bars():
            axes.barh(range(len(panel.rows)), [v for _, v in panel.rows], color=BLUE, height=0.6)
            _named(axes, [name for name, _ in panel.rows], panel.y)
        case Boxes():
            _boxes(axes, panel)


def _curves(axes: Axes, panel: Curves) -> None:
    drawn = looks([f"series {one.name}" for one in panel.series])
    for look, one in zip(drawn, panel.series, strict=True):
        if one.points:
            axes.plot(one.x, one.y, label=one.name, **dots(Look(look.colour, mark="x")))
        else:
            axes.plot(one.x, one.y, label=one.name, **line(look))
    if panel.log_x:
        every = [x for one in panel.series for x in one.x if x > 0]
        logarithmic(axes.xaxis, min(every), max(every))
        axes.xaxis.set_major_formatter(lambda x, _: plain_number(x))
    if panel.line is not None:
        axes.axvline(panel.line[0], color=INK, linewidth=0.8, linestyle=":")
        axes.text(panel.line[0], 4, f" {panel.line[1]}", fontsize=7.5)
    axes.set(xlabel=panel.x, ylabel=panel.y)
    axes.set_ylim(0, panel.y_top)
    rules(axes)
    axes.legend(fontsize=7.5)


def _shares(axes: Axes, panel: Shares) -> None:
    left = [0.0] * len(panel.rows)
    for at, part in enumerate(panel.parts):
        values = [row[at] for _, row in panel.rows]
        axes.barh(
            range(len(values)),
            values,
            left=left,
            label=part,
            color=PALETTE[at % len(PALETTE)],
            alpha=0.8,
        )
        for row, (begin, value) in enumerate(zip(left, values, strict=True)):
            if value >= 5.0:
                axes.text(
                    begin + value / 2,
                    row,
                    f"{value:.1f}",
                    ha="center",
                    va="center",
                    fontsize=7.0,
                    color="white",
                )
        left = [begin + value for begin, value in zip(left, values, strict=True)]
    axes.set_yticks(range(len(panel.rows)), [name for name, _ in panel.rows], fontsize=8.0)
    axes.invert_yaxis()
    axes.set(xlabel="share (%)", xlim=(0, 100))
    axes.legend(fontsize=7.0, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def _boxes(axes: Axes, panel: Boxes) -> None:
    from matplotlib.ticker import SymmetricalLogLocator

    stats = [
        {"label": name, "whislo": a, "q1": b, "med": c, "q3": d, "whishi": e, "fliers": []}
        for name, (a, b, c, d, e) in panel.rows
    ]
    axes.bxp(
        stats,
        showfliers=False,
        patch_artist=True,
        orientation="horizontal",
        whiskerprops={"color": INK},
        capprops={"color": INK},
        boxprops={"facecolor": BLUE, "alpha": 0.4, "edgecolor": INK},
        medianprops={"color": ORANGE, "linewidth": 2.0},
    )
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.xaxis.set_major_locator(SymmetricalLogLocator(base=8.0, linthresh=1.0))
    axes.xaxis.set_major_formatter(lambda x, _: plain_number(x))
    _named(axes, [name for name, _ in panel.rows], panel.y, first=1)


def _named(axes: Axes, names: Sequence[str], measured: str, first: int = 0) -> None:
    """A name per row, to be read without tilting one's head, and rules for their values."""
    axes.set_yticks(range(first, first + len(names)), names, fontsize=8.0)
    axes.invert_yaxis()
    axes.set_xlabel(measured)
    rules(axes, "x")
