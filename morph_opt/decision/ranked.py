"""Solve a round's problem: ranked levels, cuts until the choice can be placed, exact placement."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from formulations import node_assignment, node_pattern
from formulations.arrays import Ints
from formulations.knapsack import placed_by_places
from formulations.layout import RoundModel, cut_distinct, forbid
from formulations.linear_model import LinearModel
from formulations.node_pattern.patterns import TooManyPatternsError
from formulations.objectives import kept
from formulations.round.decode import (
    in_place_fits,
    pack,
    pack_slots,
    restricted,
    with_partners,
    without_jobs,
)
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.decision.method import Solved, StepTimes
from morph_opt.decision.pose import PosedRound
from morph_opt.decision.pricing import solve_priced
from morph_opt.decision.spread import narrowed, unsure, widened
from morph_opt.domain import InputError
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits, Outcome, Status, Stop, relative_gap

CUT_LIMIT, CUT_COLUMNS = 40, 30_000
"""Choices that are cut off before the round is solved with its nodes named, and columns of all the
models that are solved for that, at most: with thousands of columns each takes a second, and one
choice without nodes follows the other."""

FEW_CUTS = 3
"""Choices that are cut off where no proof is asked for, and in models however large."""

PROOF_LIMIT, PROOF_COLUMNS = 30, 10_000
"""Placement questions that are answered to strengthen one cut, and their columns, at most.

In rounds of hundreds of jobs on nodes that are all but full no few of them are impossible by
themselves, and each question takes a quarter of a second.
"""

PLACED_COLUMNS = 30_000
"""Columns of a placement question up to which a solver is asked: larger ones have no end."""

NAMED_LIMIT = 200_000
"""Parts of candidates times nodes up to which naming the nodes is worth trying."""


@dataclass(frozen=True, slots=True)
class ExactMip:
    """The round as one MILP per level; see `RoundSolver`.

    Parameters
    ----------
    solver
        Adapter.
    formulation
        One of `RoundSolver.FORMULATIONS`.
    """

    solver: Solver
    formulation: str = "node_pattern"

    @property
    def name(self) -> str:
        """The formulation's."""
        return self.formulation

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """See `morph_opt.decision.method.RoundMethod`."""
        rounds = RoundSolver(self.solver, limits, self.formulation)
        return rounds.guaranteed(posed.problem, posed.levels, posed.fallback_levels)


def whole_model(
    posed: PosedRound, method: ExactMip, limits: Limits
) -> tuple[LinearModel, float, str]:
    """The round as one MIP, as it is handed to a solver last.

    Rows hold guarantees and earlier goals at their optima, and cut off what was found to have no
    places; so the round is solved for it, within the limits.

    Returns
    -------
    LinearModel
        Its largest coefficient of the objective is 1.
    float
        What a unit of that is of the goal.
    str
        The goal's name.

    Raises
    ------
    InputError
        If the rules leave no decision.
    """
    solved = method.solve(posed.whole() if posed.view.compact else posed, limits)
    if solved.outcomes[0].status is Status.INFEASIBLE:
        raise InputError("the rules leave no decision", field="rules")
    assert solved.model is not None
    model, unit = solved.model.model, solved.model.model.scale
    return model.with_objective(model.cost / unit), unit, solved.levels[-1].name


@dataclass(frozen=True, slots=True)
class _Placed:
    """One level solved: the decision if there is one, and the model with its cuts."""

    selection: Selection | None
    outcome: Outcome
    built: RoundModel


