"""Profiled runs of one model."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import ExecutionPlan, InputError, Shape
from morph_opt.core.domain._validate import require_iteration_s
from morph_opt.inputs.perf.analytic.phases import Phase


@dataclass(frozen=True, slots=True)
class Run:
    """One profiled run of one model.

    Parameters
    ----------
    shape
        GPUs per node.
    plan
        Execution plan.
    iteration_s
        Seconds per iteration, above 0.
    phases
        Parts of the iteration that the run reports; none if only the iteration was timed.
    """

    shape: Shape
    plan: ExecutionPlan
    iteration_s: float
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        require_iteration_s(self.iteration_s)
        if self.plan.gpus not in (None, self.shape.gpus):
            raise InputError(
                f"plan {self.plan} needs {self.plan.gpus} GPUs, the shape has {self.shape.gpus}",
                field="shape",
            )
