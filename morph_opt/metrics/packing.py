"""How much of a replay was packed, two jobs on the same GPUs; defined in ``docs/metrics.md``."""

from __future__ import annotations

from morph_opt.metrics.history import History, JobRecord


def shared_s(record: JobRecord) -> float:
    """Seconds that a job ran next to a partner, start-up included."""
    return sum((s.shared_s_between(s.start_s, s.end_s) for s in record.segments), 0.0)


def packing_metrics(history: History) -> dict[str, str | float | int | None]:
    """Flat values for ``summary.json`` of a run with packing.

    Returns
    -------
    dict
        ``packed_jobs``, the jobs that ever ran next to a partner, and ``packed_gpu_share``, the
        part of all GPU-seconds held that two jobs held together; None if nothing ran.
    """
    held = sum(record.gpu_s for record in history.jobs)
    shared = sum(record.shared_gpu_s for record in history.jobs)
    return {
        "packed_jobs": sum(shared_s(record) > 0.0 for record in history.jobs),
        "packed_gpu_share": shared / held if held > 0.0 else None,
    }
