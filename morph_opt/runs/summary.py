"""``summary.json``: one flat object per run."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

from morph_opt.metrics.bounds.lower import Demands, avg_jct_lower_bound, makespan_lower_bound
from morph_opt.metrics.history import History
from morph_opt.metrics.schedule import ScheduleMetrics, quantile
from morph_opt.runs.rounds import RoundRow

Scalar = str | int | float | bool | None
Summary = Mapping[str, Scalar]

KEYS = (
    "trace",
    "trace_sha256",
    "objective",
    "policy",
    "solver",
    "nodes",
    "gpus",
    "jobs",
    "completed",
    "avg_jct_s",
    "median_jct_s",
    "p99_jct_s",
    "max_jct_s",
    "makespan_s",
    "avg_queue_s",
    "gpu_utilization",
    "restarts_per_job",
    "preemptions",
    "rounds",
    "rounds_over_capacity",
    "fallback_rounds",
    "build_ms_p50",
    "solve_ms_p50",
    "solve_ms_p99",
    "solve_ms_max",
    "round_ms_p50",
    "round_ms_p99",
    "gap_max",
    "avg_jct_lower_bound_s",
    "makespan_lower_bound_s",
    "wall_s",
    "peak_rss_mib",
)
"""Keys that every summary has, in this order; more follow."""


def build_summary(
    history: History,
    metrics: ScheduleMetrics,
    rows: Sequence[RoundRow],
    demands: Demands,
    labels: Mapping[str, Scalar],
) -> dict[str, Scalar]:
    """The flat object: ``labels`` (objective, solver, wall time ...) win over nothing else."""
    values: dict[str, Scalar] = {
        "trace": history.begun.trace,
        "trace_sha256": history.begun.trace_sha256,
        "policy": history.begun.policy,
        "nodes": history.begun.nodes,
        "gpus": history.begun.gpus,
        "ended": history.ended.reason.value,
        "interval_s": history.begun.interval_s,
    }
    values |= dataclasses.asdict(metrics)
    values |= _wall_times(rows)
    avg_jct = avg_jct_lower_bound(demands)
    makespan = makespan_lower_bound(demands)
    values |= {
        "avg_jct_lower_bound_s": avg_jct.value_s,
        "avg_jct_lower_bound_by": avg_jct.relaxation,
        "makespan_lower_bound_s": makespan.value_s,
        "makespan_lower_bound_by": makespan.relaxation,
    }
    values |= labels
    ordered = {key: values.pop(key, None) for key in KEYS}
    return {key: _finite(value) for key, value in (ordered | values).items()}


def _wall_times(rows: Sequence[RoundRow]) -> dict[str, Scalar]:
    build = [row.build_ms for row in rows]
    solve = [row.solve_ms for row in rows]
    whole = [row.round_ms for row in rows]
    return {
        "build_ms_p50": quantile(build, 0.5),
        "solve_ms_p50": quantile(solve, 0.5),
        "solve_ms_p99": quantile(solve, 0.99),
        "solve_ms_max": quantile(solve, 1.0),
        "round_ms_p50": quantile(whole, 0.5),
        "round_ms_p99": quantile(whole, 0.99),
        "engine_ms_p50": quantile((row.engine_ms for row in rows), 0.5),
    }


def _finite(value: Scalar) -> Scalar:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary_json(summary: Summary) -> str:
    """Text of ``summary.json``."""
    return json.dumps(dict(summary), indent=2, allow_nan=False) + "\n"
