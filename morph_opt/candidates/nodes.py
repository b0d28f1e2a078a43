"""The nodes of a cluster as columns."""

from __future__ import annotations

import numpy as np

from formulations.round.tables import NodeTable, Scope
from morph_opt.domain import Cluster, NodeType


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


def scopes_of(cluster: Cluster, node_type: NodeType) -> tuple[Scope, ...]:
    """Scopes in which placements of one class on several nodes differ, tightest first."""
    nodes = [cluster.nodes[index] for index in cluster.nodes_of(node_type)]
    domains = [node.nvlink_domain for node in nodes if node.nvlink_domain is not None]
    found = [Scope.NVLINK] if len(set(domains)) < len(domains) else []
    found.append(Scope.LEAF)
    if len({node.leaf for node in nodes}) > 1:
        found.append(Scope.POD)
    return tuple(found)
