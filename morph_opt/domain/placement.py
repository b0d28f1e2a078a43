"""Placements and allocations: which GPUs of which nodes a job holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from morph_opt.domain._validate import require_finite, require_int, require_name, require_unique
from morph_opt.domain.cluster import MOST_AMOUNT
from morph_opt.domain.errors import InputError
from morph_opt.domain.plan import ExecutionPlan
from morph_opt.domain.shape import Shape


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """GPUs by node.

    Parameters
    ----------
    parts
        Pairs (node index, GPU indices on that node), by ascending node; the GPU indices
        ascending and unique.

    Raises
    ------
    InputError
        If a part is empty, unordered or repeated.
    """

    parts: tuple[tuple[int, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("must hold at least one GPU", field="placement")
        nodes = [node for node, _ in self.parts]
        if any(a >= b for a, b in pairwise(nodes)) or nodes[0] < 0:
            raise InputError(f"must list distinct nodes ascending, got {nodes}", field="placement")
        for node, gpus in self.parts:
            ordered = all(a < b for a, b in pairwise(gpus))
            if not gpus or gpus[0] < 0 or not ordered:
                raise InputError(
                    f"must list distinct GPUs ascending on node {node}, got {gpus}",
                    field="placement",
                )

    @classmethod
    def of(cls, parts: Mapping[int, Iterable[int]]) -> Placement:
        """The placement that holds these GPU indices on these node indices."""
        return cls(tuple((node, tuple(sorted(parts[node]))) for node in sorted(parts)))

    @property
    def nodes(self) -> tuple[int, ...]:
        """Node indices, ascending."""
        return tuple(node for node, _ in self.parts)

    @property
    def gpus(self) -> int:
        """Number of GPUs held."""
        return sum(len(gpus) for _, gpus in self.parts)

    @property
    def shape(self) -> Shape:
        """GPUs per node, largest first."""
        return Shape.of(*(len(gpus) for _, gpus in self.parts))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one job gets in a round: its plan and its GPUs.

    Parameters
    ----------
    job, plan, placement
        Whose it is, how it runs and where.
    partner
        The job that holds the very same GPUs at the same time; None alone. It declares this job
        in turn. No part of comparisons: a job whose partner comes or goes stays as it is.
    """

    job: str
    plan: ExecutionPlan
    placement: Placement
    partner: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_name("job", self.job)
        needed = self.plan.gpus
        if needed is not None and needed != self.placement.gpus:
            raise InputError(
                f"job {self.job}: plan {self.plan} needs {needed} GPUs, "
                f"the placement holds {self.placement.gpus}",
                field="placement",
            )


@dataclass(frozen=True, slots=True)
class Allocation:
    """All assignments of one round, in the policy's order; jobs not named here hold nothing."""

    assignments: tuple[Assignment, ...] = ()

    def __post_init__(self) -> None:
        require_unique("allocation.job", (a.job for a in self.assignments))

    def by_job(self) -> dict[str, Assignment]:
        """Assignments by the name of their job."""
        return {a.job: a for a in self.assignments}

    @property
    def gpus(self) -> int:
        """GPUs held by all jobs together, those of a pair once."""
        held = sum(a.placement.gpus for a in self.assignments)
        return held - sum(a.placement.gpus for a in self.assignments if a.partner is not None) // 2


DEMAND_TOLERANCE = 1e-9
"""Relative slack of sums of floating-point demands (host memory, RDMA bandwidth)."""


@dataclass(frozen=True, slots=True)
class SideDemand:
    """Node resources other than GPUs that a configuration holds, per GPU of each part.

    Parameters
    ----------
    cpus
        CPU threads.
    host_memory_gib
        Host memory.
    rdma_gb_per_s
        Share of the node's network cards; 0 when the job stays inside a node.
    """

    cpus: int = 0
    host_memory_gib: float = 0.0
    rdma_gb_per_s: float = 0.0

    def __post_init__(self) -> None:
        require_int("cpus", self.cpus, at_least=0, at_most=int(MOST_AMOUNT))
        for name in ("host_memory_gib", "rdma_gb_per_s"):
            require_finite(name, getattr(self, name), at_least=0.0, at_most=MOST_AMOUNT)
