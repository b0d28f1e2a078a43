"""Figures of the report on the performance model, and of the micro-benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.perf.protocol import Judged
from morph_opt.documents import write_atomically
from morph_opt.documents.figures import drawing
from morph_opt.perf.figures import STYLE, diagonal


def protocol_figure(judged: Sequence[Judged], file: Path) -> None:
    """Measured against predicted, one panel per model; listed rows are hollow."""
    with drawing((12, 6), STYLE) as (figure, encoded):
        axes = figure.subplots(2, 4)
        for axis in axes.flat[len(judged) :]:
            axis.set_visible(False)
        for axis, one in zip(axes.flat, judged, strict=False):
            measured = np.array([run.iteration_s for run in one.runs])
            predicted = measured * (1 + one.error)
            good, bad = np.logical_not(one.listed), one.listed
            axis.plot(measured[good], predicted[good], "o", markersize=3, label="rows")
            if bad.any():
                axis.plot(
                    measured[bad],
                    predicted[bad],
                    "o",
                    markersize=4,
                    fillstyle="none",
                    label="listed",
                )
            diagonal(axis, measured)
            mean = 100 * np.abs(one.error).mean()
            axis.set_title(f"{one.model}: {len(one.sampled)} runs, mean {mean:.1f} %")
        axes.flat[0].legend()
        write_atomically(file, encoded(file.suffix))


def steps(labels: Sequence[str], series: dict[str, list[float]], unit: str, file: Path) -> None:
    """One step per label for every series."""
    with drawing((8, 3.5), STYLE) as (figure, encoded):
        axis = figure.subplots()
        edges = np.arange(len(labels) + 1)
        for index, (name, values) in enumerate(series.items()):
            axis.stairs(
                values, edges, label=name, linewidth=3 if index == 0 else 1.5, baseline=None
            )
        axis.set_xticks(edges[:-1] + 0.5, labels)
        axis.set(ylabel=unit, ylim=(0, None))
        axis.legend()
        write_atomically(file, encoded(file.suffix))


def bars(labels: Sequence[str], series: dict[str, list[float]], unit: str, file: Path) -> None:
    """Groups of bars, one group per label."""
    with drawing((6, 3), STYLE) as (figure, encoded):
        axis = figure.subplots()
        width = 0.8 / len(series)
        for index, (name, values) in enumerate(series.items()):
            axis.bar(np.arange(len(labels)) + index * width, values, width, label=name)
        axis.set_xticks(np.arange(len(labels)) + 0.4 - width / 2, labels)
        axis.set(ylabel=unit)
        axis.legend()
        write_atomically(file, encoded(file.suffix))
