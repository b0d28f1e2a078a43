"""Objectives that need nothing but the round's tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from formulations import objectives as maths
from formulations.objectives import lookahead, makespan, saved_time
from formulations.round.tables import Level, RoundProblem
from morph_opt.decision.objective import Stateless


@dataclass(frozen=True)
class Throughput(Stateless):
    """Total normalised speed; see `formulations.objectives.throughput`."""

    horizon_s: float | None = None
    name: str = "throughput"
    faster_is_better: bool = True

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in normalised speed."""
        return maths.throughput(problem, self.horizon_s)


@dataclass(frozen=True)
class Jct(Stateless):
    """Completion rate; see `formulations.objectives.jct`."""

    restart_weight: float = 2.0
    name: str = "jct"
    faster_is_better: bool = True

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in completions per second."""
        return maths.jct(problem, self.restart_weight)


@dataclass(frozen=True)
class Lookahead(Stateless):
    """Completion time saved at prices of the backlog; see `formulations.objectives.lookahead`."""

    wait_rounds: float = 2.0
    name: str = "lookahead"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in seconds."""
        return lookahead.levels(problem, self.wait_rounds)


@dataclass(frozen=True)
class SavedTime(Stateless):
    """Completion time saved per root of time held; see `formulations.objectives.saved_time`."""

    wait_rounds: float = 2.0
    name: str = "saved-time"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in seconds saved per root second."""
        return saved_time.levels(problem, self.wait_rounds)


@dataclass(frozen=True)
class WorkRates(Stateless):
    """Completion rate weighed by work left; see `formulations.objectives.makespan`."""

    name: str = "makespan"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level, in work per second."""
        return makespan.levels(problem)


OBJECTIVES: dict[str, Callable[[], Stateless]] = {
    "throughput": Throughput,
    "jct": Jct,
    "lookahead": Lookahead,
    "saved-time": SavedTime,
    "makespan": WorkRates,
}
"""These objectives by name; ``makespan`` is more than this where GPUs are of several types."""
