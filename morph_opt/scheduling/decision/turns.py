"""Turns of wide due jobs, which leave the rest of the time to all others.

A due job that holds most of a cluster until it ends delays everybody else by its run time, and if
several are due, the next one follows at once. In turns, wide due jobs have a part of the time, and
all others catch up in between. Turns are read off the clock, so nothing has to be remembered from
round to round. ``docs/formulations/due.md`` has the rule and what it guarantees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import JobState, RoundState
from morph_opt.scheduling.decision.params import DUE, TurnParams
from morph_opt.scheduling.decision.served import Room


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn at the instant of a round.

    Parameters
    ----------
    open
        Whether wide due jobs may start.
    changes_s
        Instant at which the turn ends, or the next one starts.
    params
        Lengths of turns.
    """

    open: bool
    changes_s: float
    params: TurnParams

    @classmethod
    def of(cls, state: RoundState, params: TurnParams) -> Turn:
        """Return the turn of a round; each has a round, however far apart rounds are."""
        since_s = state.time_s % params.every_s
        lasts_s = min(params.every_s, max(params.turn_s, state.interval_s))
        is_open = since_s < lasts_s - DUE.same_s
        to_s = (lasts_s if is_open else params.every_s) - since_s
        return cls(is_open, state.time_s + to_s, params)

    def wide(self, room: Room, due: Bools) -> Bools:
        """Return which due jobs need more than a share of the GPUs in all ways to start, (J,)."""
        found = np.zeros_like(due)
        for job in np.flatnonzero(due).tolist():
            found[job] = room.least_gpus(job, held=False) > self.params.share * room.gpus
        return found

    def held(
        self,
        problem: RoundProblem,
        state: RoundState,
        due: Bools,
        wide: Bools,
        overdue_s: Floats,
        *,
        alone: bool,
    ) -> tuple[Bools, float]:
        """Return which due jobs are served, shape (J,), and the next instant that changes it.

        Between turns a wide job starts only alone, in the round in which it becomes due.

        Parameters
        ----------
        due, wide
            Whether each job is due, and whether it is and has turns; shapes (J,).
        overdue_s
            Seconds of waiting since the due instant, shape (J,).
        alone
            Whether only one wide job is due.
        """
        served, next_s = due.copy(), float("inf")
        for job in np.flatnonzero(wide).tolist():
            if problem.jobs.running[job]:
                change_s = self._over_s(problem, state, job)
                served[job] = change_s > state.time_s + DUE.same_s
                change_s = change_s if served[job] else self.changes_s
            elif self.open:
                change_s = self.changes_s
            else:
                served[job] = alone and overdue_s[job] < state.interval_s - DUE.same_s
                change_s = state.time_s + state.interval_s if served[job] else self.changes_s
            next_s = min(next_s, change_s)
        return served, next_s

    def _over_s(self, problem: RoundProblem, state: RoundState, job: int) -> float:
        """Return the instant at which a running wide job is held no longer; inf for its end.

        It is held as long as a turn lasts, and until no job may start in a turn. What a stop would
        lose, since the last checkpoint, does not count, so that every turn makes progress.
        """
        jobs, known, now_s = problem.jobs, state.jobs[job], state.time_s
        left_s = jobs.restart_left_s[job] + jobs.iterations_left[job] * jobs.stay_iteration_s[job]
        if left_s <= self.params.rest_s:
            return float("inf")
        kept_s = ran_s(known, now_s) - known.restart_s
        if known.checkpointed_s is not None:
            kept_s -= max(0.0, now_s - known.checkpointed_s)
        over_s = now_s + self.params.turn_s - kept_s
        return max(over_s, self.changes_s) if self.open else over_s


def ran_s(known: JobState, now_s: float) -> float:
    """Return the seconds since a running job was given GPUs.

    Exact unless a job that was stopped before has changed its shape since: then a later start
    counts, and the job ranks after others that were due in between.
    """
    if known.last_stop_s is None or known.last_start_s is None:
        return known.executed_s
    return now_s - known.last_start_s
