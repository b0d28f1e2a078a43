"""Table of all resources that nodes have and jobs hold.

Columns of rounds, prices, checks, explanations, files and option tables derive from `RESOURCES`. No
other module numbers or lists resources: a new one is a row here, a field of node types and demands
(`morph_opt.core.domain`), and a row of ``docs/formulations/resources.md``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of nodes.

    Parameters
    ----------
    name
        Name in files of rounds and in messages of `formulations.round.check`.
    field
        Field of node types, of configurations in tables of speeds, and of demands.
    unit
        Unit that follows an amount.
    words
        Words for the resource that a price is paid for.
    rule
        Name of the strict check's rule that a node's jobs hold no more than the node has.
    asked
        Field of jobs that demand it in any configuration; "" if only configurations do.
    per_node
        Whether a job holds an amount per node instead of per GPU.
    whole
        Whether amounts are whole numbers.
    uplink
        Whether jobs across leaves take the same amount of the uplinks of their leaves.
    optional
        Whether files may leave it out; if no node has it, rounds have no column for it. Optional
        resources are last.
    """

    name: str
    field: str
    unit: str
    words: str
    rule: str
    asked: str = ""
    per_node: bool = False
    whole: bool = False
    uplink: bool = False
    optional: bool = False


RESOURCES = (
    Resource("gpu", "gpus", "GPUs", "GPUs", "node_gpus", whole=True),
    Resource(
        "cpu", "cpus", "CPU threads", "CPU threads", "node_cpus", asked="cpus_per_gpu", whole=True
    ),
    Resource(
        "host_memory_gib",
        "host_memory_gib",
        "GiB of host memory",
        "host memory",
        "node_host_memory",
    ),
    Resource(
        "rdma_gb_per_s",
        "rdma_gb_per_s",
        "GB/s of RDMA bandwidth",
        "network cards",
        "node_rdma",
        uplink=True,
    ),
    Resource(
        "local_ssd_gib",
        "local_ssd_gib",
        "GiB of local SSD",
        "local SSD",
        "node_local_ssd",
        asked="local_ssd_gib",
        per_node=True,
        optional=True,
    ),
)
"""All resources in order; GPUs are first, and patterns and shapes count them."""

SIDES = RESOURCES[1:]
"""Side resources: all but GPUs."""

UPLINK = [resource.uplink for resource in SIDES].index(True)
"""Index, among the side resources, of the one that uplinks carry."""

OPTIONAL = tuple(
    dict.fromkeys(
        name
        for resource in RESOURCES
        if resource.optional
        for name in (resource.field, resource.asked)
    )
)
"""Fields of node types and jobs that files may leave out."""

LEAST = sum(not resource.optional for resource in RESOURCES)
"""Number of resources that have a column in every round."""
