"""Brute force: the optimum of a small round by enumeration, from the definitions alone.

It knows no model, no solver and none of the code under test but the tables. Every combination of
a candidate, a stay or nothing per job is listed; in order of falling value the first one that
some choice of named nodes can carry is optimal, because all better ones have been refuted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog

from formulations.round.rule_table import RULE_S, RULE_U, RULE_X
from formulations.round.tables import NONE, Level, RoundProblem, Scope, Selection
from tests.formulations.worlds.random_rounds import units
from tests.formulations.worlds.rounds import SIDES

LARGEST = 200_000
"""Combinations beyond which a round is not small."""


def options(problem: RoundProblem, job: int) -> list[int]:
    """Everything that a job may do, as entries of `Selection.choice`."""
    own = [k for k in range(problem.candidates.count) if int(problem.candidates.job[k]) == job]
    stay = [int(problem.options.stay[job])] if job in problem.holds.job.tolist() else []
    first = problem.candidates.count + problem.shared.count
    back = problem.candidates.job[problem.returns.candidate[problem.returns.placed]].tolist()
    return [NONE, *stay, *own, *(first + i for i, whose in enumerate(back) if whose == job)]


def returning(problem: RoundProblem, picked: int) -> tuple[int, tuple[int, ...]] | None:
    """Candidate and nodes of an option on named nodes; None for every other option."""
    returns, at = problem.returns, picked - problem.candidates.count - problem.shared.count
    if not 0 <= at < returns.options:
        return None
    row = int(returns.placed[at])
    named = returns.node[int(returns.node_start[row]) : int(returns.node_start[row + 1])]
    return int(returns.candidate[row]), tuple(named.tolist())


def starts(problem: RoundProblem, picked: int) -> bool:
    """Whether nodes are to be found for what a job does."""
    listed = problem.candidates.count + problem.shared.count
    return 0 <= picked < listed or returning(problem, picked) is not None


def combinations(problem: RoundProblem) -> np.ndarray:
    """Every choice of the round, shape (combinations, J)."""
    rows = list(product(*(options(problem, job) for job in range(problem.jobs.count))))
    assert len(rows) <= LARGEST, "too large for brute force"
    return np.asarray(rows, dtype=np.int64).reshape(-1, problem.jobs.count)


def value(choice: Sequence[int], level: Level) -> float:
    """Worth of a choice."""
    return sum(float(level.value[picked]) for picked in choice if picked >= 0)


@dataclass(frozen=True, slots=True)
class Room:
    """What is left: resources of every node, shape (N, R), and of every uplink, shape (L,)."""

    nodes: np.ndarray
    uplinks: np.ndarray

    def fits(self) -> bool:
        """Whether nothing is overdrawn."""
        return bool((self.nodes >= -1e-9).all() and (self.uplinks >= -1e-9).all())


def room_after_stays(problem: RoundProblem, choice: Sequence[int]) -> Room | None:
    """What is left once the staying jobs keep theirs, or None if these alone do not fit."""
    nodes, holds = problem.nodes, problem.holds
    room = Room(
        np.asarray([nodes.capacity[t] for t in nodes.node_class.tolist()]),
        nodes.uplink_gb_per_s.copy(),
    )
    for row in range(holds.count):
        job = int(holds.job[row])
        if choice[job] == problem.options.stay[job]:
            node = int(holds.node[row])
            room.nodes[node] -= holds.demand[row]
            room.uplinks[nodes.leaf[node]] -= holds.uplink_gb_per_s[row]
    return room if room.fits() else None


def rules_hold(problem: RoundProblem, choice: Sequence[int]) -> bool:
    """Whether the operator's rules have a solution: a linear program in their own columns."""
    rules, first = problem.rules, problem.candidates.count + problem.shared.count
    # Whoever comes back does what its candidate does; the table's own entries for it are not read.
    alone = [(returning(problem, picked) or (picked, ()))[0] for picked in choice]
    done = [picked for picked in alone if picked < first or picked in problem.options.stays]
    used, borrowed = np.zeros(rules.count), np.zeros((rules.count, rules.aux_upper.size))
    for row, kind, index, amount in zip(
        rules.row.tolist(),
        rules.kind.tolist(),
        rules.index.tolist(),
        rules.value.tolist(),
        strict=True,
    ):
        if kind == RULE_U:
            borrowed[row, index] += amount
        elif (kind == RULE_X and index in done) or (
            kind == RULE_S and choice[index] == problem.options.stay[index] >= 0
        ):
            used[row] += amount
    unborrowed = (used >= rules.lower - 1e-9).all() and (used <= rules.upper + 1e-9).all()
    if unborrowed or not rules.aux_upper.size:
        return bool(unborrowed)
    # What no row alone can make up for needs no linear program to be refuted.
    reach = np.minimum(rules.aux_upper, 1e12)
    least = used + np.minimum(borrowed, 0.0) @ reach
    most = used + np.maximum(borrowed, 0.0) @ reach
    if (least > rules.upper + 1e-6).any() or (most < rules.lower - 1e-6).any():
        return False
    low, high = np.isfinite(rules.lower), np.isfinite(rules.upper)
    answer = linprog(
        np.zeros(rules.aux_upper.size),
        A_ub=np.vstack([borrowed[high], -borrowed[low]]),
        b_ub=np.concatenate([(rules.upper - used)[high], (used - rules.lower)[low]]) + 1e-9,
        bounds=[(0.0, float(upper)) for upper in rules.aux_upper],
    )
    return bool(answer.status == 0)


