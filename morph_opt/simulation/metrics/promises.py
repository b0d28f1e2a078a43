"""Promises to guaranteed jobs, kept and broken; defined in ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import Job, Trace
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.simulation.events.log import (
    Cancelled,
    Completed,
    Event,
    Preempted,
    RoundDecided,
    Shared,
    Started,
    Submitted,
)
from morph_opt.simulation.metrics.history import History, JobRecord, Scalar
from morph_opt.simulation.metrics.parameters import FIGURES


class PromiseCount:
    """Count of rounds in which guaranteed jobs were below the speed of their request.

    The policy's own report does not count: it may know nothing of promises, and relies on its
    belief. Start-ups count as speed, as they do in promises.

    Parameters
    ----------
    trace
        Jobs of the replay.
    requests
        Promised speeds.
    """

    def __init__(self, trace: Trace, requests: GangSpeeds) -> None:
        self._promised_s = {
            job.name: requests.iteration_s(job) for job in trace.jobs if job.guaranteed
        }
        self._missing: dict[str, float] = {}
        self._stated = False
        self._known = True
        self.now = (0, 0.0)
        """Jobs below their promise in the last round: number, and sum of missing fractions."""
        self.short = 0
        self.shortfall = 0.0
        self._missed = 0

    @property
    def missed(self) -> int | None:
        """Number of broken rounds in which all promises were possible; None if never checked."""
        return self._missed if self._stated or not self.short else None

    def read(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Submitted() | Preempted() if event.job in self._promised_s:
                self._missing[event.job] = 1.0
                self._known = False
            case Started() | Shared() if event.job in self._promised_s:
                granted = self._promised_s[event.job] / event.iteration_s
                self._missing[event.job] = 0.0 if granted >= 1.0 - SAME_SPEED else 1.0 - granted
                self._known = False
            case Completed() | Cancelled() if event.job in self._promised_s:
                del self._missing[event.job]
                self._known = False
            case RoundDecided():
                self._decided(event)
            case _:
                pass

    def _decided(self, event: RoundDecided) -> None:
        """Add a round to the sums; without events in between it repeats the round before."""
        if not self._known:
            missing = [part for part in self._missing.values() if part > 0.0]
            self.now = len(missing), sum(missing, 0.0)
            self._known = True
        jobs, parts = self.now
        self._stated = self._stated or event.guarantees_possible is not None
        self.short += jobs > 0
        self._missed += jobs > 0 and event.guarantees_possible is True
        self.shortfall += parts


def promise_metrics(
    history: History, requests: GangSpeeds, restart_of: Callable[[str], float]
) -> dict[str, Scalar]:
    """Return figures of promises by the names of `Summary`; None if undefined.

    Parameters
    ----------
    requests
        Promised speeds.
    restart_of
        Start-up seconds of a model.
    """

    def promised_s(job: Job) -> float:
        work_s = job.iterations * requests.iteration_s(job)
        return restart_of(job.model) + work_s + FIGURES.late_rounds * history.begun.interval_s

    promised = [r for r in history.jobs if r.submitted and r.job.guaranteed]
    late_s = [
        max(0.0, r.end_s(history.ended.time_s) - r.job.submission_s - promised_s(r.job))
        for r in promised
    ]
    return {
        "guaranteed_avg_jct_s": _mean_jct_s(promised),
        "best_effort_avg_jct_s": _mean_jct_s([r for r in history.jobs if not r.job.guaranteed]),
        "guaranteed_late_jobs": sum(seconds > 0.0 for seconds in late_s),
        "guaranteed_late_s": sum(late_s),
    }


def _mean_jct_s(records: list[JobRecord]) -> float | None:
    jct_s = [record.turnaround_s for record in records if record.turnaround_s is not None]
    return float(np.mean(jct_s)) if jct_s else None
