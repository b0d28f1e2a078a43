"""What is kept of a replay while it runs: an entry per job, and of a round four wall times.

Logs go to the run folder as they come, so that memory does not grow with the length of a replay.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from morph_opt.domain import Cluster, Trace
from morph_opt.events.log import Event, Shared
from morph_opt.metrics.capacity import CapacityCount
from morph_opt.metrics.history import History, HistoryReader
from morph_opt.runs.rounds import RoundRow


def _column() -> array[float]:
    return array("d")


@dataclass(frozen=True, slots=True)
class WallTimes:
    """Wall times of all rounds, milliseconds, columns of ``rounds.csv``."""

    build_ms: array[float] = field(default_factory=_column)
    solve_ms: array[float] = field(default_factory=_column)
    round_ms: array[float] = field(default_factory=_column)
    engine_ms: array[float] = field(default_factory=_column)

    def add(self, row: RoundRow) -> None:
        """Take in the next round."""
        self.build_ms.append(row.build_ms)
        self.solve_ms.append(row.solve_ms)
        self.round_ms.append(row.round_ms)
        self.engine_ms.append(row.engine_ms)


class Tally:
    """Takes in a replay's log as it comes.

    Parameters
    ----------
    trace, cluster
        What is replayed, and where.
    keep_log
        Whether ``events`` and ``rows`` keep what no run folder does.
    """

    def __init__(self, trace: Trace, cluster: Cluster, *, keep_log: bool) -> None:
        self._reader = HistoryReader(trace)
        self._capacity = CapacityCount(cluster)
        self._keep_log = keep_log
        self.times = WallTimes()
        self.shares = False
        self.events: list[Event] = []
        self.rows: list[RoundRow] = []

    def take(self, events: Sequence[Event], row: RoundRow | None = None) -> None:
        """Take in what happened, with the row of the round that it ends with."""
        for event in events:
            self._reader.read(event)
            self._capacity.read(event)
            self.shares = self.shares or isinstance(event, Shared)
        if row is not None:
            self.times.add(row)
        if self._keep_log:
            self.events += events
            self.rows += [] if row is None else [row]

    @property
    def over_capacity(self) -> int:
        """Rounds so far that held more than there is."""
        return self._capacity.over

    def history(self) -> History:
        """What happened to each job, once the replay has ended."""
        return self._reader.history()
