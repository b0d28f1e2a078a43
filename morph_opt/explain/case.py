"""A round that can be solved again with one thing changed: a job forced, a node more, a rule less.

Every question of an explanation is such a what-if. Re-solves go by the same goals in the same
order as the decision (`morph_opt.policies.milp`): guarantees as hard rows, where these cannot all
be kept as the first rank, then the levels of the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from formulations.layout import RoundModel
from formulations.linear_model import LinearModel
from formulations.round_problem import Level, RoundProblem
from morph_opt.decision.method import Solved
from morph_opt.decision.ranked import RoundSolver
from morph_opt.explain.report import UnexplainedError
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Floats, Limits, Outcome, Status, Stop

GAP = 1e-6
"""Relative gap to which what-ifs are solved, so that their differences mean something."""

SOLVES = 30
"""Models that one what-if may solve: choices that cannot be placed are cut off one by one."""

NODES = 2_000
"""Branch-and-bound nodes per model, where the decision had no limit; reproducible."""

LevelsOf = Callable[[RoundProblem], tuple[Level, ...]]


class _Budget:
    """A solver that gives up after `SOLVES` models; reproducible, unlike a clock."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._left = SOLVES
        self.name = solver.name
        self.capabilities = solver.capabilities

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """See `morph_opt.solvers.base.Solver`."""
        if self._left <= 0:
            message = f"no decision that can be placed within {SOLVES} solves"
            return Outcome(Status.NO_SOLUTION, Stop.WORK_LIMIT, self.name, message=message)
        self._left -= 1
        return self._solver.solve(model, limits, start)


class Case:
    """The goals and the solver that a round's what-ifs share.

    Parameters
    ----------
    levels_of
        Goals of a problem, most important first.
    solver, limits
        As of the decision; the gap is tightened to `GAP`.
    """

    def __init__(self, levels_of: LevelsOf, solver: Solver, limits: Limits) -> None:
        self.levels_of = levels_of
        self.solver = solver
        nodes = NODES if limits.nodes is None else limits.nodes
        self._limits = replace(limits, gap=min(limits.gap, GAP), nodes=nodes)

    def solve(self, problem: RoundProblem, forced: Iterable[int] = ()) -> Solved:
        """The best decision in which every candidate of ``forced`` is chosen.

        Returns
        -------
        Solved
            Without selection if there is none or the solver found none in time; the status of
            its outcome tells these apart.
        """
        rounds = RoundSolver(_Budget(self.solver), self._limits)
        levels = self.levels_of(problem)
        base = rounds.build(problem, levels[0])
        for candidate in forced:
            base = force(base, candidate)
        return rounds.guaranteed(problem, levels, base)

    def feasible(self, problem: RoundProblem, forced: Iterable[int] = ()) -> bool:
        """Whether a round has any decision at all.

        Raises
        ------
        UnexplainedError
            If the solver could not tell within its limits.
        """
        nothing = Level(
            "feasible", "", np.zeros(problem.candidates.count), np.zeros(problem.jobs.count)
        )
        rounds = RoundSolver(_Budget(self.solver), self._limits)
        base = rounds.build(problem, nothing)
        for candidate in forced:
            base = force(base, candidate)
        solved = rounds.ranked(problem, (nothing,), base)
        if solved.selection is not None:
            return True
        if solved.outcome.status is Status.INFEASIBLE:
            return False
        raise UnexplainedError(f"the solver could not tell: {solved.outcome.message}")


def force(built: RoundModel, candidate: int) -> RoundModel:
    """The model in which a candidate is chosen (row ``forced[k]``)."""
    column = built.layout.x[[candidate]]
    row = built.model.with_row("forced", [candidate], column, np.ones(1), 1.0, np.inf)
    return replace(built, model=row)


def with_one_more_node(problem: RoundProblem, like: int) -> RoundProblem:
    """The round with another idle, open node of the class and at the place of node ``like``."""
    nodes = problem.nodes
    more = replace(
        nodes,
        node_class=np.append(nodes.node_class, nodes.node_class[like]),
        open=np.append(nodes.open, True),
        leaf=np.append(nodes.leaf, nodes.leaf[like]),
        domain=np.append(nodes.domain, nodes.domain[like]),
        sets=np.column_stack([nodes.sets, nodes.sets[:, like]]),
    )
    return replace(problem, nodes=more)
