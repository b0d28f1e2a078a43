"""What-if solves of a round: a job forced, one more node, one rule less.

Every question of an explanation is such a what-if. Re-solves go by the same goals in the same
order as the decision: guarantees as hard rows, where these cannot all be kept as a rank or by
weight, then the levels of the objective. Operators' ranks below the objective are left out: they
choose among its optima.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Floats
from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from formulations.objectives import kept
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.method import Evidence, Solved
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.explanation.report import EXPLAIN, UnexplainedError
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop


class _Budget:
    """Solver that stops after ``EXPLAIN.solves`` models: unlike a clock, reproducible."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._left = EXPLAIN.solves
        self.name = solver.name
        self.capabilities = solver.capabilities

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """See `morph_opt.scheduling.solvers.base.Solver`."""
        if self._left <= 0:
            message = f"no decision that can be placed within {EXPLAIN.solves} solves"
            return Outcome(Status.NO_SOLUTION, Stop.WORK_LIMIT, self.name, message=message)
        self._left -= 1
        return self._solver.solve(model, limits, start)


class Case:
    """Solver of a round's what-ifs.

    Parameters
    ----------
    solver, limits
        Solver and limits of the decision; the gap is tightened to ``EXPLAIN.gap``.

    Notes
    -----
    Whatever formulation decided, rounds are solved again and priced in ``node_pattern``.
    """

    def __init__(self, solver: Solver, limits: Limits) -> None:
        self._solver = solver
        nodes = EXPLAIN.nodes if limits.nodes is None else limits.nodes
        self.limits = replace(limits, gap=min(limits.gap, EXPLAIN.gap), nodes=nodes)

    def optimum(self, evidence: Evidence) -> Solved:
        """Return the round solved to ``EXPLAIN.gap``, by the decision's own solve if possible."""
        solved, posed = evidence.solved, evidence.posed
        exact = all(outcome.usable and outcome.gap <= EXPLAIN.gap for outcome in solved.outcomes)
        counted = solved.model is not None and solved.model.distinct is not None
        if exact and solved.complete and counted and not posed.ranks:
            return solved
        return self.solve(posed)

    def solve(self, posed: PosedRound, forced: tuple[int, ...] = ()) -> Solved:
        """Return the best decision in which one of the candidates ``forced`` is chosen.

        Returns
        -------
        Solved
            Result; without a selection if there is none or none was found in time, as the status of
            its first outcome states.
        """
        rounds = self._rounds()
        base = _forced(rounds.build(posed.problem, posed.goals[0]), forced)
        return rounds.guaranteed(posed.problem, posed.goals, posed.fallback, base)

    def feasible(
        self,
        posed: PosedRound,
        forced: tuple[int, ...] = (),
        deadline: Deadline | None = None,
    ) -> bool:
        """Return whether a round has a decision that chooses one of ``forced``, or any if empty.

        Raises
        ------
        UnexplainedError
            If the solver found no answer within its limits.
        """
        problem = posed.problem
        nothing = Level("feasible", "", np.zeros(problem.options.count))
        rounds = RoundSolver(_Budget(self._solver), self.limits, deadline=deadline)
        base = _forced(rounds.build(problem, nothing), forced)
        solved = rounds.ranked(problem, (nothing,), base)
        if solved.selection is not None:
            return True
        if solved.outcome.status is Status.INFEASIBLE:
            return False
        raise UnexplainedError(f"the solver found no answer: {solved.outcome.message}")

    def build(self, problem: RoundProblem, level: Level) -> RoundModel:
        """Build the model of a round under one goal."""
        return self._rounds().build(problem, level)

    def _rounds(self) -> RoundSolver:
        return RoundSolver(_Budget(self._solver), self.limits)


def _forced(built: RoundModel, candidates: tuple[int, ...]) -> RoundModel:
    """Return the model in which one of the candidates is chosen (row ``forced[k]``, first k)."""
    if not candidates:
        return built
    columns = np.unique(built.layout.x[list(candidates)])
    ones = np.ones(columns.size)
    row = built.model.with_row("forced", [candidates[0]], columns, ones, 1.0, np.inf)
    return replace(built, model=row)


def reached(posed: PosedRound, selection: Selection) -> tuple[tuple[float, float], ...]:
    """Return value and tolerance of each goal, most important first.

    Promises to guaranteed jobs come before the goals: infinity if all are kept, else the value of
    the goal `guarantee`, or 0 if promises count by weight.
    """
    problem = posed.problem

    def values(levels: tuple[Level, ...]) -> tuple[tuple[float, float], ...]:
        found = [selection.value(level) for level in levels]
        return tuple((v, small(level, v)) for v, level in zip(found, levels, strict=True))

    if not problem.jobs.guaranteed.any():
        return values(posed.goals)
    members = problem.options.members
    mine = members.chosen(selection.choice)
    fast = members.job[mine[kept(problem)[mine]]]
    if np.isin(np.flatnonzero(problem.jobs.guaranteed), fast).all():
        return ((np.inf, 0.0), *values(posed.goals))
    fallback = values(posed.fallback)
    return fallback if len(fallback) > len(posed.goals) else ((0.0, 0.0), *fallback)


def small(level: Level, value: float) -> float:
    """Return the difference below which two values of a goal are equal."""
    return EXPLAIN.change * max(abs(value), float(np.abs(level.value).max(initial=0.0)))


def first_change(
    before: tuple[tuple[float, float], ...], after: tuple[tuple[float, float], ...]
) -> tuple[int, float]:
    """Return the first goal that changes, counted from the last, and by how much; else (0, 0.0)."""
    for place, ((old, little), (new, _)) in enumerate(zip(before, after, strict=True)):
        if new != old and abs(new - old) > little:
            return len(before) - 1 - place, new - old
    return 0, 0.0
