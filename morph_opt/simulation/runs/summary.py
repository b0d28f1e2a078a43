"""``summary.json``: one flat object per run."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.missing import MissingEqual
from morph_opt.core.table import Table
from morph_opt.scheduling.policies.steps import STEPS
from morph_opt.simulation.metrics.bounds.lower import (
    Demands,
    avg_jct_lower_bound,
    makespan_lower_bound,
    weighted_jct_lower_bound,
)
from morph_opt.simulation.metrics.history import History, Scalar
from morph_opt.simulation.metrics.schedule import quantile
from morph_opt.simulation.runs.tally import WallTimes

Values = Mapping[str, Scalar]
"""Content of ``summary.json``."""


def _figure(meaning: str, unit: str = "", unfinished: str = "", *, always: bool = False) -> Any:
    """Return a field with its row of ``docs/metrics.md``; ``always`` if every summary has it."""
    about = {"meaning": meaning, "unit": unit, "unfinished": unfinished, "always": always}
    return dataclasses.field(metadata=about)


def _settled(step: str) -> Any:
    """Return a field with the number of rounds that a step settled."""
    return _figure(
        f"policy `milp` only: rounds with step `{step}`: {STEPS[step].meaning}",
    )


@dataclasses.dataclass(frozen=True, eq=False, slots=True, kw_only=True, repr=False)
class Summary(MissingEqual):
    """Figures of a run; an undefined float is NaN.

    Names are the keys of ``summary.json``. Each field has its meaning, its unit and how unfinished
    jobs count; ``docs/metrics.md`` shows them. Figures that a run lacks are NaN or None.

    Parameters
    ----------
    values
        All values of ``summary.json``, also those without a field (``gpu_utilization_TYPE``).
    """

    trace: str = _figure("name of the trace", always=True)
    trace_sha256: str = _figure("digest of its jobs", always=True)
    objective: str | None = _figure(
        "objective of the MILP; null for policies without one", always=True
    )
    policy: str = _figure("policy that decided", always=True)
    solver: str | None = _figure("solver of the MILP; null for policies without one", always=True)
    nodes: int = _figure("nodes of the cluster", always=True)
    gpus: int = _figure("GPUs of the cluster, *G*", always=True)
    jobs: int = _figure("jobs of the trace", "", "counted", always=True)
    completed: int = _figure("jobs that completed", always=True)
    avg_jct_s: float = _figure("mean JCT", "s", "left out", always=True)
    median_jct_s: float = _figure("median JCT", "s", "left out", always=True)
    p99_jct_s: float = _figure(
        "99 % quantile of the JCTs, linear between order statistics", "s", "left out", always=True
    )
    max_jct_s: float = _figure("largest JCT", "s", "left out", always=True)
    makespan_s: float = _figure(
        "last *C_j* less first *s_j*", "s", "null while there is one", always=True
    )
    avg_queue_s: float = _figure("mean `queued_s`", "s", "left out", always=True)
    p95_queue_s: float = _figure("95 % quantile of `queued_s`", "s", "left out")
    p99_queue_s: float = _figure("99 % quantile of `queued_s`", "s", "left out")
    bounded_slowdown: float = _figure(
        "mean of max(1, `jct_s` / max(`held_s`, 10 s)) (Feitelson et al., JSSPP 1997)",
        "1",
        "left out",
    )
    gpu_utilization: float = _figure(
        "GPU-seconds held / (*G* (*E* - first *s_j*)), from a state on: since its instant; nodes "
        "that are down count in *G*",
        "1",
        "until *E*",
        always=True,
    )
    restarts_per_job: float = _figure("restarts / jobs", "1", "counted", always=True)
    preemptions: int = _figure("stops by policy and by node failure", "", "counted", always=True)
    rounds: int = _figure("boundaries with an active job", always=True)
    rounds_over_capacity: int = _figure(
        "rounds in which what jobs hold by the log breaks a rule of the strict check "
        "([replay](replay.md#rules-of-the-engine)): a GPU held twice, missing or on a failed "
        "node, a node or an uplink with more than it has, a placement that the truth cannot "
        "run",
        always=True,
    )
    fallback_rounds: int = _figure("rounds with status `fallback`", always=True)
    build_ms_p50: float = _figure("median time to build a round's problem", "ms", always=True)
    solve_ms_p50: float = _figure("median time to solve it", "ms", always=True)
    solve_ms_p99: float = _figure("99 % quantile of that time", "ms", always=True)
    solve_ms_max: float = _figure("longest such time", "ms", always=True)
    round_ms_p50: float = _figure(
        "median time of a whole decision (candidates to check)", "ms", always=True
    )
    round_ms_p99: float = _figure("99 % quantile of that time", "ms", always=True)
    gap_max: float = _figure(
        "largest certified relative gap of a round; null if no round proved one", "1", always=True
    )
    avg_jct_lower_bound_s: float = _figure(
        "strongest [bound](#certified-lower-bounds) below `avg_jct_s`",
        "s",
        "counted as jobs to complete",
        always=True,
    )
    makespan_lower_bound_s: float = _figure(
        "strongest bound below `makespan_s`", "s", "counted as jobs to complete", always=True
    )
    wall_s: float = _figure("wall time of the whole command", "s", always=True)
    peak_rss_mib: float = _figure("largest resident set", "MiB", always=True)
    ended: str | None = _figure("`complete` or `horizon`, of the last line of the log")
    rounds_stays: int | None = _settled("stays")
    rounds_knapsack: int | None = _settled("knapsack")
    rounds_prices: int | None = _settled("prices")
    rounds_slots: int | None = _settled("slots")
    rounds_residual: int | None = _settled("residual")
    rounds_exact: int | None = _settled("exact")
    audited_rounds: int | None = _figure(
        "with `--audit-rounds` only: rounds [solved again](replay.md#audit) as exact MIPs"
    )
    audited_agreeing: int | None = _figure("of these, rounds that agree within the stated gap")
    audited_open: int | None = _figure("of these, rounds that were not settled")
    audited_disagreeing: int | None = _figure("of these, rounds whose claims were disproved")
    audited_cpu_s: float = _figure("CPU time of the second solves", "s")
    interval_s: float = _figure("time between rounds", "s")
    weighted_avg_jct_s: float = _figure("mean JCT weighted by the jobs' weights", "s", "left out")
    gpu_productive_share: float = _figure(
        "1 - GPU-seconds of start-up / GPU-seconds held", "1", "until *E*"
    )
    gpu_s_held: float = _figure("GPU-seconds held", "GPU-s", "until *E*")
    gpu_hours_lost: float = _figure(
        "GPU-hours that [stops and moves cost](#lost-gpu-hours), in all",
        "GPU-h",
        "what follows is not counted",
    )
    gpu_hours_lost_preempted: float = _figure("of these, by stops of the policy", "GPU-h")
    gpu_hours_lost_moved: float = _figure(
        "of these, by changes to other GPUs or another plan", "GPU-h"
    )
    gpu_hours_lost_failed: float = _figure("of these, by node failures", "GPU-h")
    gpu_hours_lost_limit: float = _figure(
        "of these, held by jobs that their time limit ended", "GPU-h"
    )
    node_failure_stops: int | None = _figure("stops by node failure alone", "", "counted")
    guaranteed_jobs: int | None = _figure("jobs with a guarantee in the trace", "", "counted")
    rounds_guarantees_short: int | None = _figure(
        "rounds in which a guaranteed job was below the speed of its request, see "
        "[below](#promises)",
    )
    rounds_guarantees_missed: int | None = _figure(
        "of these, rounds in which the policy found all guarantees to be possible together; null "
        "if there are some and it never looked",
    )
    guarantee_shortfall_sum: float = _figure(
        "sum over rounds and jobs of the missing fraction of that speed", "1"
    )
    engine_ms_p50: float = _figure(
        "median time of settling, snapshot, strict check and bookkeeping", "ms"
    )
    avg_jct_lower_bound_by: str | None = _figure("name of the bound")
    makespan_lower_bound_by: str | None = _figure("name of the bound")
    weighted_avg_jct_lower_bound_s: float = _figure(
        "strongest bound below `weighted_avg_jct_s`; where jobs have several weights",
        "s",
        "counted as jobs to complete",
    )
    weighted_avg_jct_lower_bound_by: str | None = _figure("name of the bound")
    ftf_max: float = _figure(
        "largest [finish-time ratio](formulations/fairness-metrics.md#finish-time-ratio)",
        "1",
        "left out",
    )
    ftf_p99: float = _figure("99 % quantile of the finish-time ratios", "1", "left out")
    ftf_median: float = _figure("median of the finish-time ratios", "1", "left out")
    ftf_mean: float = _figure("mean of the finish-time ratios", "1", "left out")
    ftf_above_1: float = _figure("share of completed jobs with a ratio above 1", "1", "left out")
    jain_service: float = _figure(
        "Jain index of attained service per second of life and weight", "1", "until *E*"
    )
    min_share_mean: float = _figure(
        "smallest received part of an equal share in a window of an hour, mean over windows",
        "1",
        "counted",
    )
    min_share_worst: float = _figure("the same, worst window", "1", "counted")
    entity_shares: str | None = _figure(
        "fraction of all GPU-seconds by tenant, `name=0.250 ...`", "", "until *E*"
    )
    queue_small_s: float = _figure("mean `queued_s` of jobs that asked for 1 GPU", "s", "left out")
    queue_medium_s: float = _figure(
        "mean `queued_s` of jobs that asked for 2 to 8 GPUs", "s", "left out"
    )
    queue_large_s: float = _figure(
        "mean `queued_s` of jobs that asked for 9 GPUs and more", "s", "left out"
    )
    cost_usd: float = _figure(
        "sum over GPUs of price x hours in which a job held it (shared by two jobs: once); null "
        "if a GPU without a price was held",
        "$",
        "until *E*",
    )
    cost_per_job_usd: float = _figure("`cost_usd` / completed jobs", "$", "their cost counts")
    slo_met: int | None = _figure("jobs with *C_j <= d_j*")
    slo_missed: int | None = _figure(
        "jobs with *C_j > d_j*, or unfinished with *d_j <= E*", "", "counted"
    )
    slo_open: int | None = _figure("unfinished jobs with *d_j > E*", "", "counted")
    slo_none: int | None = _figure("jobs without a deadline", "", "counted")
    slo_attainment: float = _figure("met / (met + missed); null without either", "1")
    slo_dropped: int | None = _figure(
        "jobs whose SLO the policy gave up at least once (events `slo`); such a job may still "
        "meet it",
        "",
        "counted",
    )
    slo_dropped_jobs: str | None = _figure("names of these jobs", "", "counted")
    first_service_s: float = _figure(
        "mean *a_k - s_j* of the first segment, of jobs that were served", "s", "counted"
    )
    longest_wait_s: float = _figure(
        "longest time of any job without GPUs between submission and end",
        "s",
        "until *E*, or cancelled",
    )
    reported_jobs: int | None = _figure(
        "where jobs have a report: how many came to it", "", "counted"
    )
    feedback_s: float = _figure(
        "mean time from submission to the report, first time only", "s", "counted"
    )
    cancelled_jobs: int | None = _figure(
        "where there are any, jobs that their search ended ([time "
        "slices](formulations/feedback.md#searches)); no figure of completion counts them",
    )
    late_jobs: int | None = _figure(
        "where there are any, jobs that were [due](formulations/due.md) and did not start (events "
        "`late`)",
        "",
        "counted",
    )
    late_max_s: float = _figure(
        "longest time from such a due instant to the start",
        "s",
        "until *E*, or cancelled",
    )
    plans: int | None = _figure(
        "with [plans](formulations/plan-ahead.md): how often one was made that changed a start "
        "(events `plan`)",
        "",
        "counted",
    )
    plan_gap: float = _figure("mean certified gap of these plans", "1", "counted")
    moved_promises: int | None = _figure(
        "promised latest starts that moved (events `planned` with `later_s` above 0)", "", "counted"
    )
    packed_jobs: int | None = _figure("with packing only: jobs that ever had a partner")
    packed_gpu_share: float = _figure(
        "with packing only: GPU-seconds held by two jobs / GPU-seconds held", "1", "until *E*"
    )
    guaranteed_avg_jct_s: float = _figure(
        "with guaranteed jobs only: their mean JCT", "s", "left out"
    )
    best_effort_avg_jct_s: float = _figure(
        "with guaranteed jobs only: mean JCT of the others", "s", "left out"
    )
    guaranteed_late_jobs: int | None = _figure(
        "guaranteed jobs that took longer than start-up + iterations at the speed of the request "
        "+ 2 rounds",
        "",
        "until *E*, or cancelled",
    )
    guaranteed_late_s: float = _figure("the excess in sum", "s", "until *E*, or cancelled")
    cluster: str | None = _figure("the cluster, in short")
    belief: str | None = _figure("speeds that the policy believes; `+online` where they learn")
    restart_s: float = _figure("start-up of a job", "s")
    seed: int | None = _figure("seed of the trace")
    trace_kind: str | None = _figure("what the trace is")
    trace_notice: str | None = _figure("where it comes from, in one line")
    skipped_jobs: int | None = _figure("jobs that `--skip-impossible` dropped")
    values: Values

    def __repr__(self) -> str:
        jct = "" if math.isnan(self.avg_jct_s) else f", average JCT {self.avg_jct_s:,.0f} s"
        done = f"{self.completed} of {self.jobs} jobs"
        return f"<Summary of {self.trace} by {self.policy}: {done}{jct}>"

    def to_table(self) -> Table:
        """Return a table of the run's figures with their units."""
        found = ((name, getattr(self, name), one.metadata["unit"]) for name, one in FIGURES.items())
        rows = [one for one in found if one[1] is not None and one[1] == one[1]]
        return Table(("figure", "value", "unit"), rows, "lrl", {"value": ",.6g"})

    def _repr_html_(self) -> str:
        return self.to_table().to_html()

    @classmethod
    def of(cls, values: Values) -> Summary:
        """Return the typed form of these values.

        Raises
        ------
        InputError
            If a value is missing or of another type.
        """
        require_type("values", values, Mapping)
        kinds = get_type_hints(cls)
        found: dict[str, Any] = {name: _typed(name, values, kinds[name]) for name in FIGURES}
        return cls(**found, values=dict(values))


