"""Figures A1, A3 to A9: jobs by run time, size, state, type and queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from benchmarks.acme.frame import box_of
from benchmarks.acme.plots import Boxes, Curves, Panel, Plot, Series, Shares
from benchmarks.acme.published import (
    ACME,
    CLUSTERS,
    QUEUE_S,
    RUN_S,
    SIZES,
    TYPES,
    published,
    sizes_of,
    types_of,
)
from morph_opt.core.table import Cell, Table
from morph_opt.inputs.traces.logs.frame import LogFrame, num_cdf, sum_cdf

Logs = Sequence[LogFrame]
_MOST_KINDS = 6
_STATES = ("completed", "cancelled", "failed")
NOT_LISTED = "types not listed"

KALOS = (
    "Kalos' recorded duration is end minus submission (both rows its README prints), against the "
    "README's own note: its published curve contains queueing."
)
OTHER_SET = (
    "cluster_summary.csv counts 663,813 GPU jobs of Seren, the release 450,590: another set of "
    "jobs."
)


def kinds_of(log: LogFrame) -> list[str]:
    """Types of a log's GPU jobs: those that the publisher lists, else the most frequent ones."""
    counts = log.gpu_jobs["kind"].value_counts()
    listed = [name for name in TYPES.values() if name in counts.index]
    return listed or [str(name) for name in counts.index[:_MOST_KINDS]]


def _curves(
    key: str, at: list[float], logs: Logs, column: str, clusters: Sequence[str] = tuple(CLUSTERS)
) -> list[Series]:
    """A CDF of every cluster and every log."""
    found = [Series(CLUSTERS[name], at, published()[name][key][: len(at)]) for name in clusters]
    return found + [Series(log.name, at, num_cdf(log.gpu_jobs[column], at)) for log in logs]


def _at(series: Sequence[Series], at: Sequence[float], what: str) -> Table:
    """Values of curves at some places; nothing where a curve ends before, at 100 percent."""

    def value(one: Series, x: float) -> float:
        known = [y for place, y in zip(one.x, one.y, strict=True) if place <= x]
        return known[-1] if known else 0.0

    rows: list[list[Cell]] = [[one.name, *(value(one, x) for x in at)] for one in series]
    header = (what, *(f"{x:g}" for x in at))
    return Table(header, rows, formats=dict.fromkeys(header[1:], ".2f"))


def duration(logs: Logs) -> Plot:
    """A1."""
    series = _curves("run_s_cdf", RUN_S, logs, "run_s")
    panel = Curves("GPU jobs", "run time (s)", "jobs (%)", series, log_x=True)
    table = _at(series, (64.0, 128.0, 1024.0, 65536.0), "run time at most (s)")
    return Plot("A1", "Run time of GPU jobs", (panel,), (KALOS, OTHER_SET), table)


def gpus(logs: Logs) -> Plot:
    """A3."""
    series = [Series(CLUSTERS[n], sizes_of(n), published()[n]["size_cdf"]) for n in CLUSTERS]
    series += [Series(log.name, SIZES, num_cdf(log.gpu_jobs["gpus"], SIZES)) for log in logs]
    panel = Curves("GPU jobs", "GPUs of a job", "jobs (%)", series, log_x=True)
    notes = (
        "Read back from a simplified path: 0.1 points, 0.3 between vertices.",
        "At least four selections are called Philly (117,325, 112,956, 83,154 and 82,247 jobs).",
    )
    return Plot("A3", "Jobs by GPUs", (panel,), notes, _at(series, (1, 2, 8, 64, 256), "GPUs"))


