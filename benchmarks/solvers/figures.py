"""Pictures of the report: the performance profile, and seconds by size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.solvers.measures import by_solver, profile, shifted_geometric_mean
from benchmarks.solvers.protocol import Row

mpl.use("Agg")

from matplotlib import pyplot as plt  # after the backend was chosen

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "svg.hashsalt": "morph-opt",
    "figure.constrained_layout.use": True,
}
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#444444",
    "#8c564b",
    "#7f7fff",
    "#999933",
    "#aa4499",
    "#117733",
    "#882255",
)
DASHES = ("-", "--", "-.", ":")


def _looks(names: Iterable[str]) -> dict[str, Any]:
    """A look per solver, the same in every picture."""
    return {
        name: {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // 3 % len(DASHES)]}
        for i, name in enumerate(sorted(names, key=lambda name: (name != "highs", name)))
    }


def draw_profile(rows: Sequence[Row], path: Path) -> None:
    """Dolan-Moré profile of processor seconds against the fastest solver of each case."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.0))
        found = profile(rows)
        right = max(float(r[np.isfinite(r)].max(initial=2.0)) for r in found.values()) * 1.1
        order = sorted(found, key=lambda name: -float((found[name] <= 2.0).mean()))
        looks = _looks(order)
        for name in order:
            ratios = found[name]
            finite = ratios[np.isfinite(ratios)]
            x = np.concatenate([[1.0], finite, [right]])
            y = np.concatenate(
                [
                    [(ratios <= 1.0).mean()],
                    np.arange(1, finite.size + 1) / ratios.size,
                    [finite.size / ratios.size],
                ]
            )
            axes.step(x, y, where="post", label=name, linewidth=1.6, **looks[name])
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}x")
        axes.set_xlim(1.0, right)
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("processor time over that of the fastest solver of the case")
        axes.set_ylabel("share of cases solved")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        figure.savefig(path, dpi=130, metadata={"Software": None})
        plt.close(figure)


def _mean(rows: Sequence[Row]) -> float:
    return shifted_geometric_mean([row.charged_s for row in rows])


def draw_sizes(rows: Sequence[Row], path: Path) -> None:
    """Seconds by number of columns, one line per solver; time-outs are charged the limit."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.0))
        columns = sorted({row.columns for row in rows})
        edges = np.unique(np.quantile(columns, np.linspace(0, 1, 7)).astype(int))
        found = by_solver(rows)
        looks = _looks(found)
        for name, own in sorted(found.items(), key=lambda item: -_mean(item[1])):
            x, y = [], []
            for low, high in pairwise(edges.tolist()):
                last = high == edges[-1]
                chosen = [r for r in own if low <= r.columns < high or (last and r.columns == high)]
                if chosen:
                    x.append(float(np.median([row.columns for row in chosen])))
                    y.append(shifted_geometric_mean([row.charged_s for row in chosen]))
            axes.plot(x, y, marker="o", markersize=3.5, linewidth=1.6, label=name, **looks[name])
        axes.axhline(max(row.limit_s for row in rows), color="#bbbbbb", linewidth=1.0)
        axes.annotate(
            "time limit",
            (0.01, max(row.limit_s for row in rows)),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            color="#777777",
            fontsize=8,
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = [t for t in (100, 200, 500, 1000, 2000, 5000, 10000, 20000) if t <= columns[-1]]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("columns of the model")
        axes.set_ylabel("processor seconds (shifted geometric mean)")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        figure.savefig(path, dpi=130, metadata={"Software": None})
        plt.close(figure)
