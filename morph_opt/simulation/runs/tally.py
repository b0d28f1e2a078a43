"""Records kept in memory while a replay runs: one per job, and four wall times per round.

Logs are written to the run folder at once, so that memory does not grow with a replay's length.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from morph_opt.core.domain import Cluster, Trace
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.simulation.events.log import Event, Shared
from morph_opt.simulation.metrics.capacity import CapacityCount
from morph_opt.simulation.metrics.history import History, HistoryReader
from morph_opt.simulation.metrics.promises import PromiseCount
from morph_opt.simulation.runs.rounds import RoundRow


def _column() -> array[float]:
    return array("d")


@dataclass(frozen=True, slots=True)
class WallTimes:
    """Wall times of all rounds in milliseconds, as in ``rounds.csv``."""

    build_ms: array[float] = field(default_factory=_column)
    solve_ms: array[float] = field(default_factory=_column)
    round_ms: array[float] = field(default_factory=_column)
    engine_ms: array[float] = field(default_factory=_column)

    def add(self, row: RoundRow) -> None:
        """Take in the next round."""
        self.build_ms.append(row.report.build_ms)
        self.solve_ms.append(row.report.solve_ms)
        self.round_ms.append(row.round_ms)
        self.engine_ms.append(row.engine_ms)


class Tally:
    """Running record of a replay's log.

    Parameters
    ----------
    trace, cluster, truth
        Jobs, nodes and true speeds.
    requests
        True speeds of the jobs' requests.
    keep_log
        Whether to keep ``events`` and ``rows``, as there is no run folder.
    """

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        truth: SpeedModel,
        requests: GangSpeeds,
        *,
        keep_log: bool,
    ) -> None:
        self._reader = HistoryReader(trace)
        self._capacity = CapacityCount(trace, cluster, truth)
        self._keep_log = keep_log
        self.promises = PromiseCount(trace, requests)
        self.times = WallTimes()
        self.steps: Counter[str] = Counter()
        self.shares = False
        self.events: list[Event] = []
        self.rows: list[RoundRow] = []

    def take(self, events: Sequence[Event]) -> None:
        """Take in new events."""
        for event in events:
            self._reader.read(event)
            self._capacity.read(event)
            self.promises.read(event)
            self.shares = self.shares or isinstance(event, Shared)
        if self._keep_log:
            self.events += events

    def add(self, row: RoundRow) -> None:
        """Take in the row of the round whose events were taken last."""
        self.times.add(row)
        if row.report.step:
            self.steps[row.report.step] += 1
        if self._keep_log:
            self.rows.append(row)

    @property
    def over_capacity(self) -> int:
        """Number of rounds so far whose allocation broke a rule."""
        return self._capacity.over

    def history(self) -> History:
        """Return the records of the jobs, once the replay has ended."""
        return self._reader.history()
