"""Tiresias' simulator: every instant and preemption of its runs, and its Gittins table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from benchmarks.published.cases import Case, Difference, differences
from benchmarks.published.parts.part import Document, Part, data_file, listed, same_jobs
from benchmarks.published.parts.tiresias_samples import read_samples
from benchmarks.published.simulators.tiresias import (
    Discipline,
    Quirks,
    RigidJob,
    RigidRule,
    simulate,
)
from benchmarks.published.simulators.tiresias_lists import published_rank
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex

COLUMNS = ("start_time", "end_time", "JCT", "preempt", "promote")
"""Columns of a published row that our simulation has a word for; ``resume`` it has not."""


@cache
def published_index() -> GittinsIndex:
    """Of the published samples of GPU-seconds."""
    return GittinsIndex.of(read_samples(data_file("tiresias", "yarn-gput1000.csv")))


def rule_of(schedule: str, limits: tuple[float, ...], *, corrected: bool) -> RigidRule:
    """The rule behind a published name such as ``dlas-gpu-8``: queues, then the starvation knob."""
    head, _, factor = schedule.rpartition("-")
    discipline = Discipline(head if factor.isdigit() else schedule)
    indexed = discipline in (Discipline.GITTINS, Discipline.GITTINS_ASCENDING)
    return RigidRule(
        discipline,
        limits,
        float(factor) if factor.isdigit() else 0.0,
        published_index() if indexed else None,
        Quirks(late_demotion=not corrected, rounded_index=True),
    )


def _read(place: str, case: Any, document: Document) -> list[Case]:
    jobs = [
        RigidJob(str(job["job_id"]), job["num_gpu"], job["submit_time"], job["duration"])
        for job in document["traces"][case["trace"]]
    ]
    limits = tuple(float(limit) for limit in document.get("queue_limit", (3250.0, 7200.0))[:2])
    gpus = int(case["cluster"]["total_gpus"])
    name = f"{case['trace']} on {gpus} GPUs, {case['schedule']}"
    found = []
    for key in ("reference", "corrected_jump"):
        if key in case:
            columns = case["reference"]["columns"]
            rows = [dict(zip(columns, row, strict=False)) for row in case[key]["rows"]]
            run = _compared(jobs, gpus, str(case["schedule"]), limits, key, rows)
            found.append(Case(f"cases: {key}", name, run))
    if not found:
        raise ValueError(f"{place} has neither reference nor corrected_jump")
    return found


def _compared(
    jobs: Sequence[RigidJob],
    gpus: int,
    schedule: str,
    limits: tuple[float, ...],
    key: str,
    rows: Sequence[dict[str, Any]],
) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        rule = rule_of(schedule, limits, corrected=key == "corrected_jump")
        found = {
            run.name: (run.start_s, run.end_s, run.jct_s, run.preemptions, run.promotions)
            for run in simulate(jobs, gpus, rule)
        }
        yield from same_jobs((row["job_id"] for row in rows), found)
        published = COLUMNS if key == "reference" else COLUMNS[:3]  # corrected: instants alone
        for row in rows:
            job = str(row["job_id"])
            got = {column: found[job][COLUMNS.index(column)] for column in published}
            expected = {column: row[column] for column in published if column in row}
            yield from differences(expected, got, f"job {job}")

    return run


def _spots(value: Any) -> Iterator[tuple[str, Any]]:
    for attained, index in value.items():
        yield f"gittins_table_spot.{attained}", (float(attained), float(index))


def _read_spot(_place: str, spot: Any, _document: Document) -> list[Case]:
    attained, index = spot
    run = lambda: differences(index, float(published_rank(published_index(), attained)))  # noqa: E731
    return [Case("gittins_table_spot", f"{attained:g} GPU-seconds", run)]


RUNS = Part(lambda value: listed(value, "cases"), _read)
GITTINS_TABLE = Part(_spots, _read_spot)
