"""Rounds posed for a method without an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.objectives import guarantee
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True)
class Posed:
    """What a method reads of a posed round, itself for a view."""

    problem: RoundProblem
    levels: tuple[Level, ...]
    compact: bool = False

    @property
    def view(self) -> Posed:
        return self

    @property
    def fallback_levels(self) -> tuple[Level, ...]:
        return (guarantee(self.problem), *self.levels)


def unpromised(problem: RoundProblem) -> RoundProblem:
    """The round without promises, which brute force does not know."""
    nobody = np.zeros(problem.jobs.count, dtype=bool)
    return replace(problem, jobs=replace(problem.jobs, guaranteed=nobody))
