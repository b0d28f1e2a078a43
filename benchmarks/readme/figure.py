"""The picture of the README: who uses the GPUs when, and what that does to the jobs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.readme.cases import Case, cases
from benchmarks.readme.results import BIN_S, QUANTILES, Results
from morph_opt.documents import write_atomically
from morph_opt.documents.figures import drawing
from morph_opt.domain import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

# Okabe and Ito's colours, told apart with any colour vision; line styles tell them apart in grey.
_STYLES = {
    "lookahead": ("#56B4E9", "-", 2.2),
    "jct": ("#0072B2", "-", 2.2),
    "throughput": ("#009E73", "-", 1.6),
    "srtf": ("#D55E00", "--", 1.6),
    "equal_split": ("#CC79A7", "-.", 1.6),
    "fifo-skip": ("#E69F00", (0, (5, 1, 1, 1)), 1.6),
    "fifo": ("#8A8A8A", ":", 2.0),
}
_INK = "#7A828E"
"""Of texts and axes: on a transparent ground it is read on light and dark pages alike."""
_LOOK: dict[Any, Any] = {
    "svg.fonttype": "path",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.facecolor": "none",
    "legend.facecolor": "none",
    "legend.edgecolor": "none",
}


def drawn(trace: str) -> tuple[Case, ...]:
    """What the picture of a trace shows of it: more lines could not be told apart."""
    return tuple(case for case in cases((trace,)) if case.scheduler.key in _STYLES)


def digest(results: Results, trace: str) -> str:
    """Digest of the numbers that the picture of a trace shows; stands in the picture's file."""
    hashed = hashlib.sha256()
    for case in drawn(trace):
        for series, form in ((results.gpus, "{:.2f}"), (results.jct_s, "{:.1f}")):
            values = series.get(case.slug, ())
            hashed.update(f"{case.slug}:{','.join(form.format(v) for v in values)}\n".encode())
    return hashed.hexdigest()


def draw(results: Results, trace: str, path: Path) -> None:
    """Write the picture of one trace as SVG; equal results give equal bytes.

    Parameters
    ----------
    results
        Must hold the series of at least one replay of the trace.
    trace
        Name as given to ``--trace``.
    path
        File to write.

    Raises
    ------
    InputError
        If there is nothing to draw.
    """
    shown = [case for case in drawn(trace) if case.slug in results.gpus]
    if not shown:
        raise InputError(f"there is no replay of {trace!r}: run make readme")
    with drawing((10.0, 4.6), _LOOK) as (figure, encoded):
        grid = figure.add_gridspec(1, 2, width_ratios=(1.15, 1.0))
        _gpus(figure.add_subfigure(grid[0, 0]), results, shown)
        _completion(figure.add_subfigure(grid[0, 1]).subplots(), results, shown)
        description = f"made from numbers with sha256 {digest(results, trace)}"
        about = {"Creator": None, "Description": description}
        write_atomically(path, encoded(transparent=True, metadata=about))


def _name(case: Case) -> str:
    return case.scheduler.label.replace("`", "")


def _gpus(part: SubFigure, results: Results, shown: list[Case]) -> None:
    """One band per scheduler on a common time axis."""
    hours = max(len(results.gpus[case.slug]) for case in shown) * BIN_S / 3600.0
    bands = np.atleast_1d(part.subplots(len(shown), 1, sharex=True, sharey=True))
    for band, case in zip(bands, shown, strict=True):
        gpus = results.gpus[case.slug]
        edges = np.arange(len(gpus) + 1) * BIN_S / 3600.0
        size = results.rows[case.slug].gpus
        colour = _STYLES[case.scheduler.key][0]
        band.stairs(gpus, edges, fill=True, color=colour, alpha=0.75, linewidth=0)
        band.axhline(size, color="0.6", linewidth=0.6)
        band.set(xlim=(0.0, hours), ylim=(0.0, 1.12 * size), yticks=(0, size))
        band.set_title(_name(case), loc="right", fontsize=8.5, pad=2.0)
        band.spines[["top", "right"]].set_visible(False)
    bands[-1].set_xlabel("simulated time (hours)")
    part.supylabel("GPUs in use", fontsize=9.0)


def _completion(axes: Axes, results: Results, shown: list[Case]) -> None:
    """Share of jobs complete within a time, one line per scheduler."""
    for case in shown:
        colour, line, width = _STYLES[case.scheduler.key]
        hours = results.jct_s[case.slug] / 3600.0
        axes.plot(
            hours,
            100.0 * QUANTILES,
            color=colour,
            linestyle=line,
            linewidth=width,
            label=_name(case),
        )
    axes.set_xscale("log")
    axes.set(xlabel="job completion time (hours)", ylabel="jobs complete within (%)", ylim=(0, 100))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(visible=True, color=_INK, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
