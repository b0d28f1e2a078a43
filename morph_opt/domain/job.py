"""Jobs as their users submit them."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.domain._validate import require_finite, require_int, require_name
from morph_opt.domain.errors import InputError
from morph_opt.domain.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Job:
    """A training job: what it runs, how much of it, and what its user asked for.

    Parameters
    ----------
    name
        Unique in a trace.
    model
        Key of the speed model, for example ``"gpt2"``.
    submission_s
        Seconds since the start of the trace, at least 0.
    iterations
        Work: training iterations until the job is complete, at least 1.
    requested_gpus
        GPUs that the user asked for. Rigid policies grant exactly these.
    requested_plan
        Execution plan that the user asked for.
    cpus_per_gpu
        CPU threads that the job holds next to every GPU.
    guaranteed
        Service-level guarantee: at least the speed of the requested GPUs and plan.
    weight
        Share weight for fairness policies, above 0.
    tenant
        Owner for quotas and per-tenant metrics.

    Raises
    ------
    InputError
        If a value is outside its range; the message names field and rule.
    """

    name: str
    model: str
    submission_s: float
    iterations: int
    requested_gpus: int
    requested_plan: ExecutionPlan
    cpus_per_gpu: int = 0
    guaranteed: bool = False
    weight: float = 1.0
    tenant: str = "default"

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require_name("model", self.model)
        require_name("tenant", self.tenant)
        require_finite("submission_s", self.submission_s, at_least=0.0)
        require_int("iterations", self.iterations, at_least=1)
        require_int("requested_gpus", self.requested_gpus, at_least=1)
        require_int("cpus_per_gpu", self.cpus_per_gpu, at_least=0)
        require_finite("weight", self.weight, above=0.0)
        needed = self.requested_plan.gpus
        if needed is not None and needed != self.requested_gpus:
            raise InputError(
                f"plan {self.requested_plan} needs {needed} GPUs, "
                f"the job requests {self.requested_gpus}",
                field="requested_plan",
            )
