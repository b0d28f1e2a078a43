"""Chart of GPUs by node over time, drawn by Bokeh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from morph_opt.core.documents.style import BLUE, DARK, INK, LIGHT, OTHER, PALETTE
from morph_opt.report.drawing.charts import TimeAxis, canvas
from morph_opt.report.groups import label, short
from morph_opt.simulation.runs.views.view import RunView

if TYPE_CHECKING:
    from bokeh.models import Range1d
    from bokeh.plotting import figure

MOST_RECTANGLES = 250_000
"""Largest number of rectangles; above it only the share of each node in use is drawn."""
MOST_NODES = 64
"""Largest number of nodes drawn by GPU; above it shares are drawn until one zooms in."""
MOST_TICKS = 32
"""Largest number of labelled nodes on the axis."""
LABELS = 60
"""Number of rectangles with their job's name."""
LABEL_LETTERS = 14
"""Largest number of letters of a name in the chart."""
LETTER = 0.008
"""Width of a letter, as a share of the chart's."""
LABEL_GROUND = 0.7
"""Opacity of a name's background."""
_OF_RECTANGLES = ("job", "segment", "partner", "node")
"""Columns of a rectangle next to its ends."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Level of detail of the chart.

    Parameters
    ----------
    by_node
        Whether the shares of nodes are drawn.
    by_gpu
        Whether the jobs' rectangles are drawn; with ``by_node`` on zooming in only.
    """

    by_node: bool
    by_gpu: bool

    @classmethod
    def of(cls, view: RunView) -> Detail:
        """Return the level of detail for a run of this size."""
        fits = len(view.rectangles) <= MOST_RECTANGLES
        return cls(len(view.nodes.gpus) > MOST_NODES or not fits, fits)


def draw_gantt(view: RunView, x_range: Range1d, axis: TimeAxis, left_px: int) -> figure:
    """Draw the chart; its sources are named for the page's script."""
    from bokeh.models import Range1d

    nodes = view.nodes
    detail = Detail.of(view)
    height = int(min(640, max(180, 80 + 7 * nodes.total)))
    chart = canvas(
        "gantt",
        height,
        "pan,xwheel_zoom,box_zoom,tap,reset,save",
        x_range=x_range,
        y_range=Range1d(nodes.total, 0, bounds=(0, nodes.total)),
        min_border_left=left_px,
    )
    chart.xaxis.axis_label = axis.title
    _node_axis(view, chart)
    if detail.by_gpu:
        _rectangles(view, chart, axis, visible=not detail.by_node)
    if detail.by_node:
        _shares(view, chart, axis)
    _outages(view, chart, axis)
    return chart