def gpu_time(logs: Logs) -> Plot:
    """A4."""
    series = [Series(CLUSTERS[n], sizes_of(n), published()[n]["size_time_cdf"]) for n in CLUSTERS]
    for log in logs:
        jobs = log.gpu_jobs
        curve = sum_cdf(jobs["gpus"], jobs["gpus"] * jobs["run_s"], SIZES)
        series.append(Series(log.name, SIZES, curve))
    panel = Curves("GPU time", "GPUs of a job", "GPU time (%)", series, log_x=True)
    notes = (
        "Weighted by GPUs times duration, not by gpu_time.",
        "PAI: its notebook divides plan_gpu by 100 and never multiplies by instances; 68 % on one "
        "GPU are task rows, not jobs.",
    )
    return Plot("A4", "GPU time by GPUs", (panel,), notes, _at(series, (1, 8, 64, 256), "GPUs"))


def states(logs: Logs) -> Plot:
    """A5."""
    jobs: list[tuple[str, Sequence[float]]] = []
    times: list[tuple[str, Sequence[float]]] = []
    for name in ("Seren", "Kalos", "Philly", "Helios"):
        row = published()["summary"][name]
        short = ("complete", "cancel", "fail")
        jobs.append((name, [100.0 * row[f"{word}_rate_gpu"] for word in short]))
        seconds = [row[f"{word}_gpu_time"] for word in short]
        times.append((name, [100.0 * one / sum(seconds) for one in seconds]))
    for log in logs:
        own = log.gpu_jobs
        known = own[own["outcome"] != "unknown"]
        if known.empty:
            continue
        by = [known["outcome"] == word for word in _STATES]
        jobs.append((log.name, [100.0 * float(one.mean()) for one in by]))
        whole = max(float(known["gpu_s"].sum()), 1e-9)
        times.append((log.name, [100.0 * float(known["gpu_s"][one].sum()) / whole for one in by]))
    panels = (Shares("jobs", _STATES, jobs), Shares("GPU time", _STATES, times))
    header = ("cluster", *(f"jobs {w}" for w in _STATES), *(f"time {w}" for w in _STATES))
    rows: list[list[Cell]] = [[n, *a, *b] for (n, a), (_, b) in zip(jobs, times, strict=True)]
    notes = (OTHER_SET, "PAI has no states here: its notebook's mapping keeps only Failed.")
    table = Table(header, rows, formats=dict.fromkeys(header[1:], ".1f"))
    return Plot("A5", "Final states of GPU jobs", panels, notes, table)


def types(logs: Logs) -> Plot:
    """A6, as bars: areas of a treemap are hard to compare."""
    parts = (*TYPES.values(), NOT_LISTED)
    count: list[tuple[str, Sequence[float]]] = []
    time: list[tuple[str, Sequence[float]]] = []
    for name in ACME:
        listed = types_of(name)
        rows = [listed.get(key, {}) for key in TYPES]
        count.append((CLUSTERS[name], [*(row.get("jobs", 0.0) for row in rows), 0.0]))
        time.append((CLUSTERS[name], [*(row.get("gpu_time", 0.0) for row in rows), 0.0]))
    own = [name for log in logs for name in kinds_of(log) if name not in parts]
    parts = (*parts[:-1], *dict.fromkeys(own), NOT_LISTED)
    count = [(name, _padded(row, len(parts))) for name, row in count]
    time = [(name, _padded(row, len(parts))) for name, row in time]
    for log in logs:
        jobs = log.gpu_jobs
        for rows_, weight in ((count, None), (time, jobs["gpu_s"])):
            values = (
                jobs["kind"].value_counts()
                if weight is None
                else weight.groupby(jobs["kind"]).sum()
            )
            whole = max(float(values.sum()), 1e-9)
            listed_ = [100.0 * float(values.get(part, 0.0)) / whole for part in parts[:-1]]
            rows_.append((log.name, [*listed_, max(0.0, 100.0 - sum(listed_))]))
    panels = (Shares("jobs", parts, count), Shares("GPU time", parts, time))
    header = ("cluster", "of", *parts)
    rows_out: list[list[Cell]] = [
        [name, what, *values]
        for what, every in (("jobs", count), ("GPU time", time))
        for name, values in every
    ]
    notes = (
        "Published shares are of the listed types only: rows of others, and Kalos' SFT rows, "
        "vanish without a word. A log has them as a part of their own.",
    )
    table = Table(header, rows_out, align="llr", formats=dict.fromkeys(parts, ".2f"))
    return Plot("A6", "GPU jobs by type", panels, notes, table)


