"""Charts over time and distributions, drawn by Bokeh."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.documents.style import BLUE, DASHES, INK, ORANGE, OTHER, PALETTE, key, looks
from morph_opt.report.groups import label, short
from morph_opt.report.paired import Pairing
from morph_opt.simulation.runs.views.explanations import Price
from morph_opt.simulation.runs.views.series import Steps, gpus_held, gpus_there
from morph_opt.simulation.runs.views.view import RunView

if TYPE_CHECKING:
    from bokeh.models import Range1d
    from bokeh.plotting import figure


MOST_STEPS = 6_000
"""Largest number of steps of a curve; longer ones are drawn as means over equal stretches."""
MOST_ROUNDS = 20_000
"""Largest number of points of rounds; above it every n-th and the largest are drawn."""
LABEL = 18
"""Largest number of letters in a line of an axis' label."""
QUANTILES = np.linspace(0.0, 1.0, 401)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Axis of time with its unit.

    Parameters
    ----------
    unit
        ``min``, ``h`` or ``d``.
    unit_s
        Length of the unit in seconds.
    """

    unit: str
    unit_s: float

    @classmethod
    def until(cls, end_s: float) -> TimeAxis:
        """Choose the unit in which the end is a number of readable size.

        >>> TimeAxis.until(7e4).unit
        'h'
        """
        if end_s < 2.0 * 3600.0:
            return cls("min", 60.0)
        return cls("h", 3600.0) if end_s < 20.0 * 86400.0 else cls("d", 86400.0)

    @property
    def title(self) -> str:
        """Title of the axis."""
        return f"simulated time ({self.unit})"

    def of(self, seconds: Floats) -> Floats:
        """Convert seconds to the unit."""
        return np.asarray(seconds, dtype=np.float64) / self.unit_s


class TimeCharts:
    """Charts of one run that share its time range.

    Parameters
    ----------
    view
        The run.
    x_range, axis
        The range and its unit.
    left_px
        Width kept for labels, the same for all.
    """

    def __init__(self, view: RunView, x_range: Range1d, axis: TimeAxis, left_px: int) -> None:
        self._view = view
        self._x_range = x_range
        self._axis = axis
        self._left_px = left_px

    def _figure(self, name: str, title: str, **more: Any) -> figure:
        chart = canvas(
            name,
            190,
            "pan,xwheel_zoom,box_zoom,reset",
            x_range=self._x_range,
            toolbar_location=None,
            min_border_left=self._left_px,
            **more,
        )
        chart.yaxis.axis_label = textwrap.fill(title, LABEL)
        chart.xaxis.axis_label = self._axis.title
        return chart

    def _column(self, name: str) -> Floats:
        """Return a column of the rounds as numbers, shape (rounds,)."""
        return np.asarray(self._view.run.rounds.column(name), dtype=np.float64)

    def _steps(self, chart: figure, steps: Steps, name: str, place: int, **more: Any) -> None:
        thin = steps.thinned(MOST_STEPS)
        colour = PALETTE[place % OTHER]
        chart.step(
            self._axis.of(thin.time_s),
            thin.value.astype(np.float32),
            mode="after",
            color=colour,
            legend_label=name,
            **more,
        )

    def _area(self, chart: figure, steps: Steps, name: str, place: int) -> None:
        """Fill the area below a curve in a light colour, so that curves that meet are both seen."""
        thin = steps.thinned(MOST_STEPS)
        chart.varea_step(
            self._axis.of(thin.time_s),
            0.0,
            thin.value.astype(np.float32),
            step_mode="after",
            fill_color=PALETTE[place % OTHER],
            fill_alpha=0.35,
            legend_label=name,
        )

    def jobs(self) -> figure:
        """Draw the numbers of active, running and queued jobs."""
        time_s, active = self._column("time_s"), self._column("jobs")
        running = self._column("running")
        chart = self._figure("jobs-chart", "jobs")
        curves = {"active": active, "running": running, "queued": active - running}
        for place, (name, value) in enumerate(curves.items()):
            steps = _between_rounds(time_s, value, self._view.end_s)
            self._steps(chart, steps, name, place, line_dash=DASHES[place])
        return _with_legend(chart)

    def gpus(self) -> figure:
        """Draw the GPUs available, held, and past start-up, by type if there are several."""
        chart = self._figure("gpus-chart", "GPUs")
        types: Sequence[str | None] = self._view.nodes.types
        types = types if 1 < len(types) <= OTHER else (None,)
        there = gpus_there(self._view)
        chart.step(
            self._axis.of(there.time_s),
            there.value,
            mode="after",
            color=INK,
            legend_label="there",
            line_dash="dotted",
        )
        for place, kind in enumerate(types):
            of = "" if kind is None else f"{label(kind)} "
            held = gpus_held(self._view, kind)
            work = gpus_held(self._view, kind, productive=True)
            self._area(chart, held, f"{of}held", place)
            self._steps(chart, work, f"{of}productive", place, line_width=2)
        chart.y_range.start = 0
        return _with_legend(chart)

    def prices(self, prices: Sequence[Price]) -> figure:
        """Draw the price of a GPU by class of nodes."""
        unit, factor = price_unit(prices)
        chart = self._figure("prices-chart", f"{unit} per GPU")
        by_class: dict[str, list[Price]] = {}
        for price in prices:
            by_class.setdefault(label(f"{price.node_type} on {price.leaf}"), []).append(price)
        for place, (name, rows) in enumerate(by_class.items()):
            steps = _between_rounds(
                np.asarray([p.time_s for p in rows]),
                np.asarray([p.per_gpu * factor for p in rows]),
                self._view.end_s,
            )
            self._steps(chart, steps, name, place, line_dash=DASHES[place % len(DASHES)])
        return _with_legend(chart)

    def gaps(self) -> figure:
        """Draw the gap left in each round."""
        gaps = 100.0 * self._column("gap")
        floor = 1e-8
        chart = self._figure("gaps-chart", "gap (%)", y_axis_type="log")
        self._cloud(chart, np.where(gaps < floor, floor, gaps), ORANGE)
        plain_ticks(chart.yaxis)
        return chart

    def times(self) -> figure:
        """Draw the wall time of each round."""
        times = self._column("round_ms")
        chart = self._figure("times-chart", "round (ms)", y_axis_type="log")
        self._cloud(chart, np.where(times > 0.0, times, np.nan), BLUE)
        plain_ticks(chart.yaxis)
        return chart

    def short(self) -> figure:
        """Draw the number of guarantees that were missed."""
        time_s, value = self._column("time_s"), self._column("guarantees_short")
        chart = self._figure("short-chart", "guarantees short")
        steps = _between_rounds(time_s, value, self._view.end_s)
        self._steps(chart, steps, "short", 1)
        return chart

    def _cloud(self, chart: figure, value: Floats, colour: str) -> None:
        time_s = self._column("time_s")
        kept = np.flatnonzero(np.isfinite(value))
        if len(kept) > MOST_ROUNDS:
            largest = kept[np.argsort(-value[kept], kind="stable")[:1000]]
            every = kept[:: -(-len(kept) // MOST_ROUNDS)]
            kept = np.unique(np.concatenate((every, largest)))
        chart.scatter(
            self._axis.of(time_s[kept]),
            value[kept].astype(np.float32),
            size=3,
            color=colour,
            alpha=0.6,
        )


def canvas(name: str, height: int, tools: str, **more: Any) -> figure:
    """Make an empty chart as wide as the page."""
    from bokeh.plotting import figure

    usual = {"toolbar_location": "above", "active_scroll": None, "output_backend": "canvas"}
    usual |= {"sizing_mode": "stretch_width"}
    return figure(name=name, height=height, tools=tools, **usual | more)


def plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers; the page keeps those that fit (``retick``)."""
    from bokeh.models import FixedTicker, PrintfTickFormatter

    axis.ticker = FixedTicker(ticks=[])
    axis.formatter = PrintfTickFormatter(format="%g")


