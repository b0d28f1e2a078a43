"""Gandiva: the published simulator, our slices, packing, Gavel's policy, searches and rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.published.cases import INSTANT_S, Case, Difference, NotRun, differences
from benchmarks.published.parts.gandiva_pairs import PublishedTask, best_pairs
from benchmarks.published.parts.part import Document, Part, data_file, listed, same_jobs
from benchmarks.published.simulators.gandiva import simulate
from benchmarks.published.simulators.gandiva_feedback import (
    FeedbackRound,
    SlicedJob,
    ranked_optimum,
)
from benchmarks.published.simulators.gandiva_search import run_search
from benchmarks.published.simulators.gandiva_slices import SliceJob, SliceRules, Slices
from benchmarks.published.simulators.tiresias import RigidJob
from morph_opt.inputs.traces.tiresias import read_trace_rows
from morph_opt.scheduling.policies.gandiva.packed import by_trial
from morph_opt.scheduling.policies.gavel.pairs import gavel_shares

Run = Callable[[], Iterator[Difference]]

TENFOLD = "x10_job"


def _published_jobs(trace: str, document: Document) -> list[RigidJob]:
    """Jobs of a named trace: of the file, or the public one, its durations perhaps times 10."""
    own = document.get("traces", {}).get(trace)
    if own is not None:
        return [
            RigidJob(str(j["job_id"]), j["num_gpu"], j["submit_time"], j["duration"]) for j in own
        ]
    times = 10 if trace.endswith(TENFOLD) else 1
    name = trace.replace(TENFOLD, "_job")
    if name != "60_job":
        raise NotRun(f"no trace {trace!r} is known here")
    rows = [row.times(times) for row in read_trace_rows(data_file("tiresias", f"{name}.csv"))]
    first = [row.name.rpartition("-")[2] for row in rows]
    return [
        RigidJob(number, row.gpus, row.submit_s, row.duration_s)
        for number, row in zip(first, rows, strict=True)
    ]


def _simulator(_place: str, case: Any, document: Document) -> list[Case]:
    given = [RigidJob(str(n), gpus, at, long) for n, gpus, at, long in case.get("jobs", ())]
    nodes, per_node = int(case["nodes"]), int(case["gpus_per_node"])
    columns = case["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in case["rows"]]
    trace = str(case["trace"])

    def run() -> Iterator[Difference]:
        jobs = given or _published_jobs(trace, document)
        runs = {run.name: run for run in simulate(jobs, nodes, per_node)}
        yield from same_jobs((row["job_id"] for row in rows), runs)
        for row in rows:
            found = runs[str(row["job_id"])]
            got = {**row, "start_time": found.start_s, "end_time": found.end_s}
            yield from differences(row, got, f"job {found.name}")
        mean = sum(run.end_s - run.submit_s for run in runs.values()) / len(runs)
        yield from differences(case["avg_jct_s"], mean, "avg_jct_s")
        last = max(run.end_s for run in runs.values())
        yield from differences(case["makespan_end_s"], last, "makespan_end_s")

    return [Case("simulator", str(case["case"]), run)]


def _slices(_place: str, case: Any, _document: Document) -> list[Case]:
    rules = SliceRules(**case["options"])
    jobs = [
        SliceJob(
            int(j["id"]),
            int(j["gpus"]),
            float(j["submit"]),
            float(j["work"]),
            int(j.get("max_gpus", 0)),
        )
        for j in case["jobs"]
    ]
    # Boundaries at which nobody runs are listed there, not here.
    rows, rounds = case["rows"], [entry for entry in case["first_rounds"] if entry[1]]

    def run() -> Iterator[Difference]:
        slices = Slices(jobs, rules)
        slots = slices.run()
        by_name = {slot.job.name: slot for slot in slots}
        yield from same_jobs((row["id"] for row in rows), by_name)
        for row in rows:
            slot = by_name[row["id"]]
            got = {
                "id": slot.job.name,
                "first": slot.first_s,
                "end": slot.end_s,
                "starts": slot.starts,
                "resumes": slot.resumes,
                "moves": slot.moves,
                "resizes": slot.resizes,
            }
            yield from differences(row, got, f"job {row['id']}", relative=0.0, absolute=INSTANT_S)
        got_rounds = [
            [now, [[name, gpus, list(servers)] for name, gpus, servers in running]]
            for now, running in slices.rounds[: len(rounds)]
        ]
        yield from differences(rounds, got_rounds, "first_rounds")
        count = len(slots)
        jct = sum(slot.end_s - slot.job.submit_s for slot in slots) / count
        first = sum(slot.first_s - slot.job.submit_s for slot in slots) / count
        yield from differences(case["avg_jct_s"], jct, "avg_jct_s", absolute=INSTANT_S)
        name = "avg_first_service_s"
        yield from differences(case[name], first, name, absolute=INSTANT_S)

    return [Case("slices", str(case["name"]), run)]


def _packing(place: str, case: Any, _document: Document) -> list[Case]:
    task = PublishedTask(
        int(case["gpus"]),
        {int(j["id"]): float(j["utilisation"]) for j in case["jobs"]},
        {(min(a, b), max(a, b)): (float(s), float(t)) for a, b, s, t in case["pairs"]},
        memory_gib=float(case["gpu_memory_gib"]),
        needs_gib={int(j["id"]): float(j["memory_gib"]) for j in case["jobs"]},
    )
    greedy = case["greedy"]
    expected = {
        "trials": greedy["trials"],
        "pairs": sorted(sorted(pair) for pair in greedy["pairs"]),
        "total": greedy["total"],
        "optimum": case["optimum"]["total"],
        "slicing_only": case["slicing_only"],
    }

    def run() -> Iterator[Difference]:
        trials, pairs = by_trial(task)
        got = {
            "trials": [list(trial) for trial in trials],
            "pairs": [list(pair) for pair in pairs],
            "total": task.value(pairs),
            "optimum": task.value(best_pairs(task)),
            "slicing_only": task.value(()),
        }
        yield from differences(expected, got)

    return [Case("packing", place, run)]


def _gavel(place: str, case: Any, _document: Document) -> list[Case]:
    groups = [str(group) for group in case["groups"]]
    gang = {group: float(case["gang"][group]) for group in groups}
    gpus = {kind: float(count) for kind, count in case["gpus"].items()}
    run = lambda: differences(case["x"], gavel_shares(groups, gang, gpus), "x")  # noqa: E731
    return [Case("gavel", place, run)]


def _search(_place: str, case: Any, _document: Document) -> list[Case]:
    numbers = (
        int(case["trials"]),
        int(case["gpus"]),
        float(case["work_s"]),
        float(case["feedback_s"]),
        int(case["winner"]),
    )
    expected: Sequence[tuple[str, Mapping[str, Any]]] = [
        (way, case[way]) for way in ("fifo", "sliced")
    ]

    def run() -> Iterator[Difference]:
        for way, instants in expected:
            got = asdict(run_search(*numbers, sliced=way == "sliced"))
            yield from differences(instants, got, way, relative=0.0, absolute=INSTANT_S)

    name = f"{numbers[0]} trials on {numbers[1]} GPUs, winner {numbers[4]}"
    return [Case("search", name, run)]


def read_round(place: str, case: Any, _document: Document) -> list[Case]:
    """A case of the part ``rounds`` that is Gandiva's."""
    jobs = tuple(
        SlicedJob(
            int(j["gpus"]),
            float(j["age_s"]),
            float(j["executed_s"]),
            float(j["charge_s"]),
            float(j["feedback_left_s"]),
        )
        for j in case["jobs"]
    )
    task = FeedbackRound(
        int(case["servers"]), int(case["gpus_per_server"]), float(case["interval_s"]), jobs
    )
    expected = {key: case[key] for key in ("time_share", "weights", "optimum")}

    def run() -> Iterator[Difference]:
        optimum, _ = ranked_optimum(task)
        got = {"time_share": task.share, "weights": task.weights.tolist(), "optimum": optimum}
        yield from differences(expected, got)

    return [Case("rounds: feedback", place, run)]


SIMULATOR = Part(lambda value: listed(value, "simulator"), _simulator)
SLICES = Part(lambda value: listed(value, "slices"), _slices)
PACKING = Part(lambda value: listed(value, "packing"), _packing)
GAVEL_SHARES = Part(lambda value: listed(value, "gavel"), _gavel)
SEARCH = Part(lambda value: listed(value, "search"), _search)
