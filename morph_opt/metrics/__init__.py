"""Metrics of a replay, computed from its event log, and certified lower bounds."""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.metrics.bounds.completion import JobDemand
    from morph_opt.metrics.bounds.lower import (
        LowerBound,
        avg_jct_lower_bound,
        makespan_lower_bound,
    )
    from morph_opt.metrics.capacity import rounds_over_capacity
    from morph_opt.metrics.history import History, JobRecord, Segment, read_history
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "History",
    "JobDemand",
    "JobRecord",
    "LowerBound",
    "Segment",
    "avg_jct_lower_bound",
    "makespan_lower_bound",
    "read_history",
    "rounds_over_capacity",
]
