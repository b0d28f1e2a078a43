"""Figures: measured against predicted, and speed over GPUs per plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from morph_opt.documents import write_atomically
from morph_opt.documents.figures import drawing
from morph_opt.perf.fitting.discrepancy import Pair
from morph_opt.perf.fitting.fit import Fit

STYLE: dict[str, Any] = {"axes.grid": True, "grid.alpha": 0.3}
"""Of these figures, on top of the common one."""

FIGURE_SUFFIXES = (".svg", ".pdf", ".png")
"""Kinds of figure files."""


def fit_figure(found: Fit, candidates: Sequence[Pair], file: Path) -> None:
    """Left: measured against predicted runs. Right: best speed over GPUs for each plan."""
    with drawing((9, 4), STYLE) as (figure, encoded):
        (left, right) = figure.subplots(1, 2)
        measured = np.array([run.iteration_s for run in found.runs])
        fitted = found.predict([(run.shape, run.plan) for run in found.runs])
        left.errorbar(
            measured,
            fitted.iteration_s,
            yerr=fitted.iteration_s * np.expm1(2 * fitted.log_sd),
            fmt="o",
            markersize=4,
        )
        diagonal(left, measured)
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
        right.set(
            xlabel="GPUs", ylabel="samples per second, best shape", xscale="log", yscale="log"
        )
        right.set_title("resource sensitivity")
        right.legend()
        write_atomically(file, encoded(file.suffix))


def _plan_name(pair: Pair) -> str:
    return pair[1].label if pair[1].gpus is None else "3d"


def diagonal(axis: Any, measured: Any) -> None:
    """The line of equality with a tenth around it, seconds on logarithmic axes."""
    ends = np.array([measured.min() / 1.3, measured.max() * 1.3])
    axis.plot(ends, ends, "k-", linewidth=0.8)
    for factor in (1 / 1.1, 1.1):
        axis.plot(ends, factor * ends, "k:", linewidth=0.6)
    axis.set(xlabel="measured, s per iteration", ylabel="predicted", xscale="log", yscale="log")
    # Labels between the powers of ten run into each other along a narrow axis.
    axis.xaxis.set_minor_formatter("")