FIGURES = {one.name: one for one in dataclasses.fields(Summary) if one.metadata}
"""Fields of `Summary` that are figures, by name."""

KEYS = tuple(name for name, one in FIGURES.items() if one.metadata["always"])
"""Keys that every summary has, in this order; more follow."""

BOUND_KEYS = (
    "avg_jct_lower_bound_s",
    "avg_jct_lower_bound_by",
    "makespan_lower_bound_s",
    "makespan_lower_bound_by",
)
"""Keys of bounds that assume complete jobs; unknown if searches cancel jobs."""


def settled_rounds(values: Values) -> dict[str, int]:
    """Return how many rounds each step settled, by its name; empty for policies without steps."""
    found = ((step, values.get(f"rounds_{step}")) for step in STEPS)
    return {step: count for step, count in found if isinstance(count, int)}


def build_summary(
    history: History,
    metrics: Values,
    times: WallTimes,
    steps: Mapping[str, int],
    demands: Demands,
    labels: Mapping[str, Scalar],
) -> Summary:
    """Return the figures of a replay.

    Parameters
    ----------
    history, metrics, times, demands
        Jobs, their metrics, wall times of rounds, and the least that jobs need.
    steps
        Number of rounds by the step that settled them; empty for policies without steps.
    labels
        Further values (objective, solver ...), which overrule others.
    """
    values: dict[str, Scalar] = {
        "trace": history.begun.trace,
        "trace_sha256": history.begun.trace_sha256,
        "policy": history.begun.policy,
        "nodes": history.begun.nodes,
        "gpus": history.begun.gpus,
        "ended": history.ended.reason.value,
        "interval_s": history.begun.interval_s,
    }
    values |= metrics
    if steps:
        values |= {f"rounds_{step}": steps.get(step, 0) for step in STEPS}
    values |= _wall_times(times)
    bounds = {"avg_jct": avg_jct_lower_bound, "makespan": makespan_lower_bound}
    if len({demand.weight for demand in demands.jobs}) > 1:
        bounds["weighted_avg_jct"] = weighted_jct_lower_bound
    for name, bound_of in bounds.items():
        bound = bound_of(demands)
        values[f"{name}_lower_bound_s"] = bound.value_s
        values[f"{name}_lower_bound_by"] = bound.relaxation
    values |= labels
    ordered = {key: values.pop(key, None) for key in KEYS}
    return Summary.of({key: _finite(value) for key, value in (ordered | values).items()})


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


def summary_json(summary: Summary) -> str:
    """Return the text of ``summary.json``."""
    return json.dumps(summary.values, indent=2, allow_nan=False) + "\n"


def _typed(key: str, values: Values, kind: Any) -> Scalar:
    """Return one value, checked against its type."""
    if key in KEYS and key not in values:
        raise InputError("is missing", field=key)
    value, *others = values.get(key), *get_args(kind)
    if value is None and others:
        return None
    kind = others[0] if others else kind
    if kind is float:
        if value is None:
            return math.nan
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(value, str):
        return value
    raise InputError(f"must be of type {kind.__name__}, got {value!r}", field=key)
