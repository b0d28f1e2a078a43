"""Optimus' published allocations and placements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.published.cases import Case, Difference, differences
from benchmarks.published.parts.part import Document, Part, listed
from benchmarks.published.simulators.optimus import OptimusJob, counts, placement


def _read(_place: str, case: Any, _document: Document) -> list[Case]:
    jobs = [
        OptimusJob(
            tuple(float(seconds) for seconds in job["step_s"]),
            float(job["remaining_iterations"]),
            int(job["max_gpus"]),
            {int(node): int(gpus) for node, gpus in job["current"]},
        )
        for job in case["jobs"]
    ]
    capacity = [int(case["gpus_per_node"])] * int(case["nodes"])
    gpus = [int(job["gpus"]) for job in case["jobs"]]
    nodes = [sorted(map(list, job["placement"])) for job in case["jobs"]]
    return [Case("optimus", f"state {case['number']}", _compared(jobs, capacity, gpus, nodes))]


def _compared(
    jobs: Sequence[OptimusJob],
    capacity: Sequence[int],
    gpus: Sequence[int],
    nodes: Sequence[list[list[int]]],
) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        found = counts(jobs, sum(capacity))
        yield from differences(list(gpus), found, "gpus")
        placed = placement(jobs, found, capacity)
        got = [sorted(map(list, parts)) for parts in placed]
        yield from differences(list(nodes), got, "placement")

    return run


OPTIMUS = Part(lambda value: listed(value["cases"], "optimus.cases"), _read)
