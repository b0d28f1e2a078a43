"""Figures: measured against predicted, and speed over GPUs per plan. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from morph_opt.domain import InputError
from morph_opt.perf.fitting.discrepancy import Pair
from morph_opt.perf.fitting.fit import Fit
from morph_opt.perf.study.protocol import Judged, pairs_of

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "morph-opt",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


Given = ParamSpec("Given")


def _styled(draw: Callable[Given, None]) -> Callable[Given, None]:
    """Draw in our style, and leave that of whoever called as it was."""

    @wraps(draw)
    def drawn(*values: Given.args, **named: Given.kwargs) -> None:
        try:
            import matplotlib as mpl
        except ModuleNotFoundError:
            raise InputError("a figure needs matplotlib: pip install matplotlib") from None
        with mpl.rc_context({"backend": "Agg", **_STYLE}):
            draw(*values, **named)

    return drawn


FIGURE_SUFFIXES = (".svg", ".pdf", ".png")
"""Kinds of figure files."""


def _save(plt: Any, figure: Any, file: Path) -> None:
    try:
        # without the date, so that the same figure is the same file
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", file=str(file)) from None
    finally:
        plt.close(figure)


@_styled
def fit_figure(found: Fit, candidates: Sequence[Pair], file: Path) -> None:
    """Left: measured against predicted runs. Right: best speed over GPUs for each plan."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    measured = np.array([run.iteration_s for run in found.runs])
    fitted = found.predict(pairs_of(found.runs))
    left.errorbar(
        measured,
        fitted.iteration_s,
        yerr=fitted.iteration_s * np.expm1(2 * fitted.log_sd),
        fmt="o",
        markersize=4,
    )
    _diagonal(left, measured)
    left.set_title(f"{found.architecture.name}: runs of the fit")
    for plan in dict.fromkeys(_plan_name(pair) for pair in candidates):
        pairs = [pair for pair in candidates if _plan_name(pair) == plan]
        seconds = found.predict(pairs).iteration_s
        counts = sorted({shape.gpus for shape, _ in pairs})
        best = [
            min(s for s, (shape, _) in zip(seconds, pairs, strict=True) if shape.gpus == count)
            for count in counts
        ]
        right.plot(counts, found.architecture.global_batch / np.array(best), "o-", label=plan)
    right.set(xlabel="GPUs", ylabel="samples per second, best shape", xscale="log", yscale="log")
    right.set_title("resource sensitivity")
    right.legend()
    _save(plt, figure, file)


def _plan_name(pair: Pair) -> str:
    return pair[1].label if pair[1].gpus is None else "3d"


@_styled
def protocol_figure(judged: Sequence[Judged], file: Path) -> None:
    """Measured against predicted, one panel per model; listed rows are hollow."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(12, 6), layout="constrained")
    for axis in axes.flat[len(judged) :]:
        axis.set_visible(False)
    for axis, one in zip(axes.flat, judged, strict=False):
        measured = np.array([run.iteration_s for run in one.runs])
        predicted = measured * (1 + one.error)
        good, bad = np.logical_not(one.listed), one.listed
        axis.plot(measured[good], predicted[good], "o", markersize=3, label="rows")
        if bad.any():
            axis.plot(
                measured[bad], predicted[bad], "o", markersize=4, fillstyle="none", label="listed"
            )
        _diagonal(axis, measured)
        mean = 100 * np.abs(one.error).mean()
        axis.set_title(f"{one.model}: {len(one.sampled)} runs, mean {mean:.1f} %")
    axes.flat[0].legend()
    _save(plt, figure, file)


def _diagonal(axis: Any, measured: Any) -> None:
    ends = np.array([measured.min() / 1.3, measured.max() * 1.3])
    axis.plot(ends, ends, "k-", linewidth=0.8)
    for factor in (1 / 1.1, 1.1):
        axis.plot(ends, factor * ends, "k:", linewidth=0.6)
    axis.set(xlabel="measured, s per iteration", ylabel="predicted", xscale="log", yscale="log")
    # Labels between the powers of ten run into each other along a narrow axis.
    axis.xaxis.set_minor_formatter("")


@_styled
def steps(labels: Sequence[str], series: dict[str, list[float]], unit: str, file: Path) -> None:
    """One step per label for every series."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
    edges = np.arange(len(labels) + 1)
    for index, (name, values) in enumerate(series.items()):
        axis.stairs(values, edges, label=name, linewidth=3 if index == 0 else 1.5, baseline=None)
    axis.set_xticks(edges[:-1] + 0.5, labels)
    axis.set(ylabel=unit, ylim=(0, None))
    axis.legend()
    _save(plt, figure, file)


@_styled
def bars(labels: Sequence[str], series: dict[str, list[float]], unit: str, file: Path) -> None:
    """Groups of bars, one group per label."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
    width = 0.8 / len(series)
    for index, (name, values) in enumerate(series.items()):
        axis.bar(np.arange(len(labels)) + index * width, values, width, label=name)
    axis.set_xticks(np.arange(len(labels)) + 0.4 - width / 2, labels)
    axis.set(ylabel=unit)
    axis.legend()
    _save(plt, figure, file)
