"""How soon and how steadily jobs are served: first GPUs, first report, longest wait."""

from __future__ import annotations

from collections.abc import Sequence

from morph_opt.metrics.history import History, JobRecord, Scalar, Segment


def service_metrics(history: History) -> dict[str, Scalar]:
    """Means over the jobs that were served and that reported, and the longest wait of any.

    ``feedback_s`` is there only where some job of the trace has a report.
    """
    end_s = history.ended.time_s
    jobs = [record for record in history.jobs if record.submitted]
    first = [r.starting_s - r.job.submission_s for r in jobs if r.starting_s is not None]
    found: dict[str, Scalar] = {
        "first_service_s": _mean(first),
        "longest_wait_s": max((longest_wait_s(record, end_s) for record in jobs), default=None),
    }
    if any(record.job.feedback_iterations is not None for record in history.jobs):
        instants = [(record, reported_s(record)) for record in jobs]
        instants_s = [at - record.job.submission_s for record, at in instants if at is not None]
        found |= {"reported_jobs": len(instants_s), "feedback_s": _mean(instants_s)}
    cancelled = sum(record.cancelled_s is not None for record in history.jobs)
    if cancelled:
        found["cancelled_jobs"] = cancelled
    return found


def reported_s(record: JobRecord) -> float | None:
    """Instant of a job's first report; None if nobody waits for it, or it was not seen."""
    wanted = record.job.feedback_iterations
    if wanted is None:
        return None
    for segment in record.segments:
        instant = _instant_of(segment, wanted)
        if instant is not None:
            return instant
    # Rounding may leave the last iteration of a whole job slightly behind its completion.
    return record.finish_s if wanted == record.job.iterations else None


def _instant_of(segment: Segment, iterations: float) -> float | None:
    """When the job had done so many in all; None if not in this segment."""
    begin_s, done = segment.start_s + segment.startup_s, segment.iterations_from
    for from_s, until_s, _, seconds in segment.stretches():
        start_s = max(from_s, begin_s)
        reached_s = start_s + max(0.0, iterations - done) * seconds
        if start_s <= reached_s <= until_s:
            return reached_s
        done += max(0.0, until_s - start_s) / seconds
    return None


def longest_wait_s(record: JobRecord, end_s: float) -> float:
    """Longest time without GPUs between submission and end of a job, or of the replay."""
    begin_s = 0.0 if record.before is None else record.before.time_s
    free_s, longest = max(record.job.submission_s, begin_s), 0.0
    for segment in record.segments:
        longest = max(longest, segment.start_s - free_s)
        free_s = segment.end_s
    return max(longest, record.end_s(end_s) - free_s)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
