"""Run every solver on every instance, each solver in a worker of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.instances.library import Instance, load, read_table
from benchmarks.solvers.protocol import (
    GAP,
    GRACE_S,
    MEMORY_MIB,
    THREADS,
    Effort,
    RawFile,
    Row,
    cases,
)
from morph_opt.scheduling.solvers.outcome import Limits, Outcome
from morph_opt.scheduling.solvers.worker.isolated import IsolatedSolver


def run(folder: Path, raw: Path, effort: Effort, solvers: tuple[str, ...]) -> int:
    """Append the rows that are missing; the number of solves that were made."""
    instances = read_table(folder)
    known = {row.name: (row.columns, row.best, row.bound) for row in instances}
    file = RawFile(
        raw, lambda row: known.get(row.instance) == (row.columns, row.best, row.best_bound)
    )
    models = {
        row.name: load(folder, row.name) for row in instances if row.gpus <= effort.largest_gpus
    }
    worker: IsolatedSolver | None = None
    made = 0
    for solver, instance, seed in cases(instances, effort, solvers):
        if (solver, instance.name, seed) in file.done:
            continue
        if worker is None or worker.name != f"worker:{solver}":
            if worker is not None:
                worker.close()
            worker = IsolatedSolver(solver, memory_mib=MEMORY_MIB, grace_s=GRACE_S)
            # The first solve of a library pays for its start; it is not measured.
            worker.solve(models[instance.name], Limits(gap=GAP, time_s=1.0))
        limits = Limits(GAP, effort.time_s, effort.nodes, THREADS, seed, effort.work)
        outcome = worker.solve(models[instance.name], limits)
        row = _row(solver, instance, seed, outcome, effort)
        file.append(row)
        made += 1
        print(
            f"{solver:<14} {instance.name:<36} seed {seed}: {row.outcome:<8} {row.cpu_s:8.4f} s",
            file=sys.stderr,
            flush=True,
        )
    if worker is not None:
        worker.close()
    return made


def _row(solver: str, instance: Instance, seed: int, outcome: Outcome, effort: Effort) -> Row:
    return Row(
        solver=solver,
        version=outcome.solver,
        instance=instance.name,
        gpus=instance.gpus,
        columns=instance.columns,
        seed=seed,
        status=str(outcome.status),
        stop=str(outcome.stop),
        objective=outcome.objective,
        bound=outcome.bound,
        gap=outcome.gap,
        nodes=outcome.nodes,
        build_s=round(outcome.build_s, 6),
        solve_s=round(outcome.solve_s, 6),
        check_s=round(outcome.check_s, 6),
        cpu_s=round(outcome.cpu_s, 6),
        limit_s=effort.time_s,
        best=instance.best,
        best_bound=instance.bound,
        message=outcome.message.replace("\n", " ")[:120],
    )
