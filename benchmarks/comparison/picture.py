"""The findings as a picture: every policy over the default of equal knowledge, trace by trace."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter

from benchmarks.comparison.records import KNOWLEDGE, PAIRS, Record, interval, ratios
from morph_opt.core.documents.figures import dots, drawing, rules
from morph_opt.core.documents.style import INK, Look, looks

TICKS = (1.0, 2.0, 5.0, 10.0)
SMALL = {"font.size": 8.0, "axes.titlesize": 8.0}
LIMITS = (0.7, 14.0)
ABREAST = 6
"""Panels in a row: as wide as a page shows without making letters small."""


def plain(policy: str) -> str:
    """The name of a policy without marks and without what it is told."""
    name = policy.replace("`", "").removesuffix(", no stops")
    for told in (", blind", ", sigma 0.7", ", limits", ", exact"):
        name = name.removesuffix(told)
    return name


def look(policy: str) -> Look:
    """Of a policy by its name in the tables, wherever it is drawn."""
    return looks((plain(policy).removeprefix("MILP ").removesuffix(", weighted promises"),))[0]


def over_the_default(records: Sequence[Record], order: Sequence[str]) -> str:
    """Dots and 95 % intervals of average JCT over that of the default that knows as much, as SVG.

    A panel per trace, bands of panels per knowledge, a line per policy; intervals where there are
    `PAIRS` twins. What has no row of the default beside it is not there.
    """
    bands = [band for knows in reversed(KNOWLEDGE) for band in _bands(records, order, knows)]
    lines = sum(len(policies) + 3 for _, _, policies in bands)
    with drawing((7.6, 0.7 + 0.165 * lines), SMALL) as (figure, encoded):
        if not bands:
            figure.text(0.1, 0.5, "no pairs yet")
            return encoded().decode()
        panels = figure.subplots(
            len(bands),
            ABREAST,
            sharex=True,
            squeeze=False,
            height_ratios=[len(policies) + 1 for _, _, policies in bands],
        )
        for row, (knows, traces, policies) in zip(panels, bands, strict=True):
            for axes in row[len(traces) :]:
                axes.set_axis_off()
            for axes, trace in zip(row, traces, strict=False):
                here = [record for record in records if record.trace == trace]
                _panel(axes, here, trace, KNOWLEDGE[knows][0], policies)
                axes.set_title(trace.replace("/", "/\n").replace(", ", ",\n"))
                axes.tick_params(labelbottom=True)
            row[0].set_yticks(range(len(policies)), [plain(policy) for policy in policies])
            few = len(policies) < 5  # a panel lower than the words are long
            words = KNOWLEDGE[knows][1]
            row[0].set_ylabel(words.replace(" ", "\n", 1) if few else words)
        figure.align_ylabels(panels[:, 0])
        words = (
            "average JCT over that of the default that knows as much (times, log scale); "
            "right of the line: the default is ahead"
        )
        figure.supxlabel(words, fontsize=8.0)
        return encoded().decode()


def _bands(
    records: Sequence[Record], order: Sequence[str], knows: str
) -> list[tuple[str, list[str], list[str]]]:
    """Knowledge, traces and policies of each row of panels: those that have dots there."""
    ours = KNOWLEDGE[knows][0]
    dotted = {
        (record.trace, record.policy)
        for record in records
        if record.knows == knows
        and record.policy != ours
        and ratios(records, record.trace, record.policy, ours)
    }
    traces = list(dict.fromkeys(r.trace for r in records if (r.trace, r.policy) in dotted))
    found = []
    for first in range(0, len(traces), ABREAST):
        band = traces[first : first + ABREAST]
        policies = [one for one in order if any((trace, one) in dotted for trace in band)]
        found.append((knows, band, policies))
    return found


def _panel(
    axes: Axes, here: Sequence[Record], trace: str, ours: str, policies: Sequence[str]
) -> None:
    """One trace at one knowledge; what is beyond the limits is an arrow at the edge."""
    axes.set_xscale("log")
    axes.set_xlim(*LIMITS)
    axes.set_ylim(len(policies) - 0.4, -0.6)
    axes.axvline(1.0, color=INK, lw=0.8)
    for place, policy in enumerate(policies):
        values = ratios(here, trace, policy, ours)
        if not values:
            continue
        drawn = dots(look(policy))
        centre, low, high = interval(values)
        beyond = centre > LIMITS[1]
        if len(values) >= PAIRS:
            axes.plot(
                [max(low, LIMITS[0]), min(high, LIMITS[1])],
                [place, place],
                color=drawn["color"],
                lw=1.0,
            )
        axes.plot(
            [LIMITS[1] * 0.93 if beyond else centre],
            [place],
            ms=3.6,
            **drawn | ({"marker": ">"} if beyond else {}),
        )
    axes.set_yticks(range(len(policies)), [""] * len(policies))
    axes.tick_params(axis="y", length=0)
    rules(axes, "y")
    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", length=0)
