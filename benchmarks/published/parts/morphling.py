"""Morphling's published rounds: GPUs by node and plan of every job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.published.cases import Case, Difference, differences
from benchmarks.published.parts.part import Document, Part, listed
from benchmarks.published.simulators.morphling import (
    Curve,
    Entry,
    LargeSizes,
    SmallCurve,
    decide,
)


def curve_of(raw: Mapping[str, Any]) -> Curve:
    """A curve, or the sizes of a model without one."""
    reference = float(raw["reference_samples_per_s"])
    if "curve" in raw:
        rows = raw["curve"][1:]
        return SmallCurve(
            reference,
            tuple(float(row["samples_per_s"]) for row in rows),
            tuple(int(row["gpus"]) for row in rows),
            tuple(tuple(row["plan"]) for row in rows),
        )
    plans = {_parts(shape): _plan(shape, plan) for shape, plan in raw["plans"].items()}
    sizes = [(int(size), tuple(map(_parts, shapes))) for size, shapes in raw["sizes"]]
    return LargeSizes(reference, tuple(sizes), plans)


def _parts(shape: str) -> tuple[int, ...]:
    return tuple(int(digit) for digit in shape)


def _plan(shape: str, plan: str) -> tuple[str, ...]:
    """As it stands in an allocation: degrees twice and the shape, or a data-parallel plan."""
    return (plan, plan, shape) if plan.isdigit() else ("DDP", "ga", plan)


def _entry(job: Mapping[str, Any], curves: Mapping[str, Curve]) -> Entry:
    promised = job.get("promised_samples_per_s")
    return Entry(
        str(job["name"]),
        curves[job["model"]],
        bool(job["guaranteed"]),
        None if promised is None else float(promised),
        int(job["restarts"]),
        float(job["age_s"]),
        bool(job["seen"]),
        {int(node): int(gpus) for node, gpus in job["gpus"]},
        tuple(job["plan"]),
        tuple(int(node) for node in job.get("stale_nodes", ())),
    )


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    curves = {model: curve_of(raw) for model, raw in value["curves"].items()}
    for place, case in listed(value["cases"], "morphling.cases"):
        yield place, (case, curves)


def _read(_place: str, item: Any, _document: Document) -> list[Case]:
    case, curves = item
    entries = [_entry(job, curves) for job in case["jobs"]]
    capacity = [int(case["gpus_per_node"])] * int(case["nodes"])
    expected = {
        name: {"gpus": sorted(map(list, job["gpus"])), "plan": list(job["plan"])}
        for name, job in case["result"].items()
    }
    over = sorted(int(node) for node in case["oversubscribed_nodes"])
    run = _compared(entries, capacity, expected, over)
    return [Case("morphling", f"round {case['number']}", run)]


def _compared(
    entries: Sequence[Entry],
    capacity: Sequence[int],
    expected: Mapping[str, Any],
    over: Sequence[int],
) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        after = decide(entries, capacity)
        got = {
            job.name: {
                "gpus": sorted([node, gpus] for node, gpus in job.gpus.items() if gpus),
                "plan": list(job.plan),
            }
            for job in after
        }
        yield from differences(expected, got)
        used = [sum(job.gpus.get(node, 0) for job in after) for node in range(len(capacity))]
        exceeded = [node for node in range(len(used)) if used[node] > capacity[node]]
        yield from differences(over, exceeded, "oversubscribed_nodes")

    return run


MORPHLING = Part(_items, _read)
