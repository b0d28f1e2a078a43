"""GPUs that are kept for a due job where running jobs may not be stopped.

The first due job that does not fit gets what running jobs leave as they end: the earliest instant
at which enough is free by their believed ends. Until then a job that may not be stopped starts only
if it ends by that instant, or on what the due job leaves. ``docs/formulations/due.md`` has the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.objectives import seconds_left
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
    """

    job: int
    from_s: float
    until_s: float
    spare: Way
    longer: Ints

    def applied(self, problem: RoundProblem) -> RoundProblem:
        """Return the round with a row ``reserved[j]`` per class on which GPUs are kept."""
        which = self.longer
        for kind, spare in enumerate(self.spare):
            gpus = problem.options.gpus_on(kind)[which]
            if np.isinf(spare) or not gpus.any():
                continue
            mine, zero = gpus > 0.0, np.zeros(int((gpus > 0.0).sum()), dtype=np.int64)
            label, lower = np.asarray([self.job]), np.asarray([-spare])
            problem = with_rows(problem, "reserved", label, lower, zero, which[mine], -gpus[mine])
        return problem


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
    ended = sorted(ends(problem, state, room, served, ways))
    found: tuple[float, float, Way, Way] | None = None
    for way in room.ways_of(job):
        at = _first(free, way, ended)
        if at is not None and (found is None or (at[0], sum(way)) < found[:2]):
            found = (at[0], sum(way), at[1], way)
    if found is None:
        return None
    from_s, _, left, way = found
    spare = tuple(
        had - taken if taken else float("inf") for had, taken in zip(left, way, strict=True)
    )
    members, until_s = problem.options.members, from_s - state.time_s
    longer = members.starts & lasting[members.job]
    longer &= seconds_left(problem) > until_s + FEASIBILITY
    return Reservation(job, from_s, until_s, spare, np.unique(members.option[longer]))


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

    def ends_s(start_s: float, at: int, pace_s: float) -> float:
        left_s = start_s + float(jobs.iterations_left[at]) * pace_s
        return state.time_s + (left_s if left_s > 0.0 else state.interval_s)

    for at in np.flatnonzero(room.bound).tolist():
        held: Floats = room.by_hold(problem.holds.job == at)
        start_s, pace_s = float(jobs.restart_left_s[at]), float(jobs.stay_iteration_s[at])
        yield ends_s(start_s, at, pace_s), tuple(held.tolist())
    for at, way in zip(served, ways, strict=False):
        runs = bool(jobs.running[at])
        pace_s = jobs.stay_iteration_s[at] if runs else jobs.request_iteration_s[at]
        start_s = jobs.restart_left_s[at] if runs else jobs.restart_s[at]
        yield ends_s(float(start_s), at, float(pace_s)), way


def _first(free: Way, way: Way, ends: Sequence[tuple[float, Way]]) -> tuple[float, Way] | None:
    """Return the first instant at which ``way`` is free, and what is free then; None for never."""
    left = list(free)
    for place, (end_s, held) in enumerate(ends):
        left = [had + back for had, back in zip(left, held, strict=True)]
        if place + 1 < len(ends) and ends[place + 1][0] <= end_s:
            continue  # all that ends at this instant
        if all(had >= taken - FEASIBILITY for had, taken in zip(left, way, strict=True)):
            return end_s, tuple(left)
    return None
