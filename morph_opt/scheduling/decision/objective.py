"""Base classes of objectives: they observe snapshots and state pure goals of a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from formulations.round.tables import Level, LevelError, RoundProblem
from morph_opt.core.domain import InputError, RoundState
from morph_opt.core.domain.arguments import kind_of
from morph_opt.core.extend import blamed_on, import_path

__all__ = ["Data", "Level", "Objective", "Stateless", "goals_of"]

Data = TypeVar("Data")


class Objective(ABC, Generic[Data]):
    """Goals of rounds, most important first.

    `observe` may remember earlier rounds. `levels` may not: it is a function of the tables and of
    what was observed, so that a round can be posed again with one thing changed. Values are
    additive over options: a goal with a variable of its own cannot be stated.
    """

    name: str
    """Name on command lines."""

    remembers: bool = True
    """Whether observations depend on earlier rounds."""

    faster_is_better: bool = False
    """Whether a faster or sooner option is never worth less, whatever GPUs it takes, and no option
    is worth less than waiting."""

    @abstractmethod
    def observe(self, state: RoundState) -> Data:
        """Return the input of goals beyond the round's tables; called once per round, in order."""

    @abstractmethod
    def levels(self, problem: RoundProblem, data: Data) -> tuple[Level, ...]:
        """Return the goals, most important first; the value of the last one is the round's.

        Parameters
        ----------
        problem
            The round: jobs (J), candidates (K), nodes (N), and options (O) with members (M).
        data
            Result of `observe`.
        """

    def slo_changes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the jobs whose SLO was dropped in the last observed round, and those restored."""
        return (), ()


def goals_of(objective: Objective[Data], problem: RoundProblem, data: Data) -> tuple[Level, ...]:
    """Return the levels of an objective, checked, as it may be a user's own.

    Raises
    ------
    InputError
        If a level cannot be built, if they are no tuple of at least one `Level`, or if a level does
        not have a finite value for every option, shape (O,), and every member, shape (M,).
    """
    source = f"{import_path(objective)}.levels"
    try:
        goals = objective.levels(problem, data)
    except LevelError as error:
        raise InputError(blamed_on(error) or f"{source}: {error}", field="--objective") from error
    if not (isinstance(goals, tuple) and goals and all(isinstance(one, Level) for one in goals)):
        rule = f"{source} must return a tuple of one Level or more, got {kind_of(goals)}"
        raise InputError(rule, field="--objective")
    options, members = problem.options.count, problem.options.members.option.size
    for level in goals:
        for what, array, size in (("value", level.value, options), ("worth", level.worth, members)):
            rule = f"{source}: {what} of level {level.name!r} must "
            if array.shape != (size,):
                rule += f"have shape ({size},), got {array.shape}"
            elif (what == "value" or array is not level.value) and not np.isfinite(array).all():
                rule += f"be finite, entry {int(np.argmin(np.isfinite(array)))} is not"
            else:
                continue
            raise InputError(rule, field="--objective")
    return goals


class Stateless(Objective[None]):
    """Objective that needs only the round's tables."""

    remembers = False

    def observe(self, state: RoundState) -> None:
        """Observe nothing."""

    def levels(self, problem: RoundProblem, data: None = None) -> tuple[Level, ...]:
        """Return `goals`.

        Parameters
        ----------
        problem
            The round.
        data
            None.
        """
        del data
        return self.goals(problem)

    @abstractmethod
    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Return the goals, most important first."""
