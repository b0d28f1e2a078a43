"""Pictures of planning, as SVG: cost against service, chance by nodes, coverage, forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from morph_opt.documents.figures import BARE, drawing

Row = Mapping[str, Any]
COLOURS = ("#1b6ca8", "#c2571a", "#3c8d40", "#7a4fa3")


@contextmanager
def _drawn() -> Iterator[tuple[Axes, Callable[[], str]]]:
    with drawing((6.0, 3.4), BARE) as (figure, encoded):
        yield figure.add_subplot(), lambda: encoded(metadata={"Creator": None}).decode()


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
    """Mean of the service with its interval, over the price of the fleet, per policy."""
    with _drawn() as (axes, svg):
        for colour, (name, rows) in zip(COLOURS, evidence.items(), strict=False):
            shown = [row for row in _replayed(rows) if row["mean_lower"] is not None]
            cost = [row["nodes"] * node_price for row in shown]
            mean = [row["mean"] for row in shown]
            below = [row["mean"] - row["mean_lower"] for row in shown]
            above = [row["mean_upper"] - row["mean"] for row in shown]
            axes.errorbar(cost, mean, yerr=(below, above), color=colour, marker="o", ms=3.5,
                          lw=1.0, capsize=2.5, label=name)  # fmt: skip
        axes.axhline(target, color="#777777", lw=0.8, ls="--")
        axes.annotate("target", (1.0, target), xycoords=("axes fraction", "data"), ha="right",
                      va="bottom", color="#555555")  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:,g}")  # its own would be mathematics, which STYLE prints
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("price of the fleet, dollars per hour")
        axes.set_ylabel(unit)
        axes.legend(frameon=False)
        return svg()


def chance_by_nodes(evidence: Mapping[str, Sequence[Row]], share: float) -> str:
    """Share of workloads that reach the target, with its exact interval, by nodes."""
    with _drawn() as (axes, svg):
        for place, (name, rows) in enumerate(evidence.items()):
            shown = _replayed(rows)
            at = [row["nodes"] + 0.08 * place for row in shown]
            passed = [row["passed"] / row["workloads"] for row in shown]
            below = [p - row["lower"] for p, row in zip(passed, shown, strict=True)]
            above = [row["upper"] - p for p, row in zip(passed, shown, strict=True)]
            axes.errorbar(at, passed, yerr=(below, above), color=COLOURS[place % len(COLOURS)],
                          marker="o", ms=3.5, lw=1.0, capsize=2.5, label=name)  # fmt: skip
        axes.axhline(share, color="#777777", lw=0.8, ls="--")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(-0.04, 1.04)
        axes.set_xlabel("nodes of 8 GPUs")
        axes.set_ylabel("share of workloads that reach it")
        axes.legend(frameon=False, loc="lower right")
        return svg()


def coverage(groups: Sequence[tuple[str, float, float, float]]) -> str:
    """Coverage of the 80 % interval with its own interval, per group of forecasts."""
    with _drawn() as (axes, svg):
        for place, (_, share, low, high) in enumerate(groups):
            axes.errorbar([share], [place], xerr=([share - low], [high - share]), marker="o",
                          ms=4.0, lw=1.0, capsize=2.5, color=COLOURS[0])  # fmt: skip
        axes.axvspan(0.75, 0.85, color="#cfe3cf", lw=0.0, zorder=0)
        axes.axvline(0.8, color="#777777", lw=0.8, ls="--")
        axes.set_yticks(range(len(groups)), [name for name, *_ in groups])
        axes.set_ylim(max(1, len(groups)) - 0.5, -0.5)  # none may be open
        axes.set_xlim(0.5, 1.0)
        axes.set_xlabel("share of starts and ends within the 80 % interval")
        return svg()


def forecasts(rows: Sequence[Row]) -> str:
    """Open forecasts as 10 to 90 % intervals with their medians, and what came, in minutes."""
    shown = [row for row in rows if row["open"]]
    with _drawn() as (axes, svg):
        for place, row in enumerate(shown):
            low, middle, high = (row[f"q{q}_s"] / 60.0 for q in (10, 50, 90))
            first = place == 0
            axes.plot([low, high], [place, place], color=COLOURS[0], lw=5.0, alpha=0.35,
                      solid_capstyle="butt", label="10 to 90 %" if first else None)  # fmt: skip
            axes.plot([middle], [place], "|", color=COLOURS[0], ms=9.0, mew=1.6,
                      label="50 %" if first else None)  # fmt: skip
            axes.plot([row["actual_s"] / 60.0], [place], "x", color=COLOURS[1], ms=5.0,
                      label="what came" if first else None)  # fmt: skip
        words = {"start": "starts", "finish": "ends"}
        names = [
            f"{row['job']} {words[row['what']]}, told at {row['at_s'] / 60:.0f}" for row in shown
        ]
        axes.set_yticks(range(len(shown)), names)
        axes.set_ylim(max(1, len(shown)) - 0.5, -0.5)
        axes.set_xlabel("minutes from the beginning")
        axes.legend(frameon=False)
        return svg()
