"""Acme (Seren, Kalos) and Helios: Slurm's accounting, flattened by their publishers.

Acme: InternLM/AcmeTrace, ``trace_seren.csv``, ``trace_kalos.csv``. ``duration`` of Seren is end -
start; of Kalos it is end - submit in both rows that its README prints, against the README's own
note, and ``gpu_time`` is built on it. Run times are therefore recomputed. Helios:
S-Lab-System-Group/HeliosData, ``cluster_log.csv``; its times name no zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from morph_opt.inputs.traces.logs.reading.reader import (
    TableReader,
    cells_row,
    gpus_of,
    number_or_none,
)
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome

_TIMES = {"submit_time": "submissions", "start_time": "run times", "end_time": "run times"}


class AcmeReader(TableReader):
    """Reader of ``trace_seren.csv`` and ``trace_kalos.csv``."""

    name, zone = "acme", "UTC"
    published: ClassVar[tuple[int, ...]] = (818_327, 62_413)
    data_files: ClassVar[Mapping[str, str]] = {
        name: f"data/job_trace/trace_{name}.csv" for name in ("seren", "kalos")
    }
    home = "302x8:A800-80GB"  # Kalos
    marks = frozenset(("job_id", "gpu_num", "node_num", "type"))
    required = (
        "job_id", "user", "node_num", "gpu_num", "type", "state",
        "submit_time", "start_time", "end_time",
    )  # fmt: skip
    lost: ClassVar[Mapping[str, str]] = {**_TIMES, "gpu_num": "GPUs", "type": "types"}
    statuses: ClassVar[Mapping[str, Outcome]] = {
        "COMPLETED": "completed",
        "CANCELLED": "cancelled",
        "FAILED": "failed",
        "TIMEOUT": "failed",
        "NODE_FAIL": "failed",
        "RUNNING": "unknown",
    }

    def row(self, record: Record) -> LogRow:
        """Return the job of a line."""
        row = cells_row(record)
        cells = row.cells
        gpus = gpus_of(row, "gpu_num")
        submit_s = self.seconds(row, "submit_time")
        start_s = self.seconds_or_none(row, "start_time")
        end_s = self.seconds_or_none(row, "end_time")
        outcome = self.outcome(cells["state"])
        run_s = self.ran_s(start_s, end_s, runs=cells["state"] == "RUNNING")
        nodes, cpus = number_or_none(row, "node_num"), number_or_none(row, "cpu_num")
        found = LogRow(
            row.text("job_id"),
            row.line,
            submit_s,
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            recorded_s=number_or_none(row, "duration"),
            gpus=gpus,
            nodes=None if nodes is None else int(nodes),
            cpus=None if cpus is None else int(cpus),
            status=cells["state"],
            outcome=outcome,
            tenant=cells.get("vc", ""),
            user=cells["user"],
            kind=cells.get("type"),
            pool=cells.get("vc", ""),
        )
        self.compare(found, number_or_none(row, "queue"))
        self.compare_gpu_time(number_or_none(row, "gpu_time"), gpus, run_s)
        return found


class HeliosReader(AcmeReader):
    """Reader of ``cluster_log.csv``."""

    name, zone = "helios", "Asia/Shanghai"
    published = ()
    data_files: ClassVar[Mapping[str, str]] = {
        name: f"data/{name.title()}/cluster_log.csv"
        for name in ("earth", "saturn", "uranus", "venus")
    }
    home = "158x8:V100"  # Venus at its largest
    marks = frozenset(("job_id", "gpu_num", "node_num", "vc"))
    required = (
        "job_id", "user", "vc", "gpu_num", "node_num", "state",
        "submit_time", "start_time", "end_time",
    )  # fmt: skip
    lost: ClassVar[Mapping[str, str]] = {**_TIMES, "gpu_num": "GPUs", "vc": "virtual clusters"}
    statuses: ClassVar[Mapping[str, Outcome]] = {**AcmeReader.statuses, "SUSPENDED": "unknown"}
