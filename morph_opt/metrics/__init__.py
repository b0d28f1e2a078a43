"""Metrics of a replay, computed from its event log, and certified lower bounds."""

from morph_opt.metrics.bounds.lower import (
    JobDemand,
    LowerBound,
    avg_jct_lower_bound,
    makespan_lower_bound,
)
from morph_opt.metrics.capacity import rounds_over_capacity
from morph_opt.metrics.history import History, JobRecord, Segment, read_history
from morph_opt.metrics.schedule import ScheduleMetrics

__all__ = [
    "History",
    "JobDemand",
    "JobRecord",
    "LowerBound",
    "ScheduleMetrics",
    "Segment",
    "avg_jct_lower_bound",
    "makespan_lower_bound",
    "read_history",
    "rounds_over_capacity",
]
