"""What a pair is worth: the sum of what its two jobs are worth at their speeds in the pair.

An objective knows jobs that run alone. It is asked for the worth of each half of a pair as if that
job alone (re)started, or stayed, at its speed in the pair, and never sees a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from formulations.linear_model import Floats, Ints
from formulations.round.options import PairTable
from formulations.round.rule_table import RuleTable
from formulations.round.tables import STAY, Level, RoundProblem

Levels = Callable[[RoundProblem], tuple[Level, ...]]


def with_pairs(levels_of: Levels, problem: RoundProblem) -> tuple[Level, ...]:
    """Levels of a round with pairs, from levels that know jobs that run alone.

    Parameters
    ----------
    levels_of
        Levels of a round without pairs; the number and names of the levels must not depend on
        speeds.
    problem
        Any round; without pairs its levels are those of ``levels_of``.

    Notes
    -----
    One call for all starts. A stay is a property of the job, so the stays of one job in several
    pairs take a call each; there are as many as the job with most has.
    """
    if not problem.pairs.count:
        return levels_of(problem)
    whole, position, worth = _valued(levels_of, problem)
    base = problem.candidates.count - problem.pairs.count
    both = worth[:, : problem.pairs.count] + worth[:, problem.pairs.count :]
    return tuple(
        replace(level, value=np.concatenate([level.value[position[:base]], both[rank]]))
        for rank, level in enumerate(whole)
    )


def worth_of_halves(levels_of: Levels, problem: RoundProblem) -> Floats:
    """What each job of each pair is worth, shape (L, 2 P): all first ones, then all second ones.

    The round has pairs.
    """
    return _valued(levels_of, problem)[2]


def _valued(levels_of: Levels, problem: RoundProblem) -> tuple[tuple[Level, ...], Ints, Floats]:
    """Levels of the round without pairs, where its candidates stand in it, worth of halves."""
    halves = _halves(problem)
    started = halves.half >= 0
    alone, position = _alone(problem, halves.half[started], halves.iteration_s[started])
    base = problem.candidates.count - problem.pairs.count
    whole = levels_of(alone)
    worth = np.zeros((len(whole), halves.half.size))
    for rank, level in enumerate(whole):
        worth[rank, started] = level.value[position[base:]]
    stays = np.flatnonzero(~started)
    for turn in _turns(halves.job[stays]):
        rows = stays[turn]
        pace = problem.jobs.stay_iteration_s.copy()
        pace[halves.job[rows]] = halves.iteration_s[rows]
        jobs = replace(alone.jobs, stay_iteration_s=pace)
        for rank, level in enumerate(levels_of(replace(alone, jobs=jobs))):
            worth[rank, rows] = level.stay_value[halves.job[rows]]
    return whole, position, worth


@dataclass(frozen=True, slots=True)
class _Halves:
    """Halves of all pairs, the first ones before the second ones; columns of shape (2 P,)."""

    job: Ints
    half: Ints
    iteration_s: Floats


def _halves(problem: RoundProblem) -> _Halves:
    pairs, table = problem.pairs, problem.candidates
    base = table.count - pairs.count
    return _Halves(
        np.concatenate([table.job[base:], pairs.partner]),
        np.concatenate([pairs.first_half, pairs.second_half]),
        np.concatenate([table.iteration_s[base:], pairs.partner_iteration_s]),
    )


def _alone(problem: RoundProblem, half: Ints, iteration_s: Floats) -> tuple[RoundProblem, Ints]:
    """The round without pairs, with the starting halves as candidates of their jobs.

    Returns
    -------
    tuple
        The round, job by job as every round, and where its candidates stand: first those that
        the round has alone, then the halves.
    """
    table = problem.candidates
    base = table.count - problem.pairs.count
    rows = np.concatenate([np.arange(base, dtype=np.int64), half])
    order = np.argsort(table.job[rows], kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    seconds = np.concatenate([table.iteration_s[:base], iteration_s])
    candidates = replace(table.take(rows[order]), iteration_s=seconds[order])
    alone = replace(
        problem,
        candidates=candidates,
        rules=RuleTable(),
        pairs=PairTable(sharing=problem.pairs.sharing),
    )
    return alone, position


def _turns(jobs: Ints) -> list[Ints]:
    """Indices in groups in which every job occurs once at most."""
    order = np.argsort(jobs, kind="stable")
    first = np.searchsorted(jobs[order], jobs[order], side="left")
    turn = np.arange(jobs.size) - first
    return [order[turn == t] for t in range(int(turn.max(initial=-1)) + 1)]


def lifted(problem: RoundProblem, rules: RuleTable) -> RuleTable:
    """Rules over starts and stays alone, with their entries for the pairs of the round.

    A pair has in each row what its two halves have there together: who starts in a pair starts,
    and who stays in one stays.
    """
    pairs = problem.pairs
    if not (pairs.count and rules.count):
        return rules
    halves = _halves(problem)
    base = problem.candidates.count - pairs.count
    kinds = (halves.half >= 0, halves.half == STAY)
    index = np.where(kinds[0], halves.half, halves.job)
    pair = base + np.tile(np.arange(pairs.count, dtype=np.int64), 2)
    row, candidate, value = [rules.row], [rules.index], [rules.value]
    kind = [rules.kind]
    for word, mine in enumerate(kinds):
        of_kind = np.flatnonzero(rules.kind == word)
        for half in np.flatnonzero(mine).tolist():
            entries = of_kind[rules.index[of_kind] == index[half]]
            row.append(rules.row[entries])
            candidate.append(np.full(entries.size, pair[half], dtype=np.int64))
            value.append(rules.value[entries])
            kind.append(np.zeros(entries.size, dtype=np.int64))
    return replace(
        rules,
        row=np.concatenate(row),
        kind=np.concatenate(kind),
        index=np.concatenate(candidate),
        value=np.concatenate(value),
    )
