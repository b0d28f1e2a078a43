"""Log as a frame with the columns that figures and tables need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.guess import Chosen
from morph_opt.inputs.traces.logs.reading.row import LogRow
from morph_opt.inputs.traces.logs.reading.scan import Scan

_NO_JOB_FOR_A_REPLAY = frozenset(("no-gpu", "zero-duration"))
"""Reasons for dropping rows from a replay that do not drop them from figures."""


@dataclass(frozen=True, slots=True)
class LogFrame:
    """Log as a frame of jobs.

    Parameters
    ----------
    name
        Name of the file, shown in legends.
    jobs
        One row per job, CPU jobs (0 GPUs) included: ``submit_s``, ``start_s``, ``run_s``,
        ``queue_s``, ``gpus``, ``gpu_s``, ``kind``, ``tenant``, ``user``, ``limit_s``, ``outcome``,
        ``attempts``.
    notes
        Statements of what was read, dropped and assumed.
    """

    name: str
    jobs: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def gpu_jobs(self) -> pd.DataFrame:
        """Jobs with GPUs."""
        return self.jobs[self.jobs["gpus"] > 0]


def read_frame(log: Chosen, *, as_published: bool = False) -> LogFrame:
    """Read a log of a known format; raises as `Scan.jobs` does."""
    path = log.path
    rows: list[LogRow] = []

    def also(row: LogRow, reason: str) -> None:
        if reason in _NO_JOB_FOR_A_REPLAY:
            rows.append(row)

    scan = Scan(path, log.reader, log.how, also=also)
    rows += scan.jobs()
    if not rows:
        raise InputError("has no job", file=str(path))
    dropped = {
        reason: count
        for reason, count in scan.report.dropped.items()
        if count and reason not in _NO_JOB_FOR_A_REPLAY
    }
    lost = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
    name = path.stem
    notes = [
        f"{name}: {scan.report.rows:,} rows, {len(rows):,} jobs"
        + (f" (left out: {lost})." if lost else ".")
    ]
    if "duration-mismatch" in scan.report.findings:
        used = "the recorded ones" if as_published else "end minus start"
        notes.append(f"{name}: recorded durations differ from end minus start: {used} used.")
    notes += [f"{name}: {text}." for text in scan.report.assumed]
    notes += [
        f"{name}: warning: {sentence}."
        for severity, code, sentence in scan.report.sentences()
        if severity == "warning" and code != "duration-mismatch"
    ]
    return LogFrame(name, _frame(rows, as_published), tuple(notes))


def _frame(rows: list[LogRow], as_published: bool) -> pd.DataFrame:
    nan = float("nan")

    def run_s(row: LogRow) -> float:
        found = row.recorded_s if as_published and row.recorded_s is not None else row.run_s
        return nan if found is None else found

    frame = pd.DataFrame(
        {
            "submit_s": [row.submit_s for row in rows],
            "start_s": [nan if row.start_s is None else row.start_s for row in rows],
            "run_s": [run_s(row) for row in rows],
            "queue_s": [nan if row.queue_s is None else row.queue_s for row in rows],
            "gpus": [float(row.gpus) for row in rows],
            "kind": [row.kind or "-" for row in rows],
            "tenant": [row.tenant or "-" for row in rows],
            "user": [row.user or "-" for row in rows],
            "limit_s": [row.limit_s or nan for row in rows],
            "outcome": [row.outcome for row in rows],
            "attempts": [row.attempts for row in rows],
        }
    )
    held = np.asarray([nan if row.gpu_seconds is None else row.gpu_seconds for row in rows])
    frame["gpu_s"] = frame["gpus"] * frame["run_s"] if as_published else held
    return frame.sort_values("submit_s", kind="stable", ignore_index=True)


def num_cdf(values: pd.Series[float], at: list[float]) -> list[float]:
    """Return the percentage of known values that are at most each of ``at``."""
    known = np.sort(values.dropna().to_numpy(dtype=float))
    if not known.size:
        return [float("nan")] * len(at)
    return [float(v) for v in 100.0 * np.searchsorted(known, at, side="right") / known.size]


def sum_cdf(keys: pd.Series[float], weight: pd.Series[float], at: list[float]) -> list[float]:
    """Return the percentage of the weight of keys that are at most each of ``at``."""
    order = np.argsort(keys.to_numpy(dtype=float), kind="stable")
    sorted_keys = keys.to_numpy(dtype=float)[order]
    total = np.concatenate([[0.0], np.nancumsum(weight.to_numpy(dtype=float)[order])])
    if not total[-1] > 0.0:
        return [float("nan")] * len(at)
    place = np.searchsorted(sorted_keys, at, side="right")
    return [float(v) for v in 100.0 * total[place] / total[-1]]
