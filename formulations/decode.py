"""Decode: give nodes to the parts of a choice; counted patterns become named nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.round_problem import STAY, HoldTable, RoundProblem, Scope, Selection

SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Room:
    """What is still free while parts are being placed; the arrays are changed in place.

    Parameters
    ----------
    nodes
        Free resources of each node, shape (N, R).
    uplinks
        Free uplink of each leaf, shape (L,).
    """

    nodes: Floats
    uplinks: Floats


def room_after_stays(problem: RoundProblem, choice: Ints) -> Room:
    """Free resources once the staying jobs keep theirs; nothing is free on closed nodes."""
    nodes, holds = problem.nodes, problem.holds
    free = nodes.capacity[nodes.node_class].copy()
    uplinks = nodes.uplink_gb_per_s.copy()
    stays = choice[holds.job] == STAY
    np.subtract.at(free, holds.node[stays], holds.demand[stays])
    np.subtract.at(uplinks, nodes.leaf[holds.node[stays]], holds.uplink_gb_per_s[stays])
    free[~nodes.open] = 0.0
    return Room(free, uplinks)


def place_parts(problem: RoundProblem, candidate: int, room: Room) -> tuple[int, ...] | None:
    """Distinct nodes for a candidate's parts, taken from ``room``; None if none were found.

    Each part goes to the usable node with the least free GPUs that still has room. A candidate
    that is confined to a leaf or NVLink domain tries these from the fullest that can hold it.
    """
    nodes, candidates = problem.nodes, problem.candidates
    usable = (
        nodes.open
        & (nodes.node_class == candidates.node_class[candidate])
        & nodes.sets[candidates.node_set[candidate]]
    )
    scope = int(candidates.scope[candidate])
    if scope in (Scope.NODE, Scope.POD):
        found = _best_fit(problem, candidate, room, usable)
    else:
        found = None
        place = nodes.leaf if scope == Scope.LEAF else nodes.domain
        spare = np.zeros(int(place.max(initial=0)) + 1)
        np.add.at(spare, place[usable], room.nodes[usable, 0])
        for host in np.argsort(spare, kind="stable").tolist():
            if spare[host] >= candidates.gpus[candidate] - SLACK:
                found = _best_fit(problem, candidate, room, usable & (place == host))
            if found is not None:
                break
    if found is None:
        return None
    for part, node in zip(candidates.parts(candidate), found, strict=True):
        room.nodes[node] -= candidates.demand(candidate, part)
        if scope == Scope.POD:
            room.uplinks[nodes.leaf[node]] -= part * candidates.side[candidate, 2]
    return found


def _best_fit(
    problem: RoundProblem, candidate: int, room: Room, usable: Bools
) -> tuple[int, ...] | None:
    candidates, leaf = problem.candidates, problem.nodes.leaf
    usable = usable.copy()
    crosses = candidates.scope[candidate] == Scope.POD
    uplinks = room.uplinks.copy() if crosses else room.uplinks
    chosen: list[int] = []
    for part in candidates.parts(candidate):
        demand = candidates.demand(candidate, part)
        fits = usable & (room.nodes >= demand - SLACK).all(axis=1)
        share = part * float(candidates.side[candidate, 2]) if crosses else 0.0
        if share:
            fits &= uplinks[leaf] >= share - SLACK
        if not fits.any():
            return None
        node = int(np.where(fits, room.nodes[:, 0], np.inf).argmin())
        usable[node] = False
        if share:
            uplinks[leaf[node]] -= share
        chosen.append(node)
    return tuple(chosen)


def pack(problem: RoundProblem, choice: Ints, order: str = "size") -> Selection | None:
    """Nodes for a choice by best-fit decreasing, or None when that heuristic finds none.

    Jobs are taken by their largest part (``order="size"``) or by their number of parts
    (``order="parts"``), those confined to fewest nodes first. Not finding nodes proves nothing;
    the exact answer is `formulations.node_assignment` on `restricted`.
    """
    candidates = problem.candidates
    room = room_after_stays(problem, choice)
    started = np.flatnonzero(choice >= 0).tolist()

    def rank(job: int) -> tuple[int, ...]:
        candidate = int(choice[job])
        parts = candidates.parts(candidate)
        first = (parts[0], len(parts)) if order == "size" else (len(parts), parts[0])
        pinned = int(candidates.node_set[candidate] == 0)
        return (pinned, -first[0], -first[1], int(candidates.scope[candidate]), job)

    spots: list[tuple[int, ...]] = [()] * problem.jobs.count
    for job in sorted(started, key=rank):
        found = place_parts(problem, int(choice[job]), room)
        if found is None:
            return None
        spots[job] = found
    return Selection(choice, tuple(spots))


def restricted(problem: RoundProblem, choice: Ints) -> RoundProblem:
    """The placement question of a choice alone: its candidates, its stays, no rules.

    Candidate i of the result is the i-th smallest candidate index of the choice. Jobs that do
    not stay hold nothing there.
    """
    stays = choice == STAY
    kept = stays[problem.holds.job]
    holds = problem.holds
    return replace(
        problem,
        jobs=replace(
            problem.jobs,
            stay_iteration_s=np.where(stays, problem.jobs.stay_iteration_s, np.nan),
        ),
        candidates=problem.candidates.take(np.sort(choice[choice >= 0])),
        holds=HoldTable(
            holds.job[kept], holds.node[kept], holds.demand[kept], holds.uplink_gb_per_s[kept]
        ),
        rules=type(problem.rules)(),
    )
