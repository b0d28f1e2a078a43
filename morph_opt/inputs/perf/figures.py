"""Figures of a fit: measured against predicted times, and speed over GPUs per plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import dots, drawing, logarithmic, rules
from morph_opt.core.documents.style import BLUE, INK, Look, looks
from morph_opt.inputs.perf.fitting.discrepancy import Pair
from morph_opt.inputs.perf.fitting.fit import Fit


def fit_figure(found: Fit, candidates: Sequence[Pair], file: Path) -> None:
    """Draw measured against predicted runs, and the best speed over GPUs for each plan."""
    with drawing((9, 4)) as (figure, encoded):
        (left, right) = figure.subplots(1, 2)
        measured = np.array([run.iteration_s for run in found.runs])
        fitted = found.predict([(run.shape, run.plan) for run in found.runs])
        left.errorbar(
            measured,
            fitted.iteration_s,
            yerr=fitted.iteration_s * np.expm1(2 * fitted.log_sd),
            elinewidth=1.0,
            **dots(Look(BLUE)),
        )
        diagonal(left, measured)
        left.set_title(f"{found.architecture.name}: runs of the fit")
        plans = tuple(dict.fromkeys(_plan_name(pair) for pair in candidates))
        best_of: list[float] = []
        for plan, look in zip(plans, looks(plans), strict=True):
            pairs = [pair for pair in candidates if _plan_name(pair) == plan]
            seconds = found.predict(pairs).iteration_s
            counts = sorted({shape.gpus for shape, _ in pairs})
            best = [
                min(s for s, (shape, _) in zip(seconds, pairs, strict=True) if shape.gpus == count)
                for count in counts
            ]
            speeds = (found.architecture.global_batch / np.array(best)).tolist()
            best_of += speeds
            right.plot(counts, speeds, **dots(look), label=plan)
        right.set(xlabel="GPUs", ylabel="best shape (samples per second)")
        gpus = [shape.gpus for shape, _ in candidates]
        if best_of:
            logarithmic(right.xaxis, min(gpus), max(gpus))
            logarithmic(right.yaxis, min(best_of), max(best_of))
        right.set_title("resource sensitivity")
        rules(right)
        right.legend()
        write_atomically(file, encoded(file.suffix))


def _plan_name(pair: Pair) -> str:
    return pair[1].label if pair[1].gpus is None else "3d"


def diagonal(axis: Any, measured: Any) -> None:
    """Draw the line of equality, with lines 10 % off, on logarithmic axes."""
    ends = np.array([measured.min() / 1.3, measured.max() * 1.3])
    axis.plot(ends, ends, color=INK, linewidth=0.8)
    for factor in (1 / 1.1, 1.1):
        axis.plot(ends, factor * ends, color=INK, linewidth=0.6, linestyle=":")
    axis.set(xlabel="measured (s per iteration)", ylabel="predicted (s per iteration)")
    logarithmic(axis.xaxis, *ends)
    logarithmic(axis.yaxis, *ends)
    rules(axis)
