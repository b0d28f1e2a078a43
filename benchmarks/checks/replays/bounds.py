"""Certified lower bounds: **floor**, **srpt** and **work** anew, the others by what they must be.

The bounds **completion** and **deadline** are the best that a search for prices found, which no
reader can repeat: they are at least what the plain bounds are and at most what a schedule reached.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import Any

from benchmarks.checks.replays.documents import Job, Run
from benchmarks.checks.replays.places import Places

SLACK = 1e-6
KEYS = ("avg_jct", "makespan", "weighted_avg_jct")


def wrong_bounds(
    run: Run, jobs: dict[str, Job], places: Places | None, summary: dict[str, Any]
) -> Iterator[str]:
    """What the summary says of bounds that cannot be."""
    searches = any(event["event"] == "cancel" for event in run.events)
    plain: dict[str, dict[str, float]] = {}
    whole = not (run.config["scheduler"]["packing"] or run.config["workload"].get("state"))
    leaves = {node.leaf for node in run.nodes}
    classes = {(node.kind, node.gpu_type) for node in run.nodes}
    one_class = len(classes) == len({kind for _, kind in classes})
    # The plain bounds may look at any span that some placement has: above one leaf they are looser.
    if places is not None and whole and len(leaves) == 1 and one_class:
        plain = _plain(run, jobs, places)
    for key in KEYS:
        value, by = (summary.get(f"{key}_lower_bound_{end}") for end in ("s", "by"))
        if value is None:
            # A trace with searches has none, whether or not a trial was cancelled.
            if by is not None or (key != "weighted_avg_jct" and not searches and not _groups(run)):
                yield f"{key}_lower_bound_s is missing"
            continue
        if searches:
            yield f"{key}_lower_bound_s is stated although a search cancelled jobs"
        reached = summary[f"{key}_s"]
        done = summary["completed"] == summary["jobs"]
        if not math.isfinite(value) or value < 0.0:
            yield f"{key}_lower_bound_s is {value}"
        if done and reached is not None and value > reached * (1.0 + SLACK):
            yield f"{key}_lower_bound_s is {value}, {reached} was reached"
        known = plain.get(key, {})
        if known and by in known and not math.isclose(value, known[by], rel_tol=SLACK):
            yield f"{key}_lower_bound_s by {by} is {value}, not {known[by]}"
        least = max(known.values(), default=0.0)
        if value < least * (1.0 - SLACK):
            yield f"{key}_lower_bound_s is {value}, below {least}"
        if by not in ("completion", "deadline", "floor", "srpt", "work"):
            yield f"{key}_lower_bound_by is {by!r}"


def _groups(run: Run) -> bool:
    """Whether the trace has searches; folders do not say, their twins do."""
    return str(run.events[0]["trace"]).startswith("search-twin")


def _plain(run: Run, jobs: dict[str, Job], places: Places) -> dict[str, dict[str, float]]:
    gpus = sum(node.gpus for node in run.nodes)
    interval_s = run.engine["interval_s"]
    first_s = min(job.submission_s for job in jobs.values())
    floors, works, releases, weights, submissions = [], [], [], [], []
    for job in jobs.values():
        durations = [
            (row.gpus, run.first_start_s(job.model) + job.iterations * row.iteration_s)
            for row in places.rows(job)
        ]
        if not durations:
            return {}  # a model that no document of the run has
        boundary = max(1, math.ceil(job.submission_s / interval_s - 1e-9))
        releases.append(boundary * interval_s)
        floors.append(min(seconds for _, seconds in durations))
        works.append(min(count * seconds for count, seconds in durations))
        weights.append(job.weight)
        submissions.append(job.submission_s)
    count = len(releases)
    waits = [r + f - s for r, f, s in zip(releases, floors, submissions, strict=True)]
    rest, latest = 0.0, 0.0
    for release_s, work in sorted(zip(releases, works, strict=True), reverse=True):
        rest += work
        latest = max(latest, release_s + rest / gpus)
    finish = _srpt(releases, [work / gpus for work in works])
    floor = sum(weight * wait for weight, wait in zip(weights, waits, strict=True))
    return {
        "avg_jct": {"floor": sum(waits) / count, "srpt": (finish - sum(submissions)) / count},
        "makespan": {
            "floor": max(r + f for r, f in zip(releases, floors, strict=True)) - first_s,
            "work": latest - first_s,
        },
        "weighted_avg_jct": {"floor": floor / sum(weights)},
    }


def _srpt(releases: list[float], work_s: list[float]) -> float:
    """Sum of completions of shortest remaining processing time on one machine."""
    arrivals = sorted(zip(releases, work_s, strict=True))
    queue: list[float] = []
    now_s, total, index = 0.0, 0.0, 0
    while queue or index < len(arrivals):
        if not queue:
            now_s = max(now_s, arrivals[index][0])
        while index < len(arrivals) and arrivals[index][0] <= now_s:
            heapq.heappush(queue, arrivals[index][1])
            index += 1
        left_s = heapq.heappop(queue)
        until_s = arrivals[index][0] if index < len(arrivals) else math.inf
        if now_s + left_s <= until_s:
            now_s += left_s
            total += now_s
        else:
            heapq.heappush(queue, left_s - (until_s - now_s))
            now_s = until_s
    return total
