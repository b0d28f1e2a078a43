"""Forms of clusters: TOML specs, graphs, and the short form; the command ``topology``.

>>> from morph_opt.inputs.clusters import parse_short
>>> parse_short("2x8:A800-80GB").gpus
16
"""

from morph_opt.inputs.clusters.short import load_cluster, parse_short
from morph_opt.inputs.clusters.spec import cluster_from_toml, cluster_of, read_cluster
from morph_opt.inputs.clusters.text import cluster_to_tables, cluster_to_toml
from morph_opt.inputs.topology.graph import cluster_to_graph
from morph_opt.inputs.topology.reading import cluster_from_graph

__all__ = [
    "cluster_from_graph",
    "cluster_from_toml",
    "cluster_of",
    "cluster_to_graph",
    "cluster_to_tables",
    "cluster_to_toml",
    "load_cluster",
    "parse_short",
    "read_cluster",
]
