"""The result table on stdout."""

from __future__ import annotations

from morph_opt.simulation.metrics.history import Scalar
from morph_opt.simulation.runs.summary import Values


def _seconds(value: Scalar) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value:,.1f} s"


def _share(value: Scalar) -> str:
    return f"{100.0 * value:.1f} %" if isinstance(value, int | float) else "-"


def _ms(value: Scalar) -> str:
    return f"{value:.1f} ms" if isinstance(value, int | float) else "-"


def _times(value: Scalar, bound: Scalar, complete: bool) -> str:
    """Format the ratio to the lower bound; empty while jobs are left."""
    if not complete:
        return ""
    if isinstance(value, int | float) and isinstance(bound, int | float) and bound > 0.0:
        return f"{value / bound:.2f} x the lower bound of {_seconds(bound)}"
    return ""


def result_table(summary: Values) -> str:
    """Return the summary as aligned text, one figure per line."""
    s = summary
    complete = s["completed"] == s["jobs"]
    rows: list[tuple[str, str, str]] = [
        ("trace", str(s["trace"]), str(s.get("trace_kind") or "")),
        ("policy", str(s["policy"]), ""),
        ("cluster", f"{s['nodes']} nodes, {s['gpus']} GPUs", str(s.get("cluster") or "")),
        ("jobs completed", f"{s['completed']} of {s['jobs']}", ""),
        (
            "average JCT",
            _seconds(s["avg_jct_s"]),
            _times(s["avg_jct_s"], s["avg_jct_lower_bound_s"], complete),
        ),
        ("median JCT", _seconds(s["median_jct_s"]), ""),
        ("p99 JCT", _seconds(s["p99_jct_s"]), ""),
        (
            "makespan",
            _seconds(s["makespan_s"]),
            _times(s["makespan_s"], s["makespan_lower_bound_s"], complete),
        ),
        ("average queueing", _seconds(s["avg_queue_s"]), ""),
        ("GPU utilisation", _share(s["gpu_utilization"]), _by_type(s)),
        ("restarts per job", f"{s['restarts_per_job']:.2f}", f"{s['preemptions']} preemptions"),
        ("rounds", str(s["rounds"]), f"{s['fallback_rounds']} fell back"),
        ("rounds over capacity", str(s["rounds_over_capacity"]), ""),
        ("median round", _ms(s["round_ms_p50"]), f"p99 {_ms(s['round_ms_p99'])}"),
        ("wall time", _seconds(s["wall_s"]), f"peak memory {_mib(s['peak_rss_mib'])}"),
    ]
    if s.get("guaranteed_jobs"):
        of_them = s["rounds_guarantees_missed"]
        missed = "" if of_them is None else f"{of_them} of them although possible for all"
        short = f"{s['rounds_guarantees_short']} rounds short"
        rows.insert(-3, ("guaranteed jobs", f"{s['guaranteed_jobs']} ({short})", missed))
    rows[-3:-3] = _money(summary)
    if s.get("skipped_jobs"):
        rows.insert(4, ("jobs dropped", str(s["skipped_jobs"]), "they can never run here"))
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, remark in rows if remark)
    lines = [
        f"{name:<{name_width}}  {value:<{value_width}}  {remark}".rstrip()
        for name, value, remark in rows
    ]
    return "\n".join(lines) + "\n"


def _by_type(summary: Values) -> str:
    """Format utilisation by GPU type, if there are several."""
    prefix = "gpu_utilization_"
    types = {key.removeprefix(prefix): v for key, v in summary.items() if key.startswith(prefix)}
    return ", ".join(f"{name} {_share(v)}" for name, v in types.items()) if len(types) > 1 else ""


def _money(s: Values) -> list[tuple[str, str, str]]:
    """Return rows on cost if every GPU has a price, and on SLOs if there are any."""
    rows = []
    if isinstance(s.get("cost_usd"), int | float):
        per_job = s.get("cost_per_job_usd")
        each = f"{per_job:,.2f} $ per completed job" if isinstance(per_job, int | float) else ""
        rows.append(("cost", f"{s['cost_usd']:,.2f} $", each))
    states = [s.get(f"slo_{state}") or 0 for state in ("met", "missed", "open")]
    if any(states):
        met, missed, open_ = states
        still = f", {open_} open" if open_ else ""
        rows.append(("SLOs met", f"{met}, {missed} missed{still}", f"{s['slo_dropped']} dropped"))
    return rows


def _mib(value: Scalar) -> str:
    return f"{value:,.0f} MiB" if isinstance(value, int | float) else "-"
