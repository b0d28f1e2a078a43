"""The generated blocks of the README: tables from `Results`, and nothing typed by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison.records import CLOSE, REFERENCE, Record, mean
from benchmarks.readme.cases import ORIGINALS, TWINS, Case, cases
from benchmarks.readme.results import Results, Row
from morph_opt.core.documents import LINES_BYTES, read_text
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table
from morph_opt.scheduling.policies.steps import SOLVING

_HEADER = (
    "policy",
    "may change GPUs",
    "knows durations",
    "average JCT (s)",
    "median JCT (s)",
    "p99 JCT (s)",
    "makespan (h)",
    "average queueing (s)",
    "GPUs in use",
    "restarts per job",
    "median round (ms)",
    "p99 round (ms)",
    "largest gap",
)


def _seconds(value: float) -> str:
    return f"{value:,.0f}"


def _hours(value: float) -> str:
    return f"{value / 3600.0:.2f}"


def _gap(row: Row) -> str:
    if row.gap_max is None:
        return "none"
    return f"{100.0 * row.gap_max:{',.0f' if row.gap_max >= 1.0 else '.2g'}} %"


def _cells(case: Case, row: Row, best_s: float) -> tuple[str, ...]:
    average = _seconds(row.avg_jct_s)
    promised = () if row.guaranteed_jct_s is None else (_seconds(row.guaranteed_jct_s),)
    return (
        case.scheduler.label,
        "yes" if case.scheduler.changes_gpus else "no",
        "yes" if case.scheduler.knows_durations else "no",
        f"**{average}**" if row.avg_jct_s == best_s else average,
        *promised,
        _seconds(row.median_jct_s),
        _seconds(row.p99_jct_s),
        _hours(row.makespan_s),
        _seconds(row.avg_queue_s),
        f"{100.0 * row.gpu_utilization:.1f} %",
        f"{row.restarts_per_job:.2f}",
        f"{row.round_ms_p50:.1f}",
        f"{row.round_ms_p99:.0f}",
        _gap(row),
    )


def comparison(results: Results, trace: str) -> str:
    """All schedulers on one trace, with the certified bounds and what must be said about them.

    Raises
    ------
    InputError
        If no replay of the trace is among the results, or the trace changed between them.
    """
    shown = [
        (case, results.rows[case.slug]) for case in cases((trace,)) if case.slug in results.rows
    ]
    if not shown:
        raise InputError(f"there is no replay of {trace!r}: run make readme")
    if len({row.trace_sha256 for _, row in shown}) > 1:
        raise InputError(f"the replays of {trace!r} are not of the same jobs: run make readme")
    best_s = min(row.avg_jct_s for _, row in shown)
    body = [_cells(case, row, best_s) for case, row in shown]
    jct_bound_s = min(row.avg_jct_lower_bound_s for _, row in shown)
    end_bound_s = min(row.makespan_lower_bound_s for _, row in shown)
    header = list(_HEADER)
    if shown[0][1].guaranteed_jct_s is not None:
        header.insert(4, "of guaranteed jobs (s)")
    bounds = {"average JCT (s)": _seconds(jct_bound_s), "makespan (h)": _hours(end_bound_s)}
    body.append(("*no schedule is below*", *(bounds.get(name, "") for name in header[1:])))
    return Table(header, body).to_markdown(spaced=True) + "\n\n" + " ".join(_remarks(shown))


_LOOSE = 0.01
"""Gap above which a round was not solved as it was to be, but ended by its time limit."""


def _remarks(shown: Sequence[tuple[Case, Row]]) -> list[str]:
    """What a reader must know to read the table rightly."""
    rows = [row for _, row in shown]
    jobs, gpus = rows[0].jobs, rows[0].gpus
    remarks = [f"{jobs} jobs on {gpus} GPUs."]
    short = [case.scheduler.label for case, row in shown if row.completed < row.jobs]
    over = sum(row.rounds_over_capacity for row in rows)
    remarks.append(
        f"Not every job completes under {', '.join(short)}." if short else "Every job completes."
    )
    remarks.append(f"Rounds over capacity: {over}.")
    for case, row in shown:
        if row.fallback_rounds:
            remarks.append(
                f"{case.scheduler.label} fell back in {row.fallback_rounds} of {row.rounds} rounds."
            )
        if (row.gap_max or 0.0) > _LOOSE:
            remarks.append(f"The time limit ends a round of {case.scheduler.label} at {_gap(row)}.")
        if row.guarantee_misses:
            remarks.append(
                f"{case.scheduler.label} leaves a guarantee short that could be kept in "
                f"{row.guarantee_misses} of {row.rounds} rounds."
            )
    return remarks


_HEADLINE = (
    ("throughput", "MILP, `throughput`", "Morphling's goal: most normalised speed"),
    ("fairness", "MILP, `fairness`", "Gavel's goal: the worst-off job first"),
    ("las", "MILP, `las`", "Tiresias' goal: least attained service first (2D-LAS)"),
    ("auto", "MILP, the default", "knows durations; every round proven within a gap of {gap}"),
    ("greedy-lookahead", "`greedy:lookahead`", "knows durations; any GPU counts, no MILP"),
    ("sia", "`sia`", "published rule; any GPU counts"),
    ("morphling", "`morphling`", "published rule; any GPU counts"),
    ("srtf", "`srtf`", "knows durations; jobs keep the GPUs that they asked for"),
)
"""Objectives of the publications that the project follows, then peers by their freedom."""


def headline(results: Results) -> str:
    """Return the averages of one trace and a sentence on its bound; empty without any of these."""
    found = [
        (results.rows[f"base.{key}"], how, what)
        for key, how, what in _HEADLINE
        if f"base.{key}" in results.rows
    ]
    if not found:
        return ""
    rows = [
        (f"**{average}**" if how.startswith("MILP") else average, how, what.format(gap=_gap(row)))
        for row, how, what in found
        for average in (f"{_seconds(row.avg_jct_s)} s",)
    ]
    first = found[0][0]
    bound = min(row.avg_jct_lower_bound_s for row, _, _ in found)
    head = ("average JCT", "policy", "what it is")
    return (
        f"The same {first.jobs} jobs on the same {first.gpus} GPUs. JCT (job completion time) runs "
        f"from submission to completion; no schedule has an average below {_seconds(bound)} s, "
        "whoever computes it.\n\n" + Table(head, rows, "l").to_markdown(spaced=True)
    )


def elsewhere(records: Sequence[Record]) -> str:
    """Return one sentence on the twins where a policy is ahead of the default in a mean.

    Compared are policies with as many twins of the trace as the default, by average JCT on every
    trace and by makespan on ``base``. Empty without replays.
    """
    twins = dict.fromkeys(r.trace for r in records if "/" not in r.trace)
    questions = [("avg_jct_s", "average JCT", trace) for trace in twins]
    questions += [("makespan_s", "makespan", trace) for trace in twins if trace == TWINS[0]]
    found: dict[str, list[str]] = {}
    for figure, name, trace in questions:
        best, lead = _ahead(records, trace, figure)
        if lead > CLOSE:
            found.setdefault(f"in {name} {best}", []).append(f"`{trace}` ({100.0 * lead:.1f} %)")
    if not found:
        return ""
    parts = [f"{who} on {' and '.join(where)}" for who, where in found.items()]
    return f"Ahead of the default elsewhere, in means over twins: {'; '.join(parts)}."


def _ahead(records: Sequence[Record], trace: str, figure: str) -> tuple[str, float]:
    """Return the policy with the smallest mean figure on a trace, and its lead on the default."""
    by_policy: dict[str, list[Record]] = {}
    for record in records:
        if record.trace == trace and record.complete:
            by_policy.setdefault(record.policy, []).append(record)
    seeds = len(by_policy.get(REFERENCE, ()))
    means = {name: mean(of, figure) for name, of in by_policy.items() if len(of) == seeds}
    best = min(means, key=means.__getitem__, default=REFERENCE)
    return best, means[REFERENCE] / means[best] - 1.0 if means else 0.0


PRINTED_S = {
    "base": ((3638.0, 58680.0), (7475.0, 108420.0)),
    "bp": ((3638.0, 58680.0), None),
    "mt": ((4017.0, 60780.0), (27317.0, 288960.0)),
}
"""Average JCT and makespan, seconds, that Morphling's simulator prints, by trace: as published, and
made to honour the cluster where that was tried. Its README (Morphling, MLSys'25, artifact of
reconfigurable-dl-scheduler at 80e8524) calls them those of the paper's Table 4."""

