"""Recipes of the library and how an instance is made of one; equal seeds, equal files."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.instances.hard import FOLDER as HARD_FOLDER
from benchmarks.instances.hard import Hard, build_hard
from benchmarks.instances.library import (
    TABLE,
    Instance,
    load,
    load_best,
    read_table,
    write_sums,
    write_table,
)
from benchmarks.instances.round_json import to_json
from benchmarks.instances.rounds import (
    by_load,
    model_of,
    replayed_states,
    requested_gpus,
    side_by_side,
)
from benchmarks.instances.runs import read_runs, settled, write_runs
from benchmarks.instances.series import FOLDER as SERIES_FOLDER
from benchmarks.instances.series import JOBS, Series, jobs_of, read_jobs, write_jobs
from benchmarks.instances.solution import write_solution
from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from formulations.mps import to_mps
from formulations.round.tables import RoundProblem
from morph_opt.core.documents import write_atomically
from morph_opt.core.documents.model import write_model
from morph_opt.core.domain import InputError, RoundState
from morph_opt.core.domain.errors import ContractError
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.twins.morphling import TWINS
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import installed, make_solver

Progress = Callable[[str], None]

LOADS = {"light": 0.15, "busy": 0.85, "peak": 1.0}
"""Quantile of the requested GPUs over a replay's rounds."""

COMPOSED_LOADS = {"light": 0.15, "busy": 0.6, "peak": 0.95}
"""The same for the parts of composed rounds, around which they spread."""

PROVERS = ("highs", "scip-ortools", "cpsat")
"""Solvers that are asked in turn until one proves the optimum."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make an instance.

    Parameters
    ----------
    trace, objective, load
        Twin, objective, and a word of `LOADS`.
    parts
        1: a round of a MILP replay on 64 GPUs. More: rounds of as many rigid replays (policy
        ``srtf``, seeds from 0) set side by side.
    formulation
        As on the command line.
    large
        Not committed; built on demand.
    seed
        Of the twin, where a round of it is taken.
    """

    trace: str
    objective: str
    load: str
    parts: int = 1
    formulation: str = "node_pattern"
    large: bool = False
    seed: int = 0

    @property
    def name(self) -> str:
        """For example ``base-throughput-64g-peak``."""
        short = "" if self.formulation == "node_pattern" else f"-{self.formulation}"
        seed = f"-seed{self.seed}" if self.seed else ""
        return f"{self.trace}-{self.objective}-{64 * self.parts}g-{self.load}{seed}{short}"


ILL_POSED = frozenset({"mt-throughput-256g-busy"})
"""Left out: the optimum hangs on the feasibility tolerance.

A row that keeps a ranked goal at its optimum can be given up by less than 1e-6, and several
decisions with a better second goal do so; solvers then prove different optima.
"""


def recipes() -> Iterator[Recipe]:
    """All instances, committed ones first."""
    for objective in OBJECTIVES:
        for trace in TWINS:
            for word in LOADS:
                # Seed by seed bp has the jobs of base but for their plans, which jct does not ask.
                seed = 1 if (trace, objective) == ("bp", "jct") else 0
                if trace != "naive" or word == "peak":  # it has ten jobs in all
                    yield Recipe(trace, objective, word, seed=seed)
    yield Recipe("base", "throughput", "light", formulation="node_assignment")
    yield Recipe("naive", "throughput", "peak", formulation="node_assignment")
    for parts, trace, objective in (
        (2, "base", "throughput"),
        (4, "mt", "throughput"),
        (8, "base", "jct"),
        (16, "base", "throughput"),
        (32, "bp", "throughput"),
    ):
        for word in COMPOSED_LOADS:
            recipe = Recipe(trace, objective, word, parts, large=parts == 32 and word == "peak")
            if recipe.name not in ILL_POSED:
                yield recipe


def build(
    folder: Path, wanted: Iterable[Recipe], time_limit_s: float, say: Progress
) -> tuple[Instance, ...]:
    """Build instances into a folder and bring its table up to date.

    Parameters
    ----------
    wanted
        Recipes; rows of other instances that the table has already are kept.
    time_limit_s
        Of each solver of `PROVERS` on each instance.
    """
    known = _rows(folder)
    for recipe in wanted:
        instance, model, problem, best = _make(recipe, time_limit_s)
        store(folder, instance, model, problem, best)
        known[instance.name] = instance
        write_table(folder, known.values())
        say(instance.words)
    return tuple(known.values())


def _make(
    recipe: Recipe, time_limit_s: float
) -> tuple[Instance, LinearModel, RoundProblem, Floats]:
    state, speeds, source = _state(recipe)
    problem, model = model_of(state, speeds, recipe.objective, recipe.formulation)
    best, objective, bound, proof = best_known(model, time_limit_s)
    instance = Instance(
        name=recipe.name,
        source=source,
        objective=recipe.objective,
        formulation=recipe.formulation,
        gpus=state.cluster.gpus,
        nodes=len(state.cluster.nodes),
        **sizes_of(state, problem, model),
        best=objective,
        bound=bound,
        proof=proof,
    )
    return instance, model, problem, best


def _state(recipe: Recipe) -> tuple[RoundState, SpeedModel, str]:
    if recipe.parts == 1:
        states, speeds = _milp_states(recipe.trace, recipe.objective, recipe.seed)
        state = by_load(states, LOADS[recipe.load])
        source = f"round {state.index} of trace {recipe.trace} seed {recipe.seed} under milp"
        return state, speeds, source
    quantile = COMPOSED_LOADS[recipe.load]
    rigid = [_rigid_states(recipe.trace, seed) for seed in range(recipe.parts)]
    # Parts differ a little in load, as the racks of a large cluster do.
    spread = np.linspace(-0.08, 0.08, recipe.parts)
    chosen = [
        by_load(states, float(np.clip(quantile + off, 0.0, 1.0)))
        for (states, _), off in zip(rigid, spread, strict=True)
    ]
    source = f"{recipe.parts} rounds of trace {recipe.trace} seeds 0 to {recipe.parts - 1} (srtf)"
    return side_by_side(chosen), rigid[0][1], source


