"""A round as a knapsack over GPUs; nodes by packing, search, or the reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from formulations.arrays import Ints
from formulations.check_knapsack import check_knapsack
from formulations.knapsack import (
    Found,
    Items,
    Tables,
    best_decision,
    find_items,
    least_additions,
    losing,
    priced,
    rounded,
)
from formulations.knapsack.search import Placed
from formulations.round.tables import Level, RoundProblem, Selection
from morph_opt.decision.ranked import RoundSolver
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits, relative_gap

PARTIAL_CHOICES = 2_000
"""Partial choices that are looked at, at most."""

EXACT_PLACEMENTS = 8
"""Whole choices for whose nodes a solver is asked, at most."""

LARGE = 400_000
"""Additions of tables of all items from which on their core is looked for first."""

CORES, FIRST_ITEMS, WIDER = 5, 0.4, 3.0
"""Cores of one round that are tried at most; items beyond one a job that the first one has, in
units of jobs; and how much more items of the next one may lose, unless less is enough."""

STRAIGHT, BETWEEN = 8.0, 1.3
"""How much more items of the next one may lose where that proves its choice; and by how much more
than the last one's where the next is too large, for one between to be looked at."""

ROUNDED = 300_000
"""Additions of tables over a part of the core."""

MANY = 20_000
"""Candidates above which additions are estimated before items are made: below, items cost less."""


def tables_of(
    problem: RoundProblem,
    level: Level,
    floors: Sequence[tuple[Level, float]],
    most: int,
    gap: float = 0.0,
    least: float = -np.inf,
) -> Tables | None:
    """The tables of a round, checked; None if they take more than ``most`` additions.

    Large ones go over the core alone, the items that can be in a best choice.

    Parameters
    ----------
    floors
        Goals that rank higher, and the least that decisions are to reach of them.
    gap
        At which a core is wide enough.
    least
        A core is to have all items that decisions worth more than this have.
    """
    if problem.candidates.count > MANY and least_additions(problem, most) > most:
        return None
    items = find_items(problem, level, floors)
    every = Tables(items)
    tables: Tables | None = every
    if every.takes_more_than(min(most, LARGE)):
        tables = _of_core(items, most, least, gap)
        if tables is None and not every.takes_more_than(most):
            tables = every
    if tables is None:
        return None
    weights = tables.items.weights
    counted = [(*floor, weight) for floor, weight in zip(floors, weights, strict=True)]
    core = tables.items.core and (tables.items.core.prices, tables.items.core.fewest)
    check_knapsack(problem, level, tables.bound, tables.items.job, tables.table, counted, core)
    return tables


def _of_core(items: Items, most: int, least: float, gap: float) -> Tables | None:
    """Tables over the core of the items, or over part of it; None if neither has a good choice."""
    at = priced(items)
    if at is None:
        return None
    slack = at.bound - least
    if slack == np.inf:
        more = min(at.loss.size - 1, round((1.0 + FIRST_ITEMS) * items.job.size))
        slack = float(np.partition(at.loss, more)[more])
    fitted = 0.0
    for _ in range(CORES):
        core = losing(items, at, slack)
        value = rounding = -np.inf
        if core is not None:
            tables = Tables(core)
            if tables.takes_more_than(most):
                # A core between may have a better choice, which a smaller one proves.
                if not fitted or fitted * BETWEEN > slack:
                    break
                slack = float(np.sqrt(fitted * slack))
                continue
            fitted, value, rounding = slack, tables.best, tables.rounding
            if value > -np.inf and relative_gap(value, tables.bound) <= gap:
                return tables
        # A choice worth so much shows that no best one loses more: with all that loses less a core
        # proves its own choice.
        proving, wider = at.bound - value + max(rounding, 0.0), WIDER * slack
        slack = proving if proving <= STRAIGHT * slack else wider
    close = gap * abs(at.bound)
    if most < ROUNDED or close <= 0.0 or least > -np.inf:
        return None
    core = rounded(items, at, close, ROUNDED)
    return None if core is None else Tables(core)


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
