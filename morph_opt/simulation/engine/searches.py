"""Searches during a replay: trials that reported, and trials to cancel."""

from __future__ import annotations

from collections.abc import Mapping

from formulations.tolerances import SUMS
from morph_opt.core.domain import Trace
from morph_opt.simulation.engine.live import LiveJob


class Searches:
    """Searches that are still open.

    Parameters
    ----------
    trace
        With its searches.

    Attributes
    ----------
    open
        Those of which not all trials have reported.
    """

    def __init__(self, trace: Trace) -> None:
        place = {job.name: at for at, job in enumerate(trace.jobs)} if trace.searches else {}
        self._reports = {job.name: job.feedback_iterations or 0 for job in trace.jobs if place}
        self._last = {s.name: max(place[name] for name in s.ranked) for s in trace.searches}
        self.open = list(trace.searches)

    def cut(self, active: Mapping[str, LiveJob], arrived: int, now_s: float) -> list[str]:
        """Return active jobs to cancel at a boundary, search by search, worst first.

        Parameters
        ----------
        active
            Jobs that are submitted and not complete.
        arrived
            Jobs of the trace that are submitted.
        now_s
            The boundary.
        """
        gone: list[str] = []
        for search in tuple(self.open):
            if self._last[search.name] < arrived and all(
                self._reported(active.get(name), now_s) for name in search.ranked
            ):
                self.open.remove(search)
                gone += [name for name in reversed(search.cut) if name in active]
        return gone

    def _reported(self, live: LiveJob | None, now_s: float) -> bool:
        """Return whether a trial that has arrived has reached its report."""
        if live is None:
            return True  # it is complete
        # A report exactly at a boundary counts.
        return live.iterations_at(now_s) >= self._reports[live.job.name] * (1.0 - SUMS)
