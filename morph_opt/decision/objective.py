"""What an objective is: what it reads from a snapshot and remembers, and pure goals from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from formulations.round.tables import Level, LevelError, RoundProblem
from morph_opt.domain import InputError, RoundState
from morph_opt.domain.arguments import kind_of
from morph_opt.extend import blamed_on, import_path

__all__ = ["Data", "Level", "Objective", "Stateless", "goals_of"]

Data = TypeVar("Data")


class Objective(ABC, Generic[Data]):
    """What a round is worth.

    `observe` may remember; `levels` may not: it is a function of the tables and of what was
    observed, so that a round can be posed again with one thing changed.
    """

    name: str
    """Word that command lines use."""

    remembers: bool = True
    """Whether what it observes depends on earlier rounds."""

    faster_is_better: bool = False
    """Whether no option is worth less for fewer seconds per iteration or less start-up, whatever
    the GPUs that it takes, and none is worth less than waiting."""

    @abstractmethod
    def observe(self, state: RoundState) -> Data:
        """What the goals of a round need beyond its tables; called once per round, in order."""

    @abstractmethod
    def levels(self, problem: RoundProblem, data: Data) -> tuple[Level, ...]:
        """Goals, most important first; the last one is what the round is said to be worth.

        Parameters
        ----------
        problem
            The round: jobs (J), candidates (K), nodes (N), and options (O) with members (M).
        data
            What `data` read of the state; None for objectives without any.
        """

    def slo_changes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Jobs whose SLO was given up in the round observed last, and those whose holds again."""
        return (), ()


def goals_of(objective: Objective[Data], problem: RoundProblem, data: Data) -> tuple[Level, ...]:
    """The levels of an objective, which may be a user's own: what is wrong with them is said.

    Raises
    ------
    InputError
        If they are no tuple of at least one `Level`, or a level has not a finite value for every
        option, shape (O,), and for every member, shape (M,).
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
    """An objective that needs nothing but the round's tables."""

    remembers = False

    def observe(self, state: RoundState) -> None:
        """Nothing."""

    def levels(self, problem: RoundProblem, data: None = None) -> tuple[Level, ...]:
        """What `goals` says.

        Parameters
        ----------
        problem
            The round.
        data
            Nothing.
        """
        del data
        return self.goals(problem)

    @abstractmethod
    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Goals, most important first."""
