"""Pollux' published states: goodputs, fitness, repair, and the best allocation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from benchmarks.published.cases import Case, Difference, NotRun, differences
from benchmarks.published.parts.part import Document, Part, listed
from benchmarks.published.parts.pollux_goodput import Goodput
from benchmarks.published.simulators.pollux import PublishedRound
from morph_opt.scheduling.policies.malleable.pollux_rule import Budget, Search

RESTART_S = 30.0
"""What the published policy takes a change of nodes to cost."""

STATED = 2e-8
"""Tolerance of what is stored with nine decimals, absolute."""


def _goodput(raw: Mapping[str, Any]) -> Goodput | None:
    if raw["parameters"] is None:
        return None
    a, b, c, d, e, f, g = (float(value) for value in raw["parameters"])
    sqr, var = (float(value) for value in raw["gradient"])
    least, most = (int(value) for value in raw["local_batch"])
    first, largest = int(raw["first_batch"]), int(raw["max_batch"])
    return Goodput((a, b, c, d, e, f, g), (sqr, var), first, largest, (least, most))


def _round(case: Mapping[str, Any]) -> tuple[PublishedRound, list[Goodput | None]]:
    nodes, per_node = int(case["nodes"]), int(case["gpus_per_node"])
    total, fair = nodes * per_node, int(case["fair_gpus"])
    models = [_goodput(raw) for raw in case["jobs"]]
    relative = np.zeros((len(models), nodes + 1, total + 1))
    for j, model in enumerate(models):
        base = float(fair) if model is None else model.best(1, fair)[0]
        for n, g in product(range(1, nodes + 1), range(1, total + 1)):
            if g >= n:
                value = float(g) if model is None else model.best(n, g)[0]
                relative[j, n, g] = value / base
    age = np.asarray([float(raw["age_s"]) for raw in case["jobs"]])
    restarts = np.asarray([float(raw["restarts"]) for raw in case["jobs"]])
    task = PublishedRound(
        relative,
        np.asarray(case["current"], dtype=np.int64).reshape(len(models), nodes),
        np.full(nodes, per_node, dtype=np.int64),
        np.asarray([int(raw["max_gpus"]) for raw in case["jobs"]], dtype=np.int64),
        np.maximum(0.0, age - RESTART_S * restarts) / (age + RESTART_S),
    )
    return task, models


def _read(_place: str, case: Any, _document: Document) -> list[Case]:
    task, models = _round(case)
    for allocation in case["allocations"]:
        np.asarray(allocation["gpus"], dtype=np.int64).reshape(task.current.shape)
    name = f"state {case['number']}"
    found = [
        Case("pollux: goodput", name, _goodputs(case, models, task)),
        Case("pollux: fitness and repair", name, _allocations(case, task)),
    ]
    if "best" in case:
        float(case["best"]["fitness"])
        found.append(Case("pollux: best allocation", name, _best(case, task)))
    return found


def _goodputs(
    case: Mapping[str, Any], models: list[Goodput | None], task: PublishedRound
) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        for j, (raw, model) in enumerate(zip(case["jobs"], models, strict=True)):
            if model is None:
                continue
            for n, g, *expected in raw["best"]:
                got = [*model.best(n, g), float(task.relative[j, n, g])]
                yield from differences(expected, got, f"jobs[{j}] on {n} nodes, {g} GPUs")
            fair = model.best(1, int(case["fair_gpus"]))[0]
            yield from differences(raw["fair_goodput"], fair, f"jobs[{j}].fair_goodput")

    return run


def _allocations(
    case: Mapping[str, Any], task: PublishedRound
) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        if not case["allocations"]:
            raise NotRun("no allocation is published")
        for i, raw in enumerate(case["allocations"]):
            state = np.asarray(raw["gpus"], dtype=np.int64)[None]
            got = {
                "fitness": float(task.fitness(state)[0]),
                "utility": float(task.utility(state)[0]),
                "feasible": bool(task.feasible(state)[0]),
            }
            expected = {key: raw[key] for key in got if key in raw}
            yield from differences(expected, got, f"allocations[{i}]", absolute=STATED)
            if raw.get("repaired") is not None:
                mended = task.repaired(state, np.random.default_rng(0))[0].tolist()
                yield from differences(raw["repaired"], mended, f"allocations[{i}].repaired")

    return run


def _best(case: Mapping[str, Any], task: PublishedRound) -> Callable[[], Iterator[Difference]]:
    def run() -> Iterator[Difference]:
        expected = float(case["best"]["fitness"])
        given = np.asarray(case["best"]["gpus"], dtype=np.int64)[None]
        got = float(task.fitness(given)[0])
        yield from differences(expected, got, "best: fitness of its state", absolute=STATED)
        for i, published in enumerate(case.get("genetic_search_fitness", ())):
            found = Search(task, Budget(seed=i + 1)).run()
            fitness = float(task.fitness(found[None])[0])
            where = f"genetic search, seed {i + 1}"
            yield from differences(float(published), fitness, where, absolute=STATED)

    return run


POLLUX = Part(lambda value: listed(value["cases"], "pollux.cases"), _read)
