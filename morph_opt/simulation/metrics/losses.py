"""GPU-time that stops and moves cost, by cause (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from morph_opt.core.domain.units import HOUR_S
from morph_opt.simulation.metrics.history import JobRecord, Segment


@dataclass(frozen=True, slots=True)
class Loss:
    """GPU-seconds that one job lost.

    Parameters
    ----------
    preempted
        Progress that stops by the policy took away, and the start-ups after them.
    moved
        The same of changes to other GPUs or another plan.
    failed
        The same of node failures.
    limit
        What the time limit took that ended the job: its progress since the last checkpoint, or,
        where nothing is known of checkpoints, all that it held apart from the above.
    """

    preempted: float = 0.0
    moved: float = 0.0
    failed: float = 0.0
    limit: float = 0.0

    @property
    def gpu_s(self) -> float:
        """GPU-seconds lost in all."""
        return self.preempted + self.moved + self.failed + self.limit


CAUSES = tuple(Loss.__dataclass_fields__)
"""Causes of lost GPU-time, in order."""

_CAUSE = {"policy": "preempted", "change": "moved", "node-failure": "failed"}
"""Cause of a loss by the end of a segment."""


def loss_of(record: JobRecord) -> Loss:
    """Return the GPU-seconds that a job lost, by cause.

    A start-up belongs to the end of the segment before it, so the first one is no loss.
    """
    lost = dict.fromkeys(CAUSES, 0.0)
    for segment in record.segments:
        if segment.ended_by in _CAUSE:
            lost[_CAUSE[segment.ended_by]] += _undone_gpu_s(segment)
    for before, after in pairwise(record.segments):
        until_s = after.start_s + after.startup_s
        lost[_CAUSE[before.ended_by]] += after.gpu_s_between(after.start_s, until_s)
    if record.finish_s is not None and record.job.times_out:
        lost["limit"] = max(0.0, _at_limit(record, record.gpu_s - sum(lost.values())))
    return Loss(**lost)


def _at_limit(record: JobRecord, all_s: float) -> float:
    """Return the GPU-seconds that the time limit took, of these at most."""
    if record.job.checkpoint_s is None or not record.segments:
        return all_s
    last, step_s = record.segments[-1], record.job.checkpoint_s
    unsaved_s = (last.held_s - last.startup_s) % step_s if step_s else 0.0
    return min(all_s, last.gpu_s_between(last.end_s - unsaved_s, last.end_s))


def _undone_gpu_s(segment: Segment) -> float:
    """Return the GPU-seconds of the progress that the end of a segment took away."""
    if not segment.iterations_lost:
        return 0.0
    reached = segment.iterations_from + segment.iterations
    kept_s = segment.reached_s(reached - segment.iterations_lost)
    begin_s = segment.start_s + segment.startup_s
    return segment.gpu_s_between(begin_s if kept_s is None else kept_s, segment.end_s)


def loss_metrics(records: Iterable[JobRecord]) -> Mapping[str, float]:
    """Return lost GPU-hours in all and by cause, by the names of ``summary.json``."""
    losses = [loss_of(record) for record in records]
    by_cause = {cause: sum(getattr(one, cause) for one in losses) / HOUR_S for cause in CAUSES}
    named = {f"gpu_hours_lost_{cause}": hours for cause, hours in by_cause.items()}
    return {"gpu_hours_lost": sum(by_cause.values()), **named}
