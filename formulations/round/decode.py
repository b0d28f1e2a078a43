"""Decoding of a choice: nodes for its parts, where counted patterns become named nodes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import distinct_rows
from formulations.parameters import DECODE
from formulations.round.check import RuleError, check
from formulations.round.returns import ReturnTable
from formulations.round.shared import SharedTable
from formulations.round.tables import (
    NONE,
    HoldTable,
    RoundProblem,
    Scope,
    Selection,
)
from formulations.tolerances import DECIMALS, FEASIBILITY


@dataclass(frozen=True, slots=True)
class Room:
    """Free resources while parts are placed; the arrays change in place.

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
    """Return the free resources after all options in place; none on closed nodes.

    Negative where a job that joins another's GPUs needs more than the node has left.
    """
    nodes, held = problem.nodes, problem.options.held
    free, uplinks = nodes.capacity[nodes.node_class], nodes.uplink_gb_per_s.copy()
    rows = (choice[held.job] == held.option).nonzero()[0]
    node = held.node[rows]
    np.subtract.at(free, node, held.demand[rows])
    np.subtract.at(uplinks, nodes.leaf[node], held.uplink_gb_per_s[rows])
    free[~nodes.open] = 0.0
    return Room(free, uplinks)


def _holds_fit(problem: RoundProblem, room: Room) -> bool:
    """Return whether options in place fit their nodes, as plain stays always do."""
    if not (problem.shared.count or problem.returns.options):
        return True
    nodes, uplinks = problem.nodes, problem.nodes.uplink_gb_per_s
    slack = FEASIBILITY * np.maximum(1.0, nodes.capacity[nodes.node_class])
    limit = FEASIBILITY * np.maximum(1.0, np.where(np.isfinite(uplinks), uplinks, 1.0))
    return bool((room.nodes >= -slack).all() and (room.uplinks >= -limit).all())


def place_parts(
    problem: RoundProblem, candidate: int, room: Room, among: Bools | None = None
) -> tuple[int, ...] | None:
    """Take nodes for a candidate's parts from ``room``; None if none were found.

    Distinct nodes, unless the parts may share one. Each part goes to the usable node with the
    fewest free GPUs that has room. A candidate that is confined to a leaf or NVLink domain tries
    these from the fullest on.

    Parameters
    ----------
    among
        Whether it may be on a node, shape (N,); None for all.
    """
    nodes, candidates = problem.nodes, problem.options.starts
    usable = nodes.open & nodes.sets[candidates.node_set[candidate]]
    if among is not None:
        usable &= among
    scope = int(candidates.scope[candidate])
    if scope in (Scope.NODE, Scope.POD):
        found = _best_fit(problem, candidate, room, usable)
    else:
        found = None
        usable &= np.isin(nodes.node_class, candidates.classes_of(candidate))
        place = nodes.leaf if scope == Scope.LEAF else nodes.domain
        spare = np.zeros(int(place.max(initial=0)) + 1)
        np.add.at(spare, place[usable], room.nodes[usable, 0])
        for host in np.argsort(spare, kind="stable").tolist():
            if spare[host] >= candidates.gpus[candidate] - FEASIBILITY:
                found = _best_fit(problem, candidate, room, usable & (place == host))
            if found is not None:
                break
    if found is None:
        return None
    for part, node in zip(candidates.parts(candidate), found, strict=True):
        room.nodes[node] -= candidates.demand(candidate, part)
        room.uplinks[nodes.leaf[node]] -= candidates.sends(candidate, part)
    return found


def _best_fit(
    problem: RoundProblem, candidate: int, room: Room, usable: Bools
) -> tuple[int, ...] | None:
    candidates, leaf = problem.options.starts, problem.nodes.leaf
    usable, left = usable.copy(), room.nodes
    loose = bool(candidates.loose[candidate])
    if loose:
        left = left.copy()
    crosses = candidates.scope[candidate] == Scope.POD
    tighter = leaf if crosses else problem.nodes.domain
    parts, classes = candidates.parts(candidate), candidates.classes_of(candidate).tolist()
    uplinks = room.uplinks.copy() if crosses else room.uplinks
    chosen: list[int] = []
    for part, kind in zip(parts, classes, strict=True):
        demand = candidates.demand(candidate, part)
        fits = usable & (problem.nodes.node_class == kind)
        fits &= (left >= demand - FEASIBILITY).all(axis=1)
        last = candidates.strict[candidate] and len(chosen) == len(parts) - 1
        if last and np.unique(tighter[chosen]).size == 1:
            fits &= tighter != tighter[chosen[0]]
        share = candidates.sends(candidate, part)
        if share:
            fits &= uplinks[leaf] >= share - FEASIBILITY
        if not fits.any():
            return None
        node = int(np.where(fits, left[:, 0], np.inf).argmin())
        usable[node] = loose
        if loose:
            left[node] -= demand
        if share:
            uplinks[leaf[node]] -= share
        chosen.append(node)
    return tuple(chosen)


