"""Interface of round methods: how posed rounds are solved, and what the answer has."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from formulations.layout import RoundModel
from formulations.round.tables import Level, Selection
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.solvers.outcome import Limits, Outcome


@dataclass
class StepTimes:
    """Milliseconds of wall time spent per step of a round."""

    build_ms: float = 0.0
    solve_ms: float = 0.0
    place_ms: float = 0.0


class Laps:
    """Stopwatch that adds up times by the name of a lap."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._since_s = time.perf_counter()

    def end(self, name: str) -> None:
        """End a lap; laps of one name are added up."""
        now_s = time.perf_counter()
        self.ms[name] = self.ms.get(name, 0.0) + 1e3 * (now_s - self._since_s)
        self._since_s = now_s


@dataclass(frozen=True, slots=True)
class Solved:
    """Placed decision with its proofs, times and sizes.

    Parameters
    ----------
    selection
        Decision that passes `formulations.round.check.check`; None if no solve found one.
    outcomes
        Outcome of each level in order, up to the last one that was tried.
    levels
        Levels that were tried, in order: the posed levels, or the round's ``fallback_levels`` if
        not every promise could be kept.
    promised
        Whether all guaranteed jobs can have the speed of their request at once; None if there are
        none or it is not known.
    rows, columns
        Size of the model that was solved last; 0 if there was none.
    model
        Model of the last level, with the rows of goals before it; None if there was none.
    times
        Time per step.
    step
        Step that ended the last level.
    bound_by
        Proof of the last level's bound: ``"solver"``, ``"prices"`` or ``"knapsack"``.
    posed
        Round to whose options ``selection`` and ``levels`` refer, if it is not the one that was to
        be solved: a compact round that was posed whole.
    kept_bounds
        Bounds of the posed levels, in order, over decisions that keep all promises; as many as are
        known if ``promised`` is None.
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
    kept_bounds: tuple[float, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Outcome of the level tried last."""
        return self.outcomes[-1]

    @property
    def complete(self) -> bool:
        """Whether every level was answered."""
        return len(self.outcomes) == len(self.levels) and self.outcome.usable

    def outcome_of(self, level: Level) -> Outcome | None:
        """Return the outcome of a level; None if it was not tried or has no decision."""
        for tried, outcome in zip(self.levels, self.outcomes, strict=False):
            if tried is level:
                return outcome if outcome.usable else None
        return None


class RoundMethod(Protocol):
    """Method that solves posed rounds.

    Levels are maximised in order, each subject to what was reached for those before it. Promises to
    guaranteed jobs are hard rows; ``fallback_levels`` replace the levels only if not all promises
    can be kept. Every outcome's bound is an upper bound of its level over all decisions that keep
    to the levels before it. ``Status.INFEASIBLE`` of the first outcome means that the rules leave
    no decision at all.
    """

    @property
    def name(self) -> str:
        """Name on command lines and in reports."""
        ...

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """Return the best decision found within the limits, placed, with proven bounds."""
        ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """Round, answer and choice of a decision: all that explanations and publications need.

    Parameters
    ----------
    posed, solved
        Round and its answer.
    selection
        Decision of ``solved``, or of the fallback.
    """

    posed: PosedRound
    solved: Solved
    selection: Selection

    @property
    def gain(self) -> float:
        """Value of the decision minus the value of leaving everything as it is."""
        worth = self.posed.worth_of(self.solved.levels)
        stays = self.posed.problem.options.stays
        return self.selection.value(worth) - float(worth.value[stays].sum())
