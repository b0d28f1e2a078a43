"""The picture of the README: who uses the GPUs when, and what that does to the jobs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.readme.cases import Case, cases
from benchmarks.readme.results import BIN_S, QUANTILES, Results
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import drawing, line, logarithmic, rules
from morph_opt.core.documents.style import INK, Look, looks
from morph_opt.core.domain import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

_DRAWN = ("auto", "greedy:lookahead", "throughput", "fairness", "sia", "srtf", "fifo")
WIDE, NARROW = (9.6, 4.6), (4.4, 7.4)
"""Inches: side by side, and one above the other for a narrow screen."""


def _key(case: Case) -> str:
    """What a case is called in the style sheet."""
    key = case.scheduler.key
    return key.replace("fifo-", "fifo:").replace("greedy-", "greedy:")


def drawn(trace: str) -> tuple[Case, ...]:
    """What the picture of a trace shows of it: more lines could not be told apart."""
    return tuple(case for case in cases((trace,)) if _key(case) in _DRAWN)


def digest(results: Results, trace: str) -> str:
    """Digest of the numbers that the picture of a trace shows; stands in the picture's file."""
    hashed = hashlib.sha256()
    for case in drawn(trace):
        for series, form in ((results.gpus, "{:.2f}"), (results.jct_s, "{:.1f}")):
            values = series.get(case.slug, ())
            hashed.update(f"{case.slug}:{','.join(form.format(v) for v in values)}\n".encode())
    return hashed.hexdigest()


def draw(results: Results, trace: str, path: Path, *, narrow: bool = False) -> None:
    """Write the picture of one trace as SVG; equal results give equal bytes.

    Parameters
    ----------
    results
        Must hold the series of at least one replay of the trace.
    trace
        Name as given to ``--trace``.
    path
        File to write.
    narrow
        Whether it is for a screen of 400 pixels: then one half is above the other.

    Raises
    ------
    InputError
        If there is nothing to draw.
    """
    shown = [case for case in drawn(trace) if case.slug in results.gpus]
    if not shown:
        raise InputError(f"there is no replay of {trace!r}: run make readme")
    with drawing(NARROW if narrow else WIDE) as (figure, encoded):
        if narrow:
            grid = figure.add_gridspec(2, 1, height_ratios=(1.25, 1.0))
            places = grid[0, 0], grid[1, 0]
        else:
            grid = figure.add_gridspec(1, 2, width_ratios=(1.15, 1.0))
            places = grid[0, 0], grid[0, 1]
        _gpus(figure.add_subfigure(places[0]), results, shown)
        _completion(figure.add_subfigure(places[1]).subplots(), results, shown)
        description = f"made from numbers with sha256 {digest(results, trace)}"
        write_atomically(path, encoded(metadata={"Description": description}))


def _name(case: Case) -> str:
    return case.scheduler.label.replace("`", "")


def _gpus(part: SubFigure, results: Results, shown: list[Case]) -> None:
    """One band per scheduler on a common time axis."""
    hours = max(len(results.gpus[case.slug]) for case in shown) * BIN_S / 3600.0
    bands = np.atleast_1d(part.subplots(len(shown), 1, sharex=True, sharey=True))
    for band, case, look in zip(bands, shown, _looks(shown), strict=True):
        gpus = results.gpus[case.slug]
        edges = np.arange(len(gpus) + 1) * BIN_S / 3600.0
        size = results.rows[case.slug].gpus
        band.stairs(gpus, edges, fill=True, color=look.colour, alpha=0.85, linewidth=0)
        band.axhline(size, color=INK, linewidth=0.6)
        band.set(xlim=(0.0, hours), ylim=(0.0, 1.12 * size), yticks=(0, size))
        band.set_title(_name(case), loc="right", fontsize=8.5, pad=2.0)
    bands[-1].set_xlabel("simulated time (hours)")
    part.supylabel("GPUs in use", fontsize=9.0)


def _looks(shown: list[Case]) -> tuple[Look, ...]:
    return looks([_key(case) for case in shown])


def _completion(axes: Axes, results: Results, shown: list[Case]) -> None:
    """Share of jobs complete within a time, one line per scheduler."""
    ends = []
    for case, look in zip(shown, _looks(shown), strict=True):
        hours = results.jct_s[case.slug] / 3600.0
        ends += [float(hours.min()), float(hours.max())]
        axes.plot(hours, 100.0 * QUANTILES, label=_name(case), **line(look))
    logarithmic(axes.xaxis, min(ends), max(ends))
    axes.set(xlabel="job completion time (hours)", ylabel="jobs complete within (%)", ylim=(0, 101))
    rules(axes)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
