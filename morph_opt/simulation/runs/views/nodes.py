"""Nodes of a run, their consecutively numbered GPUs, and outages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from morph_opt.core.domain import Cluster, InputError
from morph_opt.simulation.events.log import Begun, Ended, Event, NodeChanged, NodeStatus, Started


@dataclass(frozen=True)
class NodeMap:
    """Nodes by index, with consecutive numbers for all GPUs.

    Parameters
    ----------
    names
        Names of the nodes.
    gpus
        Number of GPUs of each node.
    gpu_types
        GPU type of each node.
    known
        Whether it is the run's own cluster; False if it was guessed from the log.
    """

    names: tuple[str, ...]
    gpus: tuple[int, ...]
    gpu_types: tuple[str, ...]
    known: bool = True

    @cached_property
    def first_gpu(self) -> npt.NDArray[np.int64]:
        """Number of each node's first GPU, shape (nodes + 1,); the last entry is the total."""
        return np.concatenate(([0], np.cumsum(self.gpus, dtype=np.int64)))

    @property
    def total(self) -> int:
        """GPUs of all nodes."""
        return int(self.first_gpu[-1])

    @property
    def types(self) -> tuple[str, ...]:
        """Distinct GPU types in the order of the nodes."""
        return tuple(dict.fromkeys(self.gpu_types))

    def gpus_of_type(self, gpu_type: str) -> int:
        """Return the number of GPUs of a type."""
        pairs = zip(self.gpus, self.gpu_types, strict=True)
        return sum(gpus for gpus, its in pairs if its == gpu_type)

    @classmethod
    def of_cluster(cls, cluster: Cluster) -> NodeMap:
        """Return the nodes of a cluster."""
        nodes = cluster.nodes
        return cls(
            tuple(node.name for node in nodes),
            tuple(node.type.gpus for node in nodes),
            tuple(node.type.gpu_type.name for node in nodes),
        )

    @classmethod
    def of_log(cls, events: Iterable[Event]) -> NodeMap:
        """Return nodes guessed from a log: of equal size if possible, of unknown type.

        Raises
        ------
        InputError
            If the log has no first line, or names GPUs that cannot be.
        """
        begun: Begun | None = None
        least: dict[int, int] = {}
        for event in events:
            if isinstance(event, Begun):
                begun = event
            elif isinstance(event, Started):
                for node, gpus in event.placement.parts:
                    least[node] = max(least.get(node, 0), max(gpus) + 1)
        if begun is None or begun.nodes < 1:
            raise InputError("the event log has no beginning", field="events")
        even, rest = divmod(begun.gpus, begun.nodes)
        sizes = [even + (index < rest) for index in range(begun.nodes)]
        if any(node >= begun.nodes or gpus > sizes[node] for node, gpus in least.items()):
            sizes = [max(1, least.get(index, 0)) for index in range(begun.nodes)]
        names = tuple(f"node-{index}" for index in range(begun.nodes))
        return cls(names, tuple(sizes), ("GPU",) * begun.nodes, known=False)


@dataclass(frozen=True, slots=True)
class Outage:
    """Time in which a node took no new job.

    Parameters
    ----------
    node
        Index of the node.
    start_s, end_s
        Begin and end; the end of the run if it did not come back.
    status
        ``failed`` (its jobs stopped) or ``drained`` (they may go on).
    """

    node: int
    start_s: float
    end_s: float
    status: str


def outages(events: Iterable[Event], nodes: NodeMap) -> tuple[Outage, ...]:
    """Return every outage, ordered by end.

    Raises
    ------
    InputError
        If the log names a node that the cluster does not have.
    """
    index = {name: number for number, name in enumerate(nodes.names)}
    open_: dict[int, tuple[float, NodeStatus]] = {}
    found = []
    for event in events:
        match event:
            case NodeChanged():
                node = index.get(event.node)
                if node is None:
                    raise InputError(f"names node {event.node!r}, which is not in the cluster")
                if node in open_:
                    since_s, status = open_.pop(node)
                    found.append(Outage(node, since_s, event.time_s, str(status)))
                if event.status is not NodeStatus.UP:
                    open_[node] = (event.time_s, event.status)
            case Ended():
                found += [Outage(n, s, event.time_s, str(w)) for n, (s, w) in open_.items()]
                open_ = {}
            case _:
                pass
    return tuple(one for one in found if one.end_s > one.start_s)
