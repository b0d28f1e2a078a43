"""Solve times of the target-share policies, one thread; each answer is proven or says so.

    python -m benchmarks.fairness times [--repeat 5]

Random instances, seeds fixed: three GPU types, log-normal speeds, gangs of 1 to 8 GPUs. The packed
instances draw their jobs from the throughput table of the twin ``gavel-96``. The time is the
median over repetitions, the target is the one that the project set itself.
"""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fairness.kernel import raise_model
from formulations.shares.problem import PairTable, ShareProblem, equal_share_rates
from morph_opt.inputs.traces.twins.gavel import TYPES, twin_throughputs
from morph_opt.scheduling.shares.max_min import Solve, lp_solver
from morph_opt.scheduling.shares.policies import Shares, finish_time, makespan, max_min
from morph_opt.scheduling.shares.water_filling import Entities, hierarchical


@dataclass(frozen=True, slots=True)
class Case:
    """A named solve with its target in seconds; ``solve`` gives (objective, bound)."""

    name: str
    target_s: float | None
    solve: Callable[[], tuple[float, float]]


def instance(jobs: int, load: float, seed: int) -> tuple[ShareProblem, np.ndarray, np.ndarray]:
    """Problem, steps left and seconds since submission; ``load`` is jobs per GPU, about."""
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0, 1, (jobs, 1)) * np.array([1, 2, 4]) * rng.lognormal(0, 0.5, (jobs, 3))
    gang = rng.choice([1, 2, 4, 8], jobs, p=[0.6, 0.2, 0.1, 0.1])
    capacity = np.maximum(8.0, np.floor(np.array([0.3, 0.3, 0.4]) * jobs / load))
    steps = speed.max(axis=1) * rng.lognormal(9, 1.5, jobs)
    return ShareProblem(speed, gang, capacity), steps, rng.exponential(2e4, jobs)


def packed(jobs: int, load: float, seed: int) -> ShareProblem:
    """One-GPU jobs of the twin's table with all their pairs."""
    rng = np.random.default_rng(seed)
    table = twin_throughputs()
    keys = [key for key in table.job_keys() if key[1] == 1]
    kind = rng.integers(0, len(keys), jobs)
    alone = np.array([[table.alone[t][key] for t in TYPES] for key in keys])
    both = np.array([[[table.paired[t][a, b] for t in TYPES] for b in keys] for a in keys])
    one, two = np.triu_indices(jobs, 1)
    pairs = PairTable(one, two, both[kind[one], kind[two]])
    gang = np.ones(jobs, dtype=np.int64)
    return ShareProblem(alone[kind], gang, np.floor(np.full(3, jobs / load / 3)), pairs=pairs)


def cases(solve: Solve) -> list[Case]:
    """All cases."""
    found: list[Case] = []

    def add(name: str, target_s: float | None, call: Callable[[], Shares]) -> None:
        def run() -> tuple[float, float]:
            shares = call()
            return shares.objective, shares.bound

        found.append(Case(name, target_s, run))

    for load in (0.25, 1.0, 5.0, 20.0):
        problem, steps, since = instance(2048, load, 1)
        weight = np.ones(2048)
        label = f"2048 jobs, 3 types, {load:g} jobs per GPU"
        add(f"max-min, {label}", 0.05, lambda p=problem, w=weight: max_min(p, w, solve=solve))
        add(f"makespan, {label}", 0.05, lambda p=problem, r=steps: makespan(p, r, solve=solve))
        add(
            f"finish-time, {label}",
            0.1,
            lambda p=problem, r=steps, t=since: finish_time(p, r, t, 0.5 * t, solve=solve),
        )
        found.append(Case(f"max-min as one LP, {label}", None, lambda p=problem: _whole(p, solve)))
    for load in (0.25, 0.5, 1.0, 5.0):
        problem, _, _ = instance(256, load, 2)
        for below, target_s in (("fairness", 0.1), ("fifo", None)):
            teams = Entities(np.arange(256) % 8, np.ones(8), np.ones(256), below)
            label = f"{below} below, 256 jobs, 8 entities, {load:g} jobs per GPU"
            add(
                f"water filling, {label}",
                target_s,
                lambda p=problem, e=teams: hierarchical(p, e, solve=solve),
            )
    for jobs in (256, 512):
        problem = packed(jobs, 1.5, 3)
        add(
            f"packed max-min, {jobs} one-GPU jobs",
            0.3 if jobs == 256 else None,
            lambda p=problem, n=jobs: max_min(p, np.ones(n), solve=solve),
        )
    return found


def _whole(problem: ShareProblem, solve: Solve) -> tuple[float, float]:
    slope = equal_share_rates(problem) / problem.gang
    outcome = solve(
        raise_model(problem, np.zeros(problem.jobs), slope, scale=1 / slope.max()).model
    )
    return outcome.objective / slope.max(), outcome.bound / slope.max()


def measure(repeat: int, folder: Path) -> None:
    """Run all cases, print them, and write ``solve_times.csv``."""
    rows = []
    for case in cases(lp_solver()):
        times = []
        for _ in range(repeat):
            began = time.perf_counter()
            objective, bound = case.solve()
            times.append(time.perf_counter() - began)
        gap = abs(bound - objective) / max(abs(objective), 1e-300)
        median, least = statistics.median(times), min(times)
        target = "" if case.target_s is None else f"{case.target_s:g}"
        rows.append((case.name, f"{median:.4f}", f"{least:.4f}", target, f"{gap:.1e}"))
        times_text = f"{median:8.4f} s  (least {least:.4f}, target {target or '-'})"
        print(f"{case.name:66s} {times_text}  gap {gap:.1e}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "solve_times.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("case", "median_s", "least_s", "target_s", "relative_gap"))
        writer.writerows(rows)
