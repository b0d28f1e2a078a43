"""Recorded instants of a slurmctld: submissions, ends, cycles, and the starts that followed.

Folder of a recording: ``sacct.txt`` (``sacct -X -a -P``), ``instants.txt`` (``job|submit|end`` and,
if known, ``free``, the end of the epilog; Unix times to the millisecond), ``bf_cycles.txt`` (begin
of each cycle of backfill), ``passes.txt`` (begin of each pass of the main scheduler, if known),
``workload.json`` (run time of jobs that still ran), ``slurm.conf``, ``assoc.txt``, and
``calc_anchor.txt`` where priorities are computed.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from morph_opt.inputs.slurm.hostlist import expand_hosts

NEAR_S = 60.0
"""A replayed start this close to the recorded one ends at the recorded instant."""


@dataclass(slots=True)
class RecordedJob:
    """Job of a recording; instants are Unix times."""

    number: int
    submit_s: float
    start_s: float | None
    end_s: float | None
    run_s: float
    limit_s: float
    nodes: int
    gpus_per_node: int
    partition: str
    user: str
    hosts: tuple[str, ...]
    priority: int
    completing_s: float | None = None

    def end_of(self, started_s: float) -> float:
        """Return the end of a replayed run."""
        near = self.start_s is not None and abs(started_s - self.start_s) <= NEAR_S
        return self.end_s if near and self.end_s is not None else started_s + self.run_s


@dataclass(frozen=True, slots=True)
class Recording:
    """Recording of one run of a slurmctld."""

    folder: Path
    jobs: tuple[RecordedJob, ...]
    cycles_s: tuple[float, ...]
    anchor_s: float | None
    passes_s: tuple[float, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Recording:
        """Read the folder of a recording."""
        asked = {
            job["name"]: job for job in json.loads((folder / "workload.json").read_text())["jobs"]
        }
        instants = {
            int(row["job"]): (float(row["submit"]), float(row["end"]), float(row.get("free", 0.0)))
            for row in _rows(folder / "instants.txt")
        }
        jobs = []
        for row in _rows(folder / "sacct.txt"):
            number = int(row["JobID"])
            submit_s, end_s, free_s = instants[number]
            start_s, over_s = _instant(row["Start"]), _instant(row["End"])
            last_s = end_s or (over_s if row["State"] != "RUNNING" else None)
            known = re.search(r"gres/gpu=(\d+)", row["ReqTRES"])
            assert known is not None, f"job {number} asks for no GPU"
            gpus = int(known[1])
            nodes = int(row["NNodes"]) if gpus % int(row["NNodes"]) == 0 else -(-gpus // 8)
            run_s = asked[row["JobName"]]["run"]
            if last_s is not None and start_s is not None:
                run_s = last_s - start_s
            jobs.append(
                RecordedJob(
                    number,
                    submit_s or _instant(row["Submit"]) or 0.0,
                    start_s,
                    last_s,
                    run_s,
                    60.0 * float(row["TimelimitRaw"]),
                    nodes,
                    gpus // nodes,
                    row["Partition"],
                    f"{row['Account']}/{row['User']}",
                    expand_hosts(row["NodeList"]) if start_s is not None else (),
                    int(row["Priority"]),
                    free_s - end_s if free_s and end_s else None,
                )
            )
        anchor, passes = folder / "calc_anchor.txt", folder / "passes.txt"
        return cls(
            folder,
            tuple(jobs),
            tuple(map(float, (folder / "bf_cycles.txt").read_text().split())),
            float(anchor.read_text()) if anchor.exists() else None,
            tuple(map(float, passes.read_text().split())) if passes.exists() else (),
        )


def _rows(path: Path) -> Iterable[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="|"))


def _instant(text: str) -> float | None:
    if text in ("", "Unknown", "None"):
        return None
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
