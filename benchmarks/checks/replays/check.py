"""Compare a run folder with what follows from its log and documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.checks.replays.bounds import wrong_bounds
from benchmarks.checks.replays.documents import Job, Run
from benchmarks.checks.replays.figures import HOUR_S, ratios, wanted_figures
from benchmarks.checks.replays.lives import Life, lives_of
from benchmarks.checks.replays.places import Places
from benchmarks.checks.replays.promises import broken_by_round
from benchmarks.checks.replays.rules import broken_rules, close
from benchmarks.checks.replays.table import more_columns, wanted_row

BY_RELATION = {
    "wall_s": "at least the wall times of all rounds",
    "peak_rss_mib": "above 0",
    "skipped_jobs": "a number not below 0",
    "trace_kind": "a word",
    "trace_notice": "a line, or null",
    "avg_jct_lower_bound_s": "see benchmarks/checks/replays/bounds.py",
    "avg_jct_lower_bound_by": "the same",
    "makespan_lower_bound_s": "the same",
    "makespan_lower_bound_by": "the same",
    "weighted_avg_jct_lower_bound_s": "the same",
    "weighted_avg_jct_lower_bound_by": "the same",
}
"""Keys of summary.json that a folder cannot give: no log has wall times of the whole command, what
was read before the replay, or the prices that a bound was proved with."""

OF_SPEEDS = (
    "ftf_max", "ftf_p99", "ftf_median", "ftf_mean", "ftf_above_1", "rounds_guarantees_short",
    "rounds_guarantees_missed", "guarantee_shortfall_sum", "guaranteed_jobs",
    "guaranteed_avg_jct_s", "best_effort_avg_jct_s", "guaranteed_late_jobs", "guaranteed_late_s",
)  # fmt: skip
"""Keys that need the true speeds; runs of workers that take turns have no document of them."""

OF_ROUNDED = (
    "build_ms_p50",
    "solve_ms_p50",
    "solve_ms_p99",
    "solve_ms_max",
    "round_ms_p50",
    "round_ms_p99",
    "engine_ms_p50",
)
"""Wall times, which rounds.csv has with four digits."""

OF_PRICES = ("cost_usd", "cost_per_job_usd")
OF_REPORTS = ("reported_jobs", "feedback_s")


@dataclass
class Verdict:
    """What was compared, and what is wrong."""

    compared: int = 0
    problems: list[str] = field(default_factory=list)

    def expect(self, where: str, found: Any, wanted: Any) -> None:
        """Compare one value."""
        self.compared += 1
        if not _same(found, wanted):
            self.problems.append(f"{where} is {found!r}, must be {wanted!r}")


def check(folder: Path, states: Path | None = None, speeds_from: Path | None = None) -> Verdict:
    """Read a run folder and recompute what it says.

    Parameters
    ----------
    folder
        Of a finished run.
    states
        States of all its rounds (``--dump-rounds``): the jobs and the cluster as documents.
    speeds_from
        Folder with the true speeds, as a rule that of the states.
    """
    verdict = Verdict()
    run = Run(folder, states, speeds_from)
    try:
        lives = lives_of(run)
        places = None if run.speeds is None else Places(run.nodes, run.speeds)
        jobs = _jobs(run, lives, verdict)
        verdict.problems += broken_rules(run, lives, places)
        verdict.compared += len(run.events)
        _check_table(run, lives, jobs, places, verdict)
        _check_rounds(run, jobs, places, verdict)
        _check_summary(run, lives, jobs, places, verdict)
    except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError, RuntimeError) as error:
        verdict.problems.append(f"cannot be read: {type(error).__name__} {error}")
    return verdict


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) or (isinstance(wanted, int) and isinstance(found, float)):
        return isinstance(found, int | float) and close(found, wanted, rel=1e-9, least=1e-7)
    return bool(found == wanted) and type(found) is type(wanted)


def _jobs(run: Run, lives: Mapping[str, Life], verdict: Verdict) -> dict[str, Job]:
    """Jobs in the order of the table; those that never came, of which no state tells, from it."""
    other = Run(run.folder, None, None).jobs
    for name, life in lives.items():
        # A trial may be cancelled at the boundary at which it came, before any state.
        if life.submitted and name not in run.jobs and life.cancelled_s is None:
            at_end = other[name].submission_s > _last_round_s(run)
            verdict.expect(f"{name}: seen in no state, came after the last round", at_end, True)
    return {name: run.jobs.get(name, other[name]) for name in lives}


def _last_round_s(run: Run) -> float:
    return max((e["time_s"] for e in run.events if e["event"] == "round"), default=-math.inf)


def _check_table(
    run: Run,
    lives: Mapping[str, Life],
    jobs: dict[str, Job],
    places: Places | None,
    verdict: Verdict,
) -> None:
    ratio = {} if places is None else ratios(run, dict(lives), jobs, places)
    further = more_columns(run, lives)
    order = [job.submission_s for job in jobs.values()]
    verdict.expect("jobs.csv: order of submission", order, sorted(order))
    for row in run.rows:
        name = row["job"]
        wanted = wanted_row(run, lives[name], jobs[name], ratio.get(name)) | further.get(name, {})
        unknown = ("finish_time_ratio",) if places is None else ()
        unknown += ("cost_usd",) if run.states is None else ()
        verdict.expect(f"jobs.csv {name}: columns", list(row), list(wanted))
        for column, value in wanted.items():
            if column not in unknown:
                cell = _cell(row.get(column), value)
                verdict.expect(f"jobs.csv {name}: {column}", cell, value)


def _cell(text: str | None, wanted: Any) -> Any:
    """A cell as a value of the kind that is wanted; the text itself if it is none."""
    if text is None or (text == "" and not isinstance(wanted, str)):
        return None
    try:
        return type(wanted)(text) if isinstance(wanted, int | float) else text
    except ValueError:
        return text


def _check_rounds(run: Run, jobs: dict[str, Job], places: Places | None, verdict: Verdict) -> None:
    """What rounds.csv repeats of the log."""
    told = [event for event in run.events if event["event"] == "round"]
    verdict.expect("rounds.csv: rows", len(run.rounds), len(told))
    counts = _counts(run)
    broken = None if places is None else broken_by_round(run, jobs, places)
    for number, (row, event) in enumerate(zip(run.rounds, told, strict=False)):
        wanted = {
            "round": event["index"],
            "time_s": float(event["time_s"]),
            "jobs": event["active"],
            "running": event["running"],
            "gpus_used": event["gpus"],
            "status": event["status"],
            "gap": event["gap"],
            "starts": counts[number][0],
            "restarts": counts[number][1],
            "preemptions": counts[number][2],
        }
        possible = event["guarantees_possible"]
        wanted["guarantees_possible"] = None if possible is None else int(possible)
        if broken is not None:
            wanted["guarantees_short"] = broken[number][0]
            wanted["guarantee_shortfall"] = float(broken[number][1])
        for column, value in wanted.items():
            verdict.expect(f"rounds.csv {number}: {column}", _cell(row[column], value), value)


def _counts(run: Run) -> list[tuple[int, int, int]]:
    """First starts, other starts and stops since the round before."""
    found, starts, restarts, stops = [], 0, 0, 0
    for event in run.events:
        match event["event"]:
            case "start":
                starts += event["kind"] == "first"
                restarts += event["kind"] != "first"
            case "preempt":
                stops += 1
            case "round":
                found.append((starts, restarts, stops))
                starts = restarts = stops = 0
    return found


def _check_summary(
    run: Run,
    lives: Mapping[str, Life],
    jobs: dict[str, Job],
    places: Places | None,
    verdict: Verdict,
) -> None:
    wanted = wanted_figures(run, dict(lives), jobs, places)
    lacking = set(BY_RELATION)
    lacking |= set(OF_SPEEDS) if places is None else set()
    lacking |= {*OF_PRICES, *OF_REPORTS} if run.states is None else set()
    for key in set(run.summary) | set(wanted):
        if key in lacking or key.startswith("trace_log_"):
            continue
        if key not in run.summary or key not in wanted:
            verdict.problems.append(f"summary.json: {key} is {'not ' * (key in wanted)}there")
            continue
        if key in OF_ROUNDED and None not in (run.summary[key], wanted[key]):
            near = close(run.summary[key], wanted[key], rel=0.0, least=2e-4)
            verdict.expect(f"summary.json: {key} is that of rounds.csv", near, True)
            continue
        if key == "gap_max":  # a number of the log as it stands, and may be as small as rounding
            same = run.summary[key] == wanted[key]
            verdict.expect(f"summary.json: {key} is the largest of the log", same, True)
            continue
        found, due = run.summary[key], wanted[key]
        if key.startswith("gpu_hours_"):  # in seconds, as all others are
            found, due = HOUR_S * found, HOUR_S * due
        verdict.expect(f"summary.json: {key}", found, due)
    _check_relations(run, jobs, places, verdict)


def _check_relations(
    run: Run, jobs: dict[str, Job], places: Places | None, verdict: Verdict
) -> None:
    """Keys that no folder can give: what must hold between them and what it has."""
    summary = run.summary
    of_rounds_s = sum(float(r["round_ms"]) + float(r["engine_ms"]) for r in run.rounds) / 1e3
    verdict.expect("wall_s covers the rounds", summary["wall_s"] >= 0.99 * of_rounds_s, True)
    verdict.expect("peak_rss_mib above 0", summary["peak_rss_mib"] > 0.0, True)
    verdict.expect("skipped_jobs", summary["skipped_jobs"] >= 0, True)
    verdict.expect("trace_kind is a word", bool(summary["trace_kind"]), True)
    notice = summary["trace_notice"]
    verdict.expect("trace_notice", notice is None or isinstance(notice, str), True)
    verdict.problems += wrong_bounds(run, jobs, places, summary)
