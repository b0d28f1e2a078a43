"""Gavel's policies on small instances: the objective value of every policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.published.cases import Case, Difference, NotRun, differences
from benchmarks.published.parts.part import Document, Part, listed
from formulations.shares.problem import ShareProblem, check_shares
from morph_opt.scheduling.shares.max_min import lp_solver
from morph_opt.scheduling.shares.policies import (
    Shares,
    finish_time,
    makespan,
    max_min,
    total_throughput,
)

Solution = Mapping[str, Any]


def _max_min(problem: ShareProblem, instance: Document, _: Solution, *, aware: bool) -> Shares:
    weight = np.array(instance["weights"], dtype=np.float64)
    return max_min(problem, weight, aware=aware, solve=lp_solver())


def _finish_time(problem: ShareProblem, instance: Document, solution: Solution) -> Shares:
    return finish_time(
        problem,
        np.array(instance["num_steps_remaining"], dtype=np.float64),
        np.array(instance["times_since_start"], dtype=np.float64),
        np.array(solution["cumulative_isolated_time"], dtype=np.float64),
        solve=lp_solver(),
    )


def _makespan(problem: ShareProblem, instance: Document, _: Solution) -> Shares:
    steps = np.array(instance["num_steps_remaining"], dtype=np.float64)
    return makespan(problem, steps, solve=lp_solver())


def _total(problem: ShareProblem, _: Document, __: Solution) -> Shares:
    return total_throughput(problem, solve=lp_solver())


ANSWERS: dict[str, Callable[[ShareProblem, Document, Solution], Shares]] = {
    "max_min_fairness_perf": partial(_max_min, aware=True),
    "max_min_fairness": partial(_max_min, aware=False),
    "finish_time_fairness_perf": _finish_time,
    "min_total_duration_perf": _makespan,
    "max_sum_throughput_perf": _total,
}
"""By the published name of the policy."""


def _read(_place: str, instance: Any, _document: Document) -> list[Case]:
    kinds = instance["worker_types"]
    problem = ShareProblem(
        np.array(instance["throughputs"], dtype=np.float64),
        np.array(instance["scale_factors"]),
        np.array([float(instance["cluster"][kind]) for kind in kinds]),
        oversize=True,
    )
    return [
        Case(
            f"instances: {name}", str(instance["id"]), _compared(name, problem, instance, solution)
        )
        for name, solution in instance["solutions"].items()
    ]


def _compared(
    name: str, problem: ShareProblem, instance: Document, solution: Solution
) -> Callable[[], Iterator[Difference]]:
    expected = float(solution["exact_objective"])

    def run() -> Iterator[Difference]:
        if name not in ANSWERS:
            raise NotRun("no such policy is known here")
        found = ANSWERS[name](problem, instance, solution)
        check_shares(problem.agnostic() if name == "max_min_fairness" else problem, found.x)
        yield from differences(expected, found.objective, "objective")

    return run


INSTANCES = Part(lambda value: listed(value, "instances"), _read)