_TABLE_4 = ("morphling", "throughput", "auto")
_TABLE_4_HEADER = (
    "trace",
    "decided by",
    "average JCT (s)",
    "makespan (s)",
    "average JCT of guaranteed jobs (s)",
    "command",
)


def table_4(results: Results) -> str:
    """Return Morphling's Table 4: what its simulator prints, and replays of the same traces."""
    body = []
    for original in ORIGINALS:
        trace = original.rpartition("/")[2]
        names = ("printed by its simulator", "printed by it, made to honour the cluster")
        for name, printed in zip(names, PRINTED_S[trace], strict=True):
            if printed is not None:
                body.append((f"`{trace}`", name, *map(_seconds, printed), "", ""))
        for case in cases((original,)):
            row = results.rows.get(case.slug)
            if case.scheduler.key in _TABLE_4 and row is not None:
                guaranteed = row.guaranteed_jct_s
                body.append(
                    (
                        f"`{trace}`",
                        f"{case.scheduler.label}, here",
                        _seconds(row.avg_jct_s),
                        _seconds(row.makespan_s),
                        "" if guaranteed is None else _seconds(guaranteed),
                        f"`{case.command}`",
                    )
                )
    return Table(_TABLE_4_HEADER, body, "llrrrl").to_markdown(spaced=True)


