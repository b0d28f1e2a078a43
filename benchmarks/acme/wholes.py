"""T1 and B1 to B3: the summary table, load over time, arrivals and users, who waits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.acme.frame import box_of
from benchmarks.acme.plots import Bars, Boxes, Curves, Panel, Plot, Series
from benchmarks.acme.published import ACME, CLUSTERS, QUEUE_S, TYPES, published
from morph_opt.core.table import Cell, Table
from morph_opt.inputs.traces.logs.frame import LogFrame

Logs = Sequence[LogFrame]
_HOUR_S = 3600.0
_SECOND_HAND = {"Seren": (14.7, 32.1, 63.7), "Kalos": (11.3, 31.0, 99.4)}
"""CV of the gaps, same-second share and share of the top five users in percent: second-hand."""

_MOST_GROUPS = 12


def summary(logs: Logs) -> Plot:
    """T1."""
    names = list(published()["summary"])
    columns = list(dict.fromkeys(key for name in names for key in published()["summary"][name]))
    rows: list[Sequence[Cell]] = []
    values = {log.name: _summary_of(log) for log in logs}
    for column in columns:
        row: list[Cell] = [column]
        row += [published()["summary"][name].get(column) for name in names]
        row += [values[log.name].get(column) for log in logs]
        rows.append(row)
    header = ("", *names, *values)
    notes = (
        "Times in s. PAI: 1,260,920 jobs are 0 CPU and 1,037,085 GPU jobs, by its own columns.",
        "Seren: another set of jobs than the figures' (663,813 GPU jobs, not 450,590).",
    )
    table = Table(header, rows, formats=dict.fromkeys(header[1:], ",.6g"))
    return Plot("T1", "Summary", (), notes, table)


def _summary_of(log: LogFrame) -> dict[str, float]:
    """The same columns, of a log."""
    gpu, cpu = log.gpu_jobs, log.jobs[log.jobs["gpus"] == 0]
    found: dict[str, float] = {
        "job_num": len(log.jobs),
        "cpu_job_num": len(cpu),
        "gpu_job_num": len(gpu),
    }
    for part, jobs in (("gpu", gpu), ("cpu", cpu)):
        if jobs.empty:
            continue
        for short, column in (("run_time", "run_s"), ("que_time", "queue_s")):
            found[f"avg_{short}_{part}"] = float(jobs[column].mean())
            found[f"med_{short}_{part}"] = float(jobs[column].median())
        known = jobs[jobs["outcome"] != "unknown"]
        whole = float(known["gpu_s"].sum())
        for word, outcome in (
            ("complete", "completed"),
            ("cancel", "cancelled"),
            ("fail", "failed"),
        ):
            own = known["outcome"] == outcome
            found[f"{word}_rate_{part}"] = float(own.mean()) if len(known) else float("nan")
            if part == "gpu":
                seconds = float(known["gpu_s"][own].sum())
                found[f"{word}_gpu_time"] = seconds
                found[f"{word}_rate_gpu_time"] = seconds / whole if whole else float("nan")
    if not gpu.empty:
        found["avg_gpu_num"] = float(gpu["gpus"].mean())
        found["med_gpu_num"] = float(gpu["gpus"].median())
        found["max_gpu"] = float(gpu["gpus"].max())
        found["max_run_time_gpu"] = float(gpu["run_s"].max())
    return {name: value for name, value in found.items() if value == value}


def load(logs: Logs, gpus: int | None = None) -> Plot:
    """B1."""
    table = published()
    bars = []
    for name in ("seren", "kalos", "philly", "helios"):
        own, row = table[name], table["summary"][CLUSTERS[name]]
        held = sum(row[f"{word}_gpu_time"] for word in ("complete", "cancel", "fail"))
        bars.append((CLUSTERS[name], 100.0 * held / (own["gpus"] * own["days"] * 86_400.0)))
    panels: list[Panel] = [Bars("published: mean", "GPU time / capacity (%)", bars)]
    rows: list[Sequence[Cell]] = [(name, value, None) for name, value in bars]
    for log in logs:
        hours, running = _running(log.gpu_jobs)
        if not hours.size:
            continue
        size = float(gpus or running.max())
        share = 100.0 * running / size
        of = f"of {size:g} GPUs" + ("" if gpus else " (its peak)")
        curve = Series(log.name, hours.tolist(), share.tolist())
        panels.append(Curves(f"{log.name}, {of}", "hours", "running (%)", [curve], y_top=None))
        rows.append((log.name, float(share.mean()), float(share.max())))
    notes = (
        "Published aggregates have no times: their mean is GPU time over size and length of the "
        "record. Kalos is said never to hold more than about 70 % (publisher's issue 1, open).",
        "A log's capacity is --gpus, else its own peak; capacity by day where it changes is not "
        "in a job log.",
    )
    head = ("cluster", "mean (%)", "peak (%)")
    shown = Table(head, rows, formats=dict.fromkeys(head[1:], ".1f"))
    return Plot("B1", "Load over time", tuple(panels), notes, shown)


def _running(jobs: pd.DataFrame) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Hours from the first start, and mean running GPUs in each."""
    known = jobs.dropna(subset=["start_s", "run_s"])
    if known.empty:
        return np.zeros(0), np.zeros(0)
    start = known["start_s"].to_numpy()
    end = start + known["run_s"].to_numpy()
    gpus = known["gpus"].to_numpy()
    first = float(start.min())
    count = max(1, int(np.ceil((end.max() - first) / _HOUR_S)))
    grid = first + np.arange(count + 1) * _HOUR_S
    # Held GPU-seconds until each instant: sums over all ends and starts before it.
    order_s, order_e = np.argsort(start), np.argsort(end)
    until = np.zeros(count + 1)
    for times, order, sign in ((start, order_s, 1.0), (end, order_e, -1.0)):
        sorted_times, weight = times[order], gpus[order]
        at = np.searchsorted(sorted_times, grid, side="left")
        held = np.concatenate([[0.0], np.cumsum(weight)])[at]
        moment = np.concatenate([[0.0], np.cumsum(weight * sorted_times)])[at]
        until += sign * (held * grid - moment)
    return np.arange(count, dtype=np.float64), np.diff(until) / _HOUR_S


