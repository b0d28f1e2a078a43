"""What the rows of the grand comparison say: ten sentences, and figures that were set out for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.comparison.records import (
    CLOSE,
    KNOWLEDGE,
    PAIRS,
    REFERENCE,
    Lead,
    Record,
    interval,
    leads,
    mean,
    pairs,
    ratios,
)
from morph_opt.core.table import Table

Hindsight = Mapping[tuple[str, int], float]
"""Average JCT of the best schedule known, by trace and seed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on traces."""

    traces: tuple[str, ...]
    one: str
    other: str = REFERENCE

    def sentence(self, records: Sequence[Record]) -> str:
        """Ratios of their average JCTs, with intervals where there are; empty for no pair."""
        found = []
        for trace in self.traces:
            values = ratios(records, trace, self.one, self.other)
            if values and ("/" in trace or len(values) >= PAIRS):
                found.append(f"`{trace}` {_ratio(trace, values)}")
        return f"{self.one} over {self.other}: {', '.join(found)}" if found else ""


def _ratio(trace: str, values: Sequence[float]) -> str:
    centre, low, high = interval(values)
    if "/" in trace:
        return f"{centre:.3f} [one trace]"
    sentence = f"{low:.3f} to {high:.3f}; {len(values)} pairs"
    return f"{centre:.3f} [{sentence}{'; order open' if low <= 1.0 <= high else ''}]"


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
_JCT, _LOOKAHEAD, _GREEDY = "MILP `jct`", "MILP `lookahead`", "`greedy:lookahead`"
_BLIND, _NOISY = KNOWLEDGE["no"][0], KNOWLEDGE["sigma 0.7"][0]
_WEIGHTED = "MILP `lookahead`, weighted promises"
_ALL = (
    _BASE,
    _ORIGINAL,
    _TYPES,
    "gavel-96-60s",
    "tiresias-480",
    "easyscale-twin",
    "philly-bursts",
    "acme-bursts",
)
FINDINGS = (
    Finding(
        "Never to change a job's GPUs, with the same knowledge of durations",
        (Pair(_ALL, "`srtf`"),),
    ),
    Finding(
        "To hand out a round's GPUs by greed instead of optimising it, at equal freedom, knowledge "
        "and values",
        (Pair(_ALL, _GREEDY, _LOOKAHEAD),),
    ),
    Finding(
        "The same by the values of other objectives",
        (Pair(_ALL, "`greedy:jct`", _JCT), Pair(_ALL, "`greedy:throughput`", "MILP `throughput`")),
    ),
    Finding(
        "Not to divide seconds saved by the root of the time for which GPUs are held, but by "
        "nothing, or to count completions a second",
        (Pair(_ALL, _LOOKAHEAD), Pair(_ALL, _JCT)),
    ),
    Finding("To guess durations from what has completed", (Pair(_ALL, _BLIND),)),
    Finding(
        "To be told durations that are wrong by a factor of 2 in one of three jobs",
        (Pair(_ALL, _NOISY), Pair(_ALL, "`srtf`, sigma 0.7", "`srtf`")),
    ),
    Finding(
        "Published rules at equal freedom, those without durations over the default without",
        (
            *(Pair(_ALL, name, _BLIND) for name in ("`sia`", "`pollux:counts`", "`morphling`")),
            Pair(_ALL, "`optimus`"),
        ),
    ),
    Finding(
        "To rank promises before all else also in rounds that cannot keep them all",
        (Pair(("mt", "morphling/mt"), _LOOKAHEAD, _WEIGHTED),),
    ),
)


def findings(records: Sequence[Record], hindsight: Hindsight) -> list[str]:
    """Sentences with their figures; none without its rows.

    The last two say how far the default may be from what is possible, and on which traces a policy
    that knows no more has a shorter average JCT.
    """
    found = []
    for finding in FINDINGS:
        sentence = [text for pair in finding.pairs if (text := pair.sentence(records))]
        if sentence:
            found.append(f"{finding.words}: {'; '.join(sentence)}.")
    if text := _distance(records, hindsight):
        found.append(text)
    return [*found, _beaten(records)]


def _distance(records: Sequence[Record], hindsight: Hindsight) -> str:
    """How far above the best schedule of all the reference is, at least and at most."""
    sentence = []
    for trace in (_BASE, _ORIGINAL, _TYPES, "tiresias-480"):
        mine = [r for r in records if r.trace == trace and r.policy == REFERENCE and r.complete]
        searched = [record for record in mine if (trace, record.seed) in hindsight]
        if mine:
            text = f"`{trace}` at most {100 * over_bound(mine):.1f} % (certified bound"
            text += "" if "/" in trace else f", mean of {len(mine)}"
            if searched:
                text += f"), at least {100 * over_hindsight(mine, hindsight):.1f} % (best schedule"
                text += " found with hindsight"
                text += "" if "/" in trace else f", searched for on {len(searched)} of {len(mine)}"
            sentence.append(f"{text})")
    return (
        f"{REFERENCE} is above the best schedule of all by: {'; '.join(sentence)}."
        if sentence
        else ""
    )


def over_bound(mine: Sequence[Record]) -> float:
    """Average JCT over the certified bound, less 1; mean over replays."""
    return sum(record.avg_jct_s / record.bound_s for record in mine) / len(mine) - 1.0


def over_hindsight(mine: Sequence[Record], hindsight: Hindsight) -> float:
    """Over the best schedule found, where one was searched for; NaN where none was.

    It is of jobs that no limit ends, so there is none for rows with limits.
    """
    known = [r for r in mine if (r.trace, r.seed) in hindsight and not r.knows.startswith("limits")]
    if not known:
        return math.nan
    return sum(r.avg_jct_s / hindsight[r.trace, r.seed] for r in known) / len(known) - 1.0


def _beaten(records: Sequence[Record]) -> str:
    """Where a policy is ahead of the default that knows as much or more, and by how much."""
    ahead = sorted(
        (lead for lead in leads(records) if lead.behind), key=lambda lead: not lead.shown
    )
    found = [_lead(records, lead) for lead in ahead]
    words = (
        f"{REFERENCE} behind a policy that knows no more, by more than {CLOSE:.0%} in the mean of "
    )
    return f"{words}{PAIRS} twins or more: {'; '.join(found) or 'nowhere here'}."


def _lead(records: Sequence[Record], lead: Lead) -> str:
    ours, words = KNOWLEDGE[lead.knows]
    text = f"on `{lead.trace}`, {words}, {lead.policy}: {_ratio(lead.trace, lead.ratios)}"
    here = list(pairs(records, lead.trace, lead.policy, ours))
    late = [mean(side, "guaranteed_late_jobs") for side in zip(*here, strict=True)]
    if any(map(math.isnan, late)):
        return text
    return f"{text} ({lead.policy} with {late[0]:.0f} late promises against {late[1]:.0f})"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that was set out for before it was measured.

    Parameters
    ----------
    trace, policy
        Whose mean it is.
    words
        What is measured.
    limit
        Largest value that will do; of the bound, the smallest.
    figure
        Of `Record`, or ``over_hindsight``.
    over
        A policy: the figure is the geometric mean of the ratio to its own.
    """

    trace: str
    policy: str
    words: str
    limit: float
    figure: str = "avg_jct_s"
    over: str = ""


