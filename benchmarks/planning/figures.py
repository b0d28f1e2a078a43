"""Pictures of planning, as SVG: cost against service, chance by nodes, coverage, forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from morph_opt.core.documents.figures import dots, drawing, logarithmic, rules
from morph_opt.core.documents.style import BLUE, GREEN, INK, ORANGE, looks

Row = Mapping[str, Any]
WHISKERS: dict[str, Any] = {"elinewidth": 1.0, "capsize": 2.5, "ms": 4.0}
OFFSET = 0.009
"""Between what stands at one place, as a part of the axis."""
WORDS = {"jct_s": "JCT (s)", "queued_s": "time in the queue (s)"}


@contextmanager
def _drawn(height: float = 3.4) -> Iterator[tuple[Any, Callable[[], str]]]:
    with drawing((6.0, height)) as (figure, encoded):
        yield figure, lambda: encoded().decode()


def worded(statistic: str, metric: str) -> str:
    """What a target is about, for an axis.

    >>> worded("avg", "jct_s"), worded("p90", "queued_s")
    ('average JCT (s)', 'time in the queue (s), 90 % of jobs below')
    """
    words = WORDS.get(metric, metric)
    if statistic == "avg":
        return f"average {words}"
    return f"{words}, {statistic[1:]} % of jobs below" if statistic else words


def _policy(name: str) -> str:
    """The policy of a name such as ``srtf x1.3``, where a load may stand behind it."""
    return name.rpartition(" x")[0] or name


def _replayed(rows: Sequence[Row]) -> list[Row]:
    """Sizes that were explored with replays; of a size the stage with most workloads."""
    best: dict[int, Row] = {}
    for row in rows:
        known = best.get(row["nodes"])
        if row["mean"] is not None and (known is None or row["workloads"] > known["workloads"]):
            best[row["nodes"]] = row
    return [best[size] for size in sorted(best)]


def cost_against_service(
    evidence: Mapping[str, Sequence[Row]], target: float, unit: str, node_price: float
) -> str:
    """Mean of the service with its interval, over the price of the fleet, per policy.

    Only sizes that were replayed are there, and no line leads through those between them; policies
    of one size stand side by side.
    """
    with _drawn() as (figure, svg):
        axes = figure.add_subplot()
        found = looks([_policy(name) for name in evidence])
        every = [row for rows in evidence.values() for row in _replayed(rows)]
        prices = [node_price * row["nodes"] for row in every] or [0.0]
        offset = OFFSET * (max(prices) - min(prices))
        ends = [target]
        for place, (name, look) in enumerate(zip(evidence, found, strict=True)):
            shown = [row for row in _replayed(evidence[name]) if row["mean_lower"] is not None]
            mean = np.asarray([row["mean"] for row in shown])
            low, high = (
                np.asarray([r[f"mean_{end}"] for r in shown]) for end in ("lower", "upper")
            )
            ends += [*low, *high]
            aside = offset * (place - 0.5 * (len(found) - 1))
            axes.errorbar(
                [row["nodes"] * node_price + aside for row in shown],
                mean,
                yerr=(mean - low, high - mean),
                label=name,
                **dots(look),
                **WHISKERS,
            )
        axes.axhline(target, color=INK, lw=0.8, ls="--")
        axes.annotate(
            "target", (1.0, target), xycoords=("axes fraction", "data"), ha="right", va="bottom"
        )
        logarithmic(axes.yaxis, min(ends), max(ends))
        rules(axes, "y")
        axes.set_xlabel("price of the fleet (dollars per hour)")
        axes.set_ylabel(unit)
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
        return svg()


def chance_by_nodes(evidence: Mapping[str, Sequence[Row]], share: float) -> str:
    """Share of workloads that reach the target, with its exact interval, by nodes.

    A panel per policy: whiskers of several would stand on each other.
    """
    with _drawn(0.9 + 1.0 * len(evidence)) as (figure, svg):
        panels = figure.subplots(len(evidence), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (name, rows) in zip(panels, evidence.items(), strict=True):
            shown = _replayed(rows)
            passed = np.asarray([row["passed"] / row["workloads"] for row in shown])
            low, high = (np.asarray([row[end] for row in shown]) for end in ("lower", "upper"))
            axes.errorbar(
                [row["nodes"] for row in shown],
                100.0 * passed,
                yerr=(100.0 * (passed - low), 100.0 * (high - passed)),
                **dots(looks((_policy(name),))[0]),
                **WHISKERS,
            )
            axes.axhline(100.0 * share, color=INK, lw=0.8, ls="--")
            axes.set_title(name, loc="right", pad=3.0)
            axes.set_yticks([0.0, 50.0, 100.0])
            rules(axes)
        panels[-1].set_ylim(-6.0, 106.0)
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        panels[-1].set_xlabel("nodes of 8 GPUs")
        figure.supylabel("workloads that reach the target (%)", fontsize=9.0)
        return svg()


def coverage(groups: Sequence[tuple[str, float, float, float]]) -> str:
    """Coverage of the 80 % interval with its own interval, per group of forecasts."""
    with _drawn() as (figure, svg):
        axes = figure.add_subplot()
        for place, (_, share, low, high) in enumerate(groups):
            axes.errorbar(
                [share],
                [place],
                xerr=([share - low], [high - share]),
                marker="o",
                color=BLUE,
                **WHISKERS,
            )
        axes.axvspan(0.75, 0.85, color=GREEN, alpha=0.25, lw=0.0, zorder=0)
        axes.axvline(0.8, color=INK, lw=0.8, ls="--")
        axes.set_yticks(range(len(groups)), [name for name, *_ in groups])
        axes.set_ylim(max(1, len(groups)) - 0.5, -0.5)  # none may be open
        axes.set_xlim(0.5, 1.0)
        axes.set_xlabel("share of starts and ends within the 80 % interval")
        return svg()


def forecasts(rows: Sequence[Row]) -> str:
    """Open forecasts as 10 to 90 % intervals with their medians, and what came, in minutes."""
    shown = [row for row in rows if row["open"]]
    with _drawn() as (figure, svg):
        axes = figure.add_subplot()
        for place, row in enumerate(shown):
            low, middle, high = (row[f"q{q}_s"] / 60.0 for q in (10, 50, 90))
            first = place == 0
            axes.plot(
                [low, high],
                [place, place],
                color=BLUE,
                lw=5.0,
                alpha=0.35,
                solid_capstyle="butt",
                label="10 to 90 %" if first else None,
            )
            axes.plot(
                [middle], [place], "|", color=BLUE, ms=9.0, mew=1.6, label="50 %" if first else None
            )
            axes.plot(
                [row["actual_s"] / 60.0],
                [place],
                "x",
                color=ORANGE,
                ms=5.0,
                label="what came" if first else None,
            )
        words = {"start": "starts", "finish": "ends"}
        names = [
            f"{row['job']} {words[row['what']]}, told at {row['at_s'] / 60:.0f} min"
            for row in shown
        ]
        axes.set_yticks(range(len(shown)), names)
        axes.set_ylim(max(1, len(shown)) - 0.5, -0.5)
        axes.set_xlabel("time from the beginning (min)")
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
        return svg()
