"""Tables with the numbers of the charts, of at most 200 rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np

from morph_opt.core.documents import LINES_BYTES, exists, read_bytes
from morph_opt.core.table import Cell, Table
from morph_opt.report.drawing.charts import MEASURES, finished, price_unit
from morph_opt.report.groups import short
from morph_opt.report.paired import size_class
from morph_opt.simulation.runs.groups import KINDS
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.views.explanations import Price
from morph_opt.simulation.runs.views.series import Steps
from morph_opt.simulation.runs.views.view import RunView
from morph_opt.simulation.runs.write import EVENTS, JOBS

MOST_ROWS = 200
"""Largest number of rows of a table."""
BINS = 24
"""Number of equal stretches of time in tables over time."""


def nodes(view: RunView) -> Table:
    """Return GPU-hours and outages by node, the most used ones if there are too many."""
    r, map_ = view.rectangles, view.nodes
    gpu_s = np.bincount(
        r.node, weights=(r.top - r.bottom) * (r.end_s - r.start_s), minlength=len(map_.gpus)
    )
    away_s = np.zeros(len(map_.gpus))
    for outage in view.outages:
        away_s[outage.node] += outage.end_s - outage.start_s
    order = sorted(np.argsort(-gpu_s, kind="stable")[:MOST_ROWS].tolist())
    rows = [
        (
            short(map_.names[k]),
            map_.gpu_types[k],
            map_.gpus[k],
            float(gpu_s[k]) / 3600.0,
            _share(float(gpu_s[k]), map_.gpus[k] * view.end_s),
            float(away_s[k]) / 3600.0,
        )
        for k in order
    ]
    header = ("node", "GPU type", "GPUs", "GPU-hours held", "share in use", "hours away")
    formats = {"GPU-hours held": ",.2f", "share in use": ".1%", "hours away": ",.2f"}
    return Table(header, rows, "llr", formats)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else math.nan


def bins(view: RunView, held: Steps, productive: Steps) -> Table:
    """Return numbers of jobs and GPUs, as means over equal stretches of time."""
    edges = np.linspace(0.0, max(view.end_s, 1.0), BINS + 1)
    rounds = view.run.rounds
    at = np.clip(
        np.searchsorted(edges, np.asarray(rounds.column("time_s"), dtype=np.float64), "right") - 1,
        0,
        BINS - 1,
    )
    number = np.maximum(np.bincount(at, minlength=BINS), 1)

    def mean(column: str) -> list[float]:
        values = np.asarray(rounds.column(column), dtype=np.float64)
        return list(np.bincount(at, weights=values, minlength=BINS) / number)

    rows = zip(
        (edges[:-1] / 3600.0).tolist(),
        (edges[1:] / 3600.0).tolist(),
        mean("jobs"),
        mean("running"),
        held.mean(edges).tolist(),
        productive.mean(edges).tolist(),
        strict=True,
    )
    header = ("from (h)", "to (h)", "active jobs", "running jobs", "GPUs held", "GPUs productive")
    formats = {name: ",.2f" if name.endswith("(h)") else ",.1f" for name in header}
    return Table(header, list(rows), "r", formats)


def rounds(view: RunView) -> Table:
    """Return quantiles of the rounds' times, gaps and sizes."""
    levels = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
    columns = ("round_ms", "build_ms", "solve_ms", "gap", "jobs", "candidates")
    found: list[list[float]] = []
    for name in columns:
        values = np.asarray(view.run.rounds.column(name), dtype=np.float64)
        values = values[np.isfinite(values)] * (100.0 if name == "gap" else 1.0)
        at = np.quantile(values, levels).tolist() if values.size else [math.nan] * len(levels)
        found.append(at)
    header = ("quantile", "round (ms)", "build (ms)", "solve (ms)", "gap (%)", "jobs", "candidates")
    rows = [
        (f"{100.0 * level:g} %", *values) for level, *values in zip(levels, *found, strict=True)
    ]
    formats = dict.fromkeys(header[1:4], ",.1f") | {"gap (%)": ".2g"}
    formats |= dict.fromkeys(header[5:], ",.0f")
    return Table(header, rows, formats=formats)


def shortfalls(view: RunView) -> Table:
    """Return the rounds in which a guarantee was missed."""
    kept = {True: "yes", False: "no", None: ""}
    rows = [
        (
            row.round,
            row.time_s / 3600.0,
            row.report.guarantees_short,
            row.report.guarantee_shortfall,
            kept[row.report.guarantees_possible],
        )
        for row in view.run.rounds
        if row.report.guarantees_short
    ][:MOST_ROWS]
    header = ("round", "at (h)", "jobs short", "shortfall", "all could be kept")
    return Table(header, rows, "r", {"at (h)": ",.2f", "shortfall": ".3g"})


def prices(found: Sequence[Price]) -> Table:
    """Return the prices of GPUs by class of nodes."""
    unit, factor = price_unit(found)
    by_class: dict[tuple[str, str, str], list[float]] = {}
    for price in found:
        key = (price.node_type, price.gpu_type, price.leaf)
        by_class.setdefault(key, []).append(price.per_gpu * factor)
    rows: list[tuple[Cell, ...]] = [
        (*map(short, key), float(np.mean(values)), float(np.median(values)), max(values))
        for key, values in list(by_class.items())[:MOST_ROWS]
    ]
    header = ("node type", "GPU type", "leaf", f"mean ({unit})", "median", "largest")
    return Table(header, rows, "lllr", dict.fromkeys(header[3:], ".4g"))


