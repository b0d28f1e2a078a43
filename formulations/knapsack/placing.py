"""Nodes for a whole choice, by packing or by search."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Ints
from formulations.knapsack.distinct import Gang, GaveUpError, nodes_of
from formulations.round.check import RuleError, check
from formulations.round.decode import pack, room_after_stays
from formulations.round.tables import RoundProblem, Scope, Selection


def placed(problem: RoundProblem, choice: Ints) -> Selection | None:
    """Return a decision with this choice; None, which proves nothing, if none was found."""
    for order in ("size", "parts"):
        found = pack(problem, choice, order)
        if found is not None:
            return found
    return _looked_for(problem, choice)


def _looked_for(problem: RoundProblem, choice: Ints) -> Selection | None:
    """Search nodes by GPUs alone; return the decision if it passes the check."""
    starts, nodes = problem.options.starts, problem.nodes
    free = room_after_stays(problem, choice).nodes[:, 0]
    begins = np.flatnonzero((choice >= 0) & (choice < starts.count))
    begins = begins[~np.isin(choice[begins], problem.options.held.option)].tolist()
    if starts.loose[choice[begins]].any() or problem.shared.count or (free < 0).any():
        return None
    spots = {job: [-1] * len(starts.parts(int(choice[job]))) for job in begins}
    for t in range(nodes.classes):
        own = np.flatnonzero(nodes.open & (nodes.node_class == t))
        own = own[np.argsort(free[own], kind="stable")]
        asked: list[tuple[Gang, int, list[int]]] = []
        for job in begins:
            option = int(choice[job])
            parts, classes = starts.parts(option), starts.classes_of(option).tolist()
            mine = sorted(
                (at for at in range(len(parts)) if classes[at] == t), key=lambda at: -parts[at]
            )
            if mine:
                asked.append((tuple(parts[at] for at in mine), job, mine))
        asked.sort(key=lambda one: (one[0], -one[1]), reverse=True)
        room = tuple(np.rint(free[own]).astype(int).tolist())
        try:
            found = nodes_of(room, tuple(gang for gang, _, _ in asked))
        except GaveUpError:
            return None
        if found is None:
            return None
        for (_, job, mine), where in zip(asked, found, strict=True):
            for at, node in zip(mine, where, strict=True):
                spots[job][at] = int(own[node])
    named = tuple(tuple(spots.get(job, ())) for job in range(choice.size))
    selection = Selection(choice, named)
    try:
        check(problem, selection)
    except RuleError:
        return None
    return selection


def placed_by_places(problem: RoundProblem, choice: Ints) -> Selection | None:
    """Place gangs of whole nodes that are confined to leaves, or all to NVLink domains.

    The place of each gang is searched by numbers of free nodes alone. None proves nothing.

    Places with equally many free nodes are interchangeable, and so are the nodes of a place.
    """
    nodes, (rows, which) = problem.nodes, problem.candidates.templates
    begins = np.flatnonzero((choice >= 0) & (choice < problem.candidates.count))
    row = which[choice[begins]]
    scopes, size = rows.scope[row], nodes.capacity[rows.node_class[row], 0]
    parts = rows.part_start[row + 1] - rows.part_start[row]
    gangs = np.isin(scopes, (Scope.NVLINK, Scope.LEAF)) & (rows.gpus[row] == parts * size)
    gangs &= ~(rows.mixed | rows.loose)[row]
    if np.unique(scopes[gangs]).size != 1:
        return None
    place = nodes.leaf if scopes[gangs][0] == Scope.LEAF else nodes.domain
    empty = room_after_stays(problem, choice).nodes[:, 0] == nodes.capacity[nodes.node_class, 0]
    among: dict[int, Bools] = {}
    for t in np.unique(rows.node_class[row[gangs]]).tolist():
        mine = np.flatnonzero(gangs & (rows.node_class[row] == t))
        mine = mine[np.argsort(-parts[mine], kind="stable")]
        free = np.bincount(place[empty & nodes.open & (nodes.node_class == t)])
        hosts = np.argsort(free, kind="stable")
        asked = tuple((many,) for many in parts[mine].tolist())
        try:
            found = nodes_of(tuple(free[hosts].tolist()), asked)
        except GaveUpError:
            return None
        if found is None:
            return None
        for job, (at,) in zip(begins[mine].tolist(), found, strict=True):
            among[job] = place == hosts[at]
    return pack(problem, choice, among=among)
