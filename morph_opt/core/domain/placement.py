"""Placements and allocations: which GPUs of which nodes a job holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, lt

from formulations.resources import SIDES
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain._validate import (
    require_finite,
    require_int,
    require_name,
    require_unique,
)
from morph_opt.core.domain.cluster import MOST_AMOUNT, NodeType
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.plan import ExecutionPlan
from morph_opt.core.domain.shape import Shape


def runs_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of each run of consecutive numbers, given in ascending order.

    >>> list(runs_of([0, 1, 2, 6]))
    [(0, 2), (6, 6)]
    """
    for _, run in groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]


def runs_text(numbers: Iterable[int], mark: str = "+") -> str:
    """Return runs of consecutive numbers as text, such as ``0-2+6``."""
    return mark.join(str(a) if a == b else f"{a}-{b}" for a, b in runs_of(numbers))


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """GPUs that a job holds, by node.

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
    # Used in every round, so computed once.
    nodes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Node indices, ascending."""
    gpus: int = field(init=False, repr=False, compare=False)
    """Number of GPUs held."""
    shape: Shape = field(init=False, repr=False, compare=False)
    """GPUs per node, largest first."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("must hold at least one GPU", field="placement")
        nodes = tuple([node for node, _ in self.parts])
        if not _ascending(nodes) or nodes[0] < 0:
            rule = f"must list distinct nodes ascending, got {list(nodes)}"
            raise InputError(rule, field="placement")
        for node, gpus in self.parts:
            if not gpus or gpus[0] < 0 or not _ascending(gpus):
                raise InputError(
                    f"must list distinct GPUs ascending on node {node}, got {gpus}",
                    field="placement",
                )
        counts = tuple([len(gpus) for _, gpus in self.parts])
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "gpus", sum(counts))
        object.__setattr__(self, "shape", _shape(counts))

    @classmethod
    def of(cls, parts: Mapping[int, Iterable[int]]) -> Placement:
        """Return the placement that holds these GPU indices on these node indices."""
        return cls(tuple([(node, tuple(sorted(parts[node]))) for node in sorted(parts)]))


def _ascending(indices: tuple[int, ...]) -> bool:
    """Return whether each number is more than the one before."""
    return len(indices) == 1 or all(map(lt, indices, indices[1:]))


def gpus_text(placement: Placement, name_of: Callable[[int], str] = str) -> str:
    """Format the GPUs of a placement as ``0:0-3+6 2:1``, node by node."""
    parts = (f"{name_of(node)}:{runs_text(gpus)}" for node, gpus in placement.parts)
    return " ".join(parts)


@lru_cache(maxsize=4096)
def _shape(counts: tuple[int, ...]) -> Shape:
    return Shape.of(*counts)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Plan and GPUs of one job in a round.

    Parameters
    ----------
    job, plan, placement
        Name of the job, its plan and its GPUs.
    partner
        Job that shares the same GPUs; None if there is none. The partner names this job in turn.
        Comparisons ignore it: a job whose partner comes or goes keeps its assignment.
    """

    job: str
    plan: ExecutionPlan
    placement: Placement
    partner: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_name("job", self.job)
        holder = f"the placement of job {self.job} holds"
        self.plan.require_gpus(self.placement.gpus, holder, "placement")


@dataclass(frozen=True, slots=True)
class Allocation:
    """Assignments of one round; jobs without one hold nothing."""

    assignments: tuple[Assignment, ...] = ()

    def __post_init__(self) -> None:
        try:
            require_unique("allocation.job", (a.job for a in self.assignments))
        except (AttributeError, TypeError):
            rule = f"must be a tuple of Assignment, got {str(self.assignments)[:60]}"
            raise InputError(rule, field="assignments") from None

    def by_job(self) -> dict[str, Assignment]:
        """Return the assignments by job name."""
        return {a.job: a for a in self.assignments}

    @property
    def gpus(self) -> int:
        """Number of GPUs held by all jobs; the GPUs of a pair count once."""
        return gpus_held(self.assignments)


def gpus_held(assignments: Iterable[Assignment]) -> int:
    """Return the number of GPUs held by all assignments; the GPUs of a pair count once."""
    alone = paired = 0
    for assignment in assignments:
        if assignment.partner is None:
            alone += assignment.placement.gpus
        else:
            paired += assignment.placement.gpus
    return alone + paired - paired // 2


Sides = tuple[float, ...]
"""Amounts of the side resources, in the order of `formulations.resources.SIDES`."""

_EACH = attrgetter(*(resource.field for resource in SIDES))
_PER_NODE = tuple(resource.per_node for resource in SIDES)


@dataclass(frozen=True, slots=True, order=True)
class SideDemand:
    """Demand for node resources other than GPUs, per GPU.

    Parameters
    ----------
    cpus
        CPU threads.
    host_memory_gib
        Host memory.
    rdma_gb_per_s
        Share of the node's network cards; 0 when the job stays inside a node.
    local_ssd_gib
        Space on the local SSD of every node, whatever the GPUs there.
    """

    cpus: int = 0
    host_memory_gib: float = 0.0
    rdma_gb_per_s: float = 0.0
    local_ssd_gib: float = 0.0

    def __post_init__(self) -> None:
        for resource, amount in zip(SIDES, _EACH(self), strict=True):
            if resource.whole:
                require_int(resource.field, amount, at_least=0, at_most=int(MOST_AMOUNT))
            else:
                require_finite(resource.field, amount, at_least=0.0, at_most=MOST_AMOUNT)

    @property
    def each(self) -> Sides:
        """Amounts in the order of `SIDES`."""
        return tuple(_EACH(self))

    def beside(self, asked: SideDemand) -> Sides:
        """Return the larger of two demands, resource by resource."""
        return tuple(map(max, _EACH(self), _EACH(asked)))


NOTHING = SideDemand()
"""Demand of a job that needs GPUs only."""


def sides_of(node_type: NodeType) -> Sides:
    """Return the side resources of a node."""
    return tuple(_EACH(node_type))


def held_by_part(sides: Sides, gpus: int) -> Sides:
    """Return the side resources that a job holds on a node with this number of GPUs."""
    pairs = zip(sides, _PER_NODE, strict=True)
    return tuple(need if per_node else gpus * need for need, per_node in pairs)


def gpus_beside(sides: Sides, node_type: NodeType) -> int:
    """Return how many GPUs of an empty node a job with this demand can hold."""
    most = node_type.gpus
    for need, has, per_node in zip(sides, _EACH(node_type), _PER_NODE, strict=True):
        room = has * (1.0 + FEASIBILITY)
        if per_node:
            most = most if need <= room else 0
        elif need > 0.0:
            most = min(most, int(room / need))
    return most
