"""Linter: contents of a log, what is wrong with it, and the jobs that a replay would get."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents import is_file
from morph_opt.core.domain.errors import shown
from morph_opt.inputs.traces.logs.capacity import CAPACITY_FILE, find_changes, read_capacity
from morph_opt.inputs.traces.logs.demand import Demand
from morph_opt.inputs.traces.logs.guess import Chosen, chosen
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan

EXIT = {None: 0, "note": 0, "warning": 1, "error": 2}
"""Exit status by the worst finding."""

_SELECTION = 0.5
"""Share of the published rows below which a log counts as a deliberate excerpt."""


@dataclass(frozen=True, slots=True)
class Lint:
    """Result of the linter.

    Parameters
    ----------
    report
        The account.
    guess
        Whether the format was guessed.
    rows
        Per job, in order of submission: (submission, GPUs, run time); None if not asked for.
    """

    report: Report
    guess: bool
    rows: tuple[tuple[float, float, float | None], ...] | None = None

    @property
    def status(self) -> int:
        """Exit status: 0 clean or notes, 1 warnings, 2 errors."""
        return EXIT[self.report.worst]

    def as_json(self) -> str:
        """Return the text of the JSON file."""
        content = self.report.as_dict()
        if self.rows is not None:
            columns: tuple[list[float | None], ...] = ([], [], [])
            for row in self.rows:
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
            names = ("submission_s", "gpus", "duration_s")
            content |= dict(zip(names, columns, strict=True))
        return json.dumps(content, indent=2, allow_nan=False) + "\n"

    def as_text(self) -> str:
        """Return the report for a terminal."""
        report = self.report
        how = "guessed from its header" if self.guess else "as given"
        gpu_s = report.gpu_seconds
        lines = [
            f"format   {report.format} ({how})",
            f"rows     {report.rows:,} = {report.jobs:,} jobs + {report.dropped.total():,} dropped "
            f"+ {report.folded:,} folded",
            "GPU-s    "
            + ("unknown: the log has no durations" if gpu_s is None else f"{gpu_s:,.10g}"),
        ]
        lines += [f"option   {name} = {shown(str(v))}" for name, v in report.options.items()]
        for reason, count in report.by_reason():
            lines.append(f"dropped  {reason}: {count:,} ({count / report.rows:.1%})")
        lines += [f"assumed  {shown(one, 300)}" for one in report.assumed]
        for severity, code, sentence in report.sentences():
            first = report.findings[code].lines[:1]
            where = f" (first: line {first[0]})" if first else ""
            lines.append(f"{severity:<8} {code}: {shown(sentence, 600)}{where}")
        return "\n".join(lines) + "\n"


def lint(
    path: str | Path | Chosen,
    format_name: str | None = None,
    how: Reading | None = None,
    *,
    cluster_gpus: int | None = None,
    capacity: Path | None = None,
    with_rows: bool = False,
) -> Lint:
    """Read a whole log and report what is in it and what is wrong with it.

    Parameters
    ----------
    path, format_name
        The log and its format; without one, ``FORMAT:PATH``, or a path whose format is guessed.
        Or both, and how it is read.
    how
        Options of reading, for what the log does not state.
    cluster_gpus
        GPUs of the cluster, to compare demand and capacity; None if unknown.
    capacity
        Table of GPUs over time; None for the one next to the log, if there is any.
    with_rows
        Whether to keep a line per job.

    Raises
    ------
    InputError
        If the file cannot be read at all, its format not be recognised, or an option has no effect.
    """
    log = path if isinstance(path, Chosen) else chosen(path, format_name, how or Reading())
    known = log.reader
    scan = Scan(log.path, known, log.how, strict=False)
    demand, rows = Demand(), []
    for job in scan.jobs():
        demand.add(job)
        if with_rows:
            rows.append((job.submit_s, float(job.gpus), job.run_s))
    beside = scan.path.with_name(CAPACITY_FILE)
    if capacity is None and known.name == "helios" and is_file(beside):
        capacity = beside
    if capacity is not None:
        steps = read_capacity(capacity, scan.clock.zone)
        find_changes(steps, scan.report)
        # The linter has one number; the largest makes no hour look too full.
        cluster_gpus = cluster_gpus or max(step.gpus for step in steps)
    demand.tell(scan.report, cluster_gpus)
    needed = "procs_per_gpu" in known.needed and log.how.procs_per_gpu is None
    if needed and scan.report.jobs:
        scan.report.found("needs-procs-per-gpu")
    if not known.durations and scan.report.jobs:
        scan.report.found("needs-run-times")
    published = published_near(scan.report.rows, known.published)
    if published is not None:
        share = scan.report.rows / published
        scan.report.found("other-selection", None, 1, share_of=share, published=published)
    origin = min((row[0] for row in rows), default=0.0) if not known.relative else 0.0
    kept = sorted((submit - origin, gpus, run) for submit, gpus, run in rows)
    return Lint(scan.report, log.guess, tuple(kept) if with_rows else None)


def published_near(rows: int, published: Sequence[int]) -> int | None:
    """Return the published row count of which a log is a selection; None if it is none."""
    if rows in published:
        return None
    return min((count for count in published if _SELECTION * count <= rows < count), default=None)
