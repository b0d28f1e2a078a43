"""Future events: completions of running jobs, changes of nodes, and cuts of searches."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping

from formulations.tolerances import SUMS
from morph_opt.core.domain import RoundState, Trace
from morph_opt.simulation.engine.live import LiveJob
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus


class Completions:
    """Completion times of running jobs, soonest first; ties in order of the trace.

    Parameters
    ----------
    active
        Jobs by name. An instant is valid while its job keeps its serial number; others stay in
        the heap until they reach its top.
    """

    def __init__(self, active: Mapping[str, LiveJob]) -> None:
        self._active = active
        self._heap: list[tuple[float, int, int, str]] = []

    def expect(self, live: LiveJob) -> None:
        """Set the completion time of a running job."""
        heapq.heappush(self._heap, (live.finish_s, live.order, live.serial, live.job.name))

    @property
    def next_s(self) -> float:
        """Time of the next completion; inf if nothing runs."""
        while self._heap:
            finish_s, _, serial, name = self._heap[0]
            live = self._active.get(name)
            if live is not None and live.serial == serial:
                return finish_s
            heapq.heappop(self._heap)
        return math.inf

    def take(self) -> LiveJob:
        """Remove the next completion and return its job."""
        return self._active[heapq.heappop(self._heap)[3]]


class NodeStatuses:
    """Status of the nodes, and the events that change it.

    Parameters
    ----------
    events
        Sorted by time; may be endless.

    Attributes
    ----------
    unavailable, failed
        Indices of nodes that are drained or failed, and of those that failed.
    """

    def __init__(self, events: Iterable[NodeEvent]) -> None:
        self._events: Iterator[NodeEvent] = iter(events)
        self._next = next(self._events, None)
        self.unavailable: frozenset[int] = frozenset()
        self.failed: frozenset[int] = frozenset()

    @property
    def next_s(self) -> float:
        """Time of the next event; inf if there is none."""
        return math.inf if self._next is None else self._next.time_s

    def take(self) -> NodeEvent:
        """Apply the next event and return it."""
        event = self._next
        assert event is not None, "asked for after next_s has said that there is one"
        only = frozenset((event.node,))
        down = event.status is not NodeStatus.UP
        failed = event.status is NodeStatus.FAILED
        self.unavailable = self.unavailable | only if down else self.unavailable - only
        self.failed = self.failed | only if failed else self.failed - only
        self._next = next(self._events, None)
        return event

    def begin_from(self, state: RoundState) -> None:
        """Set the status of nodes from a state; drop events up to its time."""
        while self.next_s <= state.time_s:
            self._next = next(self._events, None)
        self.unavailable, self.failed = state.unavailable, state.failed


class Searches:
    """Searches whose trials have not all reported.

    Parameters
    ----------
    trace
        Trace with its searches.

    Attributes
    ----------
    open
        Searches of which not all trials have reported.
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
            Number of jobs of the trace that are submitted.
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
