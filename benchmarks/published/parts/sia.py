"""Sia's published states: configurations, normalised goodputs, costs, the choice, placements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.published.cases import Case, Difference, differences
from benchmarks.published.parts.part import Document, Part, listed
from benchmarks.published.parts.sia_published import (
    GpuPool,
    configurations,
    cursor_placement,
    projected,
)
from morph_opt.scheduling.policies.malleable.sia_rule import SiaJob, solve
from morph_opt.scheduling.solvers.outcome import Limits

EXACT = Limits(gap=0.0, time_s=60.0)
COST = 0.01
"""Tolerance of a cost, which is rounded to hundredths in single precision."""
PRINTED = 1e-4
"""Tolerance of normalised goodputs, which are stored with four decimals."""


def _continued(goodput: Sequence[float], pools: Sequence[GpuPool]) -> Callable[[str, int], float]:
    """A row's curve where it has no column: ``G(1) g^a / (1 + b (nodes - 1))``.

    The states were made from curves of this form. Where a projection asked for a count that is no
    column of the type, the goodput function of the state's *last* job answered, whoever asked.
    """
    columns = configurations(pools)

    def curve(kind: str, gpus: int) -> float:
        size = next(pool.gpus_per_node for pool in pools if pool.name == kind)
        known = {
            (nodes, count): float(goodput[k])
            for k, (name, nodes, count) in enumerate(columns)
            if name == kind
        }
        one = known[1, 1]
        power = math.log2(known[1, 2] / one)
        several = [(n, g) for n, g in known if n > 1]
        slower = 0.0
        if several:
            nodes, count = several[0]
            slower = (one * count**power / known[nodes, count] - 1.0) / (nodes - 1)
        return float(one * gpus**power) / (1.0 + slower * (math.ceil(gpus / size) - 1))

    return curve


def _job(
    raw: Mapping[str, Any], pools: Sequence[GpuPool], elsewhere: Callable[[str, int], float]
) -> SiaJob:
    columns = configurations(pools)
    goodput = np.asarray(raw["goodput"], dtype=np.float64)
    known = list(raw["types_with_model"])
    found = projected(goodput, columns, pools, known, raw["one_gpu_ratio"], elsewhere)
    most = max(1, int(raw["max_gpus"]))
    usable = (found > 0) & np.asarray([gpus <= most for _, _, gpus in columns])
    current = raw["current"]
    return SiaJob(
        found,
        usable,
        float(raw["age_s"]),
        int(raw["restarts"]),
        float(raw["restart_s"]),
        None if current is None else int(current),
        bool(raw["restarting"]),
    )


def _read(_place: str, case: Any, _document: Document) -> list[Case]:
    pools = [
        GpuPool(name, int(one["nodes"]), int(one["gpus_per_node"]), int(one["profiled_nodes"]))
        for name, one in case["clusters"].items()
    ]
    expected = [[name, int(nodes), int(gpus)] for name, nodes, gpus in case["configurations"]]
    elsewhere = _continued(case["jobs"][-1]["goodput"], pools)
    jobs = [_job(raw, pools, elsewhere) for raw in case["jobs"]]
    for raw in case["jobs"]:
        if len(raw["goodput"]) != len(expected):
            raise ValueError(f"{raw['name']} has {len(raw['goodput'])} goodputs")
        float(raw["restart_factor"])
    power, waiting = float(case["p"]), float(case["lam"])
    run = _compared(case, pools, jobs, expected, power, waiting)
    return [Case("sia", f"state {case['number']}", run)]


def _compared(
    case: Mapping[str, Any],
    pools: Sequence[GpuPool],
    jobs: Sequence[SiaJob],
    expected: Sequence[Sequence[Any]],
    power: float,
    waiting: float,
) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        columns = configurations(pools)
        yield from differences(expected, [list(column) for column in columns], "configurations")
        costs = np.asarray([job.cost(power) for job in jobs])
        for raw, job, cost in zip(case["jobs"], jobs, costs, strict=True):
            name = str(raw["name"])
            row = job.normalised().tolist()
            yield from differences(
                raw["normalised"], row, f"{name}.normalised", relative=PRINTED, absolute=PRINTED
            )
            factor = raw["restart_factor"]
            yield from differences(factor, job.restart_factor, f"{name}.restart_factor")
            yield from differences(
                raw["cost"], cost.tolist(), f"{name}.cost", relative=0.0, absolute=COST + 1e-9
            )
        room = {pool.name: pool.nodes * pool.gpus_per_node for pool in pools}
        answer = solve(jobs, costs, columns, room, power=power, waiting=waiting, limits=EXACT)
        chosen = [raw["chosen"] for raw in case["jobs"]]
        yield from differences(chosen, list(answer.chosen), "chosen")
        yield from differences(case["objective"], answer.objective, "objective")
        placed = [raw["fast_placement"] for raw in case["jobs"]]
        yield from differences(placed, _placed(answer.chosen, pools), "fast_placement")

    return run


def _placed(chosen: Sequence[int | None], pools: Sequence[GpuPool]) -> list[Any]:
    """Type and nodes of every job, as the published simulator places them."""
    columns = configurations(pools)
    found: list[Any] = [None] * len(chosen)
    for pool in pools:
        here = [j for j, k in enumerate(chosen) if k is not None and columns[k][0] == pool.name]
        gpus = [columns[k][2] for j in here if (k := chosen[j]) is not None]
        for j, parts in zip(
            here, cursor_placement(gpus, pool.nodes, pool.gpus_per_node), strict=True
        ):
            found[j] = [pool.name, [list(part) for part in parts]]
    return found


SIA = Part(lambda value: listed(value["cases"], "sia.cases"), _read)
