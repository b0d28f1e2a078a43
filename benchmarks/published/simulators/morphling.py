"""One round of Morphling's published code, with everything that differs from its paper.

Source: AlibabaPAI/reconfigurable-dl-scheduler (Apache-2.0); the rules in our words, with what is a
quirk, are on ``docs/published-heuristics.md``. Nothing here knows clusters or the engine: the
policy on top is `morph_opt.scheduling.policies.malleable.morphling`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

ABSENT = -1.0
"""Samples per second where a curve has no entry; it enters differences as a number."""

LONG_AGE_S, LONG_SLOPE = 200_000.0, 1e9
"""Beyond this age a job's slope is that."""

WIDE_GPUS, FEW_RESTARTS, MANY_PROMISED = 32, 7, 12
"""Large jobs on so many GPUs lose them each round while they have few restarts, or many jobs are
guaranteed."""

PUBLISHED_SIZES = {"llama7": (16, 64, 32, 8, 4, 2, 1), "llama30": (48, 40, 32, 24)}
"""GPUs of its large models in the order in which they are tried; there are no others."""

SLACK = 1.5
"""A promise counts as kept at two thirds of its speed."""


@dataclass(frozen=True, slots=True)
class SmallCurve:
    """Sensitivity curve of a model that runs on one node.

    Parameters
    ----------
    reference
        Samples per second that slopes are relative to.
    speed, gpus, plan
        Samples per second, GPUs really used and plan for g = 1, 2, ... GPUs, at index g - 1.
    """

    reference: float
    speed: tuple[float, ...]
    gpus: tuple[int, ...]
    plan: tuple[tuple[str, ...], ...]

    def at(self, gpus: int) -> float:
        """Samples per second; `ABSENT` for none and for more than the curve has."""
        return self.speed[gpus - 1] if 1 <= gpus <= len(self.speed) else ABSENT


@dataclass(frozen=True, slots=True)
class LargeSizes:
    """Sizes of a model that has no curve.

    Parameters
    ----------
    reference
        Samples per second that slopes are relative to.
    sizes
        In the order in which they are tried: GPUs, and shapes as GPUs per node.
    plan
        Plan of every shape.
    """

    reference: float
    sizes: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...]
    plan: Mapping[tuple[int, ...], tuple[str, ...]]

    def at(self, gpus: int) -> float:
        """No curve."""
        del gpus
        return ABSENT


Curve = SmallCurve | LargeSizes


@dataclass(frozen=True, slots=True)
class Entry:
    """A job before or after a round.

    Parameters
    ----------
    name, curve
        Of the job and its model.
    guaranteed, promised
        Whether, and at how many samples per second (None: no bearing).
    restarts, age_s
        So far.
    seen
        Whether it was in the last allocation, be it with no GPUs.
    gpus
        GPUs by node.
    plan
        In the words of its curve.
    stale_nodes
        Nodes on which host resources of a large job are still listed.
    """

    name: str
    curve: Curve
    guaranteed: bool = False
    promised: float | None = None
    restarts: int = 0
    age_s: float = 0.0
    seen: bool = False
    gpus: Mapping[int, int] = field(default_factory=dict)
    plan: tuple[str, ...] = ()
    stale_nodes: tuple[int, ...] = ()

    @property
    def held(self) -> int:
        """GPUs in all."""
        return sum(self.gpus.values())

    @property
    def large(self) -> bool:
        """Whether its model has no curve."""
        return isinstance(self.curve, LargeSizes)

    def slope(self, gpus: int | None, more: int) -> float:
        """Samples per second gained per GPU by ``more`` GPUs, over the reference.

        Parameters
        ----------
        gpus
            From there on; None for a job that was never in an allocation.
        """
        if self.age_s > LONG_AGE_S:
            return LONG_SLOPE
        if gpus is None:
            gain = abs(self.curve.at(more))
        else:
            gain = abs(self.curve.at(gpus) - self.curve.at(min(gpus + more, 8)))
        return gain / self.curve.reference / more


def heap_order(free: Sequence[int]) -> list[tuple[int, int]]:
    """(free, node) in the order in which a list that was never made a heap is popped.

    The first pop gives the first node; the last one then sinks to its place as in a heap.
    """
    heap = [(count, node) for node, count in enumerate(free) if count > 0]
    found = []
    while heap:
        last = heap.pop()
        if not heap:
            found.append(last)
            break
        found.append(heap[0])
        heap[0] = last
        _sift(heap)
    return found


