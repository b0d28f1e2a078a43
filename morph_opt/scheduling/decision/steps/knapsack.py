"""Round as a knapsack over GPUs; nodes by packing, search, or the reference model.

docs/formulations/knapsack.md has the mathematics; theorem numbers in comments are its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from formulations.arrays import Ints
from formulations.check_knapsack import Claim, CoreProof, check_knapsack
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
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.params import DEFAULTS, CoreParams, LadderParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, relative_gap


def tables_of(
    problem: RoundProblem,
    level: Level,
    floors: Sequence[tuple[Level, float]],
    gap: float = 0.0,
    least: float = -np.inf,
    params: CoreParams = DEFAULTS.core,
    later: Sequence[Level] = (),
    loss: float = 0.0,
    by_rank: bool = True,
) -> Tables | None:
    """Return the tables of a round, checked; None if they take too many additions or classes.

    Large tables are over the core alone: the items that a best choice may contain. Others are also
    those of later goals.

    Parameters
    ----------
    floors
        Goals that rank higher, and the least value that decisions have to reach of each.
    gap
        Gap at which a core is wide enough.
    least
        Value of a decision; the core has all items of more valuable ones.
    params
        Additions, and sizes of cores.
    later
        Goals that rank lower, by rank.
    loss
        Share of its largest value, or of its sum, that a goal may lose to later ones.
    by_rank
        See `find_items`.
    """
    most = params.additions
    # numpy iterates over arrays of 32 dimensions at most: jobs and a dimension per node class.
    if problem.nodes.classes > 31:
        return None
    if problem.candidates.count > params.estimated_from and least_additions(problem, most) > most:
        return None
    items = find_items(problem, level, floors, later, by_rank)
    every = Tables(items, loss=loss)
    tables: Tables | None = every
    if every.takes_more_than(min(most, params.additions_whole)):
        alone = find_items(problem, level, floors, (), by_rank) if later else items
        tables = _of_core(alone, least, gap, params)
        if tables is None and not every.takes_more_than(most):
            tables = every
    if tables is not None:
        _check(problem, floors, level, later, tables)
    return tables


def _check(
    problem: RoundProblem,
    floors: Sequence[tuple[Level, float]],
    level: Level,
    later: Sequence[Level],
    tables: Tables,
) -> None:
    """Check the bounds of all goals that tables have."""
    levels = (*(above for above, _ in floors), level, *later)
    core, weights = tables.items.core, tables.items.weights
    if not tables.items.goals:
        # The weighted sum is a goal, and each weighted floor is in every value of it.
        total = level.value + sum(
            weight * above.value for weight, (above, _) in zip(weights, floors, strict=True)
        )
        levels, weights = (replace(level, value=total),), ()
    claims = [
        Claim(level, float(table[0].flat[-1]), table, least)
        for level, table, least in zip(levels, tables.tables, tables.least, strict=False)
    ]
    promised = 0.0 if tables.items.goals else tables.items.promised
    claims[tables.rank] = claims[tables.rank]._replace(worth=tables.bound + promised)
    proof = None if core is None else CoreProof(core.prices, core.fewest, weights)
    check_knapsack(problem, claims, tables.items.job, proof)


def _of_core(items: Items, least: float, gap: float, params: CoreParams) -> Tables | None:
    """Return tables over the core of the items or a part of it; None if neither is good enough.

    The core of ``slack`` has the items that lose at most ``slack`` at the prices (theorem 7: no
    decision with another item is worth more than ``bound - slack``). So its best choice, worth V,
    is the best of all once ``slack >= bound - V``: the core *proves its own choice*, and
    `Tables.bound` is then within the gap.

    Invariant: ``fitted`` is the largest slack whose core was solved, 0 if none was; a core of more
    slack than the current one is either unknown or too large.

    * A core was solved, worth V: ``bound - V`` is the slack that proves V or a better choice. Take
      it if it is at most ``proving`` times the current one, else ``wider`` times the current one,
      as V may be poor and so large a step miss the size that fits.
    * A core was too large: try one between it and ``fitted``, whose choice may be better and need
      less slack for its proof. The geometric mean halves the ratio of the two on a log scale,
      which is the scale of sizes: additions grow with a power of the slack.

    Termination: at most ``cores`` passes; it also ends when the ratio is below ``between``.

    Example: bound 100. Slack 1 has a choice worth 97, so slack 3 is next (3 <= 8 x 1). It is too
    large, so 1.73 is next; its choice is worth 98.5, and slack 1.5 < 1.73 already proves it.
    """
    at, most = priced(items), params.additions
    if at is None:
        return None
    slack = at.bound - least
    if slack == np.inf:
        # The first core has (1 + first_items) items per job.
        more = min(at.loss.size - 1, round((1.0 + params.first_items) * items.job.size))
        slack = float(np.partition(at.loss, more)[more])
    fitted = 0.0
    for _ in range(params.cores):
        core = losing(items, at, slack)
        value = rounding = -np.inf
        if core is not None:
            tables = Tables(core)
            if tables.takes_more_than(most):
                if not fitted or fitted * params.between > slack:
                    break
                slack = float(np.sqrt(fitted * slack))
                continue
            fitted, value, rounding = slack, tables.best, tables.rounding
            if value > -np.inf and relative_gap(value, tables.bound) <= gap:
                return tables
        proving, wider = at.bound - value + max(rounding, 0.0), params.wider * slack
        slack = proving if proving <= params.proving * slack else wider
    close = gap * abs(at.bound)
    if most < params.additions_part or close <= 0.0 or least > -np.inf:
        return None
    core = rounded(items, at, close, params.additions_part)
    return None if core is None else Tables(core)


def decided_by_tables(
    problem: RoundProblem,
    level: Level,
    tables: Tables,
    known: Selection | None,
    solver: Solver,
    limits: Limits,
    params: LadderParams = DEFAULTS,
    deadline: Deadline | None = None,
    few: bool = False,
) -> Found:
    """Return the best decision found by a round's tables within the limits, and a bound.

    Parameters
    ----------
    known
        Decision of the round so far, if any.
    solver, limits
        Solver of placements that packing does not find; its node limit is also the search's.
    params
        Partial choices and placements, at most.
    deadline
        End of the search and of placements; None for the limits' time from now on.
    few
        Whether nodes are so few that the search ends by `TinyParams`.
    """
    core, deadline = params.core, deadline or Deadline(limits.time_s)
    asked = 0

    def ask(choice: Ints) -> Placed:
        nonlocal asked
        if asked >= (params.tiny.placements if few else core.placements):
            return None, False
        asked += 1
        rounds = RoundSolver(solver, replace(limits, gap=0.0), params=params, deadline=deadline)
        return rounds.exact_placement(problem, choice)

    vain = params.tiny.whole_choices if few else None

    def searched(most: int, known: Selection | None) -> Found:
        most = most if limits.nodes is None else min(most, limits.nodes)
        return best_decision(problem, level, tables, ask, most, known, deadline.passed, vain)

    found = searched(core.partial_choices, known)
    ranked = len(tables.goals) > 1 and core.partial_choices <= found.nodes
    if not ranked or int(tables.in_reach(found.value).sum()) <= core.few_in_reach:
        return found
    return searched(core.partial_choices_ranked, found.selection)
