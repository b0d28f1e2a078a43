"""Count of rounds whose allocation, by the log, broke a rule of the strict check."""

from __future__ import annotations

from dataclasses import replace

from morph_opt.core.domain import Assignment, Cluster, Job, Trace
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.strict.check import PlacementCheck
from morph_opt.scheduling.strict.facts import RunLookup
from morph_opt.scheduling.strict.rules import StateFacts, Violation
from morph_opt.simulation.events.log import (
    Cancelled,
    Completed,
    Event,
    NodeChanged,
    NodeStatus,
    Preempted,
    RoundDecided,
    Shared,
    Started,
    StartKind,
    Submitted,
)


class CapacityCount:
    """Count, event by event, of rounds whose holdings break a rule of `scheduling.strict.rules`.

    Holdings grow only at decisions, so each decision is checked once.

    Attributes
    ----------
    over
        Number of such rounds so far.
    broken
        Rules broken at the latest decision.
    """

    def __init__(self, trace: Trace, cluster: Cluster, truth: SpeedModel) -> None:
        self._jobs = {job.name: job for job in trace.jobs}
        self._node_index = cluster.node_index
        self._check = PlacementCheck(RunLookup(truth, cluster))
        self._active: dict[str, Job] = {}
        self._down: set[int] = set()
        self._failed: set[int] = set()
        # Holdings as the round begins and now; whether they differ.
        self._before: dict[str, Assignment] = {}
        self._held: dict[str, Assignment] = {}
        self._changed = False
        self.over = 0
        self.broken: tuple[Violation, ...] = ()

    def read(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case RoundDecided():
                if self._changed:
                    self._look()
                self.over += bool(self.broken)
                return
            case Submitted():
                self._active[event.job] = self._jobs[event.job]
            case Started():
                self._held[event.job] = event.assignment
                if event.kind is StartKind.HELD:
                    self._before[event.job] = event.assignment
            case Shared():
                if event.job in self._held:
                    self._held[event.job] = replace(self._held[event.job], partner=event.partner)
            case Preempted():
                self._free(event.job)
            case Completed() | Cancelled():
                self._free(event.job)
                self._active.pop(event.job, None)
            case NodeChanged():
                node = self._node_index[event.node]
                down, failed = event.status is not NodeStatus.UP, event.status is NodeStatus.FAILED
                for nodes, closed in ((self._down, down), (self._failed, failed)):
                    (nodes.add if closed else nodes.discard)(node)

        self._changed = True

    def _free(self, job: str) -> None:
        self._held.pop(job, None)
        self._before.pop(job, None)

    def _look(self) -> None:
        before = StateFacts(self._active, self._jobs, self._before, self._down, self._failed)
        self.broken = self._check.check(self._held.values(), before)
        self._before, self._changed = dict(self._held), False
