"""Figures of the report on the performance model, and of the micro-benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.perf.protocol import Judged
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import dots, drawing, rules
from morph_opt.core.documents.style import BLUE, ORANGE, looks
from morph_opt.inputs.perf.figures import diagonal

ABREAST = 3


def protocol_figure(judged: Sequence[Judged], file: Path) -> None:
    """Measured against predicted, one panel per model; listed rows are hollow."""
    lines = -(-len(judged) // ABREAST)
    with drawing((7.2, 0.6 + 2.3 * lines)) as (figure, encoded):
        axes = figure.subplots(lines, ABREAST, squeeze=False)
        for axis in axes.flat[len(judged) :]:
            axis.set_axis_off()
        for axis, one in zip(axes.flat, judged, strict=False):
            measured = np.array([run.iteration_s for run in one.runs])
            predicted = measured * (1 + one.error)
            good, bad = np.logical_not(one.listed), one.listed
            axis.plot(measured[good], predicted[good], "o", color=BLUE, ms=3, label="rows")
            if bad.any():
                axis.plot(
                    measured[bad],
                    predicted[bad],
                    "o",
                    color=ORANGE,
                    ms=4,
                    mfc="none",
                    label="listed as inconsistent",
                )
            diagonal(axis, measured)
            axis.set(xlabel="", ylabel="")
            mean = 100 * np.abs(one.error).mean()
            axis.set_title(f"{one.model}: {len(one.sampled)} runs, mean {mean:.1f} %")
        figure.supxlabel("measured (s per iteration)", fontsize=9.0)
        figure.supylabel("predicted (s per iteration)", fontsize=9.0)
        found = {
            label: handle
            for axis in axes.flat
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(list(found.values()), list(found), loc="outside upper center", ncols=2)
        write_atomically(file, encoded(file.suffix))


def dot_rows(
    labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str, file: Path
) -> None:
    """A row per label and in it a dot for every series: nothing lies between two labels.

    Labels are read across, however long they are; 0 stands for what cannot run.
    """
    with drawing((6.6, 1.1 + 0.3 * len(labels))) as (figure, encoded):
        axis = figure.subplots()
        for place, (look, (name, values)) in enumerate(
            zip(looks(tuple(series)), series.items(), strict=True)
        ):
            rows = np.arange(len(labels)) + 0.12 * (place - 0.5 * (len(series) - 1))
            axis.plot(values, rows, label=name, **dots(look))
        axis.set_yticks(range(len(labels)), labels)
        axis.set_ylim(len(labels) - 0.5, -0.5)
        axis.set(xlabel=unit, xlim=(0, None))
        axis.margins(x=0.02)
        rules(axis)
        figure.legend(loc="outside upper center", ncols=4)
        write_atomically(file, encoded(file.suffix))


def over_time(
    edges_h: Sequence[float], panels: Mapping[str, Sequence[float]], title: str, file: Path
) -> None:
    """A step curve for each quantity in a panel of its own, since each has a unit of its own.

    Parameters
    ----------
    edges_h
        When each value begins and the last ends, hours; one more than there are values.
    panels
        Values by the name of their quantity, which names its unit too.
    """
    with drawing((6.6, 0.7 + 0.95 * len(panels))) as (figure, encoded):
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, look, (name, values) in zip(
            axes, looks(tuple(panels)), panels.items(), strict=True
        ):
            axis.stairs(values, edges_h, color=look.colour, linewidth=1.6, baseline=None)
            axis.set_title(name, loc="left")
            axis.set_ylim(0.0, 1.15 * max(values))
            axis.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            rules(axis)
        axes[-1].set_xlabel("simulated time (h)")
        figure.suptitle(title, fontsize=9.0)
        write_atomically(file, encoded(file.suffix))
