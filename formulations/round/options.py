"""Pairs: two jobs on the same GPUs at the same time, as rows of a round's candidates.

The last ``P`` rows of the candidate table are pairs, one after the other as in `PairTable`. A pair
counts in the row ``one_config`` of both jobs, holds its GPUs once, and the other resources of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from formulations.columns import no_floats, no_ints
from formulations.linear_model import Bools, Floats, Ints

if TYPE_CHECKING:
    from formulations.round.tables import RoundProblem

_STAY = -2


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
        return np.asarray(self.first_half == _STAY)


@dataclass(frozen=True, slots=True)
class JointHolds:
    """What pairs in place hold: one row per (pair, node).

    Parameters
    ----------
    pair, candidate, node
        Number of the pair, its row among the candidates, and the node; shape (H,).
    demand
        Resources held by both jobs together, GPUs once, shape (H, R).
    uplink_gb_per_s
        Network share on the uplink of the node's leaf, shape (H,).
    """

    pair: Ints
    candidate: Ints
    node: Ints
    demand: Floats
    uplink_gb_per_s: Floats


def joint_holds(problem: RoundProblem) -> JointHolds:
    """Holds of the pairs in place, from those of their first jobs."""
    table, pairs, holds = problem.candidates, problem.pairs, problem.holds
    base = table.count - pairs.count
    chosen = np.flatnonzero(pairs.in_place)
    order = np.argsort(holds.job, kind="stable")
    owner = table.job[base + chosen]
    first = np.searchsorted(holds.job[order], owner, side="left")
    lengths = np.searchsorted(holds.job[order], owner, side="right") - first
    inside = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = order[np.repeat(first, lengths) + inside]
    pair = np.repeat(chosen, lengths)
    gpus = holds.demand[row, 0]
    side = table.side[base + pair]
    node = holds.node[row]
    crosses = np.asarray(
        [np.unique(problem.nodes.leaf[node[pair == p]]).size > 1 for p in chosen.tolist()],
        dtype=bool,
    )
    share = np.where(np.repeat(crosses, lengths), gpus * side[:, 2], 0.0)
    demand = np.column_stack([gpus, gpus[:, None] * side])
    return JointHolds(pair, base + pair, node, demand, share)


def may_meet(problem: RoundProblem) -> Bools:
    """Pairs that can happen at all, shape (P,).

    A second job comes to the first only on nodes that are open, of its class and in its node set.
    """
    joint, nodes, table = joint_holds(problem), problem.nodes, problem.candidates
    node_set = table.node_set[joint.candidate]
    usable = (
        nodes.open[joint.node]
        & (nodes.node_class[joint.node] == table.node_class[joint.candidate])
        & nodes.sets[node_set, joint.node]
    )
    comes = problem.pairs.second_half[joint.pair] != _STAY
    possible = np.ones(problem.pairs.count, dtype=bool)
    possible[joint.pair[comes & ~usable]] = False
    return possible


def partner_of(problem: RoundProblem, candidate: int, job: int) -> int:
    """The other job of a pair, by its row among the candidates; -1 where that is no pair."""
    pair = candidate - (problem.candidates.count - problem.pairs.count)
    if pair < 0:
        return -1
    first, second = int(problem.candidates.job[candidate]), int(problem.pairs.partner[pair])
    return second if job == first else first


def half_of(problem: RoundProblem, candidate: int, job: int) -> int:
    """What a job does in a candidate: the candidate itself unless it is a pair."""
    pair = candidate - (problem.candidates.count - problem.pairs.count)
    if pair < 0:
        return candidate
    halves = problem.pairs.first_half, problem.pairs.second_half
    return int(halves[int(problem.candidates.job[candidate] != job)][pair])


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
        starts = half != _STAY
        if ((half < _STAY) | (half == -1) | (half >= base)).any():
            raise ValueError("pairs' halves must be candidates alone, or stays")
        if (table.job[half[starts]] != owner[starts]).any():
            raise ValueError("pairs' halves must be candidates of their own jobs")
        if not jobs.running[owner[~starts]].all():
            raise ValueError("pairs' halves must not stay where nothing runs")
    together = pairs.second_half == _STAY
    if (together & ~pairs.in_place).any():
        raise ValueError("pairs.first_half must stay if the second does")
    if (companions(problem)[first[together]] != pairs.partner[together]).any():
        raise ValueError("pairs in which both stay must hold the same GPUs")
    if (np.diff(table.part_start)[base:][pairs.in_place] > 0).any():
        raise ValueError("pairs in place must not have parts")
