"""Pairs: two jobs on the same GPUs at the same time, as rows of a round's candidates.

The last ``P`` rows of the candidate table are pairs, one after the other as in `PairTable`. A pair
counts in the row ``one_config`` of both jobs, holds its GPUs once, and the other resources of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.columns import joined, no_floats, no_ints
from formulations.linear_model import Bools, Floats, Ints
from formulations.round.rule_table import RULE_S, RULE_X, RuleTable

if TYPE_CHECKING:
    from formulations.round.tables import RoundProblem

STAY = -2


def _no_couples() -> Ints:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs that are offered, and running jobs that share GPUs; no pairs by default.

    Two sorts of pairs. In a *fresh* pair both jobs start, on GPUs that are free: its candidate row
    has parts like any other. In a pair *in place* the first job stays where it runs, and the second
    comes to it or, if it is there already, stays as well: its row has no parts, the GPUs are those
    that the first job holds. A pair in which both stay holds no more than the two hold already.

    Parameters
    ----------
    partner
        The second job of each pair, shape (P,); the first is that of the candidate row, whose
        ``iteration_s`` is that of the first job in the pair.
    partner_iteration_s
        Seconds per iteration of the second job in the pair, shape (P,).
    first_half, second_half
        What each of the two does: the candidate, alone, whose parts it starts with, or `STAY`;
        shape (P,). The first stays if the second does.
    sharing
        Running jobs that hold the same GPUs as the round begins, shape (Q, 2), smaller first.
    """

    partner: Ints = field(default_factory=no_ints)
    partner_iteration_s: Floats = field(default_factory=no_floats)
    first_half: Ints = field(default_factory=no_ints)
    second_half: Ints = field(default_factory=no_ints)
    sharing: Ints = field(default_factory=_no_couples)

    @property
    def count(self) -> int:
        """Number of pairs P."""
        return int(self.partner.size)

    @property
    def in_place(self) -> Bools:
        """Pairs on the GPUs that their first job holds, shape (P,)."""
        return np.asarray(self.first_half == STAY)


def companions(problem: RoundProblem) -> Ints:
    """The running job that holds the same GPUs, shape (J,); -1 without one."""
    found = np.full(problem.jobs.count, -1, dtype=np.int64)
    sharing = problem.pairs.sharing
    found[sharing[:, 0]], found[sharing[:, 1]] = sharing[:, 1], sharing[:, 0]
    return found


def require_pairs(problem: RoundProblem) -> None:
    """Refuse pairs that contradict the other tables.

    Raises
    ------
    ValueError
        Naming the column and the rule.
    """
    pairs, table = problem.pairs, problem.candidates
    base = table.count - pairs.count
    columns = (pairs.partner_iteration_s, pairs.first_half, pairs.second_half)
    if base < 0 or any(column.size != pairs.count for column in columns):
        raise ValueError("pairs must have columns of one length, and a candidate each")
    _require_sharing(problem)
    if pairs.count:
        _require_partners(problem, table.job[base:])
        _require_halves(problem, table.job[base:])


def _require_sharing(problem: RoundProblem) -> None:
    sharing, jobs = problem.pairs.sharing, problem.jobs
    if sharing.size and (sharing.min() < 0 or sharing.max() >= jobs.count):
        raise ValueError(f"pairs.sharing must lie in 0..{jobs.count - 1}")
    if np.unique(sharing).size != sharing.size or (sharing[:, 0] >= sharing[:, 1]).any():
        raise ValueError("pairs.sharing must name every job once, the smaller of two first")
    if not jobs.running[sharing].all():
        raise ValueError("pairs.sharing must name running jobs")


def _require_partners(problem: RoundProblem, first: Ints) -> None:
    pairs, jobs = problem.pairs, problem.jobs
    if pairs.partner.min() < 0 or pairs.partner.max() >= jobs.count:
        raise ValueError(f"pairs.partner must lie in 0..{jobs.count - 1}")
    if (pairs.partner == first).any():
        raise ValueError("pairs.partner must be another job")
    if not (np.isfinite(pairs.partner_iteration_s) & (pairs.partner_iteration_s > 0)).all():
        raise ValueError("pairs.partner_iteration_s must be positive and finite")


def _require_halves(problem: RoundProblem, first: Ints) -> None:
    pairs, table, jobs = problem.pairs, problem.candidates, problem.jobs
    base = table.count - pairs.count
    for half, owner in ((pairs.first_half, first), (pairs.second_half, pairs.partner)):
        starts = half != STAY
        if ((half < STAY) | (half == -1) | (half >= base)).any():
            raise ValueError("pairs' halves must be candidates alone, or stays")
        if (table.job[half[starts]] != owner[starts]).any():
            raise ValueError("pairs' halves must be candidates of their own jobs")
        if not jobs.running[owner[~starts]].all():
            raise ValueError("pairs' halves must not stay where nothing runs")
    together = pairs.second_half == STAY
    if (together & ~pairs.in_place).any():
        raise ValueError("pairs.first_half must stay if the second does")
    if (companions(problem)[first[together]] != pairs.partner[together]).any():
        raise ValueError("pairs in which both stay must hold the same GPUs")
    if (np.diff(table.part_start)[base:][pairs.in_place] > 0).any():
        raise ValueError("pairs in place must not have parts")


def lifted(problem: RoundProblem, rules: RuleTable) -> RuleTable:
    """Rules over starts and stays alone, with their entries for the pairs of the round.

    A pair has in each row what its two halves have there together: who starts in a pair starts,
    and who stays in one stays.
    """
    options, members = problem.options, problem.options.members
    paired = np.flatnonzero(options.shared[members.option])
    if not (paired.size and rules.count):
        return rules
    about = np.where(rules.kind == RULE_X, rules.index, -1)
    stays = rules.kind == RULE_S
    about[stays] = options.stay[rules.index[stays]]
    entry, member = joined(about, members.alone[paired])
    return replace(
        rules,
        row=np.concatenate([rules.row, rules.row[entry]]),
        kind=np.concatenate([rules.kind, np.full(entry.size, RULE_X)]),
        index=np.concatenate([rules.index, members.option[paired[member]]]),
        value=np.concatenate([rules.value, rules.value[entry]]),
    )
