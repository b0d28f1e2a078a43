"""Sia's matrix of goodputs and its integer program.

Source: the publication (SOSP'23) and siasosp23/artifacts (no licence stated: only facts are taken
from it); the rules in our words are on ``docs/published-heuristics.md``. Solved by HiGHS, not by
the solvers of the publication, to a gap that is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.linear_model import LinearModel, ModelBuilder
from morph_opt.scheduling.policies.published import SIA
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

Column = tuple[str, int, int]
"""Configuration: GPU type, nodes, GPUs."""


@dataclass(frozen=True, slots=True)
class SiaJob:
    """Job in the terms of the rule.

    Parameters
    ----------
    goodput
        Goodput of every column, shape (columns,).
    usable
        Whether the job may have the column.
    age_s, restarts, restart_s
        Seconds since submission; number of restarts so far; assumed seconds of a restart.
    current
        Column of the previous solve; None without one.
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
        """Discount of a change of configuration."""
        if self.age_s < self.restart_s or self.age_s == 0.0:
            return 1.0
        worked_s = max(0.0, self.age_s - self.restarts * self.restart_s)
        return worked_s / (self.age_s + self.restart_s)

    def normalised(self, least: float = 1.0) -> Floats:
        """Return goodput over the smallest usable one, which counts as ``least``, (columns,)."""
        row = np.where(self.usable, self.goodput, SIA.unusable)
        if self.usable.any():
            row = row / row[self.usable].min() * least
        return np.maximum(row, SIA.unusable)

    def cost(self, power: float, least: float = 1.0) -> Floats:
        """Return the cost of every column, rounded to hundredths, shape (columns,)."""
        row = self.normalised(least)
        if self.current is not None:
            kept = row[self.current]
            row = row * self.restart_factor
            row[self.current] = kept
        with np.errstate(divide="ignore", over="ignore"):
            raised = np.power(row.astype(np.float32), np.float32(power))
        rounded = np.minimum(np.round(raised, 2), np.float32(SIA.dearest))
        exact = np.array(rounded.tolist(), dtype=np.float64)
        return np.round(exact, 2)


def program(
    costs: Floats,
    columns: Sequence[Column],
    jobs: Sequence[SiaJob],
    room: Mapping[str, int],
    power: float,
    waiting: float,
) -> LinearModel:
    """Build the integer program: at most one column per job, GPUs of every type; no nodes.

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
    """Column of each job (None to wait), value and certified relative gap of the program."""

    chosen: tuple[int | None, ...]
    objective: float
    gap: float


def solve(
    jobs: Sequence[SiaJob],
    costs: Floats,
    columns: Sequence[Column],
    room: Mapping[str, int],
    *,
    power: float,
    waiting: float,
    limits: Limits,
) -> SiaAnswer:
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
