"""Pending workloads of queues: heads, workloads that wait for an event, and retries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from morph_opt.scheduling.kueue.cycle import Head, Nominee, Outcome
from morph_opt.scheduling.kueue.order import queue_key
from morph_opt.scheduling.kueue.site import Site
from morph_opt.scheduling.kueue.workloads import Workload


@dataclass(frozen=True, slots=True)
class _Tried:
    """Flavors tried last, with the cycle and the number of events in the tree at that time."""

    flavors: Sequence[Mapping[str, int]]
    cycle: int
    events: int


@dataclass(slots=True)
class _Line:
    """Pending workloads of one queue.

    Parameters
    ----------
    active, parked
        Those that are tried, and those that wait for an event, by name.
    sticky
        The one that waits for its victims; "" for none.
    shapes
        Shapes of workloads that were found not to fit since the last event.
    """

    active: dict[str, Workload] = field(default_factory=dict)
    parked: dict[str, Workload] = field(default_factory=dict)
    sticky: str = ""
    shapes: set[object] = field(default_factory=set)


class Pending:
    """Pending workloads of all queues.

    Parameters
    ----------
    site
        The queues.
    usage
        Usage of local queues that come later the more they used, by name; empty for none.
    """

    def __init__(self, site: Site, usage: Callable[[], Mapping[str, float]] | None = None) -> None:
        self._site = site
        self._usage = usage or dict
        self._lines: dict[str, _Line] = {name: _Line() for name in site.queues.queues}
        self._tried: dict[str, _Tried] = {}
        self._cycle = 0
        self._events: dict[str, int] = dict.fromkeys(site.root.values(), 0)
        self._until: dict[str, float] = {}

    def add(self, workload: Workload, until_s: float | None = None) -> None:
        """Add a workload, or change one, which may not be tried before an instant."""
        line = self._lines.get(workload.queue)
        if line is None:
            return
        if until_s is not None:
            self._until[workload.name] = until_s
        parked = until_s is not None or (
            workload.name not in line.active
            and not self._strict(workload.queue)
            and workload.shape in line.shapes
        )
        line.parked.pop(workload.name, None)
        if parked:
            line.active.pop(workload.name, None)
            line.parked[workload.name] = workload
        else:
            line.active[workload.name] = workload

    def remove(self, name: str, queue: str) -> None:
        """Remove a workload."""
        line = self._lines.get(queue)
        if line is not None:
            line.active.pop(name, None)
            line.parked.pop(name, None)
            if line.sticky == name:
                line.sticky = ""
        self._tried.pop(name, None)
        self._until.pop(name, None)

    def wake(self, queue: str, now_s: float) -> None:
        """Retry all waiting workloads in the tree of a queue, after quota or nodes came free.

        Those that may not be tried before a later instant wait on.
        """
        root = self._site.root[queue]
        self._events[root] += 1
        for name in self._site.leaves(root):
            self._wake(name, now_s)

    def _wake(self, queue: str, now_s: float) -> None:
        line = self._lines[queue]
        line.shapes.clear()
        known = self._site.queues.queues[queue]
        for name, workload in list(line.parked.items()):
            if self._until.get(name, now_s) > now_s:
                continue
            if self._site.selects(known, workload.namespace):
                del line.parked[name]
                line.active[name] = workload
                self._until.pop(name, None)

    def due(self, now_s: float) -> None:
        """Retry the workloads whose instant has come."""
        for name in [one for one, until_s in self._until.items() if until_s <= now_s]:
            del self._until[name]
            for line in self._lines.values():
                if name in line.parked:
                    line.active[name] = line.parked.pop(name)

    @property
    def next_s(self) -> float | None:
        """Next instant at which a workload may be tried again; None if none waits for one."""
        return min(self._until.values(), default=None)

    def heads(self) -> list[Head]:
        """Take the head of each open queue."""
        self._cycle += 1
        found = []
        for queue, line in self._lines.items():
            if queue in self._site.inactive or not line.active:
                continue
            workload = min(line.active.values(), key=self._key(queue, line))
            del line.active[workload.name]
            sticky = line.sticky == workload.name
            found.append(Head(workload, self._flavors(workload), sticky))
        return found

    def _flavors(self, workload: Workload) -> Sequence[Mapping[str, int]]:
        """Return the flavors tried last time, unless quota came free since and it is long ago."""
        last = self._tried.get(workload.name)
        if last is None:
            return ()
        events = self._events[self._site.root[workload.queue]]
        next_cycle = self._site.settings.keep_tried and self._cycle <= last.cycle + 1
        return last.flavors if next_cycle or events == last.events else ()

    def _key(self, queue: str, line: _Line) -> Callable[[Workload], Any]:
        settings = self._site.settings
        sticky = "" if self._strict(queue) else line.sticky
        usage = self._usage() if self._site.queues.queues[queue].usage_based else {}

        def key(one: Workload) -> Any:
            used = usage.get(one.local, 0.0)
            return used, one.name != sticky, queue_key(settings, one)

        return key

    def requeue(self, nominees: Iterable[Nominee]) -> None:
        """Put back the heads of a cycle that were not admitted."""
        for one in nominees:
            workload = one.workload
            line = self._lines.get(workload.queue)
            if line is None:
                continue
            if one.outcome is Outcome.ADMITTED:
                self.remove(workload.name, workload.queue)
                continue
            settings = self._site.settings
            tried = one.assignment.tried if one.keeps_tried else ()
            if one.outcome is Outcome.SKIPPED and not settings.keep_tried:
                tried = ()
            events = self._events[self._site.root[workload.queue]]
            self._tried[workload.name] = _Tried(tried, self._cycle, events)
            if one.outcome is Outcome.PREEMPTING:
                line.sticky = workload.name
            strict = self._strict(workload.queue)
            at_once = one.outcome in (Outcome.PREEMPTING, Outcome.SKIPPED)
            at_once = one.outcome is not Outcome.NAMESPACE if strict else at_once
            if at_once or any(number != -1 for row in tried for number in row.values()):
                line.active[workload.name] = workload
                continue
            line.parked[workload.name] = workload
            fails = one.outcome in (Outcome.NO_FIT, Outcome.NO_VICTIMS)
            if fails and settings.equal_shapes and not strict:
                self._park_alike(line, workload.shape)

    def _park_alike(self, line: _Line, shape: object) -> None:
        """Let workloads of equal shape wait, too: they would get the same assignment."""
        line.shapes.add(shape)
        for name in [name for name, one in line.active.items() if one.shape == shape]:
            line.parked[name] = line.active.pop(name)

    def _strict(self, queue: str) -> bool:
        return self._site.queues.queues[queue].strict

    def place(self, name: str, queue: str) -> tuple[int, str]:
        """Return a workload's place in its queue, from 1, and the name of the head before it."""
        line = self._lines[queue]
        ordered = sorted((line.active | line.parked).values(), key=self._key(queue, line))
        names = [one.name for one in ordered]
        at = names.index(name) if name in names else len(names)
        return at + 1, names[0] if at and names else ""

    def of(self, queue: str) -> tuple[list[str], list[str]]:
        """Return the names of a queue's workloads: ready to be tried, and waiting for an event."""
        line = self._lines[queue]
        return sorted(line.active), sorted(line.parked)