def price_unit(prices: Sequence[Price]) -> tuple[str, float]:
    """Return unit and factor that make prices readable: per hour instead of per second."""
    unit = prices[0].unit
    if unit.endswith("per second"):
        return f"{unit.removesuffix('second')}hour", 3600.0
    return unit, 1.0


def _between_rounds(time_s: Floats, value: Floats, end_s: float) -> Steps:
    """Return a curve whose value holds from a round until the next."""
    last = value[-1] if value.size else 0.0
    return Steps(
        np.append(time_s, max(end_s, time_s[-1] if time_s.size else 0.0)), np.append(value, last)
    )


def _with_legend(chart: figure) -> figure:
    chart.legend.orientation = "horizontal"
    chart.legend.location = "top_left"
    chart.legend.background_fill_alpha = 0.6
    chart.legend.padding = 2
    chart.legend.label_text_font_size = "11px"
    chart.add_layout(chart.legend[0], "above")
    return chart


# ---------------------------------------------------------------- distributions

MEASURES = {
    "jct_s": ("completion", "completion time, JCT (s)"),
    "queued_s": ("queueing", "queueing (s)"),
    "stretch": ("stretch", "stretch: JCT over time with GPUs"),
}
"""Columns of ``jobs.csv`` whose distributions are shown, with name and title of the axis."""


