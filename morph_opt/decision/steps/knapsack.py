"""A round as a knapsack over GPUs; nodes by packing, search, or the reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from formulations.arrays import Ints
from formulations.check_knapsack import check_knapsack
from formulations.knapsack import Found, Tables, best_decision, find_items, least_additions
from formulations.knapsack.search import Placed
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.decision.ranked import RoundSolver
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits

PARTIAL_CHOICES = 2_000
"""Partial choices that are looked at, at most."""

EXACT_PLACEMENTS = 8
"""Whole choices for whose nodes a solver is asked, at most."""

MANY = 20_000
"""Candidates above which additions are estimated before items are made: below, items cost less."""


def tables_of(
    problem: RoundProblem, level: Level, floors: Sequence[tuple[Level, float]], most: int
) -> Tables | None:
    """The tables of a round, checked; None if they take more than ``most`` additions.

    Parameters
    ----------
    floors
        Goals that rank higher, and the least that decisions are to reach of them.
    """
    if problem.candidates.count > MANY and least_additions(problem) > most:
        return None
    tables = Tables(find_items(problem, level, floors))
    if tables.takes_more_than(most):
        return None
    weights = tables.items.weights
    counted = [(*floor, weight) for floor, weight in zip(floors, weights, strict=True)]
    check_knapsack(problem, level, tables.bound, tables.items.job, tables.table, counted)
    return tables


def decided_by_tables(
    problem: RoundProblem,
    level: Level,
    tables: Tables,
    known: Selection | None,
    solver: Solver,
    limits: Limits,
) -> Found:
    """The best decision of a round, or the best within the limits, and a bound.

    Parameters
    ----------
    known
        A decision that is there already.
    solver, limits
        Of placements that packing does not find; the nodes are those of the search.
    """
    asked = 0

    def ask(choice: Ints) -> Placed:
        nonlocal asked
        if asked >= EXACT_PLACEMENTS:
            return None, False
        asked += 1
        rounds = RoundSolver(solver, replace(limits, gap=0.0))
        return rounds.exact_placement(problem, choice)

    most = PARTIAL_CHOICES if limits.nodes is None else min(limits.nodes, PARTIAL_CHOICES)
    return best_decision(problem, level, tables, ask, most, known)