class RoundSolver:
    """Solves one `RoundProblem` under ranked levels.

    Parameters
    ----------
    solver
        Adapter.
    limits
        Of each solve; the time is shared by all solves of the round.
    formulation
        ``"node_pattern"`` or ``"node_assignment"``.
    thorough
        Whether choices that cannot be placed are cut off by proof and time and again; without, the
        round is given up soon: for parts of rounds whose answer nothing hangs on.
    tight
        Whether ``node_pattern`` has rows ``beside``, which pay where much runs.
    """

    FORMULATIONS = ("node_pattern", "node_assignment")

    def __init__(
        self,
        solver: Solver,
        limits: Limits,
        formulation: str = "node_pattern",
        thorough: bool = True,
        tight: bool = False,
    ) -> None:
        self._tight = tight
        self._thorough = thorough
        self._solver = solver
        self._limits = limits
        self._formulation = formulation
        self.clock = StepTimes()
        # Columns of all placement questions so far.
        self._asked = 0

    def ranked(
        self, problem: RoundProblem, levels: tuple[Level, ...], base: RoundModel | None = None
    ) -> Solved:
        """Maximise the levels in order, each within the optima of those before it."""
        built = posed = base or self.build(problem, levels[0])
        best: Selection | None = None
        outcomes: list[Outcome] = []
        for rank, level in enumerate(levels):
            built = replace(built, model=built.model.with_objective(built.layout.cost(level)))
            last = rank == len(levels) - 1
            found = self._placed(problem, built, 1e-6 if not last else self._limits.gap)
            outcomes.append(found.outcome)
            # Asked what it forbids, the last model is to have the reason among its rows.
            built = _with_limits_of(found.built, posed) if last else found.built
            if found.selection is None:
                break
            best = found.selection
            if not last:
                built = _at_least(built, level, rank, best.value(level))
        return Solved(
            best,
            tuple(outcomes),
            levels,
            None,
            built.model.rows,
            built.model.columns,
            built,
            self.clock,
        )

    def guaranteed(
        self,
        problem: RoundProblem,
        levels: tuple[Level, ...],
        fallback: tuple[Level, ...],
        base: RoundModel | None = None,
    ) -> Solved:
        """The levels under guarantees as hard rows, or, where impossible, ``fallback``."""
        if not problem.jobs.guaranteed.any():
            return self.ranked(problem, levels, base)
        base = base or self.build(problem, levels[0])
        solved = self.ranked(problem, levels, with_guarantees(problem, base))
        if solved.outcomes[0].status is not Status.INFEASIBLE:
            return replace(solved, promised=None if solved.selection is None else True)
        ranked = self.ranked(problem, fallback, base)
        return replace(ranked, promised=False)

    def build(self, problem: RoundProblem, level: Level) -> RoundModel:
        """The round's model in the chosen formulation."""
        began = time.perf_counter()
        built = self._built(problem, level)
        self.clock.build_ms += 1e3 * (time.perf_counter() - began)
        return built

    def _built(self, problem: RoundProblem, level: Level) -> RoundModel:
        if self._formulation == "node_pattern":
            try:
                return node_pattern.build(problem, level, self._tight)
            except TooManyPatternsError:
                # Nodes that can be cut in so many ways are better named than counted.
                pass
        return node_assignment.build(problem, level)

    def _time_s(self) -> float:
        """What is left of the round's time; every solve gets a tenth of it at least."""
        spent = 1e-3 * (self.clock.build_ms + self.clock.solve_ms + self.clock.place_ms)
        return max(0.1 * self._limits.time_s, self._limits.time_s - spent)

    def _placed(self, problem: RoundProblem, built: RoundModel, gap: float) -> _Placed:
        """Solve until the choice can be placed; choices that cannot are cut off."""
        # Invariant: `unproven` is an upper bound on all that was cut off and not shown to be
        # impossible; every bound that leaves here is the larger of it and the solver's.
        serial = sum(block.family == "not_again" for block in built.model.row_blocks)
        unproven = float("-inf")
        known: _Placed | None = None
        while True:
            outcome = self._solve(built, gap)
            if outcome.x is None:
                outcome = widened(outcome, unsure(problem, built.model.scale), gap)
                none = _Placed(None, _with_unproven(outcome, unproven, gap), built)
                return _better(known, none, gap)
            began = time.perf_counter()
            selection, impossible = self._decode(problem, built, outcome)
            self.clock.place_ms += 1e3 * (time.perf_counter() - began)
            if selection is not None:
                outcome = _with_unproven(outcome, unproven, gap)
                less, outcome = narrowed(problem, built, outcome, gap)
                known = _better(known, _Placed(selection, outcome, built), gap)
                if less is None:
                    return known
                built = less
                continue
            assert outcome.x is not None
            cut = cut_distinct(problem, built, outcome.x)
            if cut is None and serial >= (_most_cuts(built) if self._thorough else FEW_CUTS):
                cut = _with_named_nodes(problem, built) if self._thorough else None
                if cut is None:
                    none = _Placed(None, _given_up(outcome, unproven), built)
                    return _better(known, none, gap)
            if cut is None:
                choice = built.layout.choice(problem, outcome.x)
                if impossible:
                    began = time.perf_counter()
                    choice = self._impossible_part(problem, choice)
                    self.clock.place_ms += 1e3 * (time.perf_counter() - began)
                else:
                    unproven = max(unproven, outcome.bound)
                cut = forbid(built, choice, serial)
                serial += 1
            built = cut

    def _impossible_part(self, problem: RoundProblem, choice: Ints) -> Ints:
        """A small part of an impossible choice that is impossible by itself: a stronger cut.

        Jobs are taken out, stays first, as long as what is left is proven to be impossible:
        half of them at a time, then a quarter, down to single ones (Zeller, Hildebrandt 2002), so
        that hundreds of jobs become few in few questions. Packing shows quickly that most are
        needed.
        """
        in_place = np.isin(choice, problem.options.stays)
        jobs = np.concatenate([np.flatnonzero(in_place), np.flatnonzero(~in_place & (choice >= 0))])
        part, proofs, columns = choice, 0 if self._thorough else PROOF_LIMIT, self._asked
        size = jobs.size
        while size > 1:
            size = -(-size // 2)
            jobs = jobs[part[jobs] != NONE]
            for first in range(0, jobs.size, size):
                if proofs >= PROOF_LIMIT or self._asked - columns >= PROOF_COLUMNS:
                    return part
                fewer = without_jobs(part, jobs[first : first + size])
                if any(pack(problem, fewer, order) is not None for order in ("size", "parts")):
                    continue
                proofs += 1
                if self.exact_placement(problem, fewer)[1]:
                    part = fewer
        return part

    def _solve(self, built: RoundModel, gap: float) -> Outcome:
        """Solve with the objective scaled to a largest coefficient of 1; report it unscaled."""
        cost, scale = built.model.cost, built.model.scale
        limits = replace(self._limits, gap=gap, time_s=self._time_s())
        scaled = replace(built, model=built.model.with_objective(cost / scale))
        outcome = solve_priced(self._solver, scaled, limits)
        self.clock.build_ms += 1e3 * outcome.build_s
        self.clock.solve_ms += 1e3 * (outcome.solve_s + outcome.check_s)
        return replace(outcome, objective=outcome.objective * scale, bound=outcome.bound * scale)

    def _decode(
        self, problem: RoundProblem, built: RoundModel, outcome: Outcome
    ) -> tuple[Selection | None, bool]:
        """The decision at an incumbent; without one, whether its choice is proven impossible."""
        assert outcome.x is not None
        if built.distinct is None:
            return node_assignment.read_nodes(problem, built, outcome.x), False
        choice = built.layout.choice(problem, outcome.x)
        for order in ("size", "parts"):
            selection = pack(problem, choice, order)
            if selection is not None:
                return selection, False
        selection = pack_slots(problem, choice)
        if selection is not None:
            return selection, False
        return self.exact_placement(problem, choice) if self._thorough else (None, False)

    def exact_placement(self, problem: RoundProblem, choice: Ints) -> tuple[Selection | None, bool]:
        """Nodes for a choice by the reference formulation, or whether there are provably none.

        Neither where the question is larger than `PLACED_COLUMNS`.
        """
        if not in_place_fits(problem, choice):
            return None, True
        found = placed_by_places(problem, choice)
        if found is not None:
            return found, False
        small = restricted(problem, choice)
        ones = Level("placed", "jobs", np.ones(small.options.count))
        built = node_assignment.build(small, ones)
        self._asked += built.model.columns
        if built.model.columns > PLACED_COLUMNS:
            return None, False
        limits = replace(self._limits, gap=0.0, time_s=self._time_s())
        outcome = self._solver.solve(built.model, limits)
        everyone = small.options.count
        if outcome.x is None or outcome.objective < everyone - 0.5:
            proven = outcome.status is Status.INFEASIBLE or outcome.bound < everyone - 0.5
            return None, proven
        placed = node_assignment.read_nodes(small, built, outcome.x)
        return with_partners(problem, Selection(choice, placed.nodes)), False


def _with_limits_of(built: RoundModel, other: RoundModel) -> RoundModel:
    """The model in which options have the limits that they have in another one of the round."""
    upper = built.model.column_upper.copy()
    upper[built.layout.x] = other.model.column_upper[other.layout.x]
    return replace(built, model=replace(built.model, column_upper=upper))


def _better(known: _Placed | None, found: _Placed, gap: float) -> _Placed:
    """What was found, or what was known before where that is worth more; the lesser bound."""
    if known is None:
        return found
    bound = min(known.outcome.bound, found.outcome.bound)
    best = found
    if found.selection is None or found.outcome.objective < known.outcome.objective:
        best = replace(found, selection=known.selection, outcome=known.outcome)
    # A model of what is left may end without an answer; it then says nothing of what was found.
    bound = max(bound, best.outcome.objective)
    return replace(best, outcome=widened(replace(best.outcome, bound=bound), 0.0, gap))


def _most_cuts(built: RoundModel) -> int:
    """Choices that are cut off in a model at most."""
    return min(CUT_LIMIT, max(FEW_CUTS, CUT_COLUMNS // built.model.columns))


def _with_named_nodes(problem: RoundProblem, built: RoundModel) -> RoundModel | None:
    """The same round with its nodes named, or None where that is too large to be of use."""
    if problem.options.starts.part_gpus.size * problem.nodes.count > NAMED_LIMIT:
        return None
    plain = Level("plain", "", np.zeros(problem.options.count))
    named = node_assignment.build(problem, plain)
    cost = np.zeros(named.model.columns)
    cost[named.layout.x] = built.model.cost[built.layout.x]
    named = replace(named, model=named.model.with_objective(cost))
    return _with_limits_of(named, built).with_rows_of(built)


def _given_up(outcome: Outcome, unproven: float) -> Outcome:
    """The end of a solve whose choices could not be placed, time and again."""
    return replace(
        outcome,
        status=Status.NO_SOLUTION,
        stop=Stop.NODE_LIMIT,
        x=None,
        objective=float("nan"),
        bound=max(outcome.bound, unproven),
        gap=float("inf"),
        message="choices could not be placed, time and again",
    )


def _with_unproven(outcome: Outcome, unproven: float, gap: float) -> Outcome:
    """The outcome where choices were cut off that were not shown to be impossible.

    ``unproven`` bounds what these are worth (-inf: there are none); it stays in the bound, and the
    rest being infeasible says nothing about the round.
    """
    if unproven == float("-inf"):
        return outcome
    if outcome.x is None:
        infeasible = outcome.status is Status.INFEASIBLE
        status = Status.NO_SOLUTION if infeasible else outcome.status
        return replace(outcome, status=status, bound=unproven)
    bound = max(outcome.bound, unproven)
    reached = relative_gap(outcome.objective, bound)
    status = outcome.status if reached <= gap else Status.FEASIBLE
    return replace(outcome, status=status, bound=bound, gap=reached)


def _at_least(built: RoundModel, level: Level, rank: int, value: float) -> RoundModel:
    """The model in which a level keeps its optimum (row ``rank[r]``)."""
    cost = np.where(built.model.column_upper > 0, built.layout.cost(level), 0.0)
    # In units of the largest coefficient: a solver's row tolerance is absolute, units are not.
    scale = float(np.abs(cost).max(initial=0.0)) or 1.0
    cost, value = cost / scale, value / scale
    columns = np.flatnonzero(cost)
    slack = 1e-7 * max(1.0, abs(value))
    model = built.model.with_row("rank", [rank], columns, cost[columns], value - slack, np.inf)
    return replace(built, model=model)


def with_guarantees(problem: RoundProblem, built: RoundModel) -> RoundModel:
    """Rows ``guarantee[j]``: every guaranteed job runs at no less than the speed of its request."""
    members, enough, model = problem.options.members, kept(problem), built.model
    for job in np.flatnonzero(problem.jobs.guaranteed).tolist():
        columns = built.layout.x[members.option[enough & (members.job == job)]]
        model = model.with_row("guarantee", [job], columns, np.ones(columns.size), 1.0, np.inf)
    return replace(built, model=model)
