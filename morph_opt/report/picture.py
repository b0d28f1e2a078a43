"""Pictures of finished runs for papers and pages: SVG with text, the same for the same run.

python -m morph_opt.report.picture timeline runs/base --out base.svg
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import drawing, line, logarithmic, rules
from morph_opt.core.documents.style import BLUE, INK, ORANGE, PALETTE, key, looks, plain_number
from morph_opt.core.domain import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from morph_opt.report.drawing.charts import TimeAxis
    from morph_opt.simulation.runs.views.view import RunView


MOST_VECTORS = 20_000
"""Largest number of vector rectangles; above it they are stored as an image."""
MEASURES = {
    "jct": ("jct_s", "completion time, JCT (s)", None),
    "queueing": ("queued_s", "queueing (s)", None),
    "stretch": ("stretch", "stretch: JCT over time with GPUs", 1.0),
    "finish-time-ratio": (
        "finish_time_ratio", "finish-time ratio (1: as on a private 1/n of the cluster)", 1.0,
    ),
}  # fmt: skip
"""Measures of a distribution: column of ``jobs.csv``, title, and value that a line marks."""
GROUPS = ("model", "tenant", "guaranteed", "size")


def draw_timeline(view: RunView, colour: str = "model") -> str:
    """Draw GPUs by node over time, and below them how many are held and productive.

    Parameters
    ----------
    view
        The run.
    colour
        One of `GROUPS`.

    Returns
    -------
    str
        SVG.

    Raises
    ------
    InputError
        If all jobs are of one group of that kind.
    """
    from matplotlib.patches import Patch

    from morph_opt.report.drawing.charts import TimeAxis
    from morph_opt.report.groups import groupings
    from morph_opt.simulation.runs.views.series import gpus_held

    grouping = next((one for one in groupings(view) if one.key == colour), None)
    if grouping is None:
        raise InputError(f"all jobs are alike by {colour}", field="--colour")
    axis = TimeAxis.until(view.end_s)
    with drawing((10.0, 4.8)) as (figure, encoded):
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1.0))
        _bars(upper, view, axis, grouping.codes)
        handles = [
            Patch(facecolor=PALETTE[code], label=name) for code, name in enumerate(grouping.labels)
        ]
        widest = max(len(name) for name in grouping.labels)
        figure.legend(
            handles=handles,
            loc="outside upper left",
            ncols=max(1, 130 // (widest + 6)),
            handlelength=1.0,
            columnspacing=1.2,
        )
        for productive, label, dash in ((False, "held", "solid"), (True, "productive", "dashed")):
            steps = gpus_held(view, productive=productive)
            edges = np.linspace(0.0, view.end_s, 241)
            mean = steps.mean(edges)
            lower.stairs(
                mean, axis.of(edges), color=(BLUE, ORANGE)[productive], linestyle=dash, label=label
            )
        lower.set_ylim(0.0, 1.35 * view.nodes.total)  # space for the legend
        lower.set_ylabel("GPUs")
        lower.set_xlabel(axis.title)
        lower.legend(loc="upper right", ncols=2)
        upper.set_ylabel("node")
        return encoded().decode()


def _bars(axes: Axes, view: RunView, axis: TimeAxis, codes: npt.NDArray[np.uint8]) -> None:
    from matplotlib.collections import PolyCollection

    from morph_opt.report.groups import short

    r, nodes = view.rectangles, view.nodes
    start, end = axis.of(r.start_s), axis.of(r.end_s)
    until = axis.of(np.clip(r.startup_until_s, r.start_s, r.end_s))
    image = len(r) > MOST_VECTORS

    def boxes(left: Floats, right: Floats, rows: npt.NDArray[np.bool_], **look: Any) -> None:
        if not rows.any():
            return
        x, y = (
            np.stack((left, right, right, left), 1),
            np.stack((r.bottom, r.bottom, r.top, r.top), 1),
        )
        corners = np.stack((x, y), 2)[rows]
        axes.add_collection(PolyCollection(list(corners), linewidths=0, rasterized=image, **look))

    for code in range(len(PALETTE)):
        mine = codes[r.job] == code
        boxes(until, end, mine, facecolors=PALETTE[code])
        boxes(start, until, mine & (until > start), facecolors=PALETTE[code], alpha=0.4)
    first = nodes.first_gpu
    for outage in view.outages:
        low, high = axis.of(np.asarray([outage.start_s, outage.end_s]))
        axes.fill_between(
            [low, high],
            float(first[outage.node]),
            float(first[outage.node + 1]),
            facecolor="none",
            edgecolor=INK,
            hatch="xx",
            linewidth=0,
        )
    step = -(-len(nodes.names) // 32)
    middles = 0.5 * (first[:-1] + first[1:])
    axes.set_yticks(middles[::step], [short(name, 16) for name in nodes.names[::step]])
    axes.tick_params(axis="y", length=0)
    if step == 1:
        for edge in first[1:-1]:
            axes.axhline(edge, color=INK, linewidth=0.4, alpha=0.5)
    axes.set_xlim(0.0, float(axis.of(np.asarray([view.end_s]))[0]))
    axes.set_ylim(nodes.total, 0.0)


def draw_cdf(views: Sequence[RunView], measure: str = "jct") -> str:
    """Draw the share of jobs up to a value, a line per run, as SVG.

    Raises
    ------
    InputError
        If a run has no job with such a value.
    """
    column, title, marked = MEASURES[measure]
    with drawing((6.4, 3.4)) as (figure, encoded):
        axes = figure.subplots()
        least, largest = math.inf, 1.0
        drawn = looks([key(v.run.summary.policy, v.run.summary.objective) for v in views])
        for view, look in zip(views, drawn, strict=True):
            values = np.asarray([getattr(row, column) for row in view.jobs if row.completed])
            values = np.sort(values[np.isfinite(values)])
            if not values.size:
                rule = f"has no job with a {column}"
                raise InputError(rule, file=view.file("jobs.csv"))
            least, largest = min(least, float(values[0])), max(largest, float(values[-1]))
            shares = np.linspace(0.0, 1.0, min(values.size, 1000) + 1)[1:]
            axes.step(
                np.quantile(values, shares, method="inverted_cdf"),
                shares,
                where="post",
                label=view.name,
                **line(look),
            )
        if marked is not None:
            axes.axvline(marked, color=INK, linewidth=0.8)
        if measure == "queueing":  # many jobs do not wait at all
            axes.set_xscale("symlog", linthresh=1.0)
            axes.xaxis.set_major_formatter(lambda value, _: plain_number(value))
        else:
            logarithmic(axes.xaxis, max(least, 1e-9), largest)
        axes.set_xlabel(title)
        axes.set_ylabel("share of jobs")
        axes.set_ylim(0.0, 1.02)
        rules(axes)
        figure.legend(loc="outside upper left", ncols=2)
        return encoded().decode()


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.report.picture", description="Draw finished runs as SVG."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="PICTURE")
    timeline = commands.add_parser("timeline", help="draw the GPUs of one run by node over time")
    timeline.add_argument("run", type=Path, metavar="RUN", help="run folder")
    timeline.add_argument(
        "--colour", choices=GROUPS, default="model", help="grouping that colours show (model)"
    )
    cdf = commands.add_parser("cdf", help="draw distributions over jobs, a line per run")
    cdf.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    cdf.add_argument("--of", choices=tuple(MEASURES), default="jct", help="measure to draw (jct)")
    for command in (timeline, cdf):
        command.add_argument("--out", type=Path, required=True, help="SVG file to write")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    from morph_opt.simulation.runs.views.view import open_runs

    if options.out.suffix.lower() != ".svg":
        raise InputError(f"must end in .svg, got {str(options.out)!r}", field="--out")
    if options.command == "timeline":
        (view,) = open_runs([options.run])
        text = draw_timeline(view, options.colour)
    else:
        text = draw_cdf(open_runs(options.runs), options.of)
    write_atomically(options.out, text)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
