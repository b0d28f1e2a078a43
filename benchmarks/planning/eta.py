"""How much of what came lies in the 80 % intervals of `backtest`, a workload at a time.

Each workload's forecasts are kept in a file, so that what is interrupted goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.planning.backtest import backtest
from morph_opt import plan
from morph_opt.core.documents import exists, read_json, write_atomically
from morph_opt.plan.stats import mean_interval
from morph_opt.replay.scenario import Scenario
from morph_opt.sweep.cell import sources_digest
from morph_opt.sweep.executors import default_on, executor

JOBS_PER_STATE = 8
"""That are forecast together: continuations are replays until the last of them ends."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """What is replayed, and how often it is forecast from: every so manieth round."""

    trace: str
    cluster: str
    every: int

    @property
    def name(self) -> str:
        """Of its files: ``mmk-600-150-40`` of ``package.module:mmk/600/150/40``."""
        return self.trace.rpartition(":")[2].replace("/", "-")

    def forecast(self, seed: int) -> list[Row]:
        """Forecasts of one workload, and what came."""
        scenario = Scenario(self.trace, self.cluster, policy="srtf")
        if ":" in self.trace:  # a queue knows no restarts
            scenario = scenario.replaced(restart_s=0.0)
        found = backtest(
            plan.Ask(scenario), seeds=(seed,), every=self.every, jobs_per_state=JOBS_PER_STATE
        )
        rows: list[Row] = found.to_json()["evidence"]
        return rows


@contextmanager
def _processes(on: str) -> Iterator[Executor]:
    """What `--on` says; of this machine, processes that think for themselves."""
    if on.startswith("local:"):
        with executor(on) as (_, count), ProcessPoolExecutor(count) as pool:
            yield pool
    else:
        with executor(on) as (pool, _):
            yield pool


def forecasts(case: Case, seeds: Sequence[int], runs: Path, on: str | None) -> list[Row]:
    """Forecasts of every workload, in order of the seeds."""
    folder = runs / f"eta-{case.name}"
    folder.mkdir(parents=True, exist_ok=True)
    made = {"trace": case.trace, "cluster": case.cluster, "every": case.every}
    made |= {"jobs_per_state": JOBS_PER_STATE, "sources": sources_digest()}
    found: dict[int, list[Row]] = {}
    for seed in seeds:
        file = folder / f"{seed}.json"
        known = read_json(file) if exists(file) else {}
        if known.get("made") == made:
            found[seed] = known["rows"]
    left = [seed for seed in seeds if seed not in found]
    if left:
        with _processes(on or default_on()) as pool:
            waiting = {pool.submit(case.forecast, seed): seed for seed in left}
            for future in as_completed(waiting):
                seed = waiting[future]
                found[seed] = future.result()
                text = json.dumps({"made": made, "rows": found[seed]}) + "\n"
                write_atomically(folder / f"{seed}.json", text)
    return [row for seed in seeds for row in found[seed]]


def groups(name: str, rows: Iterable[Row]) -> list[tuple[str, float, float, float]]:
    """Coverage with its interval over workloads: of all, of starts, of ends that were open."""
    opened = [row for row in rows if row["open"]]
    found = []
    for what, mine in (
        ("all", opened),
        ("starts", [row for row in opened if row["what"] == "start"]),
        ("ends", [row for row in opened if row["what"] == "finish"]),
    ):
        by: dict[Any, list[float]] = {}
        for row in mine:
            by.setdefault(row["workload"], []).append(float(row["held"] or 0.0))
        means = [sum(held) / len(held) for held in by.values()]
        if len(means) > 1:
            share = sum(float(row["held"] or 0.0) for row in mine) / len(mine)
            low, high = mean_interval(means, 0.95)
            label = f"{name}, {what} ({len(mine)})"
            found.append((label, share, max(0.0, low), min(1.0, high)))
    return found