def pack(
    problem: RoundProblem,
    choice: Ints,
    order: str = "size",
    among: Mapping[int, Bools] | None = None,
) -> Selection | None:
    """Return nodes for a choice by best-fit decreasing, or None if that finds none.

    Jobs are sorted by their largest part (``order="size"``) or by their number of parts
    (``order="parts"``), confined jobs first. None proves nothing; `formulations.node_assignment` on
    `restricted` gives the exact answer.

    Parameters
    ----------
    among
        Whether a job may be on a node, shape (N,), for some jobs.
    """
    confined = among or {}
    room = room_after_stays(problem, choice)
    if not _holds_fit(problem, room):
        return None
    started = _placed(problem, choice)
    spots: list[tuple[int, ...]] = [()] * problem.jobs.count
    if started.size:
        rows, which = problem.options.starts.templates
        row = which[choice[started]]
        first = rows.part_start[row]
        parts, largest = rows.part_start[row + 1] - first, rows.part_gpus[first]
        keys = (-parts, -largest) if order == "size" else (-largest, -parts)
        ranked = np.lexsort((rows.scope[row], *keys, rows.node_set[row] == 0))
        plain = not confined and _plain(problem, row)
        shelves = _Shelves(problem, room, choice[started]) if plain else None
        for job in started[ranked].tolist():
            if shelves is None:
                found = place_parts(problem, int(choice[job]), room, confined.get(job))
            else:
                found = shelves.best_fit(int(choice[job]))
            if found is None:
                return None
            spots[job] = found
    return with_partners(problem, Selection(choice, tuple(spots)))


def pack_slots(problem: RoundProblem, choice: Ints) -> Selection | None:
    """Return nodes for a choice slot by slot, or None if that heuristic finds none.

    First each part gets room on a node, whatever its gang, largest shares of a node first. Then
    gangs take slots of their kinds, those with most parts first, each on the nodes with most slots
    left: for parts of one kind this finds distinct nodes if these slots have them (Gale 1957, Ryser
    1957).
    """
    table, nodes = problem.options.starts, problem.nodes
    room, started = room_after_stays(problem, choice), _placed(problem, choice)
    rows, start = table.parts_of(choice[started])
    if not _holds_fit(problem, room) or rows.size * nodes.count > DECODE.slotted:
        return None
    asked = np.column_stack([table.part_class[rows], np.round(table.demands(rows), DECIMALS)])
    kinds, kind = distinct_rows(asked.astype(np.float64))
    slots = np.zeros((kinds.shape[0], nodes.count), dtype=np.int64)
    of_class = kinds[:, 0].astype(np.int64)
    share = kinds[:, 1:] / np.maximum(nodes.capacity[of_class], FEASIBILITY)
    gang = np.repeat(np.arange(started.size), np.diff(start))
    for at in np.argsort(-share.max(axis=1), kind="stable").tolist():
        mine, demand = nodes.open & (nodes.node_class == of_class[at]), kinds[at, 1:]
        gangs = np.unique(gang[kind == at]).size
        for _ in range(int((kind == at).sum())):
            # A gang takes at most one slot of a node.
            fits = mine & (room.nodes >= demand - FEASIBILITY).all(axis=1) & (slots[at] < gangs)
            if not fits.any():
                return None
            node = int(np.where(fits, room.nodes[:, 0], np.inf).argmin())
            room.nodes[node] -= demand
            slots[at, node] += 1
    spots: list[tuple[int, ...]] = [()] * problem.jobs.count
    for one in np.argsort(-np.diff(start), kind="stable").tolist():
        found = np.full(int(start[one + 1] - start[one]), NONE, dtype=np.int64)
        own = kind[start[one] : start[one + 1]]
        for at in np.unique(own).tolist():
            parts = np.flatnonzero(own == at)
            left = np.where(np.isin(np.arange(nodes.count), found), 0, slots[at])
            most = np.argsort(-left, kind="stable")[: parts.size]
            if most.size < parts.size or left[most[-1]] < 1:
                return None
            slots[at, most] -= 1
            found[parts] = most
        spots[int(started[one])] = tuple(found.tolist())
    decided = with_partners(problem, Selection(choice, tuple(spots)))
    try:
        check(problem, decided)
    except RuleError:
        return None  # of a leaf, a domain or an uplink, which slots do not know
    return decided


def _plain(problem: RoundProblem, chosen: Ints) -> bool:
    """Return whether parts of all these templates may use any node of their class with room."""
    nodes, (rows, _) = problem.nodes, problem.options.starts.templates
    for scope in {*rows.scope[chosen].tolist()} - {int(Scope.NODE)}:
        if not (
            (scope == Scope.POD and np.isposinf(nodes.uplink_gb_per_s).all())
            or (scope == Scope.LEAF and (nodes.leaf == nodes.leaf[0]).all())
        ):
            return False
    return not (rows.node_set[chosen].any() or (rows.strict | rows.loose)[chosen].any())


