"""The tables: what they refuse, and how candidates are taken out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from formulations.round_problem import NONE, STAY, Level, RoundProblem, Selection
from tests.formulations.rounds import Candidate, Hold, tiny


def base() -> RoundProblem:
    return tiny([8, 4], [Candidate(0, (4, 2)), Candidate(1, (4,), 1)], holds=[Hold(1, 0, 4)])


def with_candidates(**columns: object) -> Callable[[RoundProblem], RoundProblem]:
    return lambda p: replace(p, candidates=replace(p.candidates, **columns))  # type: ignore[arg-type]


def with_holds(**columns: object) -> Callable[[RoundProblem], RoundProblem]:
    return lambda p: replace(p, holds=replace(p.holds, **columns))  # type: ignore[arg-type]


def int_row(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_candidates(job=int_row(0, 2)), r"candidates\.job must lie in 0\.\.1"),
        (with_candidates(job=int_row(-1, 1)), r"candidates\.job must lie in"),
        (with_candidates(node_class=int_row(0, 2)), r"candidates\.node_class must lie in 0\.\.1"),
        (with_candidates(part_gpus=int_row(4, 0, 4)), r"part_gpus must be at least 1"),
        (with_candidates(part_gpus=int_row(9, 2, 4)), r"must not exceed the GPUs of a node"),
        (with_candidates(iteration_s=np.asarray([1.0, np.nan])), r"positive and finite"),
        (with_candidates(iteration_s=np.asarray([1.0, 0.0])), r"positive and finite"),
        (with_holds(job=int_row(5)), r"holds\.job must lie in 0\.\.1"),
        (with_holds(node=int_row(2)), r"holds\.node must lie in 0\.\.1"),
        (with_holds(job=int_row(0)), r"exactly the jobs with a stay_iteration_s"),
        (with_holds(demand=np.asarray([[9.0, 0, 0, 0]])), r"must not exceed the capacity"),
        (with_holds(demand=np.asarray([[4.0, 2000.0, 0, 0]])), r"must not exceed the capacity"),
        (
            lambda p: replace(p, nodes=replace(p.nodes, node_class=int_row(0, 7))),
            r"nodes\.node_class must lie in 0\.\.1",
        ),
    ],
)
def test_contradicting_tables_are_refused(
    change: Callable[[RoundProblem], RoundProblem], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        change(base())


def test_parts_and_demands_of_a_candidate() -> None:
    problem = tiny([8], [Candidate(0, (4, 2), side=(3.0, 10.0, 0.5)), Candidate(0, (1,))])
    table = problem.candidates
    assert table.parts(0) == (4, 2)
    assert table.part_candidate.tolist() == [0, 0, 1]
    assert table.demand(0, 4).tolist() == [4.0, 12.0, 40.0, 2.0]
    assert table.gpus.tolist() == [6, 1]


def test_take_keeps_the_order_asked_for() -> None:
    table = tiny(
        [8], [Candidate(0, (4, 2)), Candidate(0, (1,)), Candidate(1, (3, 2, 1))]
    ).candidates
    taken = table.take(int_row(2, 0))
    assert [taken.parts(k) for k in range(taken.count)] == [(3, 2, 1), (4, 2)]
    assert taken.job.tolist() == [1, 0]
    assert table.take(int_row()).count == 0


def test_held_adds_up_by_node() -> None:
    problem = tiny([8, 8], [], holds=[Hold(0, 0, 2, (1.0, 0, 0)), Hold(1, 0, 3), Hold(1, 1, 1)])
    assert problem.held()[:, :2].tolist() == [[5.0, 2.0], [1.0, 0.0]]


def test_value_of_a_selection() -> None:
    level = Level("l", "u", np.asarray([3.0, 5.0]), np.asarray([0.0, 7.0, 0.0]))
    assert Selection(int_row(1, STAY, NONE), ((0,), (), ())).value(level) == 12.0
    assert Selection(int_row(NONE, NONE, NONE), ((), (), ())).value(level) == 0.0
