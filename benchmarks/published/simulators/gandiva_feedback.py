"""A round of time slices as a ranked integer program: early feedback, then equal turns, then use.

Gangs at their request, each on one server: the question of a round of slices is who runs. The
values are on ``docs/gandiva-easyscale.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel, ModelBuilder
from formulations.objectives.feedback import soon, turn, turn_weights
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

EXACT = Limits(gap=0.0, time_s=60.0)
SLACK = 1e-9
"""Relative room below a level that is reached, so that rounding cannot make it impossible."""


@dataclass(frozen=True, slots=True)
class SlicedJob:
    """A gang at a boundary.

    Parameters
    ----------
    gpus
        Gang.
    age_s, executed_s
        Since submission, and of that with GPUs.
    charge_s
        What it would pay to run.
    feedback_left_s
        Work to its first feedback; 0 once it has reported.
    """

    gpus: int
    age_s: float
    executed_s: float
    charge_s: float
    feedback_left_s: float


@dataclass(frozen=True, slots=True)
class FeedbackRound:
    """Who asks, and for what.

    Parameters
    ----------
    servers, per_server
        Servers, and GPUs of each.
    interval_s
        Length of the round.
    jobs
        Who asks.
    """

    servers: int
    per_server: int
    interval_s: float
    jobs: tuple[SlicedJob, ...]

    @property
    def share(self) -> float:
        """Fraction of time that each job could have."""
        asked = sum(job.gpus for job in self.jobs)
        return min(1.0, self.servers * self.per_server / max(1, asked))

    @property
    def weights(self) -> Floats:
        """How far each job is behind its turn, in rounds, plus 1."""
        age_s, executed_s = self._column("age_s"), self._column("executed_s")
        gpus = float(self.servers * self.per_server)
        return turn_weights(gpus, self._column("gpus"), age_s, executed_s, self.interval_s)

    def _column(self, name: str) -> Floats:
        return np.asarray([float(getattr(job, name)) for job in self.jobs])

    def values(self) -> dict[str, Floats]:
        """What running each job is worth, by level, most important first."""
        charge_s, left_s = self._column("charge_s"), self._column("feedback_left_s")
        return {
            "feedback": soon(self.interval_s, charge_s, left_s),
            "turn": turn(self.interval_s, charge_s, self.weights),
            "gpus": self._column("gpus"),
        }

    def model(self) -> LinearModel:
        """Who runs on which server: one server at most each, GPUs of every server."""
        count = len(self.jobs)
        job, server = np.divmod(np.arange(count * self.servers), self.servers)
        gpus = np.asarray([float(self.jobs[j].gpus) for j in job])
        most = (gpus <= self.per_server).astype(np.float64)
        model = ModelBuilder("feedback")
        x = model.add_columns("x", np.column_stack([job, server]), most)
        model.add_rows("one_server", np.arange(count)[:, None], -np.inf, 1.0, [(job, x, 1.0)])
        room = float(self.per_server)
        servers = np.arange(self.servers)[:, None]
        model.add_rows("gpus", servers, -np.inf, room, [(server, x, gpus)])
        return model.build(np.zeros(count * self.servers))


def ranked_optimum(task: FeedbackRound) -> tuple[dict[str, float], Sequence[int]]:
    """Largest value of each level, those before being kept, and who runs.

    Raises
    ------
    RuntimeError
        If the solver proves no optimum.
    """
    model, solver = task.model(), make_solver("highs")
    found: dict[str, float] = {}
    runs: list[int] = []
    for name, value in task.values().items():
        cost = np.repeat(value, task.servers)
        outcome = solver.solve(model.with_objective(cost), EXACT)
        if outcome.x is None:
            raise RuntimeError(f"level {name}: {outcome.message or outcome.status}")
        chosen = outcome.x.reshape(-1, task.servers).max(axis=1, initial=0.0) > 0.5
        runs = np.flatnonzero(chosen).tolist()
        found[name] = float(value[runs].sum())
        floor = found[name] - SLACK * max(1.0, found[name])
        used = np.flatnonzero(cost)
        model = model.with_row(name, (), used, cost[used], floor, np.inf)
    return found, runs
