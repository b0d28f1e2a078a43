"""Check whether a configuration has a place on the empty cluster, span by span.

A place has one node of the class per part, with the part's GPUs, threads, host memory and network
share. The tightest part of the topology that contains these nodes is the configuration's span. A
place in several leaves takes network share of the uplink of each of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import Cluster, NodeType, SideDemand, Span
from morph_opt.core.domain.placement import NOTHING, gpus_beside
from morph_opt.inputs.perf.speed import Configuration, SpeedModel
from morph_opt.inputs.topology.graph import topology_of


def fits_node(row: Configuration, node_type: NodeType, asked: SideDemand = NOTHING) -> bool:
    """Return whether an empty node has the resources of a configuration's largest part.

    Parameters
    ----------
    asked
        Demand of the job; the row's own demand counts if it is larger.
    """
    return row.shape.parts[0] <= gpus_beside(row.side.beside(asked), node_type)


def configurations_of(
    speeds: SpeedModel, model: str, cluster: Cluster, node_type: NodeType
) -> list[tuple[Span, Configuration]]:
    """Return the configurations of a model on the nodes of a class, once per possible span.

    On several nodes a placement has the row of its own span, or does not exist. Whether there is a
    place of that span is another question (`Places`).
    """
    members = cluster.nodes_of(node_type)
    nodes = len(members)
    found: list[tuple[Span, Configuration]] = []
    for span in topology_of(cluster).spans(members):
        first = not found
        found += [
            (Span.NODE if row.shape.nodes == 1 else span, row)
            for row in speeds.configurations(model, node_type, nodes * node_type.gpus, span)
            if row.shape.nodes <= nodes and (first or row.shape.nodes > 1)
        ]
    return found


class Places:
    """Places on a cluster without jobs or outages.

    Parameters
    ----------
    cluster
        Nodes and network.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topology = topology_of(cluster)
        self._leaves: dict[NodeType, dict[int, Counter[int]]] = {}
        self._most: dict[NodeType, dict[Span, int]] = {}

    def has(
        self, node_type: NodeType, span: Span, row: Configuration, asked: SideDemand = NOTHING
    ) -> bool:
        """Return whether a configuration has a place of exactly this span.

        Parameters
        ----------
        node_type
            The class of its nodes.
        span
            Span of the row; `Span.NODE` for one part.
        asked
            Demand of the job for other resources than GPUs.
        """
        if not fits_node(row, node_type, asked):
            return False
        if row.shape.nodes > self._most_nodes(node_type)[span]:
            return False
        return span is not Span.POD or self._crosses(node_type, row)

    def _most_nodes(self, node_type: NodeType) -> dict[Span, int]:
        """Return the nodes of the largest place of each span."""
        if node_type not in self._most:
            leaves = self._by_leaf(node_type).values()
            inside = [n for of in leaves for n in of.values()]
            # Nodes of one leaf span it unless one NVLink domain contains them all.
            under = [of.total() for of in leaves if len(of) > 1]
            several = len(leaves) > 1
            self._most[node_type] = {
                Span.NODE: 1 if leaves else 0,
                Span.NVLINK: max(inside, default=0),
                Span.LEAF: max(under, default=0),
                Span.POD: sum(of.total() for of in leaves) if several else 0,
            }
        return self._most[node_type]

    def _by_leaf(self, node_type: NodeType) -> dict[int, Counter[int]]:
        """Return the number of nodes of a class by leaf, and there by NVLink domain."""
        if node_type not in self._leaves:
            nodes = self._cluster.nodes_of(node_type)
            self._leaves[node_type] = self._topology.by_leaf(nodes)
        return self._leaves[node_type]

    def _crosses(self, node_type: NodeType, row: Configuration) -> bool:
        """Return whether uplinks carry the parts over nodes of at least two leaves."""
        share = row.side.rdma_gb_per_s
        limits = self._topology.uplink_gb_per_s
        if share == 0.0 or all(map(math.isinf, limits)):
            return True
        rooms = []
        for leaf, nodes in self._by_leaf(node_type).items():
            carried = limits[leaf] * (1.0 + FEASIBILITY) / share
            rooms.append((nodes.total(), int(min(carried, row.shape.gpus))))
        return _spreads(row.shape.parts, rooms)


def _spreads(parts: tuple[int, ...], rooms: Iterable[tuple[int, int]]) -> bool:
    """Return whether parts can be distributed over at least two leaves.

    By dynamic programming over the leaves: a state is how many parts of each size are left, and of
    those that can be reached only the ones are kept that leave no more of any size than another.

    Parameters
    ----------
    parts
        GPUs of each.
    rooms
        Nodes of each leaf, and the GPUs for which its uplink has network share.
    """
    sizes = Counter(parts)
    whole = tuple(sizes.values())
    reached = {whole}
    for nodes, gpus in sorted(rooms, reverse=True):
        after = {
            tuple(a - b for a, b in zip(left, taken, strict=True))
            for left in reached
            for taken in _fills(tuple(zip(sizes, left, strict=True)), nodes, gpus)
            if taken != whole  # which would lie in one leaf
        }
        if any(not any(left) for left in after):
            return True
        reached = {
            left
            for left in after
            if not any(
                other != left and all(a <= b for a, b in zip(other, left, strict=True))
                for other in after
            )
        }
    return False


def _fills(left: tuple[tuple[int, int], ...], nodes: int, gpus: int) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of parts of each size that a leaf can take, given those left."""
    if not left:
        yield ()
        return
    size, count = left[0]
    for taken in range(min(count, nodes, gpus // size) + 1):
        for others in _fills(left[1:], nodes - taken, gpus - taken * size):
            yield (taken, *others)
