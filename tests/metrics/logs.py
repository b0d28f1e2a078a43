"""Whole logs read at once, for tests; a replay reads them event by event."""

from __future__ import annotations

from collections.abc import Iterable

from morph_opt.core.domain import Cluster, Trace
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.simulation.events.log import Event
from morph_opt.simulation.metrics.capacity import CapacityCount
from morph_opt.simulation.metrics.history import History, HistoryReader


def read_history(events: Iterable[Event], trace: Trace) -> History:
    """Return the records of all jobs of a trace."""
    reader = HistoryReader(trace)
    for event in events:
        reader.read(event)
    return reader.history()


def rounds_over_capacity(
    events: Iterable[Event], trace: Trace, cluster: Cluster, truth: SpeedModel
) -> int:
    """Return the number of rounds whose holdings break a rule."""
    count = CapacityCount(trace, cluster, truth)
    for event in events:
        count.read(event)
    return count.over
