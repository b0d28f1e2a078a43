"""Recount, from the log alone, whether any round held more than its nodes have."""

from __future__ import annotations

from collections.abc import Iterable

from morph_opt.domain import Cluster, Placement
from morph_opt.events.log import (
    Cancelled,
    Completed,
    Event,
    NodeChanged,
    NodeStatus,
    Preempted,
    RoundDecided,
    Shared,
    Started,
)


def rounds_over_capacity(events: Iterable[Event], cluster: Cluster) -> int:
    """Rounds in which a GPU was held twice, did not exist, or was on a failed node.

    Two jobs that name each other as partners and hold the very same GPUs hold them once.

    Holdings grow only at decisions, so it is enough to look after each of them.
    """
    count = CapacityCount(cluster)
    for event in events:
        count.read(event)
    return count.over


class CapacityCount:
    """`rounds_over_capacity` event by event; ``over`` is the count so far."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: dict[str, Placement] = {}
        self._users: dict[int, dict[int, set[str]]] = {}
        self._partner: dict[str, str | None] = {}
        self._failed: set[int] = set()
        self._broken: set[int] = set()
        self.over = 0

    def read(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Started():
                self._free(event.job)
                self._held[event.job] = event.placement
                for node, gpus in event.placement.parts:
                    users = self._users.setdefault(node, {})
                    for gpu in gpus:
                        users.setdefault(gpu, set()).add(event.job)
                    self._judge(node)
            case Shared():
                self._partner[event.job] = event.partner
                for node in self._held[event.job].nodes if event.job in self._held else ():
                    self._judge(node)
            case Preempted() | Completed() | Cancelled():
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
        self._partner.pop(job, None)
        if placement is None:
            return
        for node, gpus in placement.parts:
            users = self._users[node]
            for gpu in gpus:
                users[gpu].discard(job)
                if not users[gpu]:
                    del users[gpu]
            self._judge(node)

    def _judge(self, node: int) -> None:
        users = self._users.get(node, {})
        known = node < len(self._cluster.nodes)
        size = self._cluster.nodes[node].type.gpus if known else 0
        twice = any(len(jobs) > 1 and not self._is_pair(jobs) for jobs in users.values())
        if twice or any(gpu >= size for gpu in users) or (users and node in self._failed):
            self._broken.add(node)
        else:
            self._broken.discard(node)

    def _is_pair(self, jobs: set[str]) -> bool:
        """Whether these are two jobs that name each other and hold the same GPUs."""
        one, *others = jobs
        if len(others) != 1 or self._held[one] != self._held[others[0]]:
            return False
        return self._partner.get(one) == others[0] and self._partner.get(others[0]) == one
