"""The Standard Workload Format, version 2.2 (Feitelson): 18 numbers per line, -1 for missing.

It counts processors and knows no GPUs; the user gives the number of processors per GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from morph_opt.core.documents import Row
from morph_opt.inputs.traces.logs.reading.reader import MOST_GPUS, Head, TableReader, cells_row
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome

FIELDS = (
    "job", "submit", "wait", "run", "allocated processors", "CPU time", "memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding job", "think time",
)  # fmt: skip
_MAX_JOBS = re.compile(r";\s*MaxJobs:\s*([0-9]{1,12})\s*$", re.ASCII | re.IGNORECASE)
_MISSING = -1.0
_PARTS = ("2", "3", "4")
"""States of partial lines of a checkpointed job, whose summary line is in the log, too."""


class SwfReader(TableReader):
    """Reader of ``.swf``."""

    name, relative = "swf", True
    options = needed = ("procs_per_gpu",)
    separators = (" ",)
    comment = ";"
    statuses: ClassVar[Mapping[str, Outcome]] = {
        "1": "completed",
        "0": "failed",
        "5": "cancelled",
        "-1": "unknown",
        **dict.fromkeys(_PARTS, "unknown"),
    }
    _stated: int | None = None

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by the number of cells, all of them numbers."""
        cells = cls.split(head.line)
        numbers = all(re.fullmatch(r"-?[0-9.]+", cell, re.ASCII) for cell in cells)
        return {} if len(cells) == len(FIELDS) and numbers else None

    def fixed_header(self) -> tuple[str, ...] | None:
        """Return the fields of the standard."""
        return FIELDS

    def remark(self, text: str) -> None:
        """Note the number of jobs that the header states."""
        found = _MAX_JOBS.match(text)
        if found:
            self._stated = int(found[1])

    def finish(self) -> None:
        """Compare the stated number of jobs with the rows."""
        if self._stated is not None and self._stated != self.report.rows:
            self.report.found("header-disagrees", said=self._stated)

    def row(self, record: Record) -> LogRow:
        """Return the job of a line."""
        row = cells_row(record)
        status = row.text("status").removesuffix(".0")
        if status in _PARTS:
            self.reasons.append("partial-line")
        outcome = self.outcome(status)
        held, asked = (
            self._processors(row, f"{way} processors") for way in ("allocated", "requested")
        )
        if held and asked and held != asked:
            self.find("allocated-not-requested")
        submit_s = row.number("submit", at_least=0.0)
        wait_s, run_s, limit_s = (
            self._known(row, name) for name in ("wait", "run", "requested time")
        )
        start_s = None if wait_s is None else submit_s + wait_s
        end_s = None if start_s is None or run_s is None else start_s + run_s
        procs = held or asked
        queue, user, partition = (row.text(name) for name in ("queue", "user", "partition"))
        found = LogRow(
            row.text("job"),
            row.line,
            submit_s,
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            gpus=self.processors(procs),
            cpus=procs or None,
            status=status,
            outcome=outcome,
            tenant="" if queue == "-1" else queue,
            user="" if user == "-1" else user,
            limit_s=limit_s,
            pool="" if partition == "-1" else partition,
        )
        self.compare(found)
        return found

    @staticmethod
    def _known(row: Row, field: str) -> float | None:
        """Return a number; None for -1, which marks a missing one."""
        value = row.number(field, at_least=-1e12)
        return None if value == _MISSING else value

    def _processors(self, row: Row, field: str) -> int:
        """Return a whole number of processors; 0 if it is missing."""
        value = self._known(row, field)
        if value is None:
            return 0
        if value % 1.0 or not 0.0 <= value <= MOST_GPUS:
            raise row.error(field, f"must be a whole number up to {MOST_GPUS}, got {value:g}")
        return int(value)
