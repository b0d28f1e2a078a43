"""PAI (Alibaba 2020): job table and task table, neither with a header line.

alibaba/clusterdata. ``start_time`` of a job is its submission; it runs from the earliest start of a
task on. GPUs are the tasks' instances times their plan, which is in percent of a GPU. A job table
alone has no GPUs: the task table must be next to it, under the same name with ``task`` for
``job``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

from morph_opt.core.documents import Row, exists
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.reading.clock import Clock
from morph_opt.inputs.traces.logs.reading.reader import (
    MOST_GPUS,
    Head,
    TableReader,
    cells_row,
    number_or_none,
    whole_if,
)
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome, Reading, span_s

JOB_TABLES = ("pai_job_table.csv", "pai_job_table.csv.gz", "pai_job_table.csv.xz")
_JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_TASK = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time",
    "plan_cpu", "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
_PERCENT = 100


class _Tasks:
    """Sum of the GPUs of one job's tasks."""

    __slots__ = ("end_s", "gpus", "rounded", "shared", "start_s", "types")

    def __init__(self) -> None:
        self.gpus = Fraction(0)
        self.rounded = 0
        self.shared = False
        self.types: tuple[str, ...] = ()
        self.start_s: float | None = None
        self.end_s: float | None = None

    def add(self, row: Row) -> None:
        """Add a task."""
        start_s, end_s = number_or_none(row, "start_time"), number_or_none(row, "end_time")
        if start_s is not None:
            self.start_s = start_s if self.start_s is None else min(start_s, self.start_s)
        if end_s is not None:
            self.end_s = end_s if self.end_s is None else max(end_s, self.end_s)
        instances = number_or_none(row, "inst_num", at_least=0.0) or 0.0
        percent = number_or_none(row, "plan_gpu", at_least=0.0) or 0.0
        if not instances or not percent:
            return
        if instances * percent > MOST_GPUS * _PERCENT:
            raise row.error("plan_gpu", f"must be at most {MOST_GPUS} GPUs in all")
        self.gpus += Fraction(instances) * Fraction(percent) / _PERCENT
        self.rounded += int(instances) * -int(-percent // _PERCENT)
        # Of instances with 50 percent two make a whole GPU, and are shares all the same.
        self.shared = self.shared or percent % _PERCENT != 0.0 or instances % 1.0 != 0.0
        kind = row.cells["gpu_type"]
        if kind and kind not in self.types:
            self.types = (*self.types, kind)


class PaiReader(TableReader):
    """Reader of the job table, with the task table next to it."""

    name = "pai"
    statuses: ClassVar[Mapping[str, Outcome]] = {
        "Terminated": "completed",
        "Failed": "failed",
        "Running": "unknown",
        "Waiting": "unknown",
    }

    def __init__(self, path: Path, how: Reading, clock: Clock, report: Report) -> None:
        if path.is_dir():
            path = next((path / name for name in JOB_TABLES if exists(path / name)), path)
        super().__init__(path, how, clock, report)
        self._task_path = path.with_name(path.name.replace("job", "task"))
        self._tasks: dict[str, _Tasks] = {}

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by a state in its column; a folder by the name of its job table."""
        cells = cls.split(head.line)
        is_job = len(cells) == len(_JOB) and (cells[3] in cls.statuses or set(cells) == set(_JOB))
        return {} if is_job or head.files & set(JOB_TABLES) else None

    def fixed_header(self) -> tuple[str, ...] | None:
        """Return the columns of the job table."""
        return _JOB

    def files(self) -> Sequence[Path]:
        """Return the paths of the job table and the task table."""
        return self.path, self._task_path

    def records(self) -> Iterator[Record]:
        """Yield the rows of the job table; the task table is read first."""
        if self._task_path == self.path or not exists(self._task_path):
            rule = f"needs the task table next to it, {self._task_path.name}: it has the GPUs"
            raise InputError(rule, file=str(self.path))
        self._tasks.clear()
        for record in self.rows_of(self._task_path, _TASK):
            try:
                if isinstance(record.content, InputError):
                    raise record.content
                row = cells_row(record)
                self._tasks.setdefault(row.text("job_name"), _Tasks()).add(row)
            except InputError as error:
                self.complain(error)
        yield from super().records()

    def row(self, record: Record) -> LogRow:
        """Return the job of a line, with the GPUs of its tasks."""
        row = cells_row(record)
        status = row.cells["status"]
        tasks = self._tasks.get(row.text("job_name"))
        outcome = self.outcome(status)
        submit_s, end_s = number_or_none(row, "start_time"), number_or_none(row, "end_time")
        if tasks is None:
            self.reasons.append("no-task-rows")
            tasks = _Tasks()
        start_s = tasks.start_s
        if status == "Waiting" or (start_s is None and status != "Running"):
            self.reasons.append("not-started")
        elif status == "Running":
            self.reasons.append("still-running")
        elif end_s is None:
            end_s = tasks.end_s
        if submit_s is None and "not-started" not in self.reasons:
            raise row.error("start_time", "must not be empty: it is the submission")
        if len(tasks.types) > 1:
            self.reasons.append("mixed-gpu-types")
        run_s = span_s(start_s, end_s)
        found = LogRow(
            row.text("job_name"),
            row.line,
            submit_s or 0.0,
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            gpus=self._gpus(tasks, run_s),
            gpu_type=tasks.types[0] if tasks.types else None,
            status=status,
            outcome=outcome,
            user=row.cells["user"],
        )
        self.compare(found)
        return found

    def _gpus(self, tasks: _Tasks, run_s: float | None) -> int | Fraction:
        """Return whole GPUs of the tasks; shares are dropped, or rounded up per instance."""
        if not tasks.shared:
            return whole_if(tasks.gpus)
        if self.how.gpu_shares != "round-up":
            self.reasons.append("fractional-gpu")
            return whole_if(tasks.gpus)
        invented = float((tasks.rounded - tasks.gpus) * Fraction(run_s or 0.0))
        self.find("gpu-shares-rounded", invented_gpu_s=invented)
        return tasks.rounded
