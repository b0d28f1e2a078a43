"""``jobs.csv``: one row per job, Batsim's column names where they fit."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from morph_opt.domain import Cluster, Placement
from morph_opt.metrics.cost import SloState, job_cost_usd, slo_state
from morph_opt.metrics.history import History, JobRecord
from morph_opt.metrics.packing import shared_s
from morph_opt.metrics.schedule import queued_s

COLUMNS = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_plan",
    "guaranteed",
    "tenant",
    "weight",
    "iterations",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "last_plan",
    "queued_s",
    "restarts",
    "changes",
    "preemptions",
    "node_failures",
    "gpu_s_held",
    "gpu_s_startup",
    "finish_time_ratio",
    "deadline",
    "slo",
    "cost_usd",
)
"""Times in seconds; ``profile`` is the model, ``execution_time`` the time with GPUs."""

PACKED_COLUMNS = ("shared_s", "shared_gpu_s")
"""Behind the others, in runs in which two jobs held the same GPUs."""


def jobs_csv(history: History, cluster: Cluster, ratios: Mapping[str, float] | None = None) -> str:
    """The whole file; numbers that are not there are empty cells.

    Parameters
    ----------
    ratios
        Finish-time ratio by job name (`morph_opt.metrics.fairness.finish_time_ratios`).
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    packed = any(record.shared_gpu_s for record in history.jobs)
    writer.writerow((*COLUMNS, *PACKED_COLUMNS) if packed else COLUMNS)
    for record in history.jobs:
        ratio = (ratios or {}).get(record.job.name)
        state = slo_state(record, history.ended.time_s)
        cells = [*_cells(record, history.begun.trace, cluster, ratio, state)]
        writer.writerow([*cells, shared_s(record), record.shared_gpu_s] if packed else cells)
    return buffer.getvalue()


def _cells(
    record: JobRecord, trace: str, cluster: Cluster, ratio: float | None, slo: SloState
) -> Iterable[object]:
    job, last = record.job, record.segments[-1] if record.segments else None
    start_s, turnaround_s, held_s = record.starting_s, record.turnaround_s, record.held_s
    done = turnaround_s is not None
    values: dict[str, object] = {
        "job_id": job.name,
        "workload_name": trace,
        "profile": job.model,
        "submission_time": float(job.submission_s),
        "requested_number_of_resources": job.requested_gpus,
        "requested_plan": job.requested_plan.label,
        "guaranteed": int(job.guaranteed),
        "tenant": job.tenant,
        "weight": float(job.weight),
        "iterations": job.iterations,
        "success": int(done),
        "final_state": "COMPLETED_SUCCESSFULLY" if done else "UNFINISHED",
        "starting_time": start_s,
        "execution_time": held_s,
        "finish_time": record.finish_s,
        "waiting_time": None if start_s is None else start_s - job.submission_s,
        "turnaround_time": turnaround_s,
        "stretch": turnaround_s / held_s if turnaround_s is not None and held_s > 0.0 else None,
        "allocated_resources": "" if last is None else _resources(last.placement, cluster),
        "last_plan": "" if last is None else last.plan,
        "queued_s": queued_s(record) if done else None,
        "restarts": record.restarts,
        "changes": record.changes,
        "preemptions": record.preemptions,
        "node_failures": record.node_failures,
        "gpu_s_held": record.gpu_s,
        "gpu_s_startup": record.startup_gpu_s,
        "finish_time_ratio": ratio,
        "deadline": job.deadline_s,
        "slo": str(slo),
        "cost_usd": job_cost_usd(record, cluster),
    }
    return ["" if values[name] is None else values[name] for name in COLUMNS]


def _resources(placement: Placement, cluster: Cluster) -> str:
    """``node-0:0-3+6 node-2:1``: GPUs of the last placement."""
    parts = []
    for node, gpus in placement.parts:
        runs: list[list[int]] = []
        for gpu in gpus:
            if runs and runs[-1][1] == gpu - 1:
                runs[-1][1] = gpu
            else:
                runs.append([gpu, gpu])
        text = "+".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
        parts.append(f"{cluster.nodes[node].name}:{text}")
    return " ".join(parts)
