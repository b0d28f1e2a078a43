"""How a plan splits the global batch; no plan may change it."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import ExecutionPlan, InputError, PlanFamily, Shape
from morph_opt.inputs.perf.analytic.architecture import Architecture


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """Samples of one iteration.

    Parameters
    ----------
    ranks
        Data-parallel ranks.
    samples
        Samples per rank and iteration; gradient accumulation processes them in several
        micro-batches, the other plans in one.
    """

    ranks: int
    samples: int

    @property
    def global_batch(self) -> int:
        """Samples per iteration of all ranks together."""
        return self.ranks * self.samples


def split_batch(architecture: Architecture, shape: Shape, plan: ExecutionPlan) -> BatchSplit:
    """The split of the model's global batch.

    Raises
    ------
    InputError
        If the batch cannot be split evenly, so that the plan would have to change it.
    """
    ranks = plan.dp if plan.family is PlanFamily.THREE_D else shape.gpus
    samples, rest = divmod(architecture.global_batch, ranks)
    if rest:
        raise InputError(
            f"global batch {architecture.global_batch} of {architecture.name} cannot be split "
            f"over {ranks} data-parallel ranks ({plan} on {shape})",
            field="plan",
        )
    return BatchSplit(ranks, samples)
