"""What the rows of the grand comparison say: ten sentences, and figures that were set out for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.comparison.records import REFERENCE, Record, interval, mean, pairs, ratios
from morph_opt.table import Table

CLOSE = 0.01
"""Part by which somebody has to be better to be called ahead."""

Hindsight = Mapping[tuple[str, int], float]
"""Average JCT of the best schedule known, by trace and seed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on traces."""

    traces: tuple[str, ...]
    one: str
    other: str = REFERENCE

    def told(self, records: Sequence[Record]) -> str:
        """Ratios of their average JCTs, with intervals where there are; empty for no pair."""
        found = []
        for trace in self.traces:
            values = ratios(records, trace, self.one, self.other)
            if values:
                found.append(f"`{trace}` {_ratio(trace, values)}")
        return f"{self.one} over {self.other}: {', '.join(found)}" if found else ""


def _ratio(trace: str, values: Sequence[float]) -> str:
    centre, low, high = interval(values)
    if len(values) == 1:
        return f"{centre:.3f} [{'one trace' if '/' in trace else '1 pair'}]"
    told = f"{low:.3f} to {high:.3f}; {len(values)} pairs"
    return f"{centre:.3f} [{told}{'; order open' if low <= 1.0 <= high else ''}]"


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about ratios, true of whatever they come out as.

    Parameters
    ----------
    words
        What the ratios say, before them.
    pairs
        Those that have no rows are left out.
    """

    words: str
    pairs: tuple[Pair, ...]


_BASE, _ORIGINAL, _TYPES = "base", "morphling/base", "gavel-96"
_JCT, _BLIND, _GREEDY = "MILP `jct`", "MILP `jct-blind`", "`greedy:lookahead`"
_WEIGHTED = "MILP `lookahead`, weighted promises"
_ALL = (_BASE, _ORIGINAL, _TYPES)
FINDINGS = (
    Finding(
        "Never to change a job's GPUs, with the same knowledge of durations",
        (Pair(_ALL, "`srtf`"),),
    ),
    Finding(
        "To deal out a round's GPUs by greed instead of optimising it, at equal freedom, knowledge "
        "and values",
        (Pair(_ALL, _GREEDY),),
    ),
    Finding(
        "The same by the values of other objectives",
        (Pair(_ALL, "`greedy:jct`", _JCT),
         Pair(_ALL, "`greedy:throughput`", "MILP `throughput`")),
    ),
    Finding("Not to price GPU-seconds by the backlog", (Pair(_ALL, _JCT),)),
    Finding("To guess durations from what has completed", (Pair(_ALL, _BLIND),)),
    Finding(
        "To be told durations that are wrong by a factor of 2 in one of three jobs",
        (Pair(_ALL, f"{REFERENCE}, sigma 0.7"), Pair(_ALL, "`srtf`, sigma 0.7", "`srtf`")),
    ),
    Finding(
        "Published rules at equal freedom, those without durations over `jct-blind`",
        (*(Pair(_ALL, name, _BLIND) for name in ("`sia`", "`pollux:counts`", "`morphling`")),
         Pair(_ALL, "`optimus`")),
    ),
    Finding(
        "To rank promises before all else also in rounds that cannot keep them all",
        (Pair(("mt", "morphling/mt"), REFERENCE, _WEIGHTED),),
    ),
)  # fmt: skip


def findings(records: Sequence[Record], hindsight: Hindsight) -> list[str]:
    """Sentences with their figures; none without its rows.

    The last two say how far the best may be from what is possible, and on which traces a policy
    that solves no MILP has a shorter average JCT than the MILP that knows as much.
    """
    found = []
    for finding in FINDINGS:
        told = [text for pair in finding.pairs if (text := pair.told(records))]
        if told:
            found.append(f"{finding.words}: {'; '.join(told)}.")
    if text := _distance(records, hindsight):
        found.append(text)
    return [*found, _beaten(records)]


def _distance(records: Sequence[Record], hindsight: Hindsight) -> str:
    """How far above the best schedule of all the reference is, at least and at most."""
    told = []
    for trace in (_BASE, _ORIGINAL):
        mine = [r for r in records if r.trace == trace and r.policy == REFERENCE and r.complete]
        searched = [record for record in mine if (trace, record.seed) in hindsight]
        if mine:
            text = f"`{trace}` at most {100 * over_bound(mine):.1f} % (certified bound"
            text += "" if "/" in trace else f", mean of {len(mine)}"
            if searched:
                text += f"), at least {100 * over_hindsight(mine, hindsight):.1f} % (best schedule"
                text += " found with hindsight"
                text += "" if "/" in trace else f", searched for on {len(searched)} of {len(mine)}"
            told.append(f"{text})")
    return f"{REFERENCE} is above the best schedule of all by: {'; '.join(told)}." if told else ""


def over_bound(mine: Sequence[Record]) -> float:
    """Average JCT over the certified bound, less 1; mean over replays."""
    return sum(record.avg_jct_s / record.bound_s for record in mine) / len(mine) - 1.0


