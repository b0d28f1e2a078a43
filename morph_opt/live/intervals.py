"""Run intervals of jobs as observed; no GPU is held twice at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from morph_opt.core.domain import Cluster


@dataclass(slots=True)
class RunInterval:
    """Interval in which a job held GPUs.

    Parameters
    ----------
    job, start_s, end_s
        Of which job, its ends in seconds; the last is infinite where it runs on.
    on, gpus
        Nodes, and GPUs on all of them.
    held
        GPU indices by node; empty for a interval that no look saw.
    end
        The event that ended it; "" for one that runs on.
    """

    job: str
    start_s: float
    on: tuple[str, ...]
    gpus: int
    held: dict[str, tuple[int, ...]]
    end_s: float = inf
    end: str = ""


def settle(intervals: Sequence[RunInterval]) -> None:
    """End intervals when another job takes their GPUs, even if their end was not observed."""
    last: dict[tuple[str, int], RunInterval] = {}
    for interval in sorted(intervals, key=lambda one: one.start_s):
        for place in ((node, gpu) for node, gpus in interval.held.items() for gpu in gpus):
            before = last.get(place)
            if before is not None and before.end_s > interval.start_s:
                before.end_s, before.end = interval.start_s, before.end or "preempt"
            last[place] = interval


def placed(intervals: Sequence[RunInterval], cluster: Cluster) -> Iterator[RunInterval]:
    """Return the intervals; unobserved ones get GPUs of their nodes that no other job held.

    A scheduler says of a job that is over on which nodes it was, not on which GPUs of them. An
    interval for which there are too few is left out.
    """
    index = cluster.node_index
    known = [interval for interval in intervals if interval.held]
    for interval in intervals:
        if interval.held:
            yield interval
            continue
        free = {node: set(range(cluster.nodes[index[node]].type.gpus)) for node in interval.on}
        for other in known:
            if other.start_s < interval.end_s and interval.start_s < other.end_s:
                for node in free.keys() & other.held.keys():
                    free[node] -= set(other.held[node])
        left, held = interval.gpus, {}
        for k, node in enumerate(interval.on, start=1):
            # One stays for each node behind this one.
            held[node] = tuple(sorted(free[node])[: max(0, left - len(interval.on) + k)])
            left -= len(held[node])
        if not left and all(held.values()):
            known.append(replace(interval, held=held))
            yield known[-1]