def _sift(heap: list[tuple[int, int]]) -> None:
    """Move the first entry down to a leaf along the smaller ones, then up as far as it must."""
    at, end = 0, len(heap)
    entry = heap[0]
    while (child := 2 * at + 1) < end:
        if child + 1 < end and not heap[child] < heap[child + 1]:
            child += 1
        heap[at] = heap[child]
        at = child
    heap[at] = entry
    while at > 0 and entry < heap[(at - 1) // 2]:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = entry


def fits(parts: Sequence[int], free: Sequence[int]) -> dict[int, int] | None:
    """Nodes for a shape, by `heap_order`, each taking the first open part it has room for."""
    open_parts = sorted(parts, reverse=True)
    found: dict[int, int] = {}
    for room, node in heap_order(free):
        part = next((p for p in open_parts if p <= room), None)
        if part is not None:
            found[node] = part
            open_parts.remove(part)
        if not open_parts:
            return found
    return None


def decide(entries: Sequence[Entry], capacity: Sequence[int]) -> list[Entry]:
    """One round: the same jobs with what they are to hold, which may exceed a node.

    Parameters
    ----------
    entries
        In order of first appearance.
    capacity
        GPUs of each node.
    """
    return _Round(entries, capacity).run()


class _Round:
    def __init__(self, entries: Sequence[Entry], capacity: Sequence[int]) -> None:
        self.jobs = list(entries)
        self.capacity = list(capacity)
        self.before = [job.held for job in entries]
        self.free_before_last = list(capacity)
        every = range(len(self.jobs))
        self.ascending = sorted(
            every,
            key=lambda j: self.jobs[j].slope(self.before[j] if self.jobs[j].seen else None, 1),
        )

    def run(self) -> list[Entry]:
        self._stop_wide()
        for j in sorted(self.ascending, key=lambda j: not self.jobs[j].guaranteed):
            free = self._free()
            self.free_before_last = free
            if self.jobs[j].large:
                self._place_large(j, free)
            else:
                self._place_small(j, free)
        if self.jobs:
            for node in range(len(self.capacity)):
                self._scale_up(node)
        for j in self.ascending:
            if self.jobs[j].large:
                self._enlarge(j)
        return self.jobs

    def _free(self) -> list[int]:
        free = list(self.capacity)
        for job in self.jobs:
            for node, gpus in job.gpus.items():
                free[node] -= gpus
        return free

    def _stop_wide(self) -> None:
        promised = sum(job.guaranteed for job in self.jobs)
        for j, job in enumerate(self.jobs):
            few = job.restarts < FEW_RESTARTS or promised > MANY_PROMISED
            if job.large and job.held >= WIDE_GPUS and few:
                self.jobs[j] = replace(job, gpus={}, plan=())

    def _place_small(self, j: int, free: Sequence[int]) -> None:
        """Everything that the first accepted node has free; nothing is ever taken back."""
        job = self.jobs[j]
        assert isinstance(job.curve, SmallCurve)
        nodes = sorted(range(len(free)), key=lambda node: (-free[node], node))
        for node in nodes:
            if job.gpus and node not in job.gpus:
                continue
            most = free[node] + job.gpus.get(node, 0)
            if job.guaranteed:
                accepted = SLACK * job.curve.at(most) >= (job.promised or 0.0)
            else:
                accepted = free[node] > 0
            if accepted:
                self._set_small(j, node, most)
                return

    def _set_small(self, j: int, node: int, gpus: int) -> None:
        curve = self.jobs[j].curve
        assert isinstance(curve, SmallCurve)
        used, plan = curve.gpus[gpus - 1], curve.plan[gpus - 1]
        held = {**self.jobs[j].gpus, node: used}
        self.jobs[j] = replace(self.jobs[j], gpus=held, plan=plan)

    def _place_large(self, j: int, free: Sequence[int]) -> None:
        """The first size and shape that fits beside its own GPUs."""
        curve = self.jobs[j].curve
        assert isinstance(curve, LargeSizes)
        for _, shapes in curve.sizes:
            if self._first_fit(j, shapes, free):
                return

    def _first_fit(self, j: int, shapes: Sequence[tuple[int, ...]], free: Sequence[int]) -> bool:
        curve = self.jobs[j].curve
        assert isinstance(curve, LargeSizes)
        for shape in shapes:
            found = fits(shape, free)
            if found is not None:
                self.jobs[j] = replace(self.jobs[j], gpus=found, plan=curve.plan[shape])
                return True
        return False

    def _scale_up(self, node: int) -> None:
        """Idle GPUs of a node to its jobs, from holdings and room that are out of date."""
        left = self.free_before_last[node]
        here = [j for j, job in enumerate(self.jobs) if job.gpus.get(node, 0) > 0]
        here += [
            j
            for j, job in enumerate(self.jobs)
            if job.large and node in job.stale_nodes and j not in here
        ]
        wanted: dict[int, int] = {}
        while left > 0:
            d = left
            order = sorted(here, key=lambda j: -self.jobs[j].slope(self.before[j], d))
            chosen = next((j for j in order if not self.jobs[j].large), None)
            if chosen is None:
                break
            curve = self.jobs[chosen].curve
            assert isinstance(curve, SmallCurve)
            new = curve.gpus[min(self.before[chosen] + left, len(curve.gpus)) - 1]
            gained = new - self.before[chosen]
            wanted[chosen] = new
            left -= gained
            if gained == 0 or chosen == order[-1]:
                break
        for j, gpus in wanted.items():
            self._set_small(j, node, gpus)

    def _enlarge(self, j: int) -> None:
        """A larger or equal size of a large job, its own GPUs given up first."""
        job = self.jobs[j]
        assert isinstance(job.curve, LargeSizes)
        free = self._free()
        for node, gpus in job.gpus.items():
            free[node] += gpus
        for size, shapes in sorted(job.curve.sizes, key=lambda entry: -entry[0]):
            if size >= job.held and self._first_fit(j, shapes, free):
                return
