"""A solver in a process of its own: reused, and never able to take the caller down."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers.outcome import Limits, Status, Stop
from morph_opt.scheduling.solvers.registry import installed, make_solver
from morph_opt.scheduling.solvers.worker.isolated import IsolatedSolver
from tests.solvers import models

SMALL = models.single(0, 3, (1, 1), (-np.inf, 4), (2, 1))
FAULTY = "tests.solvers.faulty:"


@contextmanager
def worker(name: str, **options: float) -> Iterator[IsolatedSolver]:
    solver = IsolatedSolver(name, **options)  # type: ignore[arg-type]
    try:
        yield solver
    finally:
        solver.close()


def test_same_answer_as_in_this_process_from_one_worker() -> None:
    with worker("highs") as solver:
        first = solver.solve(SMALL, Limits())
        process = solver.process_id
        second = solver.solve(models.infeasible(), Limits())
        assert solver.process_id == process
        assert solver.capabilities == make_solver("highs").capabilities
    here = make_solver("highs").solve(SMALL, Limits())
    assert first.x is not None
    assert here.x is not None
    assert first.x.tolist() == here.x.tolist()
    assert first.status is Status.OPTIMAL
    assert second.status is Status.INFEASIBLE


def test_start_crosses_the_border() -> None:
    with worker(FAULTY + "Pessimist") as solver:
        assert "start" in solver.solve(SMALL, Limits(), np.zeros(2)).message


@pytest.mark.parametrize(("fault", "words"), [("Crashing", "SIGSEGV"), ("Killed", "SIGKILL")])
def test_a_crash_is_an_outcome_and_the_next_solve_gets_a_new_worker(fault: str, words: str) -> None:
    with worker(FAULTY + fault) as solver:
        solver.capabilities  # noqa: B018  # starts the worker
        process = solver.process_id
        outcome = solver.solve(SMALL, Limits())
        assert (outcome.status, outcome.stop) == (Status.ERROR, Stop.FAILED)
        assert words in outcome.message
        again = solver.solve(SMALL, Limits())
        assert again.status is Status.ERROR
        assert process is not None


@pytest.mark.parametrize("name", installed())
def test_every_adapter_solves_in_a_worker(name: str) -> None:
    with worker(name) as solver:
        assert solver.name == f"worker:{name}"
        assert solver.solve(SMALL, Limits()).status is Status.OPTIMAL


def test_the_killing_of_a_worker_is_survived() -> None:
    """By what holds the worker, whatever is solved in it."""
    with worker("highs") as solver:
        assert solver.solve(SMALL, Limits()).status is Status.OPTIMAL
        assert solver.process_id is not None
        os.kill(solver.process_id, signal.SIGKILL)
        after = solver.solve(SMALL, Limits())
        # The kill may be noticed before the solve (new worker) or by it (an error outcome).
        assert after.status in (Status.OPTIMAL, Status.ERROR)
        assert solver.solve(SMALL, Limits()).status is Status.OPTIMAL


def test_a_hang_is_ended_by_the_wall_clock() -> None:
    with worker(FAULTY + "Hanging", grace_s=0.3) as solver:
        outcome = solver.solve(SMALL, Limits(time_s=0.1))
        assert (outcome.status, outcome.stop) == (Status.NO_SOLUTION, Stop.TIME_LIMIT)
        assert "killed after 0.4 s" in outcome.message


@pytest.mark.parametrize("fault", ["Hungry", "Polite"])
def test_hunger_is_ended_by_the_memory_limit(fault: str) -> None:
    with worker(FAULTY + fault, memory_mib=200) as solver:
        outcome = solver.solve(SMALL, Limits(time_s=600.0))
        assert outcome.stop is Stop.MEMORY_LIMIT, outcome
        assert outcome.status is Status.NO_SOLUTION


def test_highs_runs_within_the_memory_limit() -> None:
    with worker("highs", memory_mib=400) as solver:
        assert solver.solve(SMALL, Limits()).status is Status.OPTIMAL


def test_output_of_a_library_does_not_break_the_worker() -> None:
    with worker(FAULTY + "Chatty") as solver:
        assert solver.solve(SMALL, Limits(gap=1.0)).usable


def test_a_worker_that_cannot_start_says_why() -> None:
    with worker(FAULTY + "Missing") as solver:
        outcome = solver.solve(SMALL, Limits())
        assert outcome.status is Status.ERROR
        assert "libmissing.so" in outcome.message
    with worker("nosuch") as solver:
        assert "unknown solver" in solver.solve(SMALL, Limits()).message


def test_worker_takes_solvers_by_name_and_by_pickle() -> None:
    solver = make_solver("worker:highs")
    assert isinstance(solver, IsolatedSolver)
    copy = pickle.loads(pickle.dumps(solver))
    try:
        assert solver.name == copy.name == "worker:highs"
        assert copy.solve(SMALL, Limits()).status is Status.OPTIMAL
    finally:
        copy.close()
    with pytest.raises(InputError, match="unknown solver"):
        make_solver("worker:nosuch")