def draw_distribution(views: Sequence[RunView], column: str) -> figure:
    """Draw the share of jobs up to a value, on a logarithmic axis, a line per run."""
    from bokeh.models import Span

    name, title = MEASURES[column]
    tools = "pan,wheel_zoom,box_zoom,reset,save"
    chart = canvas(f"cdf-{name}", 300, tools, x_axis_type="log", y_range=(0.0, 1.02))
    chart.xaxis.axis_label, chart.yaxis.axis_label = title, "share of jobs"
    least = 1.0 if column != "stretch" else 0.1
    drawn = looks([key(v.run.summary.policy, v.run.summary.objective) for v in views])
    for look, view in zip(drawn, views, strict=True):
        values = finished(view, column)
        if values.size:
            chart.line(
                np.maximum(np.quantile(values, QUANTILES), least),
                QUANTILES,
                line_width=2,
                color=look.colour,
                line_dash=look.dash,
                legend_label=label(view.name),
            )
    bounds = [view.run.summary.avg_jct_lower_bound_s for view in views]
    whole = all(view.run.summary.completed == view.run.summary.jobs for view in views)
    if column == "jct_s" and whole and all(bound > 0.0 for bound in bounds):
        chart.add_layout(
            Span(location=min(bounds), dimension="height", line_color=INK, line_dash="dotted")
        )
    plain_ticks(chart.xaxis)
    if chart.legend:
        chart.legend.background_fill_alpha = 0.6
        chart.legend.location = "bottom_right"
        chart.legend.label_text_font_size = "11px"
    return chart


def finished(view: RunView, column: str) -> Floats:
    """Return a column of the jobs that completed."""
    values = np.asarray(
        [getattr(row, column) for row in view.jobs if row.completed], dtype=np.float64
    )
    return values[np.isfinite(values)]


MOST_NAMED = 20_000
"""Largest number of paired jobs that are named."""


def draw_pairs(first: str, second: str, pairing: Pairing, ends: tuple[float, float]) -> figure:
    """Draw completion times of the same jobs in two runs, with the diagonal.

    A page that offers other runs gives the points, named ``pairs-points``, other values.
    """
    from bokeh.models import ColumnDataSource

    x, y = pairing.first_s, pairing.second_s
    data: dict[str, Any] = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    tooltips = [("to the right", "@x{0,0} s"), ("upwards", "@y{0,0} s")]
    if len(pairing.rows) <= MOST_NAMED:
        data["name"] = [short(row.job) for row in pairing.rows]
        tooltips = [("job", "@name"), *tooltips]
    chart = canvas(
        "pairs",
        480,
        "pan,wheel_zoom,box_zoom,reset,save,hover",
        max_width=640,
        x_axis_type="log",
        y_axis_type="log",
        x_range=ends,
        y_range=ends,
        tooltips=tooltips,
    )
    chart.xaxis.axis_label = f"JCT by {label(first)} (s)"
    chart.yaxis.axis_label = f"JCT by {label(second)} (s)"
    chart.xaxis.name, chart.yaxis.name = "pairs-x", "pairs-y"
    chart.line(ends, ends, color=INK, line_dash="dashed")
    plain_ticks(chart.xaxis)
    plain_ticks(chart.yaxis)
    source = ColumnDataSource(name="pairs-points", data=data)
    chart.scatter(source=source, x="x", y="y", size=5, alpha=0.6, color=BLUE)
    return chart
