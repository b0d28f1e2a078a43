"""Sia's matrix of goodputs, its integer program, and its published placement.

Source: the publication (SOSP'23) and siasosp23/artifacts (no licence stated: only facts are taken
from it); the rules in our words are on ``docs/published-heuristics.md``. Solved by HiGHS, not by
the solvers of the publication, to a gap that is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.solvers.outcome import Limits
from morph_opt.solvers.registry import make_solver

UNUSABLE = 1e-4
"""Goodput of what a job cannot use."""

DEAREST = 3000.0
"""Largest cost of a configuration."""

MOST_GPUS = 64
"""Of a configuration."""


@dataclass(frozen=True, slots=True)
class GpuPool:
    """The nodes of one GPU type.

    Parameters
    ----------
    name, nodes, gpus_per_node
        Of the type.
    profiled_nodes
        On how many of them jobs were ever measured.
    """

    name: str
    nodes: int
    gpus_per_node: int
    profiled_nodes: int


Column = tuple[str, int, int]
"""A configuration: GPU type, nodes, GPUs."""


def configurations(pools: Sequence[GpuPool]) -> list[Column]:
    """All configurations, type by type: 1, 2, 4 (8) GPUs in one node, then whole nodes.

    The published code takes eight GPUs as one node of every type but those with four.
    """
    found = []
    for pool in pools:
        size = 4 if pool.gpus_per_node == 4 else 8
        part = [gpus for gpus in (1, 2, 4, 8) if gpus <= size]
        whole = range(2 * size, MOST_GPUS + 1, size)
        most = min(pool.nodes, pool.profiled_nodes)
        rows = [(pool.name, 1, gpus) for gpus in part]
        rows += [(pool.name, gpus // size, gpus) for gpus in whole]
        found += [row for row in rows if row[1] <= most]
    return found


@dataclass(frozen=True, slots=True)
class SiaJob:
    """A job as the rule sees it.

    Parameters
    ----------
    goodput
        Of every column, shape (columns,).
    usable
        Whether the job may have the column.
    age_s, restarts, restart_s
        Since submission; so far; what a restart is taken to cost.
    current
        Column of the solve before; None without one.
    fixed
        Whether the job must keep it, being in the middle of a restart.
    """

    goodput: Floats
    usable: Bools
    age_s: float
    restarts: int
    restart_s: float
    current: int | None = None
    fixed: bool = False

    @property
    def restart_factor(self) -> float:
        """What a change of configuration is discounted by."""
        if self.age_s < self.restart_s:
            return 1.0
        worked_s = max(0.0, self.age_s - self.restarts * self.restart_s)
        return worked_s / (self.age_s + self.restart_s)

    def normalised(self, least: float = 1.0) -> Floats:
        """Goodput over the smallest usable one, which counts as ``least``, shape (columns,)."""
        row = np.where(self.usable, self.goodput, UNUSABLE)
        if self.usable.any():
            row = row / row[self.usable].min() * least
        return np.maximum(row, UNUSABLE)

    def cost(self, power: float, least: float = 1.0) -> Floats:
        """Price of every column, single precision rounded to hundredths, shape (columns,)."""
        row = self.normalised(least)
        if self.current is not None:
            kept = row[self.current]
            row = row * self.restart_factor
            row[self.current] = kept
        with np.errstate(divide="ignore", over="ignore"):
            raised = np.power(row.astype(np.float32), np.float32(power))
        rounded = np.minimum(np.round(raised, 2), np.float32(DEAREST))
        exact = np.array(rounded.tolist(), dtype=np.float64)
        return np.round(exact, 2)


def projected(
    goodput: Floats,
    columns: Sequence[Column],
    pools: Sequence[GpuPool],
    known: Sequence[str],
    ratio: Mapping[str, Mapping[str, float]],
    elsewhere: Callable[[str, int], float] = lambda _type, _gpus: 0.0,
) -> Floats:
    """Goodputs of a job whose model is known on some types only, shape (columns,).

    Other types get what the first known one has for the same count, times the ratio of one-GPU
    throughputs; a job that is known nowhere has 1 on one GPU of every type, 0 elsewhere.

    Parameters
    ----------
    elsewhere
        Goodput for a count that is no column of the first known type.
    """
    if not known:
        return np.asarray([1.0 if gpus == 1 else 0.0 for _, _, gpus in columns])
    source = next(pool.name for pool in pools if pool.name in known)
    there = {gpus: goodput[k] for k, (name, _, gpus) in enumerate(columns) if name == source}
    found = goodput.copy()
    for k, (name, _, gpus) in enumerate(columns):
        if name not in known:
            base = there[gpus] if gpus in there else elsewhere(source, gpus)
            found[k] = base * ratio[name][source]
    return found


def program(
    costs: Floats, columns: Sequence[Column], jobs: Sequence[SiaJob],
    room: Mapping[str, int], power: float, waiting: float,
) -> LinearModel:  # fmt: skip
    """The integer program: one column at most per job, GPUs of every type; no nodes.

    Minimises ``sum A x + waiting (J - sum x)`` for a negative power, maximises the same for a
    positive one (`LinearModel` maximises: the sign of its objective is turned).
    """
    count, width = costs.shape
    job, column = np.divmod(np.arange(count * width), width)
    sense = -1.0 if power < 0 else 1.0
    lower = np.zeros((count, width))
    for j, one in enumerate(jobs):
        if one.fixed and one.current is not None:
            lower[j, one.current] = 1.0
    model = ModelBuilder("sia")
    x = model.add_columns("x", np.column_stack([job, column]), 1.0, lower=lower.ravel())
    model.add_rows("one_configuration", np.arange(count)[:, None], -np.inf, 1.0, [(job, x, 1.0)])
    names = list(room)
    kind = np.asarray([names.index(name) for name, _, _ in columns], dtype=np.int64)
    gpus = np.asarray([float(gpus) for _, _, gpus in columns])
    most = np.asarray([float(room[name]) for name in names])
    model.add_rows(
        "gpus", np.arange(len(names))[:, None], -np.inf, most, [(kind[column], x, gpus[column])]
    )
    return model.build(sense * (costs.ravel() - waiting), sense * waiting * count)


@dataclass(frozen=True, slots=True)
class SiaAnswer:
    """A column for each job, None to wait; value and certified relative gap of the program."""

    chosen: tuple[int | None, ...]
    objective: float
    gap: float


def solve(
    jobs: Sequence[SiaJob], costs: Floats, columns: Sequence[Column], room: Mapping[str, int],
    *, power: float, waiting: float, limits: Limits,
) -> SiaAnswer:  # fmt: skip
    """Solve the program.

    Raises
    ------
    RuntimeError
        If the solver finds nothing; waiting is always possible but for jobs inside a restart.
    """
    if not jobs:
        return SiaAnswer((), 0.0, 0.0)
    outcome = make_solver("highs").solve(
        program(costs, columns, jobs, room, power, waiting), limits
    )
    if outcome.x is None:
        raise RuntimeError(f"Sia's program has no answer: {outcome.message or outcome.status}")
    x = outcome.x.reshape(costs.shape) > 0.5
    chosen = tuple(int(row.argmax()) if row.any() else None for row in x)
    sense = -1.0 if power < 0 else 1.0
    return SiaAnswer(chosen, sense * outcome.objective, outcome.gap)


def cursor_placement(gpus: Sequence[int], nodes: int, per_node: int) -> list[list[tuple[int, int]]]:
    """The published simulator's nodes for jobs of one type: a cursor that goes round once.

    Jobs by descending GPUs; whole nodes from fully free ones, the rest wherever the cursor is,
    split freely, so that a job may be spread over nodes that it needs not.
    """
    free = [per_node] * nodes
    found: list[list[tuple[int, int]]] = [[] for _ in gpus]
    cursor = 0
    for j in sorted(range(len(gpus)), key=lambda j: -gpus[j]):
        missing = gpus[j]
        for _ in range(nodes):
            if missing < per_node:
                break
            if free[cursor] == per_node:
                found[j].append((cursor, per_node))
                free[cursor] = 0
                missing -= per_node
            cursor = (cursor + 1) % nodes
        for _ in range(nodes):
            if missing == 0:
                break
            taken = min(free[cursor], missing)
            if taken:
                found[j].append((cursor, taken))
                free[cursor] -= taken
                missing -= taken
            cursor = (cursor + 1) % nodes
    return found
