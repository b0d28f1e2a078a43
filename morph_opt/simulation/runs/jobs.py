"""``jobs.csv``: one row per job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan

from morph_opt.core.domain import Cluster
from morph_opt.core.domain.missing import MissingEqual
from morph_opt.core.domain.placement import gpus_text
from morph_opt.simulation.metrics.cost import job_cost_usd, slo_state
from morph_opt.simulation.metrics.history import History, JobRecord
from morph_opt.simulation.metrics.losses import loss_of
from morph_opt.simulation.metrics.schedule import queued_s, shared_s
from morph_opt.simulation.runs.rows import columns, line, to_cells


@dataclass(frozen=True, eq=False, slots=True)
class JobRow(MissingEqual):
    """Outcome of a job; times in seconds, NaN if there is none.

    Parameters
    ----------
    job, trace, model
        Names of the job, of its trace, and of its model.
    submission_s, gpus, requested_plan, guaranteed, tenant, weight, iterations
        Values as submitted; ``gpus`` is the requested number.
    completed, state
        Whether it came to its end; ``completed``, ``timeout`` (ended by its time limit),
        ``unfinished`` or ``cancelled`` (by its search).
    start_s, held_s, finish_s, waiting_s, jct_s, stretch
        First start; time with GPUs; completion; start and completion after submission; the latter
        over the time with GPUs.
    allocated_gpus, last_plan
        GPUs of the last placement (``node-0:0-3+6 node-2:1``) and its plan.
    queued_s
        Time without GPUs; complete jobs only.
    restarts, changes, preemptions, node_failures
        Number of times.
    gpu_s_held, gpu_s_startup
        GPU-seconds held, and the part of them without progress.
    finish_time_ratio, deadline_s, slo, cost_usd
        As in ``docs/metrics.md``.
    shared_s, shared_gpu_s
        Seconds and GPU-seconds next to a partner.
    gpu_s_lost
        GPU-seconds that stops, moves and the time limit cost.
    user, priority
        Values as submitted.
    """

    job: str
    trace: str
    model: str
    submission_s: float
    gpus: int
    requested_plan: str
    guaranteed: bool
    tenant: str
    weight: float
    iterations: int
    completed: bool
    state: str
    start_s: float
    held_s: float
    finish_s: float
    waiting_s: float
    jct_s: float
    stretch: float
    allocated_gpus: str
    last_plan: str
    queued_s: float
    restarts: int
    changes: int
    preemptions: int
    node_failures: int
    gpu_s_held: float
    gpu_s_startup: float
    finish_time_ratio: float
    deadline_s: float
    slo: str
    cost_usd: float
    shared_s: float = 0.0
    shared_gpu_s: float = 0.0
    gpu_s_lost: float = 0.0
    user: str = ""
    priority: float = 0.0


_MORE = (("shared_s", "shared_gpu_s"), ("gpu_s_lost",), ("user",), ("priority",))
"""Further columns, in groups; the file has a group if a job has something other than nothing."""

MORE_COLUMNS = tuple(name for group in _MORE for name in group)
"""Further columns, which a file may lack."""

COLUMNS = columns(JobRow)[: -len(MORE_COLUMNS)]

FORMER = {
    "job_id": "job", "workload_name": "trace", "profile": "model",
    "submission_time": "submission_s", "requested_number_of_resources": "gpus",
    "success": "completed", "final_state": "state", "starting_time": "start_s",
    "execution_time": "held_s", "finish_time": "finish_s", "waiting_time": "waiting_s",
    "turnaround_time": "jct_s", "allocated_resources": "allocated_gpus", "deadline": "deadline_s",
    "COMPLETED_SUCCESSFULLY": "completed", "UNFINISHED": "unfinished", "CANCELLED": "cancelled",
}  # fmt: skip
"""Current names of columns and states, by former name."""


def job_rows(
    history: History, cluster: Cluster, ratios: Mapping[str, float] | None = None
) -> tuple[JobRow, ...]:
    """Return one row per job, in the order of the trace.

    Parameters
    ----------
    ratios
        Finish-time ratio by job name (`morph_opt.simulation.metrics.fairness.finish_time_ratios`).
    """
    known = ratios or {}
    return tuple(
        _row(record, history, cluster, known.get(record.job.name)) for record in history.jobs
    )


def jobs_csv(rows: Iterable[JobRow]) -> str:
    """Return the text of the file; missing numbers are empty cells."""
    every = tuple(rows)
    more = [group for group in _MORE if any(getattr(row, group[-1]) for row in every)]
    names = (*COLUMNS, *(name for group in more for name in group))
    return line(names) + "".join(line(to_cells(row, names)) for row in every)


def _row(record: JobRecord, history: History, cluster: Cluster, ratio: float | None) -> JobRow:
    job, last = record.job, record.segments[-1] if record.segments else None
    start_s, jct_s, held_s = record.starting_s, record.turnaround_s, record.held_s
    done = jct_s is not None
    stretch = jct_s / held_s if jct_s is not None and held_s > 0.0 else None
    return JobRow(
        job=job.name,
        trace=history.begun.trace,
        model=job.model,
        submission_s=float(job.submission_s),
        gpus=job.requested_gpus,
        requested_plan=job.requested_plan.label,
        guaranteed=job.guaranteed,
        tenant=job.tenant,
        weight=float(job.weight),
        iterations=job.iterations,
        completed=done,
        state=_state(record),
        start_s=_known(start_s),
        held_s=held_s,
        finish_s=_known(record.finish_s),
        waiting_s=nan if start_s is None else start_s - job.submission_s,
        jct_s=_known(jct_s),
        stretch=_known(stretch),
        allocated_gpus=""
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
        deadline_s=_known(job.deadline_s),
        slo=str(slo_state(record, history.ended.time_s)),
        cost_usd=_known(job_cost_usd(record, cluster)),
        shared_s=shared_s(record),
        shared_gpu_s=record.shared_gpu_s,
        gpu_s_lost=loss_of(record).gpu_s,
        user=job.user,
        priority=float(job.priority),
    )


def _state(record: JobRecord) -> str:
    if record.finish_s is not None:
        return "timeout" if record.job.times_out else "completed"
    return "unfinished" if record.cancelled_s is None else "cancelled"


def _known(value: float | None) -> float:
    return nan if value is None else value