def settled(results: Results) -> str:
    """One sentence on what solves a round, with the rounds left to a MIP solver on ``base``.

    Empty where no replay at hand has counted its steps.
    """
    counts = []
    for key, name in (("auto", "the default objective"), ("throughput", "`throughput`")):
        row = results.rows.get(f"base.{key}")
        if row is not None and row.steps:
            left = sum(row.steps.get(step, 0) for step in SOLVING)
            counts.append(f"{left} of {sum(row.steps.values()):,} rounds under {name}")
    if not counts:
        return ""
    return (
        "Dynamic programs and prices prove the optimum of a round's MILP; a MIP solver settles "
        f"what they leave: on `base` {', '.join(counts)}."
    )


def worth(results: Results) -> str:
    """What optimisation alone is worth: the same values by greed, and beside it rigid gangs.

    Empty where a replay of these is not at hand.
    """
    parts = []
    for trace in (TWINS[0], ORIGINALS[0]):
        here = [results.rows.get(f"{trace.replace('/', '-')}.{key}") for key in _WORTH]
        if None not in here:
            ours, greedy, rigid = (row.avg_jct_s for row in here if row is not None)
            parts.append(
                f"on `{trace}` greed costs {100 * (greedy / ours - 1):.1f} % of average JCT, and "
                f"to keep jobs on the GPUs they asked for {100 * (rigid / ours - 1):.0f} %"
            )
    if not parts:
        return ""
    return (
        "At equal freedom, knowledge and values, optimisation alone is worth what `lookahead` "
        "gains over `greedy:lookahead`, which deals out the GPUs of each round by the same values "
        f"without a MILP: {'; '.join(parts)} (`srtf`). "
        "One replay each: intervals over twins are in the comparison."
    )


_WORTH = ("lookahead", "greedy-lookahead", "srtf")


def commands(traces: Sequence[str]) -> str:
    """The commands behind tables, as a block."""
    lines = [case.command for case in cases(tuple(traces))]
    return "```sh\n" + "\n".join(lines) + "\n```"