_AVERAGE = "average JCT s"
TARGETS = (
    Target(_TYPES, _BLIND, _AVERAGE, 42_000.0),
    Target(_BASE, _BLIND, _AVERAGE, 1240.0),
    Target(_ORIGINAL, _BLIND, _AVERAGE, 1340.0),
    Target(_TYPES, REFERENCE, "over MILP `jct`", 0.985, over=_JCT),
    Target("gavel-96-60s", REFERENCE, "over MILP `jct`", 1.0, over=_JCT),
    Target("tiresias-480", REFERENCE, _AVERAGE, 10_500.0),
    Target(_ORIGINAL, REFERENCE, _AVERAGE, 1030.0),
    Target(_BASE, REFERENCE, _AVERAGE, 980.0),
    Target("mt", REFERENCE, _AVERAGE, 1040.0),
    Target("mt", _BLIND, _AVERAGE, 1300.0),
    Target(_ORIGINAL, REFERENCE, "over hindsight %", 7.0, "over_hindsight"),
    Target(_BASE, REFERENCE, "over hindsight %", 7.0, "over_hindsight"),
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
        elif target.over:
            values = ratios(records, target.trace, target.policy, target.over)
            value = interval(values)[0] if values else math.nan
            mine = mine[: len(values)]
        else:
            value = mean(mine, target.figure)
        floor = target.figure == "bound_s"
        met = value >= target.limit if floor else value <= target.limit
        asked = f"{'>=' if floor else '<='} {_short(target.limit)}"
        measured = "not measured" if math.isnan(value) else _short(value)
        verdict = "" if math.isnan(value) else "yes" if met else "**no**"
        rows.append(
            (f"`{target.trace}`", target.policy, target.words, asked, measured, len(mine), verdict)
        )
    header = ("trace", "policy", "figure", "set out for", "measured", "seeds", "met")
    return Table(header, rows, "lllrrrl").to_markdown()


def _short(value: float) -> str:
    if value < 2.0:
        return f"{value:.3f}"
    return f"{value:.1f}" if value < 100.0 else f"{value:,.0f}"
