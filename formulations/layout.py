"""What both formulations share: the columns of the decisions, and cutting a choice off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Floats, Ints, LinearModel, ModelBuilder
from formulations.round_problem import NONE, STAY, Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the decisions stand in a model's columns.

    Parameters
    ----------
    x
        Column of each candidate, shape (K,).
    stay
        Column of each job's stay, shape (J,); -1 for queued jobs.
    columns
        Number of columns.
    """

    x: Ints
    stay: Ints
    columns: int

    def cost(self, level: Level) -> Floats:
        """Objective coefficients of a level, shape (columns,)."""
        cost = np.zeros(self.columns)
        cost[self.x] = level.value
        running = self.stay >= 0
        cost[self.stay[running]] = level.stay_value[running]
        return cost

    def choice(self, problem: RoundProblem, x: Floats) -> Ints:
        """Choice of every job at an integer point: candidate index, `STAY` or `NONE`."""
        choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
        picked = np.flatnonzero(x[self.x] > 0.5)
        choice[problem.candidates.job[picked]] = picked
        running = np.flatnonzero(self.stay >= 0)
        choice[running[x[self.stay[running]] > 0.5]] = STAY
        return choice

    def picked(self, choice: Ints) -> Ints:
        """Columns that are one under a choice."""
        stays = np.flatnonzero(choice == STAY)
        return np.sort(np.concatenate([self.x[choice[choice >= 0]], self.stay[stays]]))


@dataclass(frozen=True, slots=True)
class RoundModel:
    """A built model and the layout that decodes it."""

    model: LinearModel
    layout: Layout


def add_choices(builder: ModelBuilder, problem: RoundProblem) -> Layout:
    """Columns x and s and the rows ``one_config``."""
    jobs, candidates = problem.jobs, problem.candidates
    k = np.arange(candidates.count, dtype=np.int64)
    x = builder.add_columns("x", np.column_stack([candidates.job, k]), 1.0)
    running = np.flatnonzero(jobs.running)
    s = builder.add_columns("s", running[:, None], 1.0)
    stay = np.full(jobs.count, -1, dtype=np.int64)
    stay[running] = s
    builder.add_rows(
        "one_config",
        np.arange(jobs.count)[:, None],
        -np.inf,
        1.0,
        [(candidates.job, x, 1.0), (running, s, 1.0)],
    )
    return Layout(x, stay, 0)


def forbid(built: RoundModel, choice: Ints, serial: int) -> RoundModel:
    """The model without this choice of configurations and its supersets (row ``not_again``).

    Valid whenever the choice cannot be placed: what does not fit does not fit with more.
    """
    ones = built.layout.picked(choice)
    model = built.model.with_row(
        "not_again", [serial], ones, np.ones(ones.size), -np.inf, ones.size - 1.0
    )
    return RoundModel(model, built.layout)
