"""``jobs.csv``: one row per job, Batsim's column names where they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import nan

from morph_opt.domain import Cluster, Placement
from morph_opt.metrics.cost import job_cost_usd, slo_state
from morph_opt.metrics.history import History, JobRecord
from morph_opt.metrics.packing import shared_s
from morph_opt.metrics.schedule import queued_s
from morph_opt.runs.rows import columns, line, to_cells


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job; times in seconds, NaN where there is none.

    Parameters
    ----------
    job_id, workload_name, profile
        Name of the job, of its trace, and of its model.
    submission_time, requested_number_of_resources, requested_plan, guaranteed, tenant, weight, \
iterations
        As submitted.
    success, final_state
        Whether it completed, as a number and in Batsim's word.
    starting_time, execution_time, finish_time, waiting_time, turnaround_time, stretch
        First start; time with GPUs; completion; start and completion after submission; turnaround
        over execution.
    allocated_resources, last_plan
        GPUs of the last placement (``node-0:0-3+6 node-2:1``) and its plan.
    queued_s
        Time without GPUs, of complete jobs.
    restarts, changes, preemptions, node_failures
        How often.
    gpu_s_held, gpu_s_startup
        GPU-seconds, and those of them without progress.
    finish_time_ratio, deadline, slo, cost_usd
        As in ``docs/metrics.md``.
    shared_s, shared_gpu_s
        Next to a partner; columns of the file only where two jobs held the same GPUs.
    """

    job_id: str
    workload_name: str
    profile: str
    submission_time: float
    requested_number_of_resources: int
    requested_plan: str
    guaranteed: bool
    tenant: str
    weight: float
    iterations: int
    success: bool
    final_state: str
    starting_time: float
    execution_time: float
    finish_time: float
    waiting_time: float
    turnaround_time: float
    stretch: float
    allocated_resources: str
    last_plan: str
    queued_s: float
    restarts: int
    changes: int
    preemptions: int
    node_failures: int
    gpu_s_held: float
    gpu_s_startup: float
    finish_time_ratio: float
    deadline: float
    slo: str
    cost_usd: float
    shared_s: float = 0.0
    shared_gpu_s: float = 0.0


PACKED_COLUMNS = ("shared_s", "shared_gpu_s")
"""Behind the others, in runs in which two jobs held the same GPUs."""

COLUMNS = columns(JobRow)[: -len(PACKED_COLUMNS)]


def job_rows(
    history: History, cluster: Cluster, ratios: Mapping[str, float] | None = None
) -> tuple[JobRow, ...]:
    """One row per job, in the order of the trace.

    Parameters
    ----------
    ratios
        Finish-time ratio by job name (`morph_opt.metrics.fairness.finish_time_ratios`).
    """
    known = ratios or {}
    return tuple(
        _row(record, history, cluster, known.get(record.job.name)) for record in history.jobs
    )


def jobs_csv(rows: Iterable[JobRow]) -> str:
    """The whole file; numbers that are not there are empty cells."""
    every = tuple(rows)
    packed = any(row.shared_gpu_s for row in every)
    names = (*COLUMNS, *PACKED_COLUMNS) if packed else COLUMNS
    return line(names) + "".join(line(to_cells(row, names)) for row in every)


def _row(record: JobRecord, history: History, cluster: Cluster, ratio: float | None) -> JobRow:
    job, last = record.job, record.segments[-1] if record.segments else None
    start_s, turnaround_s, held_s = record.starting_s, record.turnaround_s, record.held_s
    done = turnaround_s is not None
    stretch = turnaround_s / held_s if turnaround_s is not None and held_s > 0.0 else None
    return JobRow(
        job_id=job.name,
        workload_name=history.begun.trace,
        profile=job.model,
        submission_time=float(job.submission_s),
        requested_number_of_resources=job.requested_gpus,
        requested_plan=job.requested_plan.label,
        guaranteed=job.guaranteed,
        tenant=job.tenant,
        weight=float(job.weight),
        iterations=job.iterations,
        success=done,
        final_state=_state(record),
        starting_time=_known(start_s),
        execution_time=held_s,
        finish_time=_known(record.finish_s),
        waiting_time=nan if start_s is None else start_s - job.submission_s,
        turnaround_time=_known(turnaround_s),
        stretch=_known(stretch),
        allocated_resources=""
        if last is None
        else gpus_text(last.placement, lambda node: cluster.nodes[node].name),
        last_plan="" if last is None else last.plan,
        queued_s=_known(queued_s(record) if done else None),
        restarts=record.restarts,
        changes=record.changes,
        preemptions=record.preemptions,
        node_failures=record.node_failures,
        gpu_s_held=record.gpu_s,
        gpu_s_startup=record.startup_gpu_s,
        finish_time_ratio=_known(ratio),
        deadline=_known(job.deadline_s),
        slo=str(slo_state(record, history.ended.time_s)),
        cost_usd=_known(job_cost_usd(record, cluster)),
        shared_s=shared_s(record),
        shared_gpu_s=record.shared_gpu_s,
    )


def _state(record: JobRecord) -> str:
    if record.finish_s is not None:
        return "COMPLETED_SUCCESSFULLY"
    return "UNFINISHED" if record.cancelled_s is None else "CANCELLED"


def _known(value: float | None) -> float:
    return nan if value is None else value


def gpus_text(placement: Placement, name_of: Callable[[int], str] = str) -> str:
    """``node-0:0-3+6 node-2:1``: the GPUs of a placement, node by node."""
    parts = []
    for node, gpus in placement.parts:
        runs: list[list[int]] = []
        for gpu in gpus:
            if runs and runs[-1][1] == gpu - 1:
                runs[-1][1] = gpu
            else:
                runs.append([gpu, gpu])
        text = "+".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
        parts.append(f"{name_of(node)}:{text}")
    return " ".join(parts)
