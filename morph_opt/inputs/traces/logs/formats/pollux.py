"""Workloads that name applications and no durations: Pollux, Sia, EasyScale.

petuum/adaptdl and siasosp23/artifacts share the columns of the first; the second has a ninth column
without a name. How long a job runs is in the application tables of these simulators, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from morph_opt.inputs.traces.logs.reading.reader import TableReader, cells_row, gpus_of
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow


class PolluxReader(TableReader):
    """Reader of ``name,time,application,num_replicas,batch_size``."""

    name, relative, durations = "pollux", True, False
    gpus_column: ClassVar[str] = "num_replicas"
    marks = frozenset(("application", "num_replicas", "batch_size"))
    required: ClassVar[tuple[str, ...]] = (
        "name", "time", "application", "num_replicas", "batch_size",
    )  # fmt: skip
    lost: ClassVar[Mapping[str, str]] = {
        "time": "submissions", "num_replicas": "GPUs", "max_parallelism": "GPUs",
        "application": "applications", "batch_size": "batch sizes",
    }  # fmt: skip

    def row(self, record: Record) -> LogRow:
        """Return the job of a line."""
        row = cells_row(record)
        row.integer("batch_size", at_least=1)
        return LogRow(
            row.text("name"),
            row.line,
            row.number("time", at_least=0.0),
            gpus=gpus_of(row, self.gpus_column),
            kind=row.text("application"),
        )


class EasyscaleReader(PolluxReader):
    """Reader of ``name,time,application,max_parallelism,batch_size,epochs,...``."""

    name = "easyscale"
    taken = ("the preferred GPU type is no demand",)
    gpus_column = "max_parallelism"
    marks = frozenset(("application", "max_parallelism", "batch_size"))
    required = ("name", "time", "application", "max_parallelism", "batch_size")