def _padded(row: Sequence[float], length: int) -> list[float]:
    return [*row[:-1], *([0.0] * (length - len(row))), row[-1]]


def _by_type(
    name: str,
    title: str,
    axis: str,
    at: list[float],
    known: Callable[[str], dict[str, Sequence[float]]],
    column: str,
    logs: Logs,
) -> tuple[tuple[Panel, ...], list[Series]]:
    """A panel per cluster and log, a curve per type."""
    panels: list[Panel] = []
    every: list[Series] = []
    del name
    for cluster in ACME:
        series = [Series(TYPES[key], at, values) for key, values in known(cluster).items()]
        panels.append(Curves(f"{CLUSTERS[cluster]}: {title}", axis, "jobs (%)", series, log_x=True))
        every += [Series(f"{CLUSTERS[cluster]} {s.name}", s.x, s.y) for s in series]
    for log in logs:
        jobs = log.gpu_jobs
        series = [
            Series(kind, at, num_cdf(jobs[column][jobs["kind"] == kind], at))
            for kind in kinds_of(log)
        ]
        panels.append(Curves(f"{log.name}: {title}", axis, "jobs (%)", series, log_x=True))
        every += [Series(f"{log.name} {s.name}", s.x, s.y) for s in series]
    return tuple(panels), every


def duration_by_type(logs: Logs) -> Plot:
    """A7."""
    panels, every = _by_type(
        "A7",
        "run time",
        "run time (s)",
        RUN_S,
        lambda c: {key: one["run_s_cdf"] for key, one in types_of(c).items()},
        "run_s",
        logs,
    )
    table = _at(every, (64.0, 1024.0, 65536.0), "run time at most (s)")
    return Plot("A7", "Run time by type", panels, (KALOS,), table)


def queue_by_type(logs: Logs) -> Plot:
    """A8."""
    panels, every = _by_type(
        "A8",
        "queueing",
        "queueing (s)",
        QUEUE_S,
        lambda c: dict(published()["queue_s_cdf"][c]),
        "queue_s",
        logs,
    )
    notes = (
        "Evaluation waits longest: the study's headline.",
        "Seren's 'Other' ends at 97.6 %: the longest waits are beyond the axis.",
    )
    table = _at(every, (16.0, 256.0, 4096.0), "queueing at most (s)")
    return Plot("A8", "Queueing by type", panels, notes, table)


def gpus_by_type(logs: Logs) -> Plot:
    """A9."""
    panels: list[Panel] = []
    rows: list[tuple[str, str, float, float, float]] = []
    for cluster in ACME:
        boxes = []
        for key, one in types_of(cluster).items():
            q1, median, q3 = (float(v) for v in one["quartiles"])
            low, high = one["whiskers"]
            boxes.append((TYPES[key], (float(low), q1, median, q3, float(high))))
        panels.append(Boxes(CLUSTERS[cluster], "GPUs of a job", boxes))
        rows += [(CLUSTERS[cluster], name, *box[1:4]) for name, box in boxes]
    for log in logs:
        boxes = [(kind, box_of(_of_kind(log.jobs, kind))) for kind in kinds_of(log)]
        panels.append(Boxes(log.name, "GPUs of a job", boxes))
        rows += [(log.name, name, *box[1:4]) for name, box in boxes]
    notes = (
        "Whiskers: 1.5 times the distance of the quartiles. Rows with 0 GPUs are not filtered, as "
        "in the publisher's notebook.",
    )
    header = ("cluster", "type", "q1", "median", "q3")
    return Plot("A9", "GPUs by type", tuple(panels), notes, Table(header, rows, align="llr"))


def _of_kind(jobs: pd.DataFrame, kind: str) -> pd.Series[float]:
    return jobs["gpus"][jobs["kind"] == kind]
