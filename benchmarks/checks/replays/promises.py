"""Broken promises, recounted from the log, and what else the summary says of guaranteed jobs."""

from __future__ import annotations

from typing import Any

from benchmarks.checks.replays.documents import Job, Run
from benchmarks.checks.replays.lives import Life
from benchmarks.checks.replays.places import Places


def broken_by_round(run: Run, jobs: dict[str, Job], places: Places) -> list[tuple[int, float]]:
    """Jobs below the speed of their request after each round's decision, and what is missing."""
    promised = {job.name: places.request_s(job) for job in jobs.values() if job.guaranteed}
    speed: dict[str, float] = {}
    found = []
    for event in run.events:
        name = event.get("job")
        if event["event"] == "round":
            missing = [1.0 - s for s in speed.values() if s < 1.0 - 1e-9]
            found.append((len(missing), sum(missing)))
        elif name in promised:
            match event["event"]:
                case "submit" | "preempt":
                    speed[name] = 0.0
                case "start" | "share":
                    speed[name] = promised[name] / event["iteration_s"]
                case "complete" | "cancel":
                    speed.pop(name, None)
    return found


def promise_figures(
    run: Run, lives: dict[str, Life], jobs: dict[str, Job], places: Places
) -> dict[str, Any]:
    """Keys of the summary; those of late jobs only where there are guaranteed ones."""
    broken = broken_by_round(run, jobs, places)
    rounds = [event for event in run.events if event["event"] == "round"]
    short = sum(count > 0 for count, _ in broken)
    possible = [event["guarantees_possible"] for event in rounds]
    missed = sum(count > 0 and p is True for (count, _), p in zip(broken, possible, strict=True))
    promised = [job for job in jobs.values() if job.guaranteed]
    found: dict[str, Any] = {
        "guaranteed_jobs": len(promised),
        "rounds_guarantees_short": short,
        "rounds_guarantees_missed": missed if short == 0 or set(possible) != {None} else None,
        "guarantee_shortfall_sum": sum(part for _, part in broken),
    }
    if not promised:
        return found
    late_s = []
    for job in promised:
        life = lives[job.name]
        if life.submitted:
            age_s = life.end_s(float(run.events[-1]["time_s"])) - job.submission_s
            work_s = job.iterations * places.request_s(job)
            allowed_s = run.first_start_s(job.model) + work_s + 2 * run.engine["interval_s"]
            late_s.append(max(0.0, age_s - allowed_s))
    for key, kind in (("guaranteed_avg_jct_s", True), ("best_effort_avg_jct_s", False)):
        jct_s = [
            life.finish_s - jobs[name].submission_s
            for name, life in lives.items()
            if life.finish_s is not None and jobs[name].guaranteed is kind
        ]
        found[key] = sum(jct_s) / len(jct_s) if jct_s else None
    found |= {
        "guaranteed_late_jobs": sum(seconds > 0.0 for seconds in late_s),
        "guaranteed_late_s": sum(late_s),
    }
    return found
