"""The network of a cluster as a graph with capacities; drawn and shown by command.

>>> from morph_opt.clusters import parse_short
>>> from morph_opt.topology import bandwidth_gb_per_s, topology_graph
>>> cluster = parse_short("2x8")
>>> bandwidth_gb_per_s(topology_graph(cluster), ["node-0"], ["node-1"])
100.0
"""

from morph_opt.topology.graph import (
    Kind,
    Vertex,
    bandwidth_gb_per_s,
    oversubscription,
    span_of,
    topology_graph,
    uplink_load_gb_per_s,
)

__all__ = [
    "Kind",
    "Vertex",
    "bandwidth_gb_per_s",
    "oversubscription",
    "span_of",
    "topology_graph",
    "uplink_load_gb_per_s",
]
