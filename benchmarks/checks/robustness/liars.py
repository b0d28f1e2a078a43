"""Every installed adapter, made to lie, fail and hang: no false word may get out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status
from morph_opt.scheduling.solvers.recheck import violated
from morph_opt.scheduling.solvers.registry import installed, make_solver
from morph_opt.scheduling.solvers.worker.isolated import IsolatedSolver
from tests.solvers import faulty, models

MODELS = [
    models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1)),
    models.single(0, 3, (1, 2), (1, 4), (2, 1)),
]
"""Small ones, with a known best objective."""
BEST = 7.0, 6.0
LIMITS = Limits(gap=0.0, time_s=600.0)


def _infeasible_point(answer: Answer) -> Answer:
    return replace(answer, x=None if answer.x is None else answer.x + 1e3)


def _worse_point(answer: Answer) -> Answer:
    return replace(answer, x=None if answer.x is None else np.zeros_like(answer.x))


ANSWERS: dict[str, Callable[[Answer], Answer]] = {
    "says optimal of an infeasible point": _infeasible_point,
    "says optimal of a bad point": _worse_point,
    "says infeasible": lambda a: replace(a, meaning=Meaning.INFEASIBLE, x=None),
    "says unbounded": lambda a: replace(a, meaning=Meaning.UNBOUNDED, x=None),
    "says proved without a point": lambda a: replace(a, x=None),
    "bound too low": lambda a: replace(a, bound=a.bound - 5.0),
    "bound is nan": lambda a: replace(a, bound=float("nan")),
    "bound is infinite": lambda a: replace(a, bound=float("inf")),
    "point has nan": lambda a: replace(a, x=None if a.x is None else a.x * float("nan")),
    "point of another length": lambda a: replace(a, x=np.zeros(7)),
    "point is fractional": lambda a: replace(a, x=None if a.x is None else a.x - 0.5),
}
"""What an adapter is made to answer in place of the truth."""

ENDS = {
    "crashes": faulty.Crashing,
    "is killed": faulty.Killed,
    "hangs": faulty.Hanging,
    "leaks until memory is out": faulty.Hungry,
    "leaks and says so": faulty.Polite,
    "throws": faulty.Throwing,
}
"""Adapters that do not come back, run in a process of their own."""

LIES = tuple((solver, lie) for solver in installed() for lie in ANSWERS) + tuple(
    ("worker", end) for end in ENDS
)


def false_words(outcome: Outcome, model: LinearModel, best: float) -> str:
    """What an outcome says that is not so; nothing if it is true or admits an error."""
    if outcome.x is not None:
        if outcome.x.shape != (model.columns,) or violated(model, outcome.x):
            return "hands out a point that breaks the model"
        if abs(model.objective(outcome.x) - outcome.objective) > 1e-9:
            return "states another objective than its point has"
    if outcome.usable and outcome.bound < best - 1e-6:
        return f"states the bound {outcome.bound}, {best} can be had"
    if outcome.status is Status.OPTIMAL and outcome.objective < best - 1e-6:
        return f"calls {outcome.objective} optimal, {best} can be had"
    if outcome.status is Status.UNBOUNDED:
        return "says unbounded"
    return ""


def lied_to(solver: str, lie: str) -> list[str]:
    """Solve every model with the liar; a sentence per model, empty where nothing false got out."""
    if solver == "worker":
        return [_ended(lie)]
    found = []
    for model, best in zip(MODELS, BEST, strict=True):
        adapter = _liar(solver, ANSWERS[lie])
        start = np.zeros(model.columns)
        known = None if violated(model, start) else start
        outcome = adapter.solve(model, LIMITS, known)
        wrong = false_words(outcome, model, best)
        if outcome.status is Status.INFEASIBLE and known is not None:
            wrong = "says infeasible though it was given a feasible point"
        found.append(wrong)
    return found


def _liar(solver: str, change: Callable[[Answer], Answer]) -> Any:
    adapter = make_solver(solver)
    assert isinstance(adapter, Adapter)
    true = adapter._attempt
    adapter._attempt = lambda *given: change(true(*given))  # type: ignore[method-assign]
    return adapter


def _ended(end: str) -> str:
    """A worker that does not come back, and the next solve."""
    isolated = IsolatedSolver(
        f"tests.solvers.faulty:{ENDS[end].__name__}", memory_mib=700, grace_s=1.0
    )
    began = time.monotonic()
    try:
        outcome = isolated.solve(MODELS[0], Limits(time_s=1.0))
    finally:
        isolated.close()
    if outcome.usable or outcome.status not in (Status.ERROR, Status.NO_SOLUTION):
        return f"status {outcome.status}"
    return "took longer than a minute" if time.monotonic() - began > 60 else ""
