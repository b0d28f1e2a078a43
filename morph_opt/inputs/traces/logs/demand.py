"""Findings that need all jobs: load over time, users, bursts, and cut ends of the log."""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain.job import LONGEST_JOB_S
from morph_opt.inputs.traces.logs.reading.report import ROUND_S, Report
from morph_opt.inputs.traces.logs.reading.row import LogRow

HOUR_S = 3600.0
TOP_USERS = 5
LEAST_TOP_SHARE = 0.5
LEAST_BURST_SHARE = 0.1
PILED_UP = 3.0
"""Ratio to the mean load from which the first hour is conspicuous."""
PILE_JOBS = 100
PILE_SPAN_S = 24 * HOUR_S
"""Shortest log, in seconds, whose first hour is compared; `PILE_JOBS` is the fewest jobs."""


class Demand:
    """Collector of what these findings need: 40 bytes per job, 32 per attempt or component."""

    def __init__(self) -> None:
        self._submit = array("d")
        self._run = array("d")
        self._end = array("d")
        self._gpus = array("d")
        self._parts = tuple(array("d") for _ in range(4))
        self._lines = array("q")
        self._users: Counter[str] = Counter()

    def add(self, job: LogRow) -> None:
        """Add a job."""
        nan = float("nan")
        self._submit.append(job.submit_s)
        self._run.append(nan if job.run_s is None else job.run_s)
        self._end.append(nan if job.end_s is None else job.end_s)
        self._gpus.append(float(job.gpus))
        self._lines.append(job.line)
        self._users[job.user] += 1
        for row in job.rows:
            if row.run_s is not None:
                begin_s = row.submit_s if row.start_s is None else row.start_s
                held = (row.submit_s, begin_s, row.run_s, float(row.gpus))
                for column, value in zip(self._parts, held, strict=True):
                    column.append(value)

    def tell(self, report: Report, cluster_gpus: int | None = None) -> None:
        """Add the findings to the report.

        Parameters
        ----------
        report
            Report on the log.
        cluster_gpus
            GPUs of the cluster that the log is of; None if it is not known.
        """
        if not self._submit:
            return
        submit, run, end, gpus = (
            np.frombuffer(one) for one in (self._submit, self._run, self._end, self._gpus)
        )
        self._short(report, run, gpus)
        self._long(report, run)
        self._cut(report, end)
        self._people(report, submit)
        asked, begin, length, held = map(np.array, self._parts)
        if len(begin) >= PILE_JOBS:
            self._pile(report, begin, begin + length, held)
        if cluster_gpus is not None:
            self._load(report, cluster_gpus, (asked, begin, length, held))
            self._large(report, gpus, cluster_gpus)

    def _short(self, report: Report, run: Floats, gpus: Floats) -> None:
        short = run < ROUND_S
        if not short.any():
            return
        gpu_s = np.nansum(run * gpus)
        report.found(
            "shorter-than-round",
            int(self._lines[int(short.argmax())]),
            int(short.sum()),
            of_jobs=float(short.mean()),
            of_gpu_s=float((run * gpus)[short].sum() / gpu_s),
        )

    def _long(self, report: Report, run: Floats) -> None:
        long = np.rint(run) > LONGEST_JOB_S
        if long.any():
            line = int(self._lines[int(long.argmax())])
            report.found("too-long", line, int(long.sum()), most=LONGEST_JOB_S)

    def _cut(self, report: Report, end: Floats) -> None:
        if np.isnan(end).all():
            return
        last = end == np.nanmax(end)
        # Where all end at once, the last instant is not where the log was cut.
        if last.sum() > 1 and (end < np.nanmax(end)).any():
            report.found("open-at-end", int(self._lines[int(last.argmax())]), int(last.sum()))

    def _people(self, report: Report, submit: Floats) -> None:
        top = sum(count for _, count in self._users.most_common(TOP_USERS))
        jobs = len(submit)
        if len(self._users) > TOP_USERS and top >= LEAST_TOP_SHARE * jobs:
            report.found("one-user", None, top, top=TOP_USERS, share_of=top / jobs)
        _, each = np.unique(np.floor(submit), return_counts=True)
        together = int(each[each > 1].sum())
        if together >= LEAST_BURST_SHARE * jobs:
            report.found("bursts", None, together, share_of=together / jobs)

    def _pile(self, report: Report, begin: Floats, end: Floats, gpus: Floats) -> None:
        """Compare the first hour with the mean."""
        first, last = float(begin.min()), float(end.max())
        if last - first < PILE_SPAN_S:
            return
        mean = float((gpus * (end - begin)).sum()) / (last - first)
        inside = np.clip(end, first, first + HOUR_S) - np.clip(begin, first, first + HOUR_S)
        times = float((gpus * inside).sum()) / HOUR_S / mean
        if times >= PILED_UP:
            report.found("censored-start", None, 1, times=times)

    def _large(self, report: Report, gpus: Floats, cluster_gpus: int) -> None:
        large = gpus > cluster_gpus
        if large.any():
            line = int(self._lines[int(large.argmax())])
            report.found("larger-than-cluster", line, int(large.sum()), gpus=cluster_gpus)

    @staticmethod
    def _load(
        report: Report, cluster_gpus: int, jobs: tuple[Floats, Floats, Floats, Floats]
    ) -> None:
        """Compare running and asked GPUs with the cluster."""
        submit, begin, length, gpus = jobs
        if not len(begin):
            return
        times, running = level(begin, begin + length, gpus)
        peak = float(running.max()) / cluster_gpus
        if peak > 1.0:
            over = np.flatnonzero(running > cluster_gpus)
            until = np.append(times[1:], times[-1])[over]
            spans = zip(times[over] // HOUR_S, -(-until // HOUR_S), strict=True)
            hours = {hour for first, last in spans for hour in range(int(first), int(last))}
            report.found("over-capacity", None, len(hours), peak=peak, gpus=cluster_gpus)
            return
        _, asked = level(submit, submit + length, gpus)
        if asked.max() <= cluster_gpus:
            share = float(asked.max()) / cluster_gpus
            report.found("under-loaded", None, 1, peak=share, gpus=cluster_gpus)


def level(begin: Floats, end: Floats, amount: Floats) -> tuple[Floats, Floats]:
    """Return sorted instants, and the amount held from each of them on."""
    times = np.concatenate((begin, end))
    change = np.concatenate((amount, -amount))
    instants, where = np.unique(times, return_inverse=True)
    steps = np.bincount(where, weights=change)
    return instants, np.cumsum(steps)
