"""Rounds in which what is free is scattered: moves instead of stops, and waits for places."""

from __future__ import annotations

from typing import Any

import pytest

import morph_opt as mo
from formulations.objectives.scattered import is_scattered, place_s
from formulations.round.tables import RoundProblem
from morph_opt.round.decide import snapshot_of
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from tests.moves.states import HELD, document, snapshot


def problem(*arguments: Any, **more: Any) -> RoundProblem:
    found = snapshot(*arguments, **more)
    return CandidateBuilder(found.speeds).view(found.state).problem


@pytest.mark.parametrize("objective", ["auto", "lookahead"])
def test_two_jobs_move_and_none_is_stopped(objective: str) -> None:
    """The scenario of volcano-sh/volcano, issue 3948."""
    state = document(HELD, {"new": 4})
    decision = mo.decide(state, objective=objective)
    words = [job["action"] for job in decision.to_json()["jobs"]]
    assert sorted(words) == ["start"] * 3 + ["stay"] * 6
    assert decision.gap == 0.0


@pytest.mark.parametrize(
    ("held", "waiting", "found"),
    [
        (HELD, {"new": 4}, True),
        (HELD, {"new": 1}, False),  # it fits
        (HELD, {}, False),
        (HELD, {"new": 4, "one": 1}, False),  # 25 GPUs are asked for
        ({"a": {"n1": 7}, "b": {"n2": 2, "n3": 2}}, {"new": 16}, False),
        ({"a": {"n1": 3}, "b": {"n2": 2}}, {"new": 16}, True),  # n3 is empty, n1 and n2 are not
    ],
)
def test_scattered_is_where_all_would_fit_and_one_does_not(
    held: dict[str, dict[str, int]], waiting: dict[str, int], found: bool
) -> None:
    assert is_scattered(problem(held, waiting)) is found


def test_jobs_wait_for_the_first_place() -> None:
    state = document(HELD, {"new": 4, "two": 16})
    left_s = {"a1": 700, "a2": 800, "b4": 900, "b2": 500, "c4": 2000, "a4": 3000}
    for job in state["jobs"]:
        job["iterations"] = left_s.get(job["name"], 7200)
    posed = snapshot_of(state)
    built = CandidateBuilder(posed.speeds).view(posed.state)
    names = [known.job.name for known in built.states]
    found = dict(zip(names, place_s(built.problem).tolist(), strict=True))
    wanted = {"new": 500.0, "b2": 700.0, "b4": 800.0, "two": 3000.0}  # b2 and b4 not on n2
    assert {name: found[name] for name in wanted} == wanted
