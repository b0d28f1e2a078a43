"""GPUs that are kept for a due job where running jobs may not be stopped.

The first due job that does not fit gets what running jobs leave as they end: the earliest instant
at which enough is free by their believed ends. Until then a job that may not be stopped starts only
if it ends by that instant, or on what the due job leaves; where that needs whole nodes, it starts
on none of those that are kept. ``docs/formulations/due.md`` has the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.objectives import seconds_left
from formulations.round.candidates import Scope
from formulations.round.rules import with_rows
from formulations.round.tables import RoundProblem
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.rules.model import NonPreemptible, OperatorRules
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.served import Room, Way


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs by node class that are kept for one job.

    Parameters
    ----------
    job
        Position of the job in the round.
    from_s
        Instant at which it is expected to start.
    until_s
        Seconds from now until then.
    spare
        GPUs by class that longer jobs may have of those free now or then; inf where nothing is
        reserved.
    longer
        Options in which a job starts that may not be stopped and is believed to end later.
    nodes
        Whole nodes that are kept, on which none of these starts.
    """

    job: int
    from_s: float
    until_s: float
    spare: Way
    longer: Ints
    nodes: Ints

    def applied(self, problem: RoundProblem) -> RoundProblem:
        """Return the round with a row ``reserved[j]`` per class on which GPUs are kept.

        The longer options are confined to other nodes than those that are kept.
        """
        problem, which = self._confined(problem), self.longer
        for kind, spare in enumerate(self.spare):
            gpus = problem.options.gpus_on(kind)[which]
            if np.isinf(spare) or not gpus.any():
                continue
            mine, zero = gpus > 0.0, np.zeros(int((gpus > 0.0).sum()), dtype=np.int64)
            label, lower = np.asarray([self.job]), np.asarray([-spare])
            problem = with_rows(problem, "reserved", label, lower, zero, which[mine], -gpus[mine])
        return problem

    def _confined(self, problem: RoundProblem) -> RoundProblem:
        alone = self.longer[self.longer < problem.candidates.count]
        if not self.nodes.size or not alone.size:
            return problem
        sets, node_set = problem.nodes.sets, problem.candidates.node_set.copy()
        used, which = np.unique(node_set[alone], return_inverse=True)
        others = sets[used]
        others[:, self.nodes] = False
        node_set[alone] = len(sets) + which
        nodes = replace(problem.nodes, sets=np.concatenate([sets, others]))
        return replace(
            problem, nodes=nodes, candidates=replace(problem.candidates, node_set=node_set)
        )


def reserved(
    problem: RoundProblem,
    state: RoundState,
    rules: OperatorRules,
    room: Room,
    job: int,
    served: Sequence[int],
) -> Reservation | None:
    """Return the reservation of a due job that does not fit.

    None if no other waiting job is one that may not be stopped, or if the job does not fit when all
    that runs has ended.

    Parameters
    ----------
    room
        Room after the due jobs in ``served``, which start now or keep running.
    """
    patterns = [name for one in rules.rules if isinstance(one, NonPreemptible) for name in one.jobs]
    lasting = np.asarray([matches(known.job.name, patterns) for known in state.jobs])
    lasting &= ~room.bound
    lasting[[job, *served]] = False
    if not lasting.any():
        return None
    free, ways = room.division
    end_s, left = _left(free, sorted(ends(problem, state, room, served, ways)))
    empty_s = _empty_s(problem, state, room, served)
    found: tuple[float, float, Way, Ints] | None = None
    for way in room.ways_of(job):
        fits = (left >= np.asarray(way) - FEASIBILITY).all(axis=1)
        if not fits.any():
            continue
        at_s = float(end_s[fits.argmax()])
        from_s, nodes = _kept(problem, room, job, way, empty_s, at_s)
        if found is None or (from_s, sum(way)) < found[:2]:
            found = from_s, sum(way), way, nodes
    if found is None:
        return None
    from_s, _, way, nodes = found
    then = left[np.searchsorted(end_s, from_s, side="right") - 1].tolist()
    spare = tuple(
        had - taken if taken else float("inf") for had, taken in zip(then, way, strict=True)
    )
    members, until_s = problem.options.members, from_s - state.time_s
    longer = members.starts & lasting[members.job]
    longer &= seconds_left(problem) > until_s + FEASIBILITY
    return Reservation(job, from_s, until_s, spare, np.unique(members.option[longer]), nodes)


