"""Pictures of the report: the performance profile, and seconds by size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.solvers.measures import by_solver, profile, shifted_geometric_mean
from benchmarks.solvers.protocol import Row
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import dots, drawing, line, logarithmic, rules
from morph_opt.core.documents.style import INK, looks

SIZE = (7.2, 4.0)


def draw_profile(rows: Sequence[Row], path: Path) -> None:
    """Dolan-Moré profile of processor seconds against the fastest solver of each case."""
    with drawing(SIZE) as (figure, encoded):
        axes = figure.subplots()
        found = profile(rows)
        right = max(float(r[np.isfinite(r)].max(initial=2.0)) for r in found.values()) * 1.1
        order = sorted(found, key=lambda name: -float((found[name] <= 2.0).mean()))
        for name, look in zip(order, looks(order), strict=True):
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
            axes.step(x, y, where="post", label=name, **line(look))
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}x")
        axes.set_xlim(1.0, right)
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("processor time over that of the fastest solver of the case")
        axes.set_ylabel("share of cases solved")
        rules(axes)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        write_atomically(path, encoded(path.suffix))


def _mean(rows: Sequence[Row]) -> float:
    return shifted_geometric_mean([row.charged_s for row in rows])


def draw_sizes(rows: Sequence[Row], path: Path) -> None:
    """Seconds by columns, a mark per solver and class; time-outs are charged the limit."""
    with drawing(SIZE) as (figure, encoded):
        axes = figure.subplots()
        columns = sorted({row.columns for row in rows})
        edges = np.unique(np.quantile(columns, np.linspace(0, 1, 7)).astype(int))
        found = by_solver(rows)
        order = sorted(found, key=lambda name: -_mean(found[name]))
        for place, (name, look) in enumerate(zip(order, looks(order), strict=True)):
            own, x, y = found[name], [], []
            for low, high in pairwise(edges.tolist()):
                last = high == edges[-1]
                chosen = [r for r in own if low <= r.columns < high or (last and r.columns == high)]
                if chosen:
                    aside = 1.035 ** (place - 0.5 * len(order))  # marks of a class side by side
                    x.append(aside * float(np.median([row.columns for row in chosen])))
                    y.append(shifted_geometric_mean([row.charged_s for row in chosen]))
            axes.plot(x, y, label=name, **dots(look))
        limit_s = max(row.limit_s for row in rows)
        axes.axhline(limit_s, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(
            "time limit",
            (0.01, limit_s),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
        )
        seconds = [row.charged_s for row in rows]
        logarithmic(axes.xaxis, columns[0], columns[-1])
        logarithmic(axes.yaxis, max(min(seconds), 1e-3), 2.0 * limit_s)
        axes.set_xlabel("columns of the model, medians of six classes of instances")
        axes.set_ylabel("processor seconds (shifted geometric mean)")
        rules(axes)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        write_atomically(path, encoded(path.suffix))
