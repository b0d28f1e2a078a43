"""Philly: the publisher's ``cluster_job_log`` (JSON), and flat tables that others made of it.

msr-fiddle/philly-traces. No requested GPUs are recorded: those of an attempt are counted. Times are
local and name no zone, and an hour of November 2017 exists twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from morph_opt.core.documents import Fields
from morph_opt.inputs.traces.logs.reading.fold import folded_attempts
from morph_opt.inputs.traces.logs.reading.reader import (
    NOTHING,
    JsonReader,
    TableReader,
    cells_row,
    fields_of,
    gpus_of,
    number_or_none,
)
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome, span_s

_PACIFIC = "America/Los_Angeles"
_JOBS = 117_325


class PhillyReader(JsonReader):
    """Reader of ``cluster_job_log``: a row is a job with its attempts."""

    name, zone = "philly", _PACIFIC
    published = (_JOBS,)
    data_files: ClassVar[Mapping[str, str]] = {"": "trace-data/cluster_job_log"}
    home = "231x8:P100+321x2:P100"  # its publishers name no GPU type
    marks = frozenset(("jobid", "attempts", "submitted_time"))
    required = ("jobid", "status", "attempts", "submitted_time")
    statuses: ClassVar[Mapping[str, Outcome]] = {
        "Pass": "completed",
        "Killed": "cancelled",
        "Failed": "failed",
    }

    def row(self, record: Record) -> LogRow:
        """Return the job of an element, its attempts folded."""
        fields = fields_of(record)
        status = fields.text("status")
        job = LogRow(
            fields.text("jobid"),
            record.line,
            self.seconds(fields, "submitted_time"),
            status=status,
            outcome=self.outcome(status),
            tenant=fields.word("vc"),
            pool=fields.word("vc"),
            user=fields.word("user"),
        )
        attempts = [self._attempt(job, one) for one in fields.objects("attempts", None)]
        if attempts and attempts[-1].start_s is not None and attempts[-1].end_s is None:
            self.reasons.append("still-running")
        whole = [one for one in attempts if one.run_s is not None]
        for _ in range(len(attempts) - len(whole)):
            self.find("attempt-without-times")
        if any((one.run_s or 0.0) < 0.0 for one in whole):
            self.reasons.append("negative-duration")
        if not any(one.start_s is not None for one in attempts):
            self.reasons.append("not-started")
        if not whole:
            return job._replace(gpus=max((one.gpus for one in attempts), default=0))
        found = folded_attempts(whole, self.find)
        self.compare(found)
        return found

    def _attempt(self, job: LogRow, one: Fields) -> LogRow:
        """Return an attempt; its GPUs are counted by name on every machine."""
        start_s, end_s = (
            None if one.word(name) in NOTHING else self.seconds(one, name)
            for name in ("start_time", "end_time")
        )
        machines = one.objects("detail", None, [])
        gpus = sum(len(machine.rows("gpus", [])) for machine in machines)
        run_s = span_s(start_s, end_s)
        return job._replace(
            start_s=start_s, end_s=end_s, run_s=run_s, gpus=gpus, nodes=len(machines) or None
        )


class PhillyTableReader(TableReader):
    """Reader of ``timestamp,duration,num_gpus,gpu_time,cluster``; rows have no ids."""

    name, zone, ids = "philly-table", _PACIFIC, False
    published = (_JOBS,)
    taken = ("a timestamp is the submission, which no page states",)
    marks = frozenset(("timestamp", "duration", "num_gpus"))
    required = ("timestamp", "duration", "num_gpus")
    lost: ClassVar[Mapping[str, str]] = {
        "timestamp": "submissions",
        "duration": "run times",
        "num_gpus": "GPUs",
    }

    def row(self, record: Record) -> LogRow:
        """Return the job of a line."""
        row = cells_row(record)
        gpus, run_s = gpus_of(row, "num_gpus"), number_or_none(row, "duration")
        self.compare_gpu_time(number_or_none(row, "gpu_time"), gpus, run_s)
        return LogRow(
            f"line-{row.line}",
            row.line,
            self.seconds(row, "timestamp"),
            run_s=run_s,
            recorded_s=run_s,
            gpus=gpus,
            tenant=row.cells.get("cluster", ""),
        )