def _rows(folder: Path) -> dict[str, Instance]:
    """Return the rows of a folder's table by name; make the folder if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    return {row.name: row for row in read_table(folder)} if (folder / TABLE).is_file() else {}


def make_series(folder: Path, of: Series, time_limit_s: float) -> Iterator[Instance]:
    """Make the files of a series, round by round; see `build`."""
    folder = folder / SERIES_FOLDER
    known = _rows(folder)
    states, speeds = of.states()
    jobs = read_jobs(folder) if (folder / JOBS).is_file() else {}
    write_jobs(folder, jobs | dict(jobs_of(states)))
    for name, state in states.items():
        problem, model = model_of(state, speeds, of.objective)
        best, objective, bound, proof = best_known(model, time_limit_s)
        known[name] = Instance(
            name=name,
            source=f"round {state.index} of trace {of.trace} seed 0 under milp",
            objective=of.objective,
            formulation="node_pattern",
            gpus=state.cluster.gpus,
            nodes=len(state.cluster.nodes),
            **sizes_of(state, problem, model),
            best=objective,
            bound=bound,
            proof=proof,
        )
        store(folder, known[name], model, problem, best)
        write_table(folder, known.values())
        write_sums(folder)
        yield known[name]


def make_hard(folder: Path, one: Hard) -> Instance:
    """Make the files of a hard instance; a solution that is there and still good is kept.

    Without one, the first is what earlier goals leave, or where jobs are as the round begins, or
    what HiGHS finds in a few nodes; `benchmarks.instances.hunting` looks for better ones.

    Raises
    ------
    NoPointError
        If HiGHS finds no point.
    """
    folder = folder / HARD_FOLDER
    rows = _rows(folder)
    built = build_hard(one)
    problem, model, state = built.problem, built.model, built.posed.state
    best, runs = _found_before(folder, one.name, model), read_runs(folder)
    if best is None:
        runs = tuple(run for run in runs if run.instance != one.name)  # of another model
        best = built.start
    if best is None:
        best = built.point_of(problem.options.stay)
    if best is None:
        best = make_solver("highs").solve(model, Hard.EARLIER).x
    if best is None:
        raise NoPointError(f"HiGHS found no point of {one.name}")
    row = Instance(
        name=one.name,
        source=one.source,
        objective=one.objective,
        formulation=one.formulation,
        gpus=state.cluster.gpus,
        nodes=len(state.cluster.nodes),
        **sizes_of(state, problem, model),
        best=model.objective(best),
        bound=built.trivial_bound,
        proof="each job alone",
    )
    row = settled(row, runs)
    store(folder, row, model, problem, best)
    write_runs(folder, runs)
    rows[row.name] = row
    write_table(folder, rows.values())
    write_sums(folder)
    return row


def _found_before(folder: Path, name: str, model: LinearModel) -> Floats | None:
    """Return the solution in the folder, if it is one of the very model; else None."""
    try:
        if to_mps(load(folder, name)) != to_mps(model):
            return None
        return load_best(folder, name, model)
    except InputError:
        return None


def sizes_of(state: RoundState, problem: RoundProblem, model: LinearModel) -> dict[str, Any]:
    """Return the columns of an instance's row that count something."""
    return {
        "jobs": problem.jobs.count,
        "running": int(problem.jobs.running.sum()),
        "guaranteed": int(problem.jobs.guaranteed.sum()),
        "load": round(requested_gpus(state) / state.cluster.gpus, 3),
        "candidates": problem.candidates.count,
        "rows": model.rows,
        "columns": model.columns,
        "nonzeros": model.nonzeros,
    }


@cache
def _milp_states(trace: str, objective: str, seed: int) -> tuple[list[RoundState], SpeedModel]:
    return replayed_states(trace, seed, "milp", objective)


@cache
def _rigid_states(trace: str, seed: int) -> tuple[list[RoundState], SpeedModel]:
    return replayed_states(trace, seed, "srtf", "auto")


def store(
    folder: Path, instance: Instance, model: LinearModel, problem: RoundProblem, best: Floats
) -> None:
    """Write the three files of an instance; the same input gives the same bytes."""
    write_model(model, folder / f"{instance.name}.mps.xz")
    packed = lzma.compress(to_json(problem).encode())
    write_atomically(folder / f"{instance.name}.round.json.xz", packed)
    write_solution(folder / f"{instance.name}.sol", model, best, instance.best)


class NoPointError(ContractError):
    """No solver found a point of an instance in its time."""


def best_known(model: LinearModel, time_limit_s: float) -> tuple[Floats, float, float, str]:
    """Best point, its objective, the best bound, and what proved it.

    Raises
    ------
    NoPointError
        If no solver finds a point.
    """
    best: Floats | None = None
    value, bound, proof = -np.inf, np.inf, ""
    for name in PROVERS:
        if name not in installed():
            continue
        limits = Limits(gap=0.0, time_s=time_limit_s)
        outcome = make_solver(name).solve(model, limits, best)
        if outcome.usable and outcome.objective > value:
            best, value = outcome.x, outcome.objective
        if outcome.bound < bound:
            bound, proof = outcome.bound, f"{outcome.solver} in {time_limit_s:g} s"
        if bound - value <= 1e-9 * max(1.0, abs(value)):
            proof = f"{outcome.solver} optimal"
            break
    if best is None:
        raise NoPointError(f"no solver found a point of {model.name}")
    return best, value, max(bound, value), proof