def over_hindsight(mine: Sequence[Record], hindsight: Hindsight) -> float:
    """Over the best schedule found, where one was searched for; NaN where none was."""
    known = [r for r in mine if (r.trace, r.seed) in hindsight]
    if not known:
        return math.nan
    return sum(r.avg_jct_s / hindsight[r.trace, r.seed] for r in known) / len(known) - 1.0


_KNOWLEDGE = {
    "yes": (REFERENCE, "durations known"),
    "sigma 0.7": (f"{REFERENCE}, sigma 0.7", "durations wrong by sigma 0.7"),
    "no": (_BLIND, "durations unknown"),
}
"""The MILP that stands for us, and what its policies know."""


def _beaten(records: Sequence[Record]) -> str:
    """Where somebody without a MILP is ahead of ours that knows as much, seed by seed."""
    found = []
    for trace in dict.fromkeys(record.trace for record in records):
        for knows, (ours, words) in _KNOWLEDGE.items():
            rivals = dict.fromkeys(
                record.policy
                for record in records
                if record.trace == trace and record.knows == knows
                and not record.policy.startswith("MILP")
            )  # fmt: skip
            values = {rival: ratios(records, trace, rival, ours) for rival in rivals}
            centre = {rival: interval(ratio)[0] for rival, ratio in values.items() if ratio}
            ahead = sorted((r for r in centre if centre[r] < 1.0 - CLOSE), key=centre.__getitem__)
            if ahead:
                told = ", ".join(f"{rival} {_ratio(trace, values[rival])}" for rival in ahead)
                promises = _promised(records, trace, ahead[0], ours)
                found.append(f"on `{trace}`, {words}, over {ours}: {told}{promises}")
    words = "Who solves no MILP and is ahead of the MILP that knows as much"
    return f"{words}: {'; '.join(found) or f'nobody here, by {CLOSE:.0%} or more'}."


def _promised(records: Sequence[Record], trace: str, rival: str, ours: str) -> str:
    """At what price in promises, and where it stands if the MILP weighs them."""
    here = list(pairs(records, trace, rival, ours))
    late = [mean(side, "guaranteed_late_jobs") for side in zip(*here, strict=True)]
    if any(map(math.isnan, late)):
        return ""
    text = f" ({rival} with {late[0]:.0f} late promises against {late[1]:.0f}"
    weighted = ratios(records, trace, rival, _WEIGHTED) if ours == REFERENCE else []
    if weighted:
        text += f"; over {_WEIGHTED}: {_ratio(trace, weighted)}"
    return f"{text})"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that was set out for before it was measured.

    Parameters
    ----------
    trace, policy
        Whose mean it is.
    words
        What is measured.
    figure
        Of `Record`, or ``over_hindsight``.
    limit
        Largest value that will do; of the bound, the smallest.
    """

    trace: str
    policy: str
    words: str
    limit: float
    figure: str = "avg_jct_s"


TARGETS = (
    Target(_ORIGINAL, REFERENCE, "average JCT s", 1070.0),
    Target(_BASE, REFERENCE, "average JCT s", 990.0),
    Target(_ORIGINAL, REFERENCE, "over hindsight %", 7.0, "over_hindsight"),
    Target(_BASE, REFERENCE, "over hindsight %", 7.0, "over_hindsight"),
    Target("morphling/bp", REFERENCE, "average JCT s", 1060.0),
    Target("morphling/naive", REFERENCE, "average JCT s", 870.0),
    Target("morphling/mt", _WEIGHTED, "average JCT s", 1150.0),
    Target("morphling/mt", _WEIGHTED, "of guaranteed jobs s", 1160.0, "guaranteed_avg_jct_s"),
    Target(_ORIGINAL, _BLIND, "average JCT s", 1520.0),
    Target(_BASE, _BLIND, "average JCT s", 1330.0),
    Target(_ORIGINAL, "MILP `makespan`", "makespan s", 59_500.0, "makespan_s"),
    Target(_ORIGINAL, REFERENCE, "bound on average JCT s", 795.0, "bound_s"),
)


def targets(records: Sequence[Record], hindsight: Hindsight) -> str:
    """What was set out for and what was measured, as a table; what has no rows says so."""
    rows = []
    for target in TARGETS:
        mine = [r for r in records if r.trace == target.trace and r.policy == target.policy]
        mine = [record for record in mine if record.complete]
        if target.figure == "over_hindsight":
            value = 100.0 * over_hindsight(mine, hindsight) if mine else math.nan
            mine = [record for record in mine if (record.trace, record.seed) in hindsight]
        else:
            value = mean(mine, target.figure)
        floor = target.figure == "bound_s"
        met = value >= target.limit if floor else value <= target.limit
        asked = f"{'>=' if floor else '<='} {target.limit:,.0f}"
        measured = "not measured" if math.isnan(value) else _short(value)
        verdict = "" if math.isnan(value) else "yes" if met else "**no**"
        rows.append((f"`{target.trace}`", target.policy, target.words, asked, measured,
                     len(mine), verdict))  # fmt: skip
    header = ("trace", "policy", "figure", "set out for", "measured", "seeds", "met")
    return Table(header, rows, "lllrrrl").to_markdown()


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100.0 else f"{value:,.0f}"
