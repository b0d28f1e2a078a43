"""``summary.json``: one flat object per run."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import get_type_hints

from morph_opt.domain import InputError
from morph_opt.metrics.bounds.lower import (
    Demands,
    avg_jct_lower_bound,
    makespan_lower_bound,
    weighted_jct_lower_bound,
)
from morph_opt.metrics.history import History
from morph_opt.metrics.schedule import ScheduleMetrics, quantile
from morph_opt.runs.tally import WallTimes

Scalar = str | int | float | bool | None
Values = Mapping[str, Scalar]
"""Content of ``summary.json``."""

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


BOUND_KEYS = (
    "avg_jct_lower_bound_s", "avg_jct_lower_bound_by", "makespan_lower_bound_s",
    "makespan_lower_bound_by",
)  # fmt: skip
"""Of whole jobs; nothing is known of traces whose searches cancel some."""


def build_summary(
    history: History,
    metrics: ScheduleMetrics,
    times: WallTimes,
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
    values |= _wall_times(times)
    avg_jct = avg_jct_lower_bound(demands)
    makespan = makespan_lower_bound(demands)
    values |= {
        "avg_jct_lower_bound_s": avg_jct.value_s,
        "avg_jct_lower_bound_by": avg_jct.relaxation,
        "makespan_lower_bound_s": makespan.value_s,
        "makespan_lower_bound_by": makespan.relaxation,
    }
    if len({demand.weight for demand in demands.jobs}) > 1:
        weighted = weighted_jct_lower_bound(demands)
        values |= {
            "weighted_avg_jct_lower_bound_s": weighted.value_s,
            "weighted_avg_jct_lower_bound_by": weighted.relaxation,
        }
    values |= labels
    ordered = {key: values.pop(key, None) for key in KEYS}
    return {key: _finite(value) for key, value in (ordered | values).items()}


def _wall_times(times: WallTimes) -> dict[str, Scalar]:
    return {
        "build_ms_p50": quantile(times.build_ms, 0.5),
        "solve_ms_p50": quantile(times.solve_ms, 0.5),
        "solve_ms_p99": quantile(times.solve_ms, 0.99),
        "solve_ms_max": quantile(times.solve_ms, 1.0),
        "round_ms_p50": quantile(times.round_ms, 0.5),
        "round_ms_p99": quantile(times.round_ms, 0.99),
        "engine_ms_p50": quantile(times.engine_ms, 0.5),
    }


def _finite(value: Scalar) -> Scalar:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary_json(summary: Values) -> str:
    """Text of ``summary.json``."""
    return json.dumps(dict(summary), indent=2, allow_nan=False) + "\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run; a float is NaN where nothing can be said.

    Parameters
    ----------
    trace, trace_sha256, objective, policy, solver
        What was run; objective and solver are None for a policy without one.
    nodes, gpus, jobs, completed
        Sizes, and jobs that completed.
    average_jct_s, median_jct_s, p99_jct_s, max_jct_s, makespan_s, average_queue_s
        Of the jobs that completed, seconds.
    gpu_utilization
        Share of GPU-time held.
    restarts_per_job, preemptions
        Starts after the first; jobs stopped by the policy or by a node.
    rounds, rounds_over_capacity, fallback_rounds
        Decided rounds; those that an independent count found over capacity (must be 0); those in
        which no solver answered in time.
    build_ms_p50, solve_ms_p50, solve_ms_p99, solve_ms_max, round_ms_p50, round_ms_p99
        Wall times of rounds, milliseconds.
    gap_max
        Largest gap that was left unproven.
    average_jct_lower_bound_s, makespan_lower_bound_s
        What no schedule can be below.
    wall_s, peak_rss_mib
        Of the whole run.
    values
        Everything that ``summary.json`` has, by the names there (``docs/metrics.md``), also what
        has no attribute; ``avg_`` there is ``average_`` here.
    """

    trace: str
    trace_sha256: str
    objective: str | None
    policy: str
    solver: str | None
    nodes: int
    gpus: int
    jobs: int
    completed: int
    average_jct_s: float
    median_jct_s: float
    p99_jct_s: float
    max_jct_s: float
    makespan_s: float
    average_queue_s: float
    gpu_utilization: float
    restarts_per_job: float
    preemptions: int
    rounds: int
    rounds_over_capacity: int
    fallback_rounds: int
    build_ms_p50: float
    solve_ms_p50: float
    solve_ms_p99: float
    solve_ms_max: float
    round_ms_p50: float
    round_ms_p99: float
    gap_max: float
    average_jct_lower_bound_s: float
    makespan_lower_bound_s: float
    wall_s: float
    peak_rss_mib: float
    values: Values

    @classmethod
    def of(cls, values: Values) -> Summary:
        """The typed form of these values.

        Raises
        ------
        InputError
            If a value is missing or of another type.
        """
        kinds = get_type_hints(cls)
        found: dict[str, object] = {"values": dict(values)}
        for key in KEYS:
            name = key.replace("avg_", "average_")
            found[name] = _typed(key, values, kinds[name])
        return cls(**found)  # type: ignore[arg-type]


def _typed(key: str, values: Values, kind: object) -> Scalar:
    """One value, checked."""
    if key not in values:
        raise InputError("is missing", field=key)
    value = values[key]
    if kind is float:
        if value is None:
            return math.nan
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(value, str) or (value is None and kind is not str):
        return value
    word = getattr(kind, "__name__", "str")
    raise InputError(f"must be of type {word}, got {value!r}", field=key)
