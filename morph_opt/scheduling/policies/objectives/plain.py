"""Objectives that depend on the round's tables alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from formulations import objectives as maths
from formulations.objectives import lookahead, makespan, saved_time
from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.objective import Stateless


@dataclass(frozen=True)
class Throughput(Stateless):
    """Objective of total normalised speed; see `formulations.objectives.throughput`."""

    horizon_s: float | None = None
    name: str = "throughput"
    faster_is_better: bool = True

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Return one level, in normalised speed."""
        return maths.throughput(problem, self.horizon_s)


@dataclass(frozen=True)
class Jct(Stateless):
    """Objective of completion rates; see `formulations.objectives.jct`."""

    restart_weight: float = 2.0
    name: str = "jct"
    faster_is_better: bool = True

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Return one level, in completions per second."""
        return maths.jct(problem, self.restart_weight)


@dataclass(frozen=True)
class Lookahead(Stateless):
    """Objective of completion time saved, GPUs priced by the backlog; see `lookahead`."""

    wait_rounds: float = 2.0
    name: str = "lookahead"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Return one level, in seconds."""
        return lookahead.levels(problem, self.wait_rounds)


@dataclass(frozen=True)
class SavedTime(Stateless):
    """Objective of completion time saved per root of the time held; see `saved_time`."""

    wait_rounds: float = 2.0
    name: str = "saved-time"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Return one level, in seconds saved per root second."""
        return saved_time.levels(problem, self.wait_rounds)


@dataclass(frozen=True)
class WorkRates(Stateless):
    """Objective of rates weighed by work left; see `formulations.objectives.makespan`."""

    name: str = "makespan"

    def goals(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Return one level, in work per second."""
        return makespan.levels(problem)


OBJECTIVES: dict[str, Callable[[], Stateless]] = {
    "throughput": Throughput,
    "jct": Jct,
    "lookahead": Lookahead,
    "saved-time": SavedTime,
    "makespan": WorkRates,
}
"""Objectives of this module by name; ``makespan`` is another one with several GPU types."""
