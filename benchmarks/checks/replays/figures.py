"""Every key of summary.json, from the lives; see docs/metrics.md and fairness-metrics.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.checks.replays.documents import Job, Run
from benchmarks.checks.replays.lives import CAUSES, Life, lost_gpu_s
from benchmarks.checks.replays.places import Places
from benchmarks.checks.replays.promises import promise_figures
from benchmarks.checks.replays.rules import over_capacity
from benchmarks.checks.replays.table import slo

HOUR_S = 3600.0


def wanted_figures(
    run: Run, lives: dict[str, Life], jobs: dict[str, Job], places: Places | None
) -> dict[str, Any]:
    """What summary.json must say, by key; keys that need speeds are left out without them."""
    wanted = _labels(run) | _times(run, lives, jobs) | _rounds(run) | _use(run, lives, jobs)
    wanted |= _service(run, lives, jobs) | _money(run, lives, jobs) | _fair(run, lives, jobs)
    if places is not None:
        wanted |= promise_figures(run, lives, jobs, places)
        wanted |= _ratios(ratios(run, lives, jobs, places))
    return wanted


def _labels(run: Run) -> dict[str, Any]:
    first, config = run.events[0], run.config
    scheduler = config["scheduler"]
    milp = scheduler["policy"] == "milp"
    return {
        "trace": first["trace"],
        "trace_sha256": first["trace_sha256"],
        "policy": first["policy"],
        "objective": scheduler["objective"] if milp else None,
        "solver": scheduler["solver"] if milp else None,
        "nodes": len(run.nodes),
        "gpus": sum(node.gpus for node in run.nodes),
        "jobs": len(run.rows),
        "ended": run.events[-1]["reason"],
        "interval_s": run.engine["interval_s"],
        "cluster": config["cluster"]["name"],
        "belief": scheduler["belief"] + ("+online" if scheduler["online_fit"] else ""),
        "restart_s": run.engine["restart_s"],
        "seed": config["workload"]["seed"],
    }


def _times(run: Run, lives: dict[str, Life], jobs: dict[str, Job]) -> dict[str, Any]:
    done = [life for life in lives.values() if life.finish_s is not None]
    jct_s = [_jct_s(life, jobs) for life in done]
    ended = all(
        life.finish_s is not None or life.cancelled_s is not None for life in lives.values()
    )
    last_s = max((life.finish_s or 0.0 for life in done), default=0.0)
    queued_s = [max(0.0, _jct_s(life, jobs) - life.held_s) for life in done]
    weights = [jobs[life.name].weight for life in done]
    found: dict[str, Any] = {
        "completed": len(done),
        "avg_jct_s": mean(jct_s),
        "weighted_avg_jct_s": float(np.average(jct_s, weights=weights)) if done else None,
        "median_jct_s": quantile(jct_s, 0.5),
        "p99_jct_s": quantile(jct_s, 0.99),
        "max_jct_s": max(jct_s, default=None),
        "makespan_s": last_s - _first_s(jobs) if ended else None,
        "avg_queue_s": mean(queued_s),
        "p95_queue_s": quantile(queued_s, 0.95),
        "p99_queue_s": quantile(queued_s, 0.99),
        "bounded_slowdown": mean(
            [
                max(1.0, _jct_s(life, jobs) / life.held_s if life.held_s > 10.0 else jct / 10.0)
                for life, jct in zip(done, jct_s, strict=True)
            ]
        ),
    }
    for name, least, most in (("small", 1, 1), ("medium", 2, 8), ("large", 9, 10**9)):
        those = [
            wait
            for wait, life in zip(queued_s, done, strict=True)
            if least <= jobs[life.name].gpus <= most
        ]
        found[f"queue_{name}_s"] = mean(those)
    return found


def _rounds(run: Run) -> dict[str, Any]:
    rounds = [event for event in run.events if event["event"] == "round"]
    gaps = [event["gap"] for event in rounds if event["gap"] is not None]
    found: dict[str, Any] = {
        "rounds": len(rounds),
        "rounds_over_capacity": over_capacity(run),
        "fallback_rounds": sum(event["status"] == "fallback" for event in rounds),
        "gap_max": max(gaps, default=None),
    }
    settled = Counter(row["step"] for row in run.rounds if row["step"])
    if settled:
        names = ("stays", "knapsack", "prices", "slots", "residual", "exact")
        found |= {f"rounds_{name}": settled[name] for name in names}
    for key, column, share in (
        ("build_ms_p50", "build_ms", 0.5),
        ("solve_ms_p50", "solve_ms", 0.5),
        ("solve_ms_p99", "solve_ms", 0.99),
        ("solve_ms_max", "solve_ms", 1.0),
        ("round_ms_p50", "round_ms", 0.5),
        ("round_ms_p99", "round_ms", 0.99),
        ("engine_ms_p50", "engine_ms", 0.5),
    ):
        found[key] = quantile([float(row[column]) for row in run.rounds], share)
    return found


def _use(run: Run, lives: dict[str, Life], jobs: dict[str, Job]) -> dict[str, Any]:
    end_s, gpus = float(run.events[-1]["time_s"]), sum(node.gpus for node in run.nodes)
    begin_s = max(_first_s(jobs), float(run.events[0]["time_s"]))
    held = sum(life.gpu_s for life in lives.values())
    startup = sum(life.startup_gpu_s for life in lives.values())
    found: dict[str, Any] = {
        "gpu_s_held": held,
        "gpu_utilization": held / (gpus * (end_s - begin_s)) if end_s > begin_s else 0.0,
        "gpu_productive_share": 1.0 - startup / held if held > 0.0 else None,
        "restarts_per_job": sum(life.restarts for life in lives.values()) / len(lives),
        "preemptions": sum(life.preemptions + life.node_failures for life in lives.values()),
        "node_failure_stops": sum(life.node_failures for life in lives.values()),
    }
    found |= _lost(lives)
    covered = covered_s(lives)
    for kind in {node.gpu_type for node in run.nodes}:
        size = sum(node.gpus for node in run.nodes if node.gpu_type == kind)
        of_it = sum(s for (n, _), s in covered.items() if run.nodes[n].gpu_type == kind)
        length_s = end_s - begin_s
        found[f"gpu_utilization_{kind}"] = of_it / (size * length_s) if length_s > 0.0 else 0.0
    if run.config["scheduler"]["packing"] or any(e["event"] == "share" for e in run.events):
        shared = sum(life.shared_gpu_s for life in lives.values())
        found["packed_jobs"] = sum(life.shared_gpu_s > 0.0 for life in lives.values())
        found["packed_gpu_share"] = shared / held if held > 0.0 else None
    return found


def _lost(lives: dict[str, Life]) -> dict[str, float]:
    """GPU-hours lost, in all and by cause; these traces have no time limits."""
    lost = dict.fromkeys((*CAUSES.values(), "limit"), 0.0)
    for life in lives.values():
        for cause, gpu_s in lost_gpu_s(life).items():
            lost[cause] += gpu_s
    named = {f"gpu_hours_lost_{cause}": gpu_s / HOUR_S for cause, gpu_s in lost.items()}
    return {"gpu_hours_lost": sum(named.values()), **named}


def covered_s(lives: dict[str, Life]) -> dict[tuple[int, int], float]:
    """Seconds in which somebody held a GPU, by node number and index."""
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for life in lives.values():
        for segment in life.segments:
            for number, gpus in segment.parts:
                for gpu in gpus:
                    spans.setdefault((number, gpu), []).append((segment.start_s, segment.end_s))
    found = {}
    for key, those in spans.items():
        total, until_s = 0.0, -np.inf
        for from_s, to_s in sorted(those):
            total += max(0.0, to_s - max(from_s, until_s))
            until_s = max(until_s, to_s)
        found[key] = float(total)
    return found


def _service(run: Run, lives: dict[str, Life], jobs: dict[str, Job]) -> dict[str, Any]:
    end_s, begin_s = float(run.events[-1]["time_s"]), float(run.events[0]["time_s"])
    there = [life for life in lives.values() if life.submitted]
    waits = []
    for life in there:
        free_s = max(jobs[life.name].submission_s, begin_s if life.before else 0.0)
        for segment in life.segments:
            waits.append(segment.start_s - free_s)
            free_s = segment.end_s
        waits.append(life.end_s(end_s) - free_s)
    served = [
        life.first_s - jobs[life.name].submission_s for life in there if life.first_s is not None
    ]
    found: dict[str, Any] = {
        "first_service_s": mean(served),
        "longest_wait_s": max(waits, default=None),
    }
    if any(job.feedback is not None for job in jobs.values()):
        after_s = [
            at_s - jobs[life.name].submission_s
            for life in there
            if (at_s := _report_s(life, jobs[life.name])) is not None
        ]
        found |= {"reported_jobs": len(after_s), "feedback_s": mean(after_s)}
    cancelled = sum(life.cancelled_s is not None for life in lives.values())
    return found | ({"cancelled_jobs": cancelled} if cancelled else {})


def _report_s(life: Life, job: Job) -> float | None:
    """The first instant at which a job had done the iterations of its report."""
    if job.feedback is None:
        return None
    if job.feedback == job.iterations:
        return life.finish_s
    for segment in life.segments:
        if segment.done_at(segment.end_s) < job.feedback:
            continue
        for from_s, until_s, _, seconds in segment.stretches():
            start_s = max(from_s, segment.ready_s)
            at_s = start_s + max(0.0, job.feedback - segment.done_at(start_s)) * seconds
            if start_s <= at_s <= until_s:
                return at_s
    return None


def _money(run: Run, lives: dict[str, Life], jobs: dict[str, Job]) -> dict[str, Any]:
    end_s = float(run.events[-1]["time_s"])
    covered = covered_s(lives)
    prices = {key: run.nodes[key[0]].price for key in covered}
    bill = sum((prices[key] or 0.0) * seconds / HOUR_S for key, seconds in covered.items())
    total = None if None in prices.values() else bill
    done = sum(life.finish_s is not None for life in lives.values())
    states = [slo(life, jobs[name], end_s) for name, life in lives.items()]
    met, missed = states.count("met"), states.count("missed")
    dropped = [name for name, life in lives.items() if life.slo_dropped]
    return {
        "cost_usd": total,
        "cost_per_job_usd": total / done if total is not None and done else None,
        "slo_met": met,
        "slo_missed": missed,
        "slo_open": states.count("open"),
        "slo_none": states.count("none"),
        "slo_attainment": met / (met + missed) if met + missed else None,
        "slo_dropped": len(dropped),
        "slo_dropped_jobs": " ".join(dropped),
    }


def _fair(run: Run, lives: dict[str, Life], jobs: dict[str, Job]) -> dict[str, Any]:
    end_s = float(run.events[-1]["time_s"])
    there = [life for life in lives.values() if life.submitted]
    rates = []
    for life in there:
        job = jobs[life.name]
        age_s = max(life.end_s(end_s) - job.submission_s, 1e-9)
        rates.append(life.gpu_s / (age_s * job.weight))
    square = sum(rate * rate for rate in rates)
    tenants: dict[str, float] = {}
    for life in there:
        tenant = jobs[life.name].tenant
        tenants[tenant] = tenants.get(tenant, 0.0) + life.gpu_s
    whole = sum(tenants.values())
    shares = _window_shares(run, there, jobs)
    return {
        "jain_service": sum(rates) ** 2 / (len(rates) * square) if square > 0.0 else None,
        "min_share_mean": mean(shares),
        "min_share_worst": min(shares, default=None),
        "entity_shares": " ".join(f"{t}={tenants[t] / whole:.3f}" for t in sorted(tenants))
        if whole > 0.0
        else "",
    }


def _window_shares(run: Run, there: Sequence[Life], jobs: dict[str, Job]) -> list[float]:
    """Per hour from the first submission on: least received part of what was due."""
    gpus = sum(node.gpus for node in run.nodes)
    horizon_s = float(run.events[-1]["time_s"])
    lives = [(life, jobs[life.name], life.end_s(horizon_s)) for life in there]
    if not lives:
        return []
    begin_s, last_s = min(job.submission_s for _, job, _ in lives), max(end for *_, end in lives)
    found = []
    while begin_s < last_s:
        close_s = begin_s + HOUR_S
        rivals = sum(
            job.weight * max(0.0, min(end, close_s) - max(job.submission_s, begin_s)) / HOUR_S
            for _, job, end in lives
        )
        parts = [
            sum(s.gpu_s(begin_s, close_s) for s in life.segments)
            / (HOUR_S * min(float(job.gpus), gpus * job.weight / rivals))
            for life, job, end in lives
            if job.submission_s <= begin_s and end >= close_s
        ]
        if parts:
            found.append(min(1.0, *parts))
        begin_s = close_s
    return found


def ratios(
    run: Run, lives: dict[str, Life], jobs: dict[str, Job], places: Places
) -> dict[str, float]:
    """Finish-time ratio of every completed job."""
    horizon_s = float(run.events[-1]["time_s"])
    there = [life for life in lives.values() if life.submitted]
    starts = np.asarray([jobs[life.name].submission_s for life in there])
    ends = np.asarray([life.end_s(horizon_s) for life in there])
    found = {}
    for life, start_s, end_s in zip(there, starts.tolist(), ends.tolist(), strict=True):
        if life.finish_s is None:
            continue
        job = jobs[life.name]
        both_s = np.maximum(0.0, np.minimum(ends, end_s) - np.maximum(starts, start_s)).sum()
        active = max(1.0, float(both_s) / max(end_s - start_s, 1e-9))
        share = {kind: n / (active * job.gpus) for kind, n in places.gpu_types.items()}
        whole = max(1.0, sum(share.values()))
        speeds = places.gang_speeds(job)
        rate = sum(speeds[kind] * part / whole for kind, part in share.items())
        alone_s = run.first_start_s(job.model) + job.iterations / rate
        found[job.name] = _jct_s(life, jobs) / alone_s
    return found


def _ratios(found: dict[str, float]) -> dict[str, Any]:
    values = list(found.values())
    return {
        "ftf_max": max(values, default=None),
        "ftf_p99": quantile(values, 0.99),
        "ftf_median": quantile(values, 0.5),
        "ftf_mean": mean(values),
        "ftf_above_1": mean([float(value > 1.0) for value in values]),
    }


def mean(values: Iterable[float]) -> float | None:
    """None without any."""
    known = list(values)
    return sum(known) / len(known) if known else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Linear between order statistics; None without any."""
    known = sorted(values)
    if not known:
        return None
    place = share * (len(known) - 1)
    below = int(place)
    above = min(below + 1, len(known) - 1)
    return known[below] + (place - below) * (known[above] - known[below])


def _first_s(jobs: dict[str, Job]) -> float:
    return min(job.submission_s for job in jobs.values())


def _jct_s(life: Life, jobs: dict[str, Job]) -> float:
    assert life.finish_s is not None
    return life.finish_s - jobs[life.name].submission_s
