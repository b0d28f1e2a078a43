"""Check a solution twice: against the rows of the model, and against the rules of the round."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.instances.library import Instance, load, load_round
from benchmarks.instances.solution import Point, read_solution
from formulations import node_assignment
from formulations.arrays import Floats, Ints
from formulations.linear_model import LinearModel
from formulations.round.check import RuleError, check
from formulations.round.decode import in_place_fits, pack, restricted, with_partners
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.scheduling.solvers.outcome import Limits, relative_gap
from morph_opt.scheduling.solvers.registry import make_solver

CLAIM_TOLERANCE = 1e-6

_START = re.compile(r"x\[(\d+),(\d+)\]")
_STAY = re.compile(r"s\[(\d+)\]")
_SHARED = re.compile(r"(?:pair|group)\[([\d,]+),(\d+)\]")


class Known(Protocol):
    """What is known of an instance: its best value and its bound, both maximised."""

    @property
    def best(self) -> float:
        """Value of the best solution known."""
        ...

    @property
    def bound(self) -> float:
        """Best proven upper bound."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Parameters
    ----------
    objective
        Recomputed from the model; NaN if the point violates it.
    gap
        To the best-known bound; inf if the point violates the model.
    complaints
        Everything that is wrong; empty for a good solution.
    improves
        Whether it is better than the best known by more than 1e-6 of it.
    placeable
        Whether nodes can be found for the chosen shapes. Counted patterns do not say that the
        parts of one job lie on distinct nodes; a policy cuts such a choice off and solves again,
        so a solution of the model may be good and yet not be a schedule.
    """

    objective: float
    gap: float
    complaints: tuple[str, ...]
    improves: bool
    placeable: bool = True


def check_solution(folder: Path, instance: Instance, solution: Path) -> Verdict:
    """Check a solution file of an instance.

    Raises
    ------
    InputError
        If a file is missing or damaged; it names line and reason.
    """
    model = load(folder, instance.name)
    point = read_solution(solution, model)
    return check_point(model, load_round(folder, instance.name), point, instance)


def check_point(model: LinearModel, problem: RoundProblem, point: Point, known: Known) -> Verdict:
    """Check a point of a model, and the decision that it is, against the rules of the round."""
    broken = point.broken(model)
    if broken:
        return Verdict(float("nan"), float("inf"), tuple(broken), False)
    x, claim = point.x, point.claim
    value = model.objective(x)
    complaints = []
    scale = max(1e-9, abs(value))
    if claim is not None and abs(claim - value) > CLAIM_TOLERANCE * scale:
        complaints.append(f"claims an objective of {-claim!r}, it is {-value!r}")
    if value > known.bound + CLAIM_TOLERANCE * max(1.0, abs(known.bound)):
        complaints.append(f"is better than the proven bound {-known.bound!r}: one is wrong")
    selection = placed(problem, choice_of(problem, model, x))
    if selection is not None:
        complaints.extend(_broken_rule(problem, selection))
    return Verdict(
        value,
        relative_gap(value, known.bound),
        tuple(complaints),
        value > known.best + CLAIM_TOLERANCE * max(1e-9, abs(known.best)),
        selection is not None,
    )


def _broken_rule(problem: RoundProblem, selection: Selection) -> list[str]:
    try:
        check(problem, selection)
    except RuleError as error:
        return [str(error)]
    return []


def choice_of(problem: RoundProblem, model: LinearModel, x: Floats) -> Ints:
    """Choice per job, read from the names of the columns that are 1, shape (J,)."""
    choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
    for column in np.flatnonzero(x > 0.5).tolist():
        name = model.column_name(column)
        started, stays = _START.fullmatch(name), _STAY.fullmatch(name)
        together = _SHARED.fullmatch(name)
        if started:
            choice[int(started[1])] = int(started[2])
        elif together:
            choice[[int(job) for job in together[1].split(",")]] = int(together[2])
        elif stays:
            choice[int(stays[1])] = problem.options.stay[int(stays[1])]
    return choice


def placed(problem: RoundProblem, choice: Ints) -> Selection | None:
    """Nodes for a choice: by packing, else by the exact formulation; None if there are none."""
    for order in ("size", "parts"):
        selection = pack(problem, choice, order)
        if selection is not None:
            return selection
    if not in_place_fits(problem, choice):
        return None
    small = restricted(problem, choice)
    ones = Level("placed", "jobs", np.ones(small.options.count))
    built = node_assignment.build(small, ones)
    outcome = make_solver("highs").solve(built.model, Limits(gap=0.0, time_s=60.0))
    if outcome.x is None or outcome.objective < small.options.count - 0.5:
        return None
    found = node_assignment.read_nodes(small, built, outcome.x)
    return with_partners(problem, Selection(choice, found.nodes))
