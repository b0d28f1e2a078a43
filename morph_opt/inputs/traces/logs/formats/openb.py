"""OpenB (Alibaba 2023) pods, and the spot-GPU jobs of 2026.

hkust-adsl/kubernetes-scheduler-simulator, ``openb_pod_list_*.csv``: single pods, no gangs, and most
that ask for one GPU ask for a share of it. alibaba/clusterdata, ``cluster-trace-v2026-spot-gpu``:
GPUs are those of a worker times the workers; its ``duration`` may contain waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

from morph_opt.inputs.traces.logs.reading.reader import (
    MOST_GPUS,
    TableReader,
    cells_row,
    gpus_of,
    number_or_none,
    whole_if,
)
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome

_MILLI = 1000


class OpenbReader(TableReader):
    """Reader of pods."""

    name, relative = "openb", True
    marks = frozenset(("num_gpu", "gpu_milli"))
    required = (
        "name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time",
        "scheduled_time",
    )  # fmt: skip
    lost: ClassVar[Mapping[str, str]] = {
        "num_gpu": "GPUs", "gpu_milli": "GPUs", "pod_phase": "outcomes",
        "creation_time": "submissions", "deletion_time": "run times", "scheduled_time": "run times",
    }  # fmt: skip
    statuses: ClassVar[Mapping[str, Outcome]] = {
        "Succeeded": "completed",
        "Failed": "failed",
        "Running": "unknown",
        "Pending": "unknown",
    }

    def row(self, record: Record) -> LogRow:
        """Return the pod of a line."""
        row = cells_row(record)
        phase = row.cells["pod_phase"]
        outcome = self.outcome(phase)
        milli = row.integer("gpu_milli", at_least=0, at_most=MOST_GPUS)
        gpus = whole_if(
            Fraction(row.integer("num_gpu", at_least=0, at_most=MOST_GPUS) * milli, _MILLI)
        )
        if gpus and milli % _MILLI:
            self.reasons.extend(("fractional-gpu",) * (self.how.gpu_shares != "round-up"))
        submit_s = row.number("creation_time", at_least=0.0)
        start_s = number_or_none(row, "scheduled_time", at_least=0.0)
        end_s = number_or_none(row, "deletion_time", at_least=0.0)
        cpu_milli = number_or_none(row, "cpu_milli", at_least=0.0)
        found = LogRow(
            row.text("name"),
            row.line,
            submit_s,
            start_s=start_s,
            end_s=end_s,
            run_s=self.ran_s(start_s, end_s, waits=phase == "Pending"),
            gpus=gpus,
            gpu_type=row.cells.get("gpu_spec") or None,
            nodes=1,
            cpus=None if cpu_milli is None else -int(-cpu_milli // _MILLI),
            status=phase,
            outcome=outcome,
            kind=row.cells.get("qos") or None,
        )
        self.compare(found)
        return found


class SpotReader(TableReader):
    """Reader of ``job_info_df.csv``."""

    name, relative = "spot", True
    taken = ("duration is the run time; it may contain waiting",)
    marks = frozenset(("organization", "gpu_model", "worker_num"))
    required = (
        "job_name", "organization", "gpu_model", "gpu_request", "worker_num", "submit_time",
        "duration", "job_type",
    )  # fmt: skip
    lost: ClassVar[Mapping[str, str]] = {
        "gpu_request": "GPUs", "worker_num": "GPUs", "submit_time": "submissions",
        "duration": "run times", "gpu_model": "GPU types",
    }  # fmt: skip

    def row(self, record: Record) -> LogRow:
        """Return the job of a line."""
        row = cells_row(record)
        each, workers = gpus_of(row, "gpu_request"), gpus_of(row, "worker_num")
        gpus = whole_if(Fraction(each * workers))
        if gpus and not isinstance(each, int) and self.how.gpu_shares != "round-up":
            self.reasons.append("fractional-gpu")
        run_s = number_or_none(row, "duration")
        cpus = number_or_none(row, "cpu_request", at_least=0.0)
        return LogRow(
            row.text("job_name"),
            row.line,
            row.number("submit_time", at_least=0.0),
            run_s=run_s,
            recorded_s=run_s,
            gpus=gpus,
            gpu_type=row.cells["gpu_model"] or None,
            cpus=None if cpus is None else int(cpus * workers),
            tenant=row.cells["organization"],
            kind=row.cells["job_type"] or None,
        )
