"""Speeds of gangs: jobs on their recorded GPUs, or on others by a given curve.

For traces that have run times but no speeds: a second of run time is one iteration on exactly as
many GPUs. With a curve S that the user states, speed(G) = speed(G0) S(G) / S(G0), which
is an assumption and no measurement; on G0 it is the same to the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from morph_opt.core.domain import (
    Cluster,
    ExecutionPlan,
    InputError,
    Job,
    NodeType,
    PlanFamily,
    Shape,
    Span,
)
from morph_opt.core.domain.shape import partitions
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.speed import Configuration, Listed, require_model

RIGID_PLAN = ExecutionPlan(PlanFamily.DP)
"""Plan of jobs whose plan is unknown."""

LEAST_FACTOR = MOST_FACTOR = 4
"""Largest factors by which a gang with a curve may shrink and grow."""

_AMDAHL = re.compile(r"amdahl:(0(?:\.[0-9]{1,9})?|1(?:\.0{1,9})?)", re.ASCII)

Curve = Callable[[int, NodeType], float | None]
"""Function that returns the speed S(G) on nodes of a type in any unit, or None."""


@dataclass(frozen=True, slots=True)
class Gang:
    """GPUs that jobs of one kind hold together.

    Parameters
    ----------
    gpus
        Number of GPUs.
    kind
        Kind of its jobs; empty to name it by GPU types.
    types
        GPU types that it may run on, in the log's words; empty for any.
    skewed
        Whether it runs on as few nodes as hold it: its tensor sizes are skewed (Tiresias,
        NSDI'19, section 4.3).
    """

    gpus: int
    kind: str = ""
    types: tuple[str, ...] = ()
    skewed: bool = False

    @property
    def name(self) -> str:
        """Model name of its jobs."""
        return f"{self.kind or '|'.join(self.types) or 'gang'} x{self.gpus}"

    def fits(self, node_type: NodeType) -> bool:
        """Return whether the gang may run on a node type (``a100`` matches A100-80GB, too)."""
        name = node_type.gpu_type.name.casefold()
        return not self.types or any(
            name == kind or name.startswith(f"{kind}-") for kind in map(str.casefold, self.types)
        )

    def job(self, name: str, submission_s: float, duration_s: int, tenant: str = "default") -> Job:
        """Return a job of this gang with a run time in whole seconds."""
        gpus, model = self.gpus, self.name
        return Job(name, model, submission_s, duration_s, gpus, RIGID_PLAN, tenant=tenant)


def curve_of(text: str) -> Curve:
    """Return the curve ``linear``, ``amdahl:P`` (P of the work is parallel) or of a built-in model.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if text == "linear":
        return lambda gpus, _: float(gpus)
    amdahl = _AMDAHL.fullmatch(text)
    if amdahl:
        parallel = float(amdahl[1])
        return lambda gpus, _: 1.0 / (1.0 - parallel + parallel / gpus)
    models = builtin_model().models()
    if text in models:
        return _of_model(text)
    rule = f"must be linear, amdahl:P with P from 0 to 1, or one of {', '.join(models)}"
    raise InputError(f"{rule}, got {text!r}", field="scaling")


def _of_model(model: str) -> Curve:
    """Return the built-in model's best speed on these GPUs of the fewest nodes."""
    truth = builtin_model()

    @lru_cache(maxsize=256)
    def speed(gpus: int, node_type: NodeType) -> float | None:
        rows = truth.configurations(model, node_type, gpus, Span.LEAF)
        return max((1.0 / row.iteration_s for row in rows if row.shape.gpus == gpus), default=None)

    return speed


class GangTable(Listed):
    """Speed model of gangs: one second per iteration on their GPUs, on others by a curve.

    Parameters
    ----------
    gangs
        All gangs of the trace.
    scaling
        See `curve_of`; None for gangs that run on their own number of GPUs alone.
    """

    spans_differ = False

    def __init__(self, gangs: Iterable[Gang], scaling: str | None = None) -> None:
        super().__init__()
        self.name = "rigid" if scaling is None else f"anchored:{scaling}"
        self._gangs = {gang.name: gang for gang in gangs}
        self._curve = None if scaling is None else curve_of(scaling)

    def models(self) -> Sequence[str]:
        """Return the names, sorted."""
        return sorted(self._gangs)

    def types_not_in(self, cluster: Cluster) -> tuple[str, ...]:
        """Return required GPU types that no node of the cluster has, sorted."""
        kinds = cluster.node_types
        strange = [one for one in self._gangs.values() if not any(map(one.fits, kinds))]
        return tuple(sorted({kind for gang in strange for kind in gang.types}))

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Return seconds per iteration of the gang; None if it cannot run.

        Raises
        ------
        InputError
            If the model is unknown.
        """
        gang = self._gang(model)
        if plan != RIGID_PLAN or shape.parts[0] > node_type.gpus:
            return None
        if shape.gpus not in self._counts(gang, node_type):
            return None
        return self._seconds(gang, node_type, shape)

    def _listed(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Iterable[Configuration]:
        """Return the gang's shapes on such nodes, by number of GPUs, then fewest nodes first.

        Raises
        ------
        InputError
            If the model is unknown.
        """
        gang = self._gang(model)
        for gpus in self._counts(gang, node_type):
            for shape in partitions(gpus, node_type.gpus) if gpus <= max_gpus else ():
                seconds = self._seconds(gang, node_type, shape)
                if seconds is not None:
                    yield Configuration(shape, RIGID_PLAN, seconds)

    def _counts(self, gang: Gang, node_type: NodeType) -> Sequence[int]:
        """Return the GPU counts of a gang: its own; powers of two within a node, whole nodes."""
        if not gang.fits(node_type):
            return ()
        if self._curve is None:
            return (gang.gpus,)
        least, most = -(-gang.gpus // LEAST_FACTOR), gang.gpus * MOST_FACTOR
        powers = (1 << i for i in range(node_type.gpus.bit_length()))
        nodes = range(node_type.gpus, most + 1, node_type.gpus)
        return sorted({gang.gpus, *(n for n in (*powers, *nodes) if least <= n <= most)})

    def _seconds(self, gang: Gang, node_type: NodeType, shape: Shape) -> float | None:
        """Return seconds per iteration in a shape of one of its GPU counts."""
        own = shape.gpus == gang.gpus
        if (gang.skewed or not own) and shape.nodes > -(-shape.gpus // node_type.gpus):
            return None
        if own or self._curve is None:
            return 1.0
        known, other = self._curve(gang.gpus, node_type), self._curve(shape.gpus, node_type)
        return None if known is None or other is None else known / other

    def _gang(self, model: str) -> Gang:
        require_model(model, self._gangs, self.name)
        return self._gangs[model]