# ---------------------------------------------------------------- targets


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that a replay of an original trace must show.

    Parameters
    ----------
    slug
        Case.
    what
        In words.
    limit
        Largest value allowed, in the figure's unit.
    unit
        Behind the figures in the table.
    value
        From the row; None if it was not measured.
    """

    slug: str
    what: str
    limit: float
    unit: str
    value: Callable[[Row], float | None]


def _whole_s(row: Row) -> float | None:
    return None if row.measured is None else row.measured.whole_s


def _differing_reruns(row: Row) -> float | None:
    if row.measured is None or row.measured.rerun_identical is None:
        return None
    return 0.0 if row.measured.rerun_identical else 1.0


def _misses(row: Row) -> float | None:
    return None if row.guarantee_misses is None else float(row.guarantee_misses)


_KEPT = "rounds with a guarantee short that could be kept"
TARGETS = (
    Target("morphling-base.jct", "average JCT", 1150.0, " s", lambda row: row.avg_jct_s),
    Target("morphling-base.throughput", "average JCT", 2600.0, " s", lambda row: row.avg_jct_s),
    Target("morphling-mt.throughput", "average JCT", 2600.0, " s", lambda row: row.avg_jct_s),
    Target("morphling-mt.throughput", _KEPT, 0.0, "", _misses),
    Target("morphling-base.lookahead", "average JCT", 1070.0, " s", lambda row: row.avg_jct_s),
    Target("morphling-base.jct-blind", "average JCT", 1520.0, " s", lambda row: row.avg_jct_s),
    Target("morphling-mt.lookahead-weight", "average JCT", 1150.0, " s", lambda row: row.avg_jct_s),
    Target(
        "morphling-mt.lookahead-weight",
        "average JCT of guaranteed jobs",
        1160.0,
        " s",
        lambda row: row.guaranteed_jct_s,
    ),
    Target("morphling-mt.lookahead-weight", _KEPT, 0.0, "", _misses),
    Target(
        "morphling-base.jct", "whole command on one core, start-up included", 30.0, " s", _whole_s
    ),
    Target("morphling-base.jct", "peak memory", 500.0, " MiB", lambda row: row.peak_rss_mib),
    Target("morphling-base.jct", "median round", 15.0, " ms", lambda row: row.round_ms_p50),
    Target(
        "morphling-base.jct",
        "reruns that differ in `events.jsonl` or `jobs.csv`",
        0.0,
        "",
        _differing_reruns,
    ),
)


def targets(results: Results) -> str:
    """Measured values against the targets, one line each, met or not."""
    body = []
    for target in TARGETS:
        row = results.rows.get(target.slug)
        value = None if row is None else target.value(row)
        case = next(case for case in cases(ORIGINALS) if case.slug == target.slug)
        name = f"`{case.trace}`, `{case.scheduler.key}`: {target.what}"
        limit = f"{target.limit:,.0f}{target.unit}"
        body.append((name, limit, *_verdict(value, target)))
    body += _every_run(results)
    header = ("figure", "at most", "measured", "met")
    return Table(header, body).to_markdown(spaced=True)


def _verdict(value: float | None, target: Target) -> tuple[str, str]:
    if value is None or not math.isfinite(value):
        return ("not measured", "no")
    digits = 1 if target.unit in (" ms", " s") and value < 100.0 else 0
    return (f"{value:,.{digits}f}{target.unit}", "yes" if value <= target.limit else "no")


def _every_run(results: Results) -> list[tuple[str, str, str, str]]:
    """What must hold in every replay of an original."""
    rows = [results.rows[case.slug] for case in cases(ORIGINALS) if case.slug in results.rows]
    over = sum(row.rounds_over_capacity for row in rows)
    left = sum(row.jobs - row.completed for row in rows)
    return [
        (f"all {len(rows)} replays: {what}", "0", f"{value:,}", "yes" if value == 0 else "no")
        for what, value in (("rounds over capacity", over), ("jobs not complete", left))
    ]


# ---------------------------------------------------------------- blocks


def blocks(results: Results, records: Sequence[Record] = ()) -> dict[str, str]:
    """Return every generated block by name, without those whose replays are not at hand.

    Parameters
    ----------
    results
        Replays of the README.
    records
        Replays of the comparison.
    """
    made = {
        "headline": headline(results),
        **{trace: comparison(results, trace) for trace in TWINS if _has(results, trace)},
        "commands": commands(TWINS),
        "versions": _versions(results),
    }
    for name, sentence in (
        ("elsewhere", elsewhere(records)),
        ("settled", settled(results)),
        ("worth", worth(results)),
    ):
        if sentence:
            made[name] = sentence
    originals = [trace for trace in ORIGINALS if _has(results, trace)]
    for trace in originals:
        made[trace.replace("/", "-")] = comparison(results, trace)
    if originals:
        made["table-4"] = table_4(results)
        made["targets"] = targets(results)
    return made


def _has(results: Results, trace: str) -> bool:
    return any(case.slug in results.rows for case in cases((trace,)))


def _versions(results: Results) -> str:
    return "Measured with " + ", ".join(f"{k} {v}" for k, v in results.versions.items()) + "."


def _pattern(name: str) -> re.Pattern[str]:
    begin, end = f"<!-- generated:{name} -->\n", f"<!-- /generated:{name} -->"
    return re.compile(f"({re.escape(begin)})(.*?)({re.escape(end)})", re.DOTALL)


def block_in(text: str, name: str, file: str = "README.md") -> str:
    """What stands between the markers of a block.

    Raises
    ------
    InputError
        If the text does not have the markers exactly once.
    """
    found = _pattern(name).findall(text)
    if len(found) != 1:
        raise InputError(f"must have the markers of block {name!r} once", file=file)
    return str(found[0][1]).removesuffix("\n")


def rewrite(text: str, made: Mapping[str, str], file: str = "README.md") -> str:
    """The text with the insides of these blocks replaced; nothing else is touched."""
    for name, inside in made.items():
        block_in(text, name, file)
        begin, _, end = _pattern(name).findall(text)[0]
        before, _, rest = text.partition(begin)
        text = before + begin + inside + "\n" + end + rest.partition(end)[2]
    return text


def rewritten(
    pages: Sequence[Path], results: Results, records: Sequence[Record] = ()
) -> dict[Path, str]:
    """The texts of pages, each with the blocks that it has markers of made anew.

    Raises
    ------
    InputError
        If a block has its markers on none of the pages, on several, or twice.
    """
    texts = {page: read_text(page, LINES_BYTES) for page in pages}
    for name, inside in blocks(results, records).items():
        there = [page for page, text in texts.items() if f"<!-- generated:{name} -->" in text]
        if len(there) != 1:
            where = ", ".join(map(str, there or pages))
            raise InputError(f"must have the markers of block {name!r} once", file=where)
        texts[there[0]] = rewrite(texts[there[0]], {name: inside}, str(there[0]))
    return texts
