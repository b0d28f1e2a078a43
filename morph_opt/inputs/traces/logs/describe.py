"""Description of the jobs of a log: sizes, run times, queueing, states, by type and by user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.figures import drawing, line, logarithmic, rules
from morph_opt.core.documents.style import GREY, looks
from morph_opt.core.domain import InputError
from morph_opt.core.table import Cell, Table
from morph_opt.inputs.traces.limits import fitted_weights
from morph_opt.inputs.traces.logs.frame import LogFrame, num_cdf, sum_cdf

SIZES = ((1, 1), (2, 7), (8, 8), (9, 31), (32, 127), (128, 1 << 30))
"""Bounds of the rows by GPUs, inclusive."""
MOST = 10
"""Number of types and users that are listed; the others share one row."""
SECONDS = [float(2**k) for k in range(22)]
GPUS = [float(2**k) for k in range(14)]
_NAMED = {"kind": "type", "user": "user"}
_QUANTILES = {
    "median GPUs": ("gpus", 0.5),
    "median run (s)": ("run_s", 0.5),
    "median queueing (s)": ("queue_s", 0.5),
    "90 % queueing (s)": ("queue_s", 0.9),
}
"""Column and quantile of the jobs by their heading."""


@dataclass(frozen=True, slots=True)
class Part:
    """A table under a heading."""

    title: str
    table: Table


def parts_of(log: LogFrame) -> list[Part]:
    """Return the tables of the description, by type and user only if the log names these."""
    jobs = log.gpu_jobs
    if jobs.empty:
        raise InputError("has no job with GPUs", file=log.name)
    found = [Part("Distribution", _distribution(jobs)), Part("By GPUs", _by_size(jobs))]
    found.append(Part("By state", _grouped(jobs, jobs["outcome"], "state")))
    for column, word in _NAMED.items():
        if (jobs[column] != "-").any():
            found.append(Part(f"By {word}", _grouped(jobs, _largest(jobs, column), word)))
    limited = jobs[jobs["limit_s"].notna() & jobs["run_s"].notna()]
    if not limited.empty:
        found.append(Part(_accuracy(limited, len(jobs)), _limits(limited)))
    return found


def _accuracy(limited: pd.DataFrame, of: int) -> str:
    """Return a heading that states how much of their time limits jobs use."""
    used = limited["run_s"] / limited["limit_s"]
    ended, most = (used >= 1.0).mean(), (limited["limit_s"] == limited["limit_s"].max()).mean()
    mean = used.clip(upper=1.0).mean()
    return (
        f"Time limits: {len(limited):,} of {of:,} jobs have one; they use {mean:.1%} of it in the "
        f"mean, {ended:.1%} are ended by it, {most:.1%} ask for the longest"
    )


def _limits(limited: pd.DataFrame) -> Table:
    """Return popular limits with their shares and their weights in the law ``modal``."""
    run_s, limit_s = limited["run_s"].tolist(), limited["limit_s"].tolist()
    rows: list[list[Cell]] = []
    for value, weight in fitted_weights(run_s, limit_s).items():
        own = limited[limited["limit_s"] == value]
        used = (own["run_s"] / value).clip(upper=1.0)
        share = 100.0 * len(own) / len(limited)
        median_s = float(own["run_s"].median())
        rows.append([value / 60.0, len(own), share, 100.0 * weight, median_s, 100.0 * used.mean()])
    header = ("limit (min)", "jobs", "jobs %", "weight %", "median run (s)", "mean use %")
    formats = dict.fromkeys(("jobs %", "weight %", "mean use %"), ".1f")
    return Table(
        header, rows, "r", formats | {"limit (min)": ",g", "jobs": ",d", "median run (s)": ",.4g"}
    )


def _distribution(jobs: pd.DataFrame) -> Table:
    """Return mean and quantiles over jobs of each known quantity."""
    columns = {
        "GPUs": jobs["gpus"],
        "run time (s)": jobs["run_s"],
        "queueing (s)": jobs["queue_s"],
        "GPU-hours": jobs["gpu_s"] / 3600.0,
    }
    header = ("of a job", "jobs", "mean", "10 %", "median", "90 %", "99 %", "largest")
    rows: list[list[Cell]] = []
    for name, values in columns.items():
        known = values.dropna().to_numpy(dtype=float)
        if known.size:
            at = np.percentile(known, (10, 50, 90, 99, 100))
            rows.append([name, known.size, float(known.mean()), *(float(v) for v in at)])
    return Table(header, rows, "lr", dict.fromkeys(header[2:], ",.4g") | {"jobs": ",d"})


def _by_size(jobs: pd.DataFrame) -> Table:
    def word(low: int, high: int) -> str:
        return str(low) if low == high else f"{low} to {high}" if high < 1 << 30 else f"{low} up"

    labels = pd.Series("", index=jobs.index)
    for low, high in SIZES:
        labels[(jobs["gpus"] >= low) & (jobs["gpus"] < high + 1)] = word(low, high)
    labels[labels == ""] = "under 1"
    order = ["under 1", *(word(low, high) for low, high in SIZES)]
    return _grouped(jobs, labels, "GPUs", [name for name in order if (labels == name).any()])


def _largest(jobs: pd.DataFrame, column: str) -> pd.Series[str]:
    """Return the labels of a column, merged into one beyond the `MOST` largest by GPU time."""
    most = jobs.groupby(column)["gpu_s"].sum().sort_values(ascending=False, kind="stable")
    listed = set(most.index[:MOST])
    return jobs[column].where(jobs[column].isin(listed), "others")


def _grouped(
    jobs: pd.DataFrame, labels: pd.Series[str], word: str, order: Sequence[str] | None = None
) -> Table:
    """Return shares of jobs and GPU time, and medians, by label; most GPU time first."""
    whole = float(jobs["gpu_s"].sum())
    if order is None:
        by = jobs["gpu_s"].groupby(labels).sum().sort_values(ascending=False, kind="stable")
        order = [*(str(n) for n in by.index if n != "others"), *("others",) * ("others" in by)]
    rows: list[list[Cell]] = []
    for name in order:
        own = jobs[labels == name]
        share = 100.0 * float(own["gpu_s"].sum()) / whole if whole > 0.0 else float("nan")
        row: list[Cell] = [name, len(own), 100.0 * len(own) / len(jobs), share]
        for column, part in _QUANTILES.values():
            known = own[column].dropna()
            row.append(float(known.quantile(part)) if len(known) else None)
        rows.append(row)
    header = (word, "jobs", "jobs %", "GPU time %", *_QUANTILES)
    formats = {"jobs": ",d", "jobs %": ".1f", "GPU time %": ".1f"}
    return Table(header, rows, "lr", dict.fromkeys(_QUANTILES, ",.4g") | formats)


def text_of(log: LogFrame, parts: Sequence[Part]) -> str:
    """Return the description as plain text."""
    blocks = ["\n".join(log.notes), *(f"{p.title}\n{p.table.to_text()}" for p in parts)]
    return "\n\n".join(blocks) + "\n"


def page_of(log: LogFrame, parts: Sequence[Part], picture: str) -> str:
    """Return the description as Markdown below its picture."""
    lines = [f"# Jobs of {log.name}", "", *(f"- {note}" for note in log.notes), ""]
    lines += [f"![run time, queueing, GPUs, states]({picture})", ""]
    for part in parts:
        lines += [f"## {part.title}", "", part.table.to_markdown().rstrip("\n"), ""]
    return "\n".join(lines)


def draw(log: LogFrame, path: Path) -> None:
    """Draw run time, queueing and GPUs as cumulative shares, and states as bars."""
    path.parent.mkdir(parents=True, exist_ok=True)
    jobs = log.gpu_jobs
    with drawing((9.6, 6.6)) as (figure, encoded):
        (run, queue), (gpus, states) = figure.subplots(2, 2)
        _curves(run, "run time (s)", SECONDS, jobs, lambda own, at: num_cdf(own["run_s"], at))
        _curves(queue, "queueing (s)", SECONDS, jobs, lambda own, at: num_cdf(own["queue_s"], at))
        gpus.step(GPUS, num_cdf(jobs["gpus"], GPUS), where="post", label="jobs")
        time = sum_cdf(jobs["gpus"], jobs["gpu_s"], GPUS)
        gpus.step(GPUS, time, where="post", linestyle="dashed", label="GPU time")
        _framed(gpus, "GPUs of a job")
        shares = _grouped(jobs, jobs["outcome"], "state").rows
        for at, (share, words) in enumerate(((2, "jobs"), (3, "GPU time"))):
            places = [row + 0.4 * at for row in range(len(shares))]
            states.barh(places, [one[share] for one in shares], 0.4, label=words)
        states.set_yticks(range(len(shares)), [str(one[0]) for one in shares])
        states.set(xlabel="share (%)", xlim=(0, 100))
        states.invert_yaxis()
        states.legend()
        figure.suptitle(log.name)
        write_atomically(path, encoded(path.suffix))


def _curves(
    axes: Any,
    words: str,
    at: list[float],
    jobs: pd.DataFrame,
    share: Callable[[pd.DataFrame, list[float]], list[float]],
) -> None:
    """Draw a curve of all jobs, and one of each of the five largest types if there are several."""
    whole = share(jobs, at)
    if np.isnan(whole).all():
        axes.text(at[0], 50.0, "not in this log")
    axes.plot(at, whole, color=GREY, label="all")
    kinds = jobs["kind"].value_counts().index[:5]
    names = [f"type {kind}" for kind in kinds] if len(kinds) > 1 else []
    for kind, look in zip(kinds, looks(names), strict=False):
        axes.plot(at, share(jobs[jobs["kind"] == kind], at), label=str(kind), **line(look))
    _framed(axes, words)


def _framed(axes: Any, words: str) -> None:
    logarithmic(axes.xaxis, *axes.dataLim.intervalx)
    axes.set(xlabel=words, ylabel="jobs at most (%)", ylim=(0, 101))
    rules(axes)
    axes.legend()
