"""Coming events: completions of running jobs, and changes of nodes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping

from morph_opt.core.domain import RoundState
from morph_opt.simulation.engine.live import LiveJob
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus


class Completions:
    """Completion times of running jobs, soonest first; ties in order of the trace.

    Parameters
    ----------
    active
        Jobs by name. An instant holds while its job has the serial number that it had then;
        others stay in the heap until they come to its top.
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
        """Begin with a state; events up to its time are dropped."""
        while self.next_s <= state.time_s:
            self._next = next(self._events, None)
        self.unavailable, self.failed = state.unavailable, state.failed
