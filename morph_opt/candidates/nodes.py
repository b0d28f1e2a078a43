"""The nodes of a cluster as columns."""

from __future__ import annotations

import numpy as np

from formulations.round.tables import NodeTable
from morph_opt.domain import Cluster


def node_table(cluster: Cluster) -> NodeTable:
    """Nodes of a cluster as a table, all open."""
    kinds = {kind: index for index, kind in enumerate(cluster.node_types)}
    leaves = {name: index for index, name in enumerate(cluster.leaf_names)}
    domains: dict[str, int] = {}
    domain = [
        domains.setdefault(node.nvlink_domain or f"node {node.name}", len(domains))
        for node in cluster.nodes
    ]
    limits = [cluster.uplink_gb_per_s(name) for name in leaves]
    return NodeTable(
        node_class=np.asarray([kinds[node.type] for node in cluster.nodes], dtype=np.int64),
        capacity=np.asarray(
            [
                [float(k.gpus), float(k.cpus), k.host_memory_gib, k.rdma_gb_per_s]
                for k in cluster.node_types
            ]
        ),
        open=np.ones(len(cluster.nodes), dtype=bool),
        leaf=np.asarray([leaves[node.leaf] for node in cluster.nodes], dtype=np.int64),
        domain=np.asarray(domain, dtype=np.int64),
        # With one leaf nothing can leave it.
        uplink_gb_per_s=np.asarray(limits if len(leaves) > 1 else [np.inf]),
    )