def arrivals(logs: Logs) -> Plot:
    """B2."""
    rows: list[tuple[str, tuple[float, float, float]]] = list(_SECOND_HAND.items())
    for log in logs:
        jobs = log.gpu_jobs
        gaps = np.diff(jobs["submit_s"].to_numpy())
        variation = float(gaps.std() / gaps.mean()) if gaps.size and gaps.mean() else float("nan")
        _, at, count = np.unique(
            np.floor(jobs["submit_s"].to_numpy()), return_inverse=True, return_counts=True
        )
        together = 100.0 * float((count[at] > 1).mean())
        users = jobs["user"].value_counts()
        top = 100.0 * float(users[:5].sum()) / len(jobs)
        rows.append((log.name, (variation, together, top)))
    titles = ("CV of the gaps", "share a second (%)", "top 5 users (%)")
    panels = tuple(
        Bars(title, title, [(name, values[at]) for name, values in rows])
        for at, title in enumerate(titles)
    )
    notes = (
        "Seren and Kalos: second-hand, to be confirmed with the log. One outage of four days among "
        "gaps of 35 s makes a CV of 14 by itself.",
    )
    head = ("cluster", *titles)
    table = Table(
        head, [[name, *values] for name, values in rows], formats=dict.fromkeys(titles, ".1f")
    )
    return Plot("B2", "Arrivals and users", panels, notes, table)


def queueing_by_group(logs: Logs) -> Plot:
    """B3."""
    panels: list[Panel] = []
    rows: list[Sequence[Cell]] = []
    for cluster in ACME:
        boxes = []
        for key, cdf in published()["queue_s_cdf"][cluster].items():
            found = [_quantile(cdf, level) for level in (5, 25, 50, 75, 90)]
            boxes.append((TYPES[key], (found[0], found[1], found[2], found[3], found[4])))
            rows.append((CLUSTERS[cluster], TYPES[key], None, *found[2:], None))
        panels.append(Boxes(f"{CLUSTERS[cluster]} (5 to 90 %)", "queueing (s)", boxes))
    for log in logs:
        jobs = log.gpu_jobs.dropna(subset=["queue_s"])
        if jobs.empty:
            continue
        bands = pd.cut(
            jobs["gpus"], [0, 1, 4, 8, 64, np.inf], labels=["1", "2-4", "5-8", "9-64", "65-"]
        )
        boxes = [
            (str(band), box_of(own["queue_s"])) for band, own in jobs.groupby(bands, observed=True)
        ]
        panels.append(Boxes(f"{log.name} by GPUs", "queueing (s)", boxes))
        groups = jobs.groupby([jobs["kind"], bands.astype(str), jobs["tenant"]])
        for (kind, band, tenant), own in sorted(groups, key=lambda g: -len(g[1]))[:_MOST_GROUPS]:
            retried = own[own["attempts"] > 1]
            wasted = float(own["gpu_s"][own["outcome"] == "failed"].sum())
            quantiles = [float(own["queue_s"].quantile(level)) for level in (0.5, 0.75, 0.9)]
            label = f"{kind}, {band} GPUs, {tenant} ({len(own)} jobs, {len(retried)} retried)"
            rows.append((log.name, label, len(own), *quantiles, wasted / 3600.0))
    notes = (
        "Quantiles of the published clusters are read off their CDFs, in the logarithm between "
        "vertices; below the first vertex they are 0.",
        "Of a log: the most frequent groups of type, GPUs and tenant; GPU-hours of failed jobs.",
    )
    head = ("cluster", "who", "jobs", "median (s)", "75 % (s)", "90 % (s)", "failed GPU-h")
    table = Table(head, rows, align="llr", formats=dict.fromkeys(head[3:], ",.1f"))
    return Plot("B3", "Who waits", tuple(panels), notes, table)


def _quantile(cdf: Sequence[float], percent: float) -> float:
    """Seconds within which so many percent were started."""
    if percent <= cdf[0]:
        return 0.0
    above = next((at for at, value in enumerate(cdf) if value >= percent), None)
    if above is None:
        return QUEUE_S[-1]
    low, high = cdf[above - 1], cdf[above]
    part = (percent - low) / (high - low)
    return float(QUEUE_S[above - 1] * (QUEUE_S[above] / QUEUE_S[above - 1]) ** part)
