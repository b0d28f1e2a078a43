"""Stop a replay once it is certain to miss its SLO.

A job that is not complete takes at least its time so far plus its remaining work, run alone at
its fastest. No statistic with a bound (`Slo.bounded_by`) falls when a job takes longer. So the
statistic of these values is a lower bound on the whole replay's, whatever is decided later. The
remaining work is computed as for the certified bounds (``docs/metrics.md``, "floor").
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from morph_opt.core.domain import Trace
from morph_opt.simulation.events.log import (
    Completed,
    Event,
    InitialJob,
    Preempted,
    RoundDecided,
    Started,
)
from morph_opt.simulation.metrics.bounds.lower import Demands
from morph_opt.simulation.metrics.parameters import FIGURES
from morph_opt.simulation.runs.slo import Slo


class MissedError(Exception):
    """End of a replay that is certain to miss its SLO.

    Parameters
    ----------
    slo
        Missed SLO.
    time_s
        Instant of the replay at which that was certain.
    at_least
        Lower bound on its statistic.
    """

    def __init__(self, slo: Slo, time_s: float, at_least: float) -> None:
        super().__init__(f"target broken at {time_s:g} s: {slo}, and it is {at_least:g} at least")
        self.slo, self.time_s, self.at_least = slo, time_s, at_least

    def to_json(self) -> str:
        """Return the text of ``missed.json``."""
        values = {"said": str(self), "time_s": self.time_s, "at_least": self.at_least}
        return json.dumps(values) + "\n"


class EarlyEnd:
    """Reader of a replay's log that ends the replay once its SLO is certain to be missed.

    A clock per job measures the SLO's metric: from submission to completion, to the first start, or
    the time without GPUs. It cannot stop before ``max(now + rest, earliest)``.

    Parameters
    ----------
    slo
        SLO with a certified bound (`Slo.bounded_by`); others never end a replay.
    trace, demands
        Jobs of the replay, and their least demands in the same order.
    """

    def __init__(self, slo: Slo, trace: Trace, demands: Demands) -> None:
        self._slo = slo
        self._index = {job.name: j for j, job in enumerate(trace.jobs)}
        submitted = np.array([job.submission_s for job in trace.jobs], dtype=np.float64)
        floor_s = np.array([demand.floor_s for demand in demands.jobs])
        self._submitted_s = submitted
        self._rest_s = floor_s if slo.to_the_end else np.zeros(submitted.size)
        release_s = np.array([demand.release_s for demand in demands.jobs])
        self._earliest_s = release_s + self._rest_s
        self._counts = np.ones(submitted.size, dtype=bool)
        self._since_s = submitted.copy()
        self._counted_s = np.zeros(submitted.size)
        self._safe_until_s = -np.inf

    def take(self, events: Iterable[Event]) -> None:
        """Take in the next events.

        Raises
        ------
        MissedError
            If a round was decided and the SLO is missed for certain.
        """
        if self._slo.bounded_by is None:
            return
        for event in events:
            match event:
                case Started() | Completed() | InitialJob() | Preempted():
                    self._clock(event, self._index[event.job])
                case RoundDecided(time_s=time_s) if time_s > self._safe_until_s:
                    at_least = self.at_least(time_s)
                    margin = FIGURES.rounding * (1.0 + abs(self._slo.target))
                    if at_least > self._slo.target + margin:
                        raise MissedError(self._slo, time_s, at_least)
                    # No clock runs faster than time, and no statistic rises by more than each of
                    # its values does: before then nothing has to be computed.
                    self._safe_until_s = time_s + (self._slo.target - at_least)
                case _:
                    pass

    def at_least(self, now_s: float) -> float:
        """Return a lower bound on the final figure of the replay."""
        stops_s = np.maximum(now_s + self._rest_s, self._earliest_s)
        each = self._counted_s + np.where(self._counts, stops_s - self._since_s, 0.0)
        if self._slo.metric == "makespan_s":
            return float((self._submitted_s + each).max() - self._submitted_s.min())
        return self._slo.statistic_of(each)

    def _clock(self, event: Started | Completed | InitialJob | Preempted, j: int) -> None:
        """Start or stop the clock of a job."""
        metric = self._slo.metric
        match event:
            case Completed() if self._slo.to_the_end:
                self._stop(j, event.time_s)
            case Started():
                # The least remaining time counts from the first start, not from now on.
                ready_s = event.time_s + self._rest_s[j]
                self._earliest_s[j], self._rest_s[j] = max(self._earliest_s[j], ready_s), 0.0
                if not self._slo.to_the_end:
                    self._stop(j, event.time_s)
            case InitialJob(first_start_s=first_s) if metric == "waiting_s" and first_s is not None:
                self._stop(j, first_s)
            case InitialJob() if metric == "queued_s":
                self._counted_s[j] -= event.executed_s
            case Preempted() if metric == "queued_s":
                self._counts[j], self._since_s[j] = True, event.time_s
            case _:
                pass

    def _stop(self, j: int, time_s: float) -> None:
        if self._counts[j]:
            self._counted_s[j] += time_s - self._since_s[j]
            self._counts[j] = False
