"""Durations as speeds: for traces that tell how long a job ran and not how fast.

A second of run time is one iteration on exactly the GPUs that the job had; on any other number it
cannot run. Every trace format with durations uses this: `rigid_job` for its rows, `RigidSeconds`
for the truth.
"""

from __future__ import annotations

from collections.abc import Sequence

from morph_opt.domain import ExecutionPlan, Job, NodeType, PlanFamily, Shape, Span
from morph_opt.domain.shape import partitions
from morph_opt.perf.speed import Configuration, require_model

RIGID_PLAN = ExecutionPlan(PlanFamily.DP)
"""Plan of jobs of which none is known."""


def rigid_model(model: str, gpus: int) -> str:
    """Name under which `RigidSeconds` knows a gang."""
    return f"{model} x{gpus}"


def rigid_job(name: str, model: str, gpus: int, submission_s: float, duration_s: int) -> Job:
    """A job that runs so many whole seconds on so many GPUs."""
    return Job(name, rigid_model(model, gpus), submission_s, duration_s, gpus, RIGID_PLAN)


class RigidSeconds:
    """Speed model of rigid gangs: one second per iteration on exactly so many GPUs.

    Profile-based placement (Tiresias, section 4.3): a model whose tensor sizes are skewed runs on
    as few nodes as hold its gang, others on any.

    Parameters
    ----------
    gangs
        (model, GPUs) that occur.
    skewed
        Models with skewed tensors.
    """

    name = "rigid"

    def __init__(
        self,
        gangs: Sequence[tuple[str, int]],
        skewed: Sequence[str] = (),
    ) -> None:
        self._gangs = {rigid_model(*gang): gang for gang in sorted(set(gangs))}
        self._skewed = frozenset(skewed)
        self._cache: dict[tuple[str, int, int], tuple[Configuration, ...]] = {}

    def models(self) -> Sequence[str]:
        """Names, sorted."""
        return sorted(self._gangs)

    def iteration_s(
        self,
        model: str,
        node_type: NodeType,
        shape: Shape,
        plan: ExecutionPlan,
        span: Span,  # noqa: ARG002 - part of the protocol
    ) -> float | None:
        """1 s; None for another number of GPUs, or more nodes than a skewed model may have."""
        base, gang = self._gang(model)
        if shape.gpus != gang or plan != RIGID_PLAN or shape.parts[0] > node_type.gpus:
            return None
        fewest = -(-gang // node_type.gpus)
        return None if base in self._skewed and shape.nodes > fewest else 1.0

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Every shape of the gang; of a skewed model those on the fewest nodes."""
        gang = self._gang(model)[1]
        key = (model, node_type.gpus, max_gpus)
        if key not in self._cache:
            rows = []
            for shape in partitions(gang, node_type.gpus) if gang <= max_gpus else ():
                seconds = self.iteration_s(model, node_type, shape, RIGID_PLAN, span)
                if seconds is not None:
                    rows.append(Configuration(shape, RIGID_PLAN, seconds))
            self._cache[key] = tuple(rows)
        return self._cache[key]

    def _gang(self, model: str) -> tuple[str, int]:
        require_model(model, self._gangs, self.name)
        return self._gangs[model]