def spots(problem: RoundProblem, candidate: int) -> Iterator[tuple[int, ...]]:
    """Every way to give its parts open nodes of their classes; distinct, unless they are loose."""
    back = returning(problem, candidate)
    if back is not None:
        yield from (where for where in spots(problem, back[0]) if where == back[1])
        return
    table, nodes = problem.options.starts, problem.nodes
    span = slice(int(table.part_start[candidate]), int(table.part_start[candidate + 1]))
    usable = [
        [
            node
            for node in range(nodes.count)
            if nodes.open[node]
            and nodes.node_class[node] == node_class
            and nodes.sets[table.node_set[candidate]][node]
        ]
        for node_class in table.part_class[span].tolist()
    ]
    scope = Scope(table.scope[candidate])
    for where in product(*usable):
        if len(set(where)) < len(where) and not table.loose[candidate]:
            continue
        if scope is Scope.LEAF and len({int(nodes.leaf[n]) for n in where}) > 1:
            continue
        if scope is Scope.NVLINK and len({int(nodes.domain[n]) for n in where}) > 1:
            continue
        if table.strict[candidate]:
            place = nodes.leaf if scope is Scope.POD else nodes.domain
            if len({int(place[n]) for n in where}) == 1:
                continue
        yield where


def demand(problem: RoundProblem, candidate: int, where: tuple[int, ...]) -> Room:
    """What a start takes of every node and uplink."""
    back = returning(problem, candidate)
    candidate = candidate if back is None else back[0]
    table, nodes = problem.options.starts, problem.nodes
    taken = Room(
        np.zeros((nodes.count, nodes.capacity.shape[1])), np.zeros(nodes.uplink_gb_per_s.size)
    )
    side, crosses = table.side[candidate], table.scope[candidate] == Scope.POD
    for part, node in zip(table.parts(candidate), where, strict=True):
        taken.nodes[node] += np.concatenate([[part], units(part, side.size) * side])
        if crosses:
            taken.uplinks[nodes.leaf[node]] += part * side[SIDES - 1]
    return taken


def take(problem: RoundProblem, candidate: int, where: tuple[int, ...], room: Room) -> Room | None:
    """The room that a start leaves, or None if it does not fit."""
    taken = demand(problem, candidate, where)
    left = Room(room.nodes - taken.nodes, room.uplinks - taken.uplinks)
    return left if left.fits() else None


Known = dict[int, tuple[list[tuple[int, ...]], np.ndarray]]
"""Spots of candidates of one round and their demands as rows: nodes, then uplinks."""


def _spots_of(
    problem: RoundProblem, candidate: int, known: Known
) -> tuple[list[tuple[int, ...]], np.ndarray]:
    if candidate not in known:
        found = list(spots(problem, candidate))
        rows = [_row(demand(problem, candidate, where)) for where in found]
        known[candidate] = found, np.asarray(rows)
    return known[candidate]


def _row(room: Room) -> np.ndarray:
    return np.concatenate([room.nodes.ravel(), room.uplinks])


def place(
    problem: RoundProblem, choice: Sequence[int], known: Known | None = None
) -> Selection | None:
    """Nodes for a choice by trying all, or None if there are none or a rule forbids it.

    ``known`` keeps the spots of the round's candidates from one choice to the next.
    """
    room = room_after_stays(problem, choice)
    if room is None or not rules_hold(problem, choice):
        return None
    nodes: list[tuple[int, ...]] = [()] * problem.jobs.count
    known = {} if known is None else known

    def descend(jobs: list[int], room: np.ndarray) -> bool:
        if not jobs:
            return True
        job, *rest = jobs
        found, demands = _spots_of(problem, choice[job], known)
        if not found:
            return False
        left = room - demands
        for at in np.flatnonzero((left >= -1e-9).all(axis=1)).tolist():
            if descend(rest, left[at]):
                nodes[job] = () if returning(problem, choice[job]) else found[at]
                return True
        return False

    started = [job for job, picked in enumerate(choice) if starts(problem, picked)]
    if not descend(started, _row(room)):
        return None
    return Selection(np.asarray(choice, dtype=np.int64), tuple(nodes))


def best(problem: RoundProblem, levels: Sequence[Level]) -> Selection:
    """An optimum under ranked levels, most important first."""
    rows = combinations(problem)
    worth = np.asarray([[value(row, level) for level in levels] for row in rows.tolist()])
    # Rounded, so that sums that differ in their last bits alone count as a tie: each to its own
    # digits, since values may differ by more than a double has.
    unit = 10.0 ** np.ceil(np.log10(np.maximum(1e-290, np.abs(worth))))
    worth = np.round(worth / unit, 12) * unit
    known: Known = {}
    for row in np.lexsort(-worth.T[::-1]).tolist():
        found = place(problem, rows[row].tolist(), known)
        if found is not None:
            return found
    raise AssertionError("the rules of this round contradict each other")


def feasible(problem: RoundProblem, selection: Selection) -> bool:
    """Whether a decision is one that the enumeration would come across."""
    jobs = problem.jobs.count
    if selection.choice.shape != (jobs,) or len(selection.nodes) != jobs:
        return False
    choice = selection.choice.tolist()
    if any(picked not in options(problem, job) for job, picked in enumerate(choice)):
        return False
    room = room_after_stays(problem, choice)
    if room is None or not rules_hold(problem, choice):
        return False
    for job, picked in enumerate(choice):
        where = selection.nodes[job]
        if not starts(problem, picked):
            if where:
                return False
            continue
        back = returning(problem, picked)
        if back is not None and where:
            return False
        where = where if back is None else back[1]
        if where not in set(spots(problem, picked)):
            return False
        room = take(problem, picked, where, room)
        if room is None:
            return False
    return True
