"""Hunting for better solutions and bounds: runs of solvers, by processor time, kept in a table."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import highspy

from benchmarks.instances.checking import check_point
from benchmarks.instances.hard import FOLDER, Built, build_hard, hard_named
from benchmarks.instances.library import (
    Instance,
    load,
    load_best,
    load_round,
    read_table,
    write_sums,
    write_table,
)
from benchmarks.instances.runs import GAP, Run, read_runs, settled, with_run, write_runs
from benchmarks.instances.solution import Point, write_solution
from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.core.domain import InputError
from morph_opt.core.version import __version__
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.solvers.highs import HighsDefaultSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, relative_gap
from morph_opt.scheduling.solvers.registry import make_solver

OURS = "ladder"
"""Name of this project's own method among the solvers."""

WALL = 20.0
"""Wall-clock limit over processor limit, on a machine that others load too."""


class TimedHighs(HighsDefaultSolver):
    """HiGHS with default options and a limit on processor time.

    Parameters
    ----------
    cpu_s
        Processor seconds of the process.
    """

    def __init__(self, cpu_s: float) -> None:
        super().__init__()
        self._cpu_s = cpu_s

    def _loaded(
        self, model: LinearModel, limits: Limits, start: Floats | None
    ) -> highspy.Highs | None:
        self._highs = None  # an object of its own: callbacks add up
        highs = super()._loaded(model, limits, start)
        end = time.process_time() + self._cpu_s
        if highs is not None:
            highs.cbMipInterrupt.subscribe(
                lambda event: event.interrupt() if time.process_time() >= end else None
            )
        return highs


def hunt(
    folder: Path, instance: Instance, solver: str, cpu_s: float, *, threads: int, start: bool
) -> Run:
    """Run a solver on a stored instance and bring table, runs and solution up to date.

    Parameters
    ----------
    folder
        Folder with the instance's table.
    solver
        Name on the command line, or `OURS`.
    cpu_s
        Limit: processor seconds for ``highs-default``, wall-clock seconds for the others, whose
        libraries have no other.
    start
        Whether to begin with the best-known solution.

    Raises
    ------
    InputError
        If the solver does not take the model, or is `OURS` and the round has no seed.
    """
    model = load(folder, instance.name)
    known = load_best(folder, instance.name, model) if start else None
    if solver == OURS:
        one = hard_named(instance.name)
        if one is None:
            raise InputError(f"{OURS!r} decides rounds by seed of the folder {FOLDER}/ alone")
        found = run_ours(build_hard(one), Limits(gap=GAP, time_s=cpu_s))
    else:
        timed = solver == HighsDefaultSolver.name
        limits = Limits(gap=GAP, time_s=cpu_s * (WALL if timed else 1.0), threads=threads)
        adapter = TimedHighs(cpu_s) if timed else make_solver(solver)
        found = adapter.solve(model, limits, known)
    if found.status is Status.ERROR:
        raise InputError(f"{instance.name}: {found.message}", field="--solver")
    run = run_of(instance.name, solver, found, threads, start)
    keep(folder, instance, model, run, found.x)
    return run


def run_ours(built: Built, limits: Limits) -> Outcome:
    """Return the outcome of this project's ladder on an instance, as a point of its model.

    Where goals come before the last one, the ladder keeps them at their optima, not within
    `Hard.KEPT`: its value is one of the model, its bound is not.
    """
    began = time.process_time()
    solved = Ladder(make_solver("highs")).solve(built.posed, limits)
    cpu_s = time.process_time() - began
    version, scale = f"morph-opt {__version__}", built.whole.model.scale
    bound = solved.outcome.bound / scale if len(built.posed.levels) == 1 else float("inf")
    x = None if solved.selection is None else built.point_of(solved.selection.choice)
    value = float("-inf") if x is None else built.model.objective(x)
    gap = relative_gap(value, bound)
    status = Status.OPTIMAL if gap <= GAP else Status.FEASIBLE
    return replace(
        solved.outcome,
        status=Status.NO_SOLUTION if x is None else status,
        solver=version,
        x=x,
        objective=value,
        bound=bound,
        gap=gap,
        cpu_s=cpu_s,
    )


def run_of(name: str, solver: str, found: Outcome, threads: int, started: bool) -> Run:
    """Return the row of an outcome."""
    return Run(
        name,
        solver,
        found.solver,
        threads,
        round(found.cpu_s, 2),
        found.nodes,
        str(found.status),
        found.objective if found.usable else float("-inf"),
        found.bound,
        started,
    )


def keep(
    folder: Path, instance: Instance, model: LinearModel, run: Run, x: Floats | None
) -> Instance:
    """Record a run; a better point becomes the best known if the checker accepts it."""
    runs = with_run(read_runs(folder), run)
    row = instance
    if x is not None and run.value > instance.best + GAP * max(1e-9, abs(instance.best)):
        problem = load_round(folder, instance.name)
        verdict = check_point(model, problem, Point(x, run.value), instance)
        if not verdict.complaints:
            row = replace(instance, best=verdict.objective)
            write_solution(folder / f"{instance.name}.sol", model, x, verdict.objective)
    row = settled(row, runs)
    write_runs(folder, runs)
    write_table(folder, [row if one.name == row.name else one for one in read_table(folder)])
    write_sums(folder)
    return row
