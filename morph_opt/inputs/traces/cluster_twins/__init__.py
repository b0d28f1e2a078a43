"""Twins of whole clusters (Acme, Philly, Helios), drawn from published aggregates only."""

from morph_opt.inputs.traces.cluster_twins.draw import (
    CLUSTER_TWINS,
    HOME_GPUS,
    cluster_twin,
    facts_of,
    twin_home,
)

__all__ = ["CLUSTER_TWINS", "HOME_GPUS", "cluster_twin", "facts_of", "twin_home"]