class _Shelves:
    """Open nodes of each class sorted by free GPUs, for plain candidates."""

    def __init__(self, problem: RoundProblem, room: Room, chosen: Ints) -> None:
        nodes, (rows, which) = problem.nodes, problem.options.starts.templates
        part, start = rows.parts_of(which[chosen])
        asked = list(zip(rows.part_class[part].tolist(), rows.demands(part).tolist(), strict=True))
        self._parts = {
            candidate: asked[first:last]
            for candidate, (first, last) in zip(
                chosen.tolist(), pairwise(start.tolist()), strict=True
            )
        }
        self._left: list[list[float]] = room.nodes.tolist()
        self._nodes: list[list[tuple[float, int]]] = [[] for _ in range(nodes.classes)]
        kinds = nodes.node_class.tolist()
        for node in np.flatnonzero(nodes.open).tolist():
            self._nodes[kinds[node]].append((self._left[node][0], node))
        for own in self._nodes:
            own.sort()

    def best_fit(self, candidate: int) -> tuple[int, ...] | None:
        """Return, per part, the first node with the fewest free GPUs that has room."""
        left = self._left
        taken: list[tuple[int, int]] = []
        for kind, demand in self._parts[candidate]:
            own = self._nodes[kind]
            for at in range(bisect_left(own, (demand[0] - FEASIBILITY, -1)), len(own)):
                node = own[at][1]
                if all(
                    has >= asked - FEASIBILITY
                    for has, asked in zip(left[node], demand, strict=True)
                ):
                    break
            else:
                return None
            # Off the shelf until all parts have a node: the job's parts use distinct nodes.
            del own[at]
            left[node] = [has - asked for has, asked in zip(left[node], demand, strict=True)]
            taken.append((kind, node))
        for kind, node in taken:
            insort(self._nodes[kind], (left[node][0], node))
        return tuple(node for _, node in taken)


def _placed(problem: RoundProblem, choice: Ints) -> Ints:
    """Return the jobs whose parts need nodes: the first job of each option that starts."""
    options, jobs = problem.options, (choice >= 0).nonzero()[0]
    mine = choice[jobs]
    placed: Ints = jobs[(options.job[mine] == jobs) & ~options.in_place[mine]]
    return placed


def with_partners(problem: RoundProblem, selection: Selection) -> Selection:
    """Return the selection with a fresh option's nodes copied to all of its jobs."""
    if not problem.shared.count:
        return selection
    owner = problem.options.job
    nodes = tuple(
        selection.nodes[int(owner[picked])] if picked >= 0 else ()
        for picked in selection.choice.tolist()
    )
    return Selection(selection.choice, nodes)


def in_place_fits(problem: RoundProblem, choice: Ints) -> bool:
    """Return whether the options in place of a choice fit together."""
    return _holds_fit(problem, room_after_stays(problem, choice))


def started_parts(problem: RoundProblem, decided: Selection, jobs: Ints) -> tuple[Ints, Ints]:
    """Return node and template part of each part that some jobs start, job by job.

    The row is one of the parts of the templates of starts.
    """
    rows, which = problem.options.starts.templates
    part, _ = rows.parts_of(which[decided.choice[jobs]])
    node = [node for job in jobs.tolist() for node in decided.nodes[job]]
    return np.asarray(node, dtype=np.int64), part


def without_jobs(choice: Ints, jobs: Ints) -> Ints:
    """Return the choice without some jobs and without those that share their options."""
    return np.where(np.isin(choice, choice[jobs]), NONE, choice)


def restricted(problem: RoundProblem, choice: Ints) -> RoundProblem:
    """Return the placement problem of a choice alone: its starts and stays, without rules.

    Candidate i of the result is the i-th smallest candidate with parts in the choice. A fresh
    shared option becomes a candidate of its first job; one in place becomes a stay of its first job
    that holds what all of its jobs hold. Jobs that do not stay hold nothing.
    """
    here = problem.options.held.chosen(choice)
    stays = np.zeros(problem.jobs.count, dtype=bool)
    stays[here.job] = True
    return replace(
        problem,
        jobs=replace(
            problem.jobs,
            # A queued job that returns to its nodes is represented as running there.
            stay_iteration_s=np.where(
                stays, np.nan_to_num(problem.jobs.stay_iteration_s, nan=1.0), np.nan
            ),
        ),
        candidates=problem.options.starts.take(np.unique(choice[_placed(problem, choice)])),
        holds=HoldTable(here.job, here.node, here.demand, here.uplink_gb_per_s),
        rules=type(problem.rules)(),
        shared=SharedTable(),
        returns=ReturnTable(),
    )
