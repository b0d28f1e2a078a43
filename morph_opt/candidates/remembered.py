"""What does not change from round to round: what a job is, and what a running job holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.round.tables import HoldTable, JobTable
from morph_opt.candidates.slices import ModelSlice
from morph_opt.domain import Assignment, Job, JobState


@dataclass(slots=True)
class Remembered:
    """What is looked up once for a job, and once for what it holds."""

    job: Job
    configurations: ModelSlice
    request_iteration_s: float
    held: Assignment | None = None
    stay_iteration_s: float = float("nan")
    nodes: tuple[int, ...] = ()
    demand: tuple[tuple[float, ...], ...] = ()
    uplink: tuple[float, ...] = ()


def job_table(states: tuple[JobState, ...], known: list[Remembered]) -> JobTable:
    """Columns of the jobs of a round."""
    numbers = np.asarray(
        [
            (
                s.iterations_left, k.request_iteration_s, s.restart_s, s.restart_left_s,
                k.stay_iteration_s, s.attained_gpu_s, s.job.submission_s, s.job.weight,
            )
            for s, k in zip(states, known, strict=True)
        ],
        dtype=np.float64,
    ).reshape(-1, 8).T.copy()  # fmt: skip
    left, request, restart, restart_left, stay, attained, submission, weight = numbers
    guaranteed = np.asarray([s.job.guaranteed for s in states], dtype=bool)
    return JobTable(
        left, request, guaranteed, restart, restart_left, stay, attained, submission, weight
    )


def hold_table(known: list[Remembered]) -> HoldTable:
    """What the running jobs of a round hold, job by job."""
    counts = [len(entry.nodes) for entry in known]
    demand = [row for entry in known for row in entry.demand]
    return HoldTable(
        np.repeat(np.arange(len(known), dtype=np.int64), counts),
        np.asarray([node for entry in known for node in entry.nodes], dtype=np.int64),
        np.asarray(demand, dtype=np.float64).reshape(-1, 4),
        np.asarray([share for entry in known for share in entry.uplink], dtype=np.float64),
    )
