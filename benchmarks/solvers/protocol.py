"""What a run of the comparison is: limits, cases, and a raw row per solve."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.instances.library import Instance
from morph_opt.scheduling.solvers.registry import installed
from morph_opt.scheduling.solvers.selfcheck import installed_versions

GAP = 1e-3
SEEDS = (0, 1, 2)
THREADS = 1
MEMORY_MIB = 4096
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of one run.

    Parameters
    ----------
    time_s
        Wall-clock limit of a solve.
    nodes, work
        Limits on work for the solvers that have them; see
        `morph_opt.scheduling.solvers.outcome.Limits`.
    seeds
        One solve per seed.
    largest_gpus
        Instances above are left out.
    every
        Step between the rounds of a replay that all solvers decide.
    """

    time_s: float
    nodes: int
    work: float
    seeds: tuple[int, ...]
    largest_gpus: int
    every: int


QUICK = Effort(2.0, nodes=2_000, work=2.0, seeds=(0,), largest_gpus=128, every=60)
FULL = Effort(10.0, nodes=20_000, work=10.0, seeds=SEEDS, largest_gpus=10**9, every=4)


@dataclass(frozen=True, slots=True)
class Row:
    """One solve; failures are rows like all others."""

    solver: str
    version: str
    instance: str
    gpus: int
    columns: int
    seed: int
    status: str
    stop: str
    objective: float
    bound: float
    gap: float
    nodes: int
    build_s: float
    solve_s: float
    check_s: float
    cpu_s: float
    limit_s: float
    best: float
    best_bound: float
    message: str

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes it one case."""
        return self.solver, self.instance, self.seed

    @property
    def false_claim(self) -> bool:
        """Whether it claims what the best-known values disprove.

        An objective above the proven bound, a bound below the best-known objective, a claim of
        infeasibility, or a claim of optimality beyond the gap.
        """
        slack = 1e-6 * max(1.0, abs(self.best))
        if self.status in ("infeasible", "unbounded"):
            return True
        if self.objective > self.best_bound + slack or self.bound < self.best - slack:
            return True
        return self.status == "optimal" and self.objective < self.best - slack - GAP * abs(
            self.objective
        ) * (1 + 1e-6)

    @property
    def solved(self) -> bool:
        """Optimal within the gap, and not a false claim."""
        return self.status == "optimal" and not self.false_claim

    @property
    def outcome(self) -> str:
        """``solved``, ``feasible``, ``none`` (a limit came first), ``failed`` or ``wrong``."""
        if self.false_claim:
            return "wrong"
        words = {"optimal": "solved", "feasible": "feasible", "no_solution": "none"}
        return words.get(self.status, "failed")

    @property
    def charged_s(self) -> float:
        """Processor seconds; what was not solved is charged the whole limit at least."""
        return self.cpu_s if self.solved else max(self.limit_s, self.cpu_s)


def read_rows(path: Path) -> list[Row]:
    """All rows of a raw file; none if there is no file."""
    if not path.is_file():
        return []
    kinds = {"int": int, "float": float, "str": str}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{f.name: kinds[str(f.type)](row[f.name]) for f in fields(Row)})
            for row in csv.DictReader(file)
        ]


class RawFile:
    """Appends rows, so that a run that was broken off is taken up where it ended.

    Rows that do not hold any more, such as those of instances that were made anew, are dropped.
    """

    def __init__(self, path: Path, holds: Callable[[Row], bool] = lambda _: True) -> None:
        self._path = path
        found = read_rows(path)
        kept = [row for row in found if holds(row)]
        self.done = {row.key for row in kept}
        if not path.is_file() or len(kept) < len(found):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(",".join(f.name for f in fields(Row)) + "\n", "utf-8")
            for row in kept:
                self.append(row)

    def append(self, row: Row) -> None:
        """Write a row at once."""
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n").writerow(
                asdict(row)
            )


def cases(
    instances: tuple[Instance, ...], effort: Effort, solvers: tuple[str, ...]
) -> Iterator[tuple[str, Instance, int]]:
    """Solver by solver, so that a worker is started once; small instances first."""
    for solver in solvers or installed():
        for instance in instances:
            if instance.gpus <= effort.largest_gpus:
                for seed in effort.seeds:
                    yield solver, instance, seed


def machine() -> dict[str, str]:
    """Processor, cores, system and versions, for the report."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    versions = ", ".join(f"{k} {v}" for k, v in sorted(installed_versions().items()))
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "versions": versions,
    }