def quantiles(views: Sequence[RunView]) -> Table:
    """Return quantiles of the distributions by run."""
    levels = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
    rows = []
    for view in views[: MOST_ROWS // len(MEASURES)]:
        for column, (name, _) in MEASURES.items():
            values = finished(view, column)
            at: list[float] = (
                np.quantile(values, levels).tolist() if values.size else [math.nan] * 7
            )
            mean = float(values.mean()) if values.size else math.nan
            form = "{:,.2f}" if column == "stretch" else "{:,.0f}"
            texts = ["" if math.isnan(v) else form.format(v) for v in (mean, *at)]
            unit = "" if column == "stretch" else " (s)"
            rows.append((view.name, f"{name}{unit}", *texts))
    return Table(("run", "of", "mean", *(f"{100.0 * p:g} %" for p in levels)), rows, "llr")


MOST_TENANTS = 12
"""Number of tenants, those with most jobs, that have rows of their own."""


def by_group(views: Sequence[RunView]) -> Table:
    """Return mean completion, queueing and stretch by size class and tenant."""
    rows: list[tuple[Cell, ...]] = []
    ways: tuple[tuple[str, Callable[[JobRow], str]], ...] = (
        ("size", size_class),
        ("tenant", lambda row: row.tenant),
    )
    for view in views:
        for title, of in ways:
            groups: dict[str, list[JobRow]] = {}
            for job in view.jobs:
                groups.setdefault(of(job), []).append(job)
            largest = sorted(groups, key=lambda name: (-len(groups[name]), name))[:MOST_TENANTS]
            if len(groups) > 1:
                rows += [(view.name, f"{title} {short(n)}", *_means(groups[n])) for n in largest]
    means = ("mean JCT (s)", "p90 JCT (s)", "mean queueing (s)", "mean stretch")
    formats = dict.fromkeys(means, ",.0f") | {"mean stretch": ",.2f"}
    header = ("run", "jobs of", "jobs", "completed", *means)
    return Table(header, rows[:MOST_ROWS], "llr", formats)


def organisation(views: Sequence[RunView]) -> Table | None:
    """Return the figures of queues, users and priority classes; None if no run has any."""
    rows: list[tuple[Cell, ...]] = []
    for view in views:
        for kind in KINDS:
            mine = [row for row in view.run.groups if row.kind == kind]
            mine = sorted(mine, key=lambda row: (-row.gpu_hours, row.group))[:MOST_TENANTS]
            rows += [
                (
                    view.name,
                    f"{kind} {short(row.group)}",
                    row.jobs,
                    row.started,
                    row.waiting_mean_s,
                    row.waiting_p90_s,
                    row.gpu_hours,
                    row.entitled_gpu_hours,
                    row.evictions,
                    row.gpu_hours_lost,
                )
                for row in mine
            ]
    header = (
        "run", "jobs of", "jobs", "started", "mean wait (s)", "p90 wait (s)", "GPU-hours",
        "entitled to", "evictions", "GPU-hours lost",
    )  # fmt: skip
    formats = dict.fromkeys(header[4:6], ",.0f") | dict.fromkeys((*header[6:8], header[9]), ",.1f")
    return Table(header, rows[:MOST_ROWS], "llr", formats) if rows else None


def _means(jobs: Sequence[JobRow]) -> tuple[Cell, ...]:
    done = [job for job in jobs if job.completed]
    if not done:
        return len(jobs), 0, None, None, None, None
    jct_s = np.asarray([job.jct_s for job in done])
    stretch = np.asarray([job.stretch for job in done])
    known = stretch[np.isfinite(stretch)]
    return (
        len(jobs),
        len(done),
        float(jct_s.mean()),
        float(np.quantile(jct_s, 0.9)),
        float(np.mean([job.queued_s for job in done])),
        float(known.mean()) if known.size else None,
    )


def origin(view: RunView) -> Table:
    """Return trace, cluster, policy, versions and digests of a run."""
    s, values = view.run.summary, view.values
    rows: list[tuple[Cell, Cell]] = [
        ("run folder", view.run.folder.name if view.run.folder is not None else "none: in memory"),
        ("trace", f"{s.trace} {values.get('trace_kind') or ''}".strip()),
        ("digest of the trace", s.trace_sha256),
        ("cluster", f"{values.get('cluster') or ''} ({s.nodes} nodes, {s.gpus} GPUs)".strip()),
        ("policy", s.policy),
        ("objective", s.objective),
        ("solver", s.solver),
        ("round (s)", values.get("interval_s")),
        ("restart (s)", values.get("restart_s")),
        ("seed", values.get("seed")),
        ("wall time (s)", round(s.wall_s, 1) if not math.isnan(s.wall_s) else None),
        ("peak memory (MiB)", round(s.peak_rss_mib) if not math.isnan(s.peak_rss_mib) else None),
    ]
    folder = view.run.folder
    if folder is not None:
        for name in (EVENTS, JOBS):
            if exists(folder / name):
                digest = hashlib.sha256(read_bytes(folder / name, LINES_BYTES)).hexdigest()
                rows.append((f"sha256 of {name}", digest))
    rows += [(f"version of {name}", version) for name, version in view.versions.items()]
    return Table(("what", "value"), [row for row in rows if row[1] is not None], "l")
