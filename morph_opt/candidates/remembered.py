"""What does not change from round to round: what a job is, and what a running job holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.round.tables import HoldTable, JobTable
from morph_opt.candidates.slices import ModelSlice
from morph_opt.domain import Assignment, ExecutionPlan, Job, JobState

KeptPlan = tuple[ExecutionPlan, int]
"""A plan, and the number of GPUs that it ran on."""


def kept_plan(state: JobState) -> KeptPlan | None:
    """What a job may go on in at less than a restart; None where no start costs less."""
    if state.resume_s is None and state.migrate_s is None:
        return None
    kept = state.kept
    if kept is None:
        return None
    return None if state.prices.plain else (kept.plan, kept.placement.gpus)


@dataclass(slots=True)
class Remembered:
    """What is looked up once for a job, and once for what it holds."""

    job: Job
    configurations: ModelSlice
    request_iteration_s: float
    keeps: KeptPlan | None = None
    held: Assignment | None = None
    stay_iteration_s: float = float("nan")
    nodes: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    side: tuple[float, float, float] = (0.0, 0.0, 0.0)
    crosses: bool = False


def job_table(states: tuple[JobState, ...], known: list[Remembered]) -> JobTable:
    """Columns of the jobs of a round."""

    def column(values: list[float]) -> Floats:
        return np.asarray(values, dtype=np.float64)

    jobs = [s.job for s in states]
    return JobTable(
        iterations_left=column([s.iterations_left for s in states]),
        request_iteration_s=column([k.request_iteration_s for k in known]),
        guaranteed=np.asarray([job.guaranteed for job in jobs], dtype=bool),
        restart_s=column([s.restart_s for s in states]),
        restart_left_s=column([s.restart_left_s for s in states]),
        stay_iteration_s=column([k.stay_iteration_s for k in known]),
        attained_gpu_s=column([s.attained_gpu_s for s in states]),
        submission_s=column([job.submission_s for job in jobs]),
        weight=column([job.weight for job in jobs]),
    )


def hold_table(known: list[Remembered]) -> HoldTable:
    """What the running jobs of a round hold, job by job."""
    running = [(at, entry) for at, entry in enumerate(known) if entry.nodes]
    parts = [len(entry.nodes) for _, entry in running]
    gpus = np.asarray([n for _, entry in running for n in entry.gpus], dtype=np.float64)
    side = np.asarray([entry.side for _, entry in running], dtype=np.float64).reshape(-1, 3)
    crosses = np.repeat([entry.crosses for _, entry in running], parts)
    demand = np.column_stack([gpus, gpus[:, None] * np.repeat(side, parts, axis=0)])
    return HoldTable(
        np.repeat(np.asarray([at for at, _ in running], dtype=np.int64), parts),
        np.asarray([node for _, entry in running for node in entry.nodes], dtype=np.int64),
        demand,
        np.where(crosses.astype(bool), demand[:, 3], 0.0),
    )


def gang_of(states: Sequence[JobState]) -> Ints:
    """A number of the GPUs that each job holds, shape (J,); empty where nobody shares."""
    if not any(s.running is not None and s.running.partner is not None for s in states):
        return np.zeros(0, dtype=np.int64)
    index = {s.job.name: i for i, s in enumerate(states)}
    gang = np.arange(len(states), dtype=np.int64)
    for i, known in enumerate(states):
        if known.running is not None and known.running.partner in index:
            gang[i] = min(i, index[known.running.partner])
    return gang if (gang < np.arange(gang.size)).any() else gang[:0]
