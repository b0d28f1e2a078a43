"""The findings as a picture: every policy over the default of equal knowledge, trace by trace."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter

from benchmarks.comparison.records import KNOWLEDGE, PAIRS, Record, interval, ratios
from morph_opt.documents.figures import BARE, drawing

COLOURS = (
    "#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE8866", "#777777",
    "#44AA99", "#882255", "#999933", "#332288",
)  # fmt: skip
"""Of policies, in their order; every other round of them has hollow dots."""

STYLE = {**BARE, "font.size": 8.0}
TICKS = (0.5, 1.0, 2.0, 5.0, 10.0)
LIMITS = (0.7, 14.0)


def plain(policy: str) -> str:
    """The name of a policy without marks and without what it is told."""
    return policy.replace("`", "").removesuffix(", blind").removesuffix(", sigma 0.7")


def over_the_default(records: Sequence[Record], order: Sequence[str]) -> str:
    """Dots and 95 % intervals of average JCT over that of the default that knows as much, as SVG.

    A column per trace, a row of panels per knowledge, a line and a colour per policy; intervals
    where there are `PAIRS` twins. What has no row of the default beside it is not there.
    """
    drawn = {
        (record.trace, record.policy)
        for knows, (ours, _) in KNOWLEDGE.items()
        for record in records
        if record.knows == knows and record.policy != ours
        and ratios(records, record.trace, record.policy, ours)
    }  # fmt: skip
    traces = [t for t in dict.fromkeys(r.trace for r in records) if any(t == at for at, _ in drawn)]
    known = {record.policy: record.knows for record in records}
    with_dots = {policy for _, policy in drawn}
    shown = {
        knows: [policy for policy in order if policy in with_dots and known[policy] == knows]
        for knows in reversed(KNOWLEDGE)
    }
    shown = {knows: policies for knows, policies in shown.items() if policies}
    names = list(dict.fromkeys(plain(policy) for policy in order))
    lines = sum(map(len, shown.values()))
    size = (2.2 + 1.15 * len(traces), 1.5 + 0.165 * lines)
    with drawing(size, STYLE) as (figure, encoded):
        if not shown:
            figure.text(0.1, 0.5, "no pairs yet")
            return encoded(metadata={"Creator": None}).decode()
        panels = figure.subplots(
            len(shown), len(traces), sharex=True, squeeze=False,
            height_ratios=[len(policies) + 1 for policies in shown.values()],
        )  # fmt: skip
        for row, (knows, policies) in zip(panels, shown.items(), strict=True):
            for axes, trace in zip(row, traces, strict=True):
                here = [record for record in records if record.trace == trace]
                _panel(axes, here, trace, KNOWLEDGE[knows][0], policies, names)
            row[0].set_yticks(range(len(policies)), [plain(policy) for policy in policies])
            row[0].set_ylabel(KNOWLEDGE[knows][1])
        for axes, trace in zip(panels[0], traces, strict=True):
            axes.set_title(trace.replace("/", "/\n").replace(", ", ",\n"), fontsize=8.0)
        figure.align_ylabels(panels[:, 0])
        figure.supxlabel("average JCT over that of the default that knows as much (log scale); "
                         "right of the line: the default is ahead", fontsize=8.0)  # fmt: skip
        return encoded(metadata={"Creator": None}).decode()


def _panel(
    axes: Axes, here: Sequence[Record], trace: str, ours: str,
    policies: Sequence[str], names: Sequence[str],
) -> None:  # fmt: skip
    """One trace at one knowledge; what is beyond the limits is an arrow at the edge."""
    axes.set_xscale("log")
    axes.set_xlim(*LIMITS)
    axes.set_ylim(len(policies) - 0.4, -0.6)
    axes.axvline(1.0, color="#999999", lw=0.8)
    for place, policy in enumerate(policies):
        values = ratios(here, trace, policy, ours)
        if not values:
            continue
        number = names.index(plain(policy))
        colour = COLOURS[number % len(COLOURS)]
        face = colour if number // len(COLOURS) % 2 == 0 else "white"
        centre, low, high = interval(values)
        beyond = centre > LIMITS[1]
        if len(values) >= PAIRS:
            axes.plot([max(low, LIMITS[0]), min(high, LIMITS[1])], [place, place], color=colour,
                      lw=1.0)  # fmt: skip
        axes.plot([LIMITS[1] * 0.93 if beyond else centre], [place], ls="", color=colour, ms=3.6,
                  marker=">" if beyond else "o", mfc=face)  # fmt: skip
    axes.set_yticks(range(len(policies)), [""] * len(policies))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="#eeeeee", lw=0.6)
    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", length=0)
    axes.set_axisbelow(True)
