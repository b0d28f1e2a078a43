"""Batsim's ``jobs.csv`` and ``schedule.json``, as evalys reads them.

A row is a segment: one row cannot tell that a job moved. Resources are GPUs numbered through all
nodes, as an interval set (``0-7 12``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

from morph_opt.core.domain.placement import runs_text
from morph_opt.core.table import Cell, Table
from morph_opt.simulation.events.log import Cancelled
from morph_opt.simulation.metrics.history import Segment
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.views.view import RunView

COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources",
    "requested_time", "success", "final_state", "starting_time", "execution_time", "finish_time",
    "waiting_time", "turnaround_time", "stretch", "allocated_resources", "consumed_energy",
    "metadata",
)  # fmt: skip
"""Columns of ``jobs.csv``, in Batsim's order."""


def batsim_jobs(view: RunView, *, per_job: bool = False) -> Table:
    """Return Batsim's ``jobs.csv``: one row per segment, or per job.

    Parameters
    ----------
    view
        The run.
    per_job
        One row per job that ran, with the GPUs of its last segment: times are right, GPUs are
        those of a job that never moved.
    """
    return Table(COLUMNS, list(_by_job(view) if per_job else _by_segment(view)))


def batsim_schedule(view: RunView) -> str:
    """Return the aggregates of a run by Batsim's names, as JSON."""
    summary = view.run.summary
    done = [row for row in view.jobs if row.completed]
    waits = [row.waiting_s for row in view.jobs if math.isfinite(row.waiting_s)]
    turnarounds = [row.jct_s for row in done]
    stretches = [row.stretch for row in done if math.isfinite(row.stretch)]
    killed = len(_cancelled(view))
    found = {
        "nb_jobs": summary.jobs,
        "nb_jobs_finished": len(done) + killed,
        "nb_jobs_success": len(done),
        "nb_jobs_killed": killed,
        "success_rate": len(done) / summary.jobs if summary.jobs else None,
        "makespan": view.end_s,
        "mean_waiting_time": _mean(waits),
        "mean_turnaround_time": _mean(turnarounds),
        "mean_slowdown": _mean(stretches),
        "max_waiting_time": max(waits, default=None),
        "max_turnaround_time": max(turnarounds, default=None),
        "max_slowdown": max(stretches, default=None),
        "nb_computing_machines": view.nodes.total,
        "consumed_joules": -1,
        "time_computing": summary.values.get("gpu_s_held"),
    }
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def _by_segment(view: RunView) -> Iterator[list[Cell]]:
    for job, numbers in view.segments_by_job.items():
        row = view.jobs[job]
        for place, number in enumerate(numbers):
            segment = view.segments[number][1]
            about: dict[str, Cell] = {
                "job_id": f"{row.job}#{place}",
                "starting_time": segment.start_s,
                "execution_time": segment.held_s,
                "finish_time": segment.end_s,
                "waiting_time": segment.start_s - row.submission_s,
            }
            success = segment.ended_by == "complete"
            yield _cells(view, row, segment, success, segment.end_s, segment.held_s, about)


def _by_job(view: RunView) -> Iterator[list[Cell]]:
    cancelled = _cancelled(view)
    for job, numbers in view.segments_by_job.items():
        row, segment = view.jobs[job], view.segments[numbers[-1]][1]
        finish_s = row.finish_s if row.completed else cancelled.get(row.job, view.end_s)
        about: dict[str, Cell] = {
            "job_id": row.job,
            "starting_time": row.start_s,
            "execution_time": finish_s - row.start_s,
            "finish_time": finish_s,
            "waiting_time": row.waiting_s,
        }
        yield _cells(view, row, segment, row.completed, finish_s, row.held_s, about)


def _cancelled(view: RunView) -> dict[str, float]:
    """Return when jobs were cancelled by their searches."""
    return {event.job: event.time_s for event in view.run.events if isinstance(event, Cancelled)}


def _cells(
    view: RunView,
    row: JobRow,
    segment: Segment,
    success: bool,
    finish_s: float,
    held_s: float,
    about: Mapping[str, Cell],
) -> list[Cell]:
    """Return a row: the cells common to both kinds of rows, and the given ones."""
    first = view.nodes.first_gpu.tolist()
    gpus = sorted(first[node] + gpu for node, of in segment.placement.parts for gpu in of)
    turnaround_s = finish_s - row.submission_s
    cells: dict[str, Cell] = {
        **about,
        "workload_name": row.trace,
        "profile": row.model,
        "submission_time": row.submission_s,
        "requested_number_of_resources": segment.gpus,
        "requested_time": -1,
        "success": int(success),
        "final_state": "COMPLETED_SUCCESSFULLY" if success else "COMPLETED_KILLED",
        "turnaround_time": turnaround_s,
        "stretch": turnaround_s / held_s if held_s > 0.0 else None,
        "allocated_resources": runs_text(gpus, " "),
        "consumed_energy": -1,
        "metadata": "",
    }
    return [cells[name] for name in COLUMNS]


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
