"""Recount, from the log alone, whether any round held more than its nodes have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from morph_opt.domain import Cluster, Placement
from morph_opt.metrics.log import (
    Completed,
    Event,
    NodeChanged,
    NodeStatus,
    Preempted,
    RoundDecided,
    Started,
)


def rounds_over_capacity(events: Iterable[Event], cluster: Cluster) -> int:
    """Rounds in which a GPU was held twice, did not exist, or was on a failed node.

    Holdings grow only at decisions, so it is enough to look after each of them.
    """
    count = _Holdings(cluster)
    for event in events:
        count.read(event)
    return count.over


class _Holdings:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: dict[str, Placement] = {}
        self._users: dict[int, Counter[int]] = {}
        self._failed: set[int] = set()
        self._broken: set[int] = set()
        self.over = 0

    def read(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Started():
                self._free(event.job)
                self._held[event.job] = event.placement
                self._book(event.placement, 1)
            case Preempted() | Completed():
                self._free(event.job)
            case NodeChanged():
                node = self._cluster.node_index[event.node]
                if event.status is NodeStatus.FAILED:
                    self._failed.add(node)
                else:
                    self._failed.discard(node)
                self._judge(node)
            case RoundDecided():
                self.over += bool(self._broken)
            case _:
                pass

    def _free(self, job: str) -> None:
        placement = self._held.pop(job, None)
        if placement is not None:
            self._book(placement, -1)

    def _book(self, placement: Placement, by: int) -> None:
        for node, gpus in placement.parts:
            users = self._users.setdefault(node, Counter())
            for gpu in gpus:
                users[gpu] += by
                if not users[gpu]:
                    del users[gpu]
            self._judge(node)

    def _judge(self, node: int) -> None:
        users = self._users.get(node, Counter())
        known = node < len(self._cluster.nodes)
        size = self._cluster.nodes[node].type.gpus if known else 0
        twice = len(users) < users.total()
        if twice or any(gpu >= size for gpu in users) or (users and node in self._failed):
            self._broken.add(node)
        else:
            self._broken.discard(node)
