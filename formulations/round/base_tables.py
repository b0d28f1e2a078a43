"""Jobs, nodes and holds of a round: the tables that every other one refers to."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import LEFT_OUT, fill, require_shapes
from formulations.resources import LEAST, RESOURCES


@dataclass(frozen=True, slots=True)
class JobTable:
    """Active jobs; every column has shape (J,).

    Parameters
    ----------
    iterations_left
        Remaining work.
    request_iteration_s
        Seconds per iteration of the requested configuration (its speed is 1).
    guaranteed
        Whether the job was promised at least the speed of its request.
    restart_s
        Start-up of a start or a change of configuration.
    restart_left_s
        Remaining start-up of a running job.
    stay_iteration_s
        Seconds per iteration, alone, on the nodes of a running job; NaN for a queued job.
    attained_gpu_s
        GPU-seconds held so far.
    submission_s
        Instant of submission.
    weight
        Share weight.
    """

    iterations_left: Floats
    request_iteration_s: Floats
    guaranteed: Bools
    restart_s: Floats
    restart_left_s: Floats
    stay_iteration_s: Floats
    attained_gpu_s: Floats
    submission_s: Floats
    weight: Floats

    def __post_init__(self) -> None:
        require_shapes(self, **{column.name: (self.count,) for column in fields(self)})

    @property
    def count(self) -> int:
        """Number of jobs J."""
        return int(self.iterations_left.size)

    @property
    def running(self) -> Bools:
        """Jobs that hold GPUs as the round begins, shape (J,)."""
        return ~np.isnan(self.stay_iteration_s)


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Nodes of a round.

    Parameters
    ----------
    node_class
        Class of each node, shape (N,).
    capacity
        Resources of a node of each class, shape (T, R).
    open
        Whether new parts may be placed on the node, shape (N,); False if drained or failed.
    leaf, domain
        Leaf switch and NVLink domain of each node, shape (N,); by default one leaf, and a domain
        per node.
    uplink_gb_per_s
        Uplink capacity of each leaf, shape (L,), inf if unlimited; by default unlimited.
    sets
        Node sets that candidates may be confined to, shape (M, N); row 0 is all nodes.
    """

    node_class: Ints
    capacity: Floats
    open: Bools
    leaf: Ints = LEFT_OUT
    domain: Ints = LEFT_OUT
    uplink_gb_per_s: Floats = LEFT_OUT
    sets: Bools = LEFT_OUT

    def __post_init__(self) -> None:
        nodes = self.count
        fill(
            self,
            leaf=np.zeros(nodes, dtype=np.int64),
            domain=np.arange(nodes, dtype=np.int64),
            sets=np.ones((1, nodes), dtype=bool),
        )
        require_shapes(self, **dict.fromkeys(("node_class", "open", "leaf", "domain"), (nodes,)))
        leaves = int(self.leaf.max(initial=0)) + 1
        fill(self, uplink_gb_per_s=np.full(leaves, np.inf))
        # A leaf without nodes may have an uplink; a leaf with nodes must.
        require_shapes(
            self,
            capacity=(self.classes, max(LEAST, min(self.resources, len(RESOURCES)))),
            sets=(max(1, self.sets.shape[0]), nodes),
            uplink_gb_per_s=(max(leaves, self.uplink_gb_per_s.size),),
        )

    @property
    def count(self) -> int:
        """Number of nodes N."""
        return int(self.node_class.size)

    @property
    def classes(self) -> int:
        """Number of node classes T."""
        return int(self.capacity.shape[0])

    @property
    def resources(self) -> int:
        """Number of resources R."""
        return int(self.capacity.shape[-1])


@dataclass(frozen=True, slots=True)
class HoldTable:
    """Holdings of running jobs: one row per (job, node).

    Parameters
    ----------
    job, node
        Job and node, shape (H,).
    demand
        Resources held, shape (H, R).
    uplink_gb_per_s
        Bandwidth reserved on the uplink of the node's leaf, shape (H,): the network share of a job
        that crosses leaves, otherwise 0; by default 0.
    """

    job: Ints
    node: Ints
    demand: Floats
    uplink_gb_per_s: Floats = LEFT_OUT

    def __post_init__(self) -> None:
        rows = (self.count,)
        fill(self, uplink_gb_per_s=np.zeros(rows))
        require_shapes(self, **dict.fromkeys(("job", "node", "uplink_gb_per_s"), rows))
        require_shapes(self, demand=(self.count, self.demand.shape[-1]))

    @property
    def count(self) -> int:
        """Number of holds H."""
        return int(self.job.size)
