"""What a method of solving posed rounds promises, and what it answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from formulations.layout import RoundModel
from formulations.round.tables import Level, Selection
from morph_opt.decision.pose import PosedRound
from morph_opt.solvers.outcome import Limits, Outcome


@dataclass
class StepTimes:
    """Milliseconds of wall time spent per step of a round."""

    build_ms: float = 0.0
    solve_ms: float = 0.0
    place_ms: float = 0.0


class Laps:
    """A stopwatch: what has passed since the lap before is added to the lap that ends."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._since_s = time.perf_counter()

    def end(self, name: str) -> None:
        """End a lap; a name may come again."""
        now_s = time.perf_counter()
        self.ms[name] = self.ms.get(name, 0.0) + 1e3 * (now_s - self._since_s)
        self._since_s = now_s


@dataclass(frozen=True, slots=True)
class Solved:
    """A placed decision and how it came about.

    Parameters
    ----------
    selection
        Passes `formulations.round.check.check`. None when no solve gave anything usable.
    outcomes
        Of the levels in order, up to the last one that was tried.
    levels
        What was tried, in order: the posed levels, or the round's ``fallback_levels`` where not
        every promise could be kept.
    promised
        Whether all guaranteed jobs can have the speed of their request at once; None if nobody
        asked or the method could not tell.
    rows, columns
        Size of the model that was solved last; 0 for a method without one.
    model
        The last level's, with the rows of goals before it; None for a method without one.
    times
        Where the time went.
    step
        The step that ended the last level, for methods of several.
    bound_by
        What proves the last level's bound: ``"solver"``, ``"prices"`` or ``"knapsack"``.
    posed
        The posing of the round whose options ``selection`` and ``levels`` speak of, where that is
        another than the one that was to be solved: a compact round that was posed whole.
    """

    selection: Selection | None
    outcomes: tuple[Outcome, ...]
    levels: tuple[Level, ...]
    promised: bool | None = None
    rows: int = 0
    columns: int = 0
    model: RoundModel | None = None
    times: StepTimes = field(default_factory=StepTimes)
    step: str = "exact"
    bound_by: str = "solver"
    posed: PosedRound | None = None

    @property
    def outcome(self) -> Outcome:
        """Of the level tried last."""
        return self.outcomes[-1]

    @property
    def complete(self) -> bool:
        """Whether every level was answered."""
        return len(self.outcomes) == len(self.levels) and self.outcome.usable

    def outcome_of(self, level: Level) -> Outcome | None:
        """Of one of the levels; None if it was not tried or its answer is unusable."""
        for tried, outcome in zip(self.levels, self.outcomes, strict=False):
            if tried is level:
                return outcome if outcome.usable else None
        return None


class RoundMethod(Protocol):
    """A way to solve posed rounds.

    What it must keep to: the levels are maximised in order, each within what was reached for
    those before it; promises to guaranteed jobs are hard rows, and only where they cannot all be
    kept ``fallback_levels`` take the place of its levels; every outcome's bound is an upper bound
    of its level over all decisions that keep to the levels before it; and ``Status.INFEASIBLE`` of
    the first outcome says that the rules leave no decision at all.
    """

    @property
    def name(self) -> str:
        """Word that command lines and reports use."""
        ...

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """The best decision found within the limits, placed, with proven bounds."""
        ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a decision rests on: whoever explains or publishes it needs nothing else.

    Parameters
    ----------
    posed, solved
        The round and its answer.
    selection
        What was decided: that of ``solved``, or the fallback's.
    """

    posed: PosedRound
    solved: Solved
    selection: Selection

    @property
    def gain(self) -> float:
        """Value of the decision less that of leaving everything as it is."""
        worth = self.posed.worth_of(self.solved.levels)
        stays = self.posed.problem.options.stays
        return self.selection.value(worth) - float(worth.value[stays].sum())
