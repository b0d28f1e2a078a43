"""Answers are given again for rounds that are equal in all that a method goes by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from formulations.round.tables import Level, RoundProblem
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.repeated import Repeated
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop
from tests.decision.worlds import Posed, unpromised
from tests.formulations.worlds.random_rounds import EVERYTHING, random_level, random_round

LIMITS = Limits(gap=1e-4, time_s=60.0)


@dataclass
class Counting:
    """Counts the rounds that it is asked for."""

    status: Status = Status.OPTIMAL
    name: str = "counting"
    asked: list[Any] = field(default_factory=list)

    def solve(self, posed: Any, limits: Limits) -> Solved:
        self.asked.append(posed)
        return Solved(None, (Outcome(self.status, Stop.PROVED, self.name),), posed.levels)


def round_of(seed: int = 3) -> tuple[RoundProblem, Level]:
    draw = np.random.default_rng((seed, 1))
    problem = unpromised(random_round(draw, EVERYTHING))
    return problem, random_level(draw, problem)


def with_jobs(problem: RoundProblem, **columns: Any) -> RoundProblem:
    return replace(problem, jobs=replace(problem.jobs, **columns))


def asked_twice(first: Posed, second: Posed, status: Status = Status.OPTIMAL) -> int:
    """The number of rounds that reach the method, and that an answer has the round's own levels."""
    inner = Counting(status)
    method = Repeated(inner)
    for posed in (first, second):
        assert method.solve(posed, LIMITS).levels is posed.levels  # type: ignore[arg-type]
    return len(inner.asked)


def test_progress_alone_asks_for_nothing_new() -> None:
    problem, level = round_of()
    left, had = problem.jobs.iterations_left, problem.jobs.attained_gpu_s
    later = with_jobs(problem, iterations_left=left * 0.9, attained_gpu_s=2.0 * had + 5.0)
    same = replace(level, value=level.value.copy(), worth=level.worth.copy())
    assert asked_twice(Posed(problem, (level,)), Posed(later, (same,))) == 1


def changes() -> dict[str, tuple[RoundProblem, Level]]:
    """Rounds that differ from the first one in one thing each."""
    problem, level = round_of()
    jobs, nodes = problem.jobs, problem.nodes
    turned = np.arange(jobs.count, dtype=np.float64)
    return {
        "value": (problem, replace(level, value=level.value + 1.0, worth=level.worth + 1.0)),
        "order of GPU-seconds": (with_jobs(problem, attained_gpu_s=turned[::-1].copy()), level),
        "submission": (with_jobs(problem, submission_s=jobs.submission_s[::-1].copy()), level),
        "leaf": (replace(problem, nodes=replace(nodes, leaf=np.zeros_like(nodes.leaf))), level),
        "interval": (replace(problem, interval_s=problem.interval_s + 1.0), level),
    }


@pytest.mark.parametrize("change", list(changes()))
def test_whatever_counts_is_asked_for_anew(change: str) -> None:
    problem, level = round_of()
    first = with_jobs(problem, attained_gpu_s=np.arange(problem.jobs.count, dtype=np.float64))
    other, values = changes()[change]
    if change != "order of GPU-seconds":
        other = with_jobs(other, attained_gpu_s=first.jobs.attained_gpu_s)
    assert asked_twice(Posed(first, (level,)), Posed(other, (values,))) == 2


def test_what_is_not_proved_is_asked_for_anew() -> None:
    problem, level = round_of()
    posed = Posed(problem, (level,))
    assert asked_twice(posed, posed, Status.FEASIBLE) == 2
    assert asked_twice(posed, posed) == 1


def test_promises_are_asked_for_anew() -> None:
    problem, level = round_of()
    guaranteed = np.ones(problem.jobs.count, dtype=bool)
    posed = Posed(with_jobs(problem, guaranteed=guaranteed), (level,))
    assert asked_twice(posed, posed) == 2