def _empty_s(problem: RoundProblem, state: RoundState, room: Room, served: Sequence[int]) -> Floats:
    """Return the instant from which each node is believed to be empty, shape (N,).

    Infinite for closed nodes. Of the due jobs that start now, the nodes are not known yet.
    """
    nodes, holds, jobs = problem.nodes, problem.holds, problem.jobs
    stays = room.bound.copy()
    stays[list(served)] |= jobs.running[list(served)]
    end_s = _end_s(state, jobs.restart_left_s + jobs.iterations_left * jobs.stay_iteration_s)
    empty_s = np.where(nodes.open, state.time_s, np.inf)
    mine = stays[holds.job]
    np.maximum.at(empty_s, holds.node[mine], end_s[holds.job[mine]])
    return empty_s


def _kept(
    problem: RoundProblem, room: Room, job: int, way: Way, empty_s: Floats, from_s: float
) -> tuple[float, Ints]:
    """Return the instant from which whole nodes for a job are empty too, and the nodes.

    Those that get empty last are kept, as longer jobs can use the others earlier. None are where
    the job has a shape without whole nodes, or none with enough of them.
    """
    nodes, starts, none = problem.nodes, problem.options.starts, np.zeros(0, dtype=np.int64)
    best: tuple[float, Ints] | None = None
    for option in room.starts_of(job).tolist():
        if room.gpus_of(option) != way:
            continue
        kinds, parts = problem.candidates.classes_of(option), np.asarray(problem.parts_of(option))
        whole = kinds[(parts == nodes.capacity[kinds, 0]) & (parts > 1)]
        if not whole.size:
            return from_s, none
        usable = nodes.sets[starts.node_set[option]] & np.isfinite(empty_s)
        scope = starts.scope[option]
        region = {Scope.NVLINK: nodes.domain, Scope.LEAF: nodes.leaf}.get(Scope(scope))
        for place in [None] if region is None else np.unique(region).tolist():
            here = usable if region is None or place is None else usable & (region == place)
            chosen, at_s = [], from_s
            for kind in np.unique(whole).tolist():
                mine = np.flatnonzero(here & (nodes.node_class == kind))
                need = int((whole == kind).sum())
                if mine.size < need:
                    break
                at_s = max(at_s, float(np.partition(empty_s[mine], need - 1)[need - 1]))
                chosen.append((mine, need))
            else:
                if best is None or at_s < best[0]:
                    best = at_s, np.concatenate([_last(one, n, empty_s, at_s) for one, n in chosen])
    return (from_s, none) if best is None else best


def _last(nodes: Ints, count: int, empty_s: Floats, until_s: float) -> Ints:
    """Return those of some nodes that are the last to be empty by an instant."""
    there = nodes[empty_s[nodes] <= until_s]
    return there[np.argsort(-empty_s[there], kind="stable")[:count]]


def ends(
    problem: RoundProblem,
    state: RoundState,
    room: Room,
    served: Sequence[int],
    ways: Sequence[Way],
) -> Iterable[tuple[float, Way]]:
    """Yield the believed end of each job that holds GPUs, and its GPUs by class.

    A job that should have ended already is expected to end within a round.
    """
    jobs = problem.jobs
    stays_s = _end_s(state, jobs.restart_left_s + jobs.iterations_left * jobs.stay_iteration_s)
    starts_s = _end_s(state, jobs.restart_s + jobs.iterations_left * jobs.request_iteration_s)
    for at in np.flatnonzero(room.bound).tolist():
        held: Floats = room.by_hold(problem.holds.job == at)
        yield float(stays_s[at]), tuple(held.tolist())
    for at, way in zip(served, ways, strict=False):
        yield float((stays_s if jobs.running[at] else starts_s)[at]), way


def _end_s(state: RoundState, left_s: Floats) -> Floats:
    """Return the instants at which jobs end with these seconds left, shape (J,)."""
    return state.time_s + np.where(left_s > 0.0, left_s, state.interval_s)


def _left(free: Way, ends: Sequence[tuple[float, Way]]) -> tuple[Floats, Floats]:
    """Return the instants of some ends in their order, and the GPUs that are free from then on.

    The shapes are (E,) and (E, T), of E different instants and T node classes.
    """
    end_s = np.asarray([at_s for at_s, _ in ends])
    left = np.cumsum([free, *(held for _, held in ends)], axis=0)[1:]
    last = np.flatnonzero(np.append(np.diff(end_s) > 0.0, True)[: end_s.size])
    return end_s[last], left[last]
