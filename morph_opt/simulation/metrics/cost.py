"""Cost of a replay and outcome of its SLOs; defined in ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from morph_opt.core.domain import Cluster
from morph_opt.core.domain.units import HOUR_S
from morph_opt.simulation.metrics.history import History, JobRecord, Scalar
from morph_opt.simulation.metrics.schedule import covered_s, stretches_by_gpu


class SloState(StrEnum):
    """Outcome of a job's deadline."""

    NONE = "none"
    """State of a job without a deadline."""
    MET = "met"
    """State of a job that was complete at its deadline."""
    MISSED = "missed"
    """State of a job that was not complete at its deadline."""
    OPEN = "open"
    """State of an incomplete job whose deadline comes after the end of the replay."""


def cost_metrics(history: History, cluster: Cluster) -> dict[str, Scalar]:
    """Return figures of cost and SLOs by the names of `Summary`; None if undefined."""
    records = history.jobs
    total = _bill(records, cluster)
    done = sum(record.finish_s is not None for record in records)
    states = [slo_state(record, history.ended.time_s) for record in records]
    met, missed = states.count(SloState.MET), states.count(SloState.MISSED)
    dropped = [record.job.name for record in records if record.slo_drops]
    return {
        "cost_usd": total,
        "cost_per_job_usd": total / done if total is not None and done else None,
        "slo_met": met,
        "slo_missed": missed,
        "slo_open": states.count(SloState.OPEN),
        "slo_none": states.count(SloState.NONE),
        "slo_attainment": met / (met + missed) if met + missed else None,
        "slo_dropped": len(dropped),
        "slo_dropped_jobs": " ".join(dropped),
    }


def slo_state(record: JobRecord, end_s: float) -> SloState:
    """Return the outcome of the job's deadline by the end of the replay, ``end_s``."""
    deadline_s = record.job.deadline_s
    if deadline_s is None:
        return SloState.NONE
    if record.finish_s is not None:
        return SloState.MET if record.finish_s <= deadline_s else SloState.MISSED
    return SloState.MISSED if end_s >= deadline_s else SloState.OPEN


def job_cost_usd(record: JobRecord, cluster: Cluster) -> float | None:
    """Return the price of a job's GPU-hours, shared ones in full; None without a price."""
    total = 0.0
    for segment in record.segments:
        for node, gpus in segment.placement.parts:
            price = cluster.nodes[node].type.gpu_type.price_per_hour
            if price is None:
                return None
            total += price * len(gpus) * segment.held_s / HOUR_S
    return total


def _bill(records: Sequence[JobRecord], cluster: Cluster) -> float | None:
    """Return the cost of all GPU-hours held, shared ones once; None without a price."""
    total = 0.0
    for (node, _), stretches in sorted(stretches_by_gpu(records).items()):
        price = cluster.nodes[node].type.gpu_type.price_per_hour
        if price is None:
            return None
        total += price * covered_s(stretches) / HOUR_S
    return total
