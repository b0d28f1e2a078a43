"""Nodes of a cluster as columns."""

from __future__ import annotations

import numpy as np

from formulations.arrays import Floats
from formulations.resources import LEAST
from formulations.round.tables import NodeTable, Scope
from morph_opt.core.domain import Cluster, NodeType
from morph_opt.core.domain.placement import sides_of
from morph_opt.inputs.topology.graph import topology_of


def node_table(cluster: Cluster) -> NodeTable:
    """Return the nodes of a cluster as a table, all open."""
    kinds = {kind: index for index, kind in enumerate(cluster.node_types)}
    topology = topology_of(cluster)
    limits = topology.uplink_gb_per_s
    return NodeTable(
        node_class=np.asarray([kinds[node.type] for node in cluster.nodes], dtype=np.int64),
        capacity=_capacity(cluster),
        open=np.ones(len(cluster.nodes), dtype=bool),
        leaf=np.asarray(topology.leaf, dtype=np.int64),
        domain=np.asarray(topology.domain, dtype=np.int64),
        # No traffic can leave the only leaf.
        uplink_gb_per_s=np.asarray(limits if len(limits) > 1 else [np.inf]),
    )


def _capacity(cluster: Cluster) -> Floats:
    """Return the resources of the node types, without trailing ones that no node has."""
    each = [(k.gpus, *sides_of(k)) for k in cluster.node_types]
    capacity = np.asarray(each, dtype=np.float64)
    there = np.flatnonzero(capacity.any(axis=0))
    return capacity[:, : max(LEAST, int(there[-1]) + 1)]


def scopes_of(cluster: Cluster, node_type: NodeType) -> tuple[Scope, ...]:
    """Return the scopes that placements on several nodes of a class may have, tightest first."""
    spans = topology_of(cluster).spans(cluster.nodes_of(node_type))
    return tuple(Scope(int(span)) for span in spans)
