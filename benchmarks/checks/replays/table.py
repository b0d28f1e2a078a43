"""Every column of jobs.csv, from the lives."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.checks.replays.documents import Job, Run
from benchmarks.checks.replays.lives import Life, Parts, lost_gpu_s

Cell = str | float | int | None


def wanted_row(run: Run, life: Life, job: Job, ratio: float | None) -> dict[str, Cell]:
    """A row of jobs.csv; None for an empty cell."""
    jct_s = None if life.finish_s is None else life.finish_s - job.submission_s
    held_s, first_s = life.held_s, life.first_s
    state = "unfinished" if life.cancelled_s is None else "cancelled"
    last = life.segments[-1] if life.segments else None
    return {
        "job": job.name,
        "trace": run.events[0]["trace"],
        "model": job.model,
        "submission_s": job.submission_s,
        "gpus": job.gpus,
        "requested_plan": job.plan,
        "guaranteed": int(job.guaranteed),
        "tenant": job.tenant,
        "weight": job.weight,
        "iterations": job.iterations,
        "completed": int(jct_s is not None),
        "state": state if jct_s is None else "completed",
        "start_s": first_s,
        "held_s": held_s,
        "finish_s": life.finish_s,
        "waiting_s": None if first_s is None else first_s - job.submission_s,
        "jct_s": jct_s,
        "stretch": None if jct_s is None or held_s <= 0.0 else jct_s / held_s,
        "allocated_gpus": "" if last is None else gpus_text(run, last.parts),
        "last_plan": "" if last is None else last.plan,
        "queued_s": None if jct_s is None else max(0.0, jct_s - held_s),
        "restarts": life.restarts,
        "changes": life.changes,
        "preemptions": life.preemptions,
        "node_failures": life.node_failures,
        "gpu_s_held": life.gpu_s,
        "gpu_s_startup": life.startup_gpu_s,
        "finish_time_ratio": ratio,
        "deadline_s": job.deadline_s,
        "slo": slo(life, job, float(run.events[-1]["time_s"])),
        "cost_usd": cost_usd(run, life),
    }


def more_columns(run: Run, lives: Mapping[str, Life]) -> dict[str, dict[str, Cell]]:
    """Further columns by job: of pairs where there was one, of losses where something was lost."""
    found: dict[str, dict[str, Cell]] = {name: {} for name in lives}
    if any(life.shared_gpu_s > 0.0 for life in lives.values()):
        for name, life in lives.items():
            shared_s = sum((segment.shared_s() for segment in life.segments), 0.0)
            found[name] |= {"shared_s": shared_s, "shared_gpu_s": life.shared_gpu_s}
    lost_s = {name: sum(lost_gpu_s(life).values()) for name, life in lives.items()}
    if any(lost_s.values()):
        for name in lives:
            found[name] |= {"gpu_s_lost": lost_s[name]}
    return found


def slo(life: Life, job: Job, end_s: float) -> str:
    """What became of the deadline."""
    if job.deadline_s is None:
        return "none"
    if life.finish_s is not None:
        return "met" if life.finish_s <= job.deadline_s else "missed"
    return "missed" if job.deadline_s <= end_s else "open"


def cost_usd(run: Run, life: Life) -> float | None:
    """Price of the GPU-hours held, shared ones in full; None without a price."""
    total = 0.0
    for segment in life.segments:
        for number, gpus in segment.parts:
            price = run.nodes[number].price
            if price is None:
                return None
            total += price * len(gpus) * segment.held_s / 3600.0
    return total


def gpus_text(run: Run, parts: Parts) -> str:
    """``node-0:0-3+6 node-2:1``."""
    texts = []
    for number, gpus in parts:
        runs: list[str] = []
        first = before = None
        for gpu in (*sorted(gpus), None):
            if before is not None and gpu != before + 1:
                runs.append(str(before) if first == before else f"{first}-{before}")
                first = gpu
            first = gpu if first is None else first
            before = gpu
        texts.append(f"{run.nodes[number].name}:{'+'.join(runs)}")
    return " ".join(texts)