def _node_axis(view: RunView, chart: figure) -> None:
    """Draw a label in the middle of each node's GPUs, and a line at its end."""
    from bokeh.models import FixedTicker

    first = view.nodes.first_gpu
    step = -(-len(view.nodes.gpus) // MOST_TICKS)
    shown = range(0, len(view.nodes.gpus), step)
    middles = [0.5 * float(first[k] + first[k + 1]) for k in shown]
    chart.yaxis.ticker = FixedTicker(ticks=middles)
    chart.yaxis.major_label_overrides = {
        middle: label(view.nodes.names[k], 16) for middle, k in zip(middles, shown, strict=True)
    }
    chart.yaxis.axis_label = "node"
    chart.grid.visible = False
    if step == 1:
        chart.ygrid.ticker = FixedTicker(ticks=[float(edge) for edge in first[1:-1]])
        chart.ygrid.visible = True


def _quads(
    chart: figure,
    name: str,
    spans: tuple[Floats, Floats],
    rows: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    data: Mapping[str, object],
    **look: Any,
) -> Any:
    """Draw rectangles from a source of the same name.

    Parameters
    ----------
    spans
        Left and right ends, in units of the axis.
    rows
        Bottom and top ends, in GPUs.
    data
        Further columns of the source.
    """
    from bokeh.models import ColumnDataSource

    left, right = spans
    bottom, top = (ends.astype(np.float32) for ends in rows)
    ends = {"left": left, "right": right, "bottom": bottom, "top": top}
    source = ColumnDataSource(name=name, data={**ends, **data})
    return chart.quad(source=source, name=name, **{end: end for end in ends}, **look)


def _rectangles(view: RunView, chart: figure, axis: TimeAxis, *, visible: bool) -> None:
    from bokeh.models import HoverTool, LinearColorMapper

    r = view.rectangles
    left, right = axis.of(r.start_s), axis.of(r.end_s)
    about = {name: getattr(r, name).astype(np.int32) for name in _OF_RECTANGLES}
    mapper = LinearColorMapper(palette=PALETTE, low=-0.5, high=OTHER + 0.5)
    drawn = _quads(
        chart,
        "rectangles",
        (left, right),
        (r.bottom, r.top),
        about | {"code": np.zeros(len(r), dtype=np.uint8)},
        fill_color={"field": "code", "transform": mapper},
        visible=visible,
        line_color=None,
        nonselection_fill_alpha=0.12,
        selection_fill_alpha=1.0,
    )
    lit = r.startup_until_s > r.start_s
    until = axis.of(np.minimum(r.startup_until_s, r.end_s))
    light = {"fill_color": LIGHT, "fill_alpha": 0.55, "visible": visible, "line_color": None}
    spans, rows = (left[lit], until[lit]), (r.bottom[lit], r.top[lit])
    _quads(chart, "startups", spans, rows, {}, **light)
    _names(view, chart, axis, visible=visible)
    tooltips = [
        ("job", "@job_name"), ("model", "@model"), ("plan", "@plan"), ("GPUs", "@gpus"),
        ("on", "@node_name"), ("from", "@from"), ("to", "@to"), ("ended by", "@why"),
        ("beside", "@beside"),
    ]  # fmt: skip
    chart.add_tools(HoverTool(renderers=[drawn], tooltips=tooltips, attachment="horizontal"))


def _names(view: RunView, chart: figure, axis: TimeAxis, *, visible: bool) -> None:
    """Write names of jobs into the largest rectangles, so that not only colour distinguishes them.

    The page takes the colours of ``labels`` and ``startups`` from its background. Once a job is
    chosen it fades the other names and adds the job's name, however thin its rectangles are.
    """
    from bokeh.models import ColumnDataSource

    r = view.rectangles
    wide, high = r.end_s - r.start_s, r.top - r.bottom
    tall = max(2.0, view.nodes.total / 24.0)
    names = [short(row.job, LABEL_LETTERS) for row in view.jobs]
    room = LETTER * view.end_s * np.asarray([len(name) for name in names], dtype=np.float64)
    fits = np.flatnonzero((wide > room[r.job]) & (high >= tall))
    order = fits[np.argsort(-(wide * high)[fits], kind="stable")][:LABELS]
    texts = [names[int(job)] for job in r.job[order]]
    source = ColumnDataSource(
        name="labels",
        data={
            "x": axis.of(0.5 * (r.start_s + r.end_s)[order]),
            "y": 0.5 * (r.bottom + r.top)[order],
            "text": texts,
            "job": r.job[order].astype(np.int32),
            "alpha": np.ones(len(order), dtype=np.float32),
            "ground": np.full(len(order), LABEL_GROUND, dtype=np.float32),
        },
    )
    chart.text(
        source=source,
        x="x",
        y="y",
        text="text",
        text_align="center",
        text_baseline="middle",
        text_font_size="10px",
        text_color=DARK,
        text_alpha="alpha",
        name="labels",
        visible=visible,
        background_fill_color=LIGHT,
        background_fill_alpha="ground",
        padding=1,
    )


def _shares(view: RunView, chart: figure, axis: TimeAxis) -> None:
    """Draw one row per node, darker the more of it is in use."""
    node, start_s, end_s, part = node_shares(view)
    first = view.nodes.first_gpu
    _quads(
        chart,
        "shares",
        (axis.of(start_s), axis.of(end_s)),
        (first[node], first[node + 1]),
        {"alpha": (0.9 * part).astype(np.float32)},
        line_color=None,
        fill_color=BLUE,
        fill_alpha="alpha",
    )


MOST_BINS = 150_000
"""Largest number of cells in the picture of shares: nodes times stretches of time."""


def node_shares(view: RunView) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
    """Return node, from, until and share of GPUs held over equal stretches, without zeros."""
    nodes, r = view.nodes, view.rectangles
    bins = int(np.clip(MOST_BINS // max(1, len(nodes.gpus)), 24, 600))
    edges = np.linspace(0.0, max(view.end_s, 1.0), bins + 1)
    held = np.zeros((len(nodes.gpus), bins))
    gpus = r.top - r.bottom
    width = edges[1]
    from_bin = np.clip((r.start_s / width).astype(np.int64), 0, bins - 1)
    to_bin = np.clip((r.end_s / width).astype(np.int64), 0, bins - 1)
    for offset in range(int((to_bin - from_bin).max(initial=0)) + 1):
        at = np.flatnonzero(from_bin + offset <= to_bin)
        which = from_bin[at] + offset
        inside = np.minimum(r.end_s[at], edges[which + 1]) - np.maximum(r.start_s[at], edges[which])
        np.add.at(held, (r.node[at], which), gpus[at] * np.maximum(inside, 0.0))
    part = held / (width * np.asarray(nodes.gpus, dtype=np.float64)[:, None])
    node, which = np.nonzero(part > 5e-4)
    return node, edges[which], edges[which + 1], np.minimum(part[node, which], 1.0)


def _outages(view: RunView, chart: figure, axis: TimeAxis) -> None:
    """Hatch the times when a node was away."""
    if not view.outages:
        return
    first = view.nodes.first_gpu
    node = np.asarray([one.node for one in view.outages])
    start_s = np.asarray([one.start_s for one in view.outages])
    end_s = np.asarray([one.end_s for one in view.outages])
    _quads(
        chart,
        "outages",
        (axis.of(start_s), axis.of(end_s)),
        (first[node], first[node + 1]),
        {"hatch": ["x" if one.status == "failed" else "/" for one in view.outages]},
        line_color=INK,
        fill_color=INK,
        fill_alpha=0.15,
        hatch_pattern="hatch",
        hatch_color=INK,
        hatch_alpha=0.8,
    )
