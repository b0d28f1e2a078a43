"""What nodes have and jobs hold beside time: the one table of resources.

Columns of rounds, prices, checks, explanations, files and option tables derive from `RESOURCES`.
Nothing else numbers or lists resources: a new one is a row here, a field of node types and of
demands (`morph_opt.domain`), and a sentence of ``docs/formulations/resources.md``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of nodes.

    Parameters
    ----------
    name
        In files of rounds, and in what `formulations.round.check` finds.
    field
        Of node types, of configurations in tables of speeds, and of demands.
    unit
        Behind an amount.
    words
        What a price is paid for.
    rule
        Rule of the strict check: what the jobs of a node hold together is within the node.
    asked
        Field of jobs that ask for it, whatever they run in; "" where only configurations do.
    per_node
        Whether a job holds as much on every node that it uses, not next to every GPU.
    whole
        Whether it is counted, not measured.
    uplink
        Whether jobs across leaves take as much of the uplinks of their leaves.
    optional
        Whether nodes may leave it out of their files; where none has it, rounds have no column of
        it either. Optional resources stand last.
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
"""What nodes have and jobs hold; the first is the one that patterns and shapes count."""

SIDES = RESOURCES[1:]
"""Side resources: what is held next to GPUs."""

UPLINK = [resource.uplink for resource in SIDES].index(True)
"""Place among the side resources of what uplinks carry."""

OPTIONAL = tuple(
    dict.fromkeys(
        name
        for resource in RESOURCES
        if resource.optional
        for name in (resource.field, resource.asked)
    )
)
"""Fields of node types and of jobs that files leave out where there is nothing of them."""

LEAST = sum(not resource.optional for resource in RESOURCES)
"""Resources that every round has a column of."""
