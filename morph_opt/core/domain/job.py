"""Jobs as their users submit them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from formulations.resources import SIDES
from morph_opt.core.domain._validate import require_finite, require_int, require_name
from morph_opt.core.domain.arguments import require_type, take_own
from morph_opt.core.domain.cluster import MOST_AMOUNT
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.placement import SideDemand
from morph_opt.core.domain.plan import ExecutionPlan

MOST_ITERATIONS = 10**12
"""Largest number of iterations: at a thousand a second they take 32 years."""

LONGEST_JOB_S = 1e9
"""Longest run time of a job alone at its fastest: 32 years; its replay would not end."""

LATEST_S = 1e10
"""Latest submission and deadline in seconds, 317 years: Unix times are smaller, and instants stay
exact to a microsecond."""

LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9
"""Limits of weights: beyond them rounding would drop one job's weight next to another's."""

MOST_GPUS = 10**9
"""Largest number of GPUs of a request, and of CPU threads per GPU."""

MOST_PRIORITY = 1e12
"""Largest priority; Slurm's priorities have 32 bits."""

QUEUED = ("time_limit_s", "nodes", "partition", "qos", "user", "priority", "times_out")
"""Fields of a job that the queue of a scheduler uses; the default of each means "unknown"."""

_ASKED = [resource for resource in SIDES if resource.asked]
_AMOUNTS = attrgetter(*(resource.asked for resource in _ASKED))


@lru_cache(maxsize=4096)
def _side(amounts: object) -> SideDemand:
    each = amounts if isinstance(amounts, tuple) else (amounts,)
    return SideDemand(**{r.field: amount for r, amount in zip(_ASKED, each, strict=True)})


@dataclass(frozen=True, slots=True)
class Job:
    """Training job: its model, its work, and its request.

    Parameters
    ----------
    name
        Unique in a trace.
    model
        Key of the speed model, for example ``"gpt2"``.
    submission_s
        Seconds since the start of the trace, from 0 to `LATEST_S`.
    iterations
        Work: training iterations until the job is complete, from 1 to `MOST_ITERATIONS`.
    requested_gpus
        GPUs that the user asked for. Rigid policies grant exactly these.
    requested_plan
        Execution plan that the user asked for.
    cpus_per_gpu
        CPU threads that the job holds next to every GPU.
    guaranteed
        Service-level guarantee: at least the speed of the requested GPUs and plan.
    weight
        Share weight for fairness policies, from `LEAST_WEIGHT` to `MOST_WEIGHT`.
    tenant
        Owner for quotas and per-tenant metrics.
    deadline_s
        Service-level objective (SLO): instant by which the job is to be complete, seconds since
        the start of the trace, after its submission; None without one.
    feedback_iterations
        Iterations after which the job reports for the first time, at most all; None if it
        never reports.
    local_ssd_gib
        Local SSD that the job holds on every node that it uses, whatever its GPUs there: what
        ``--tmp`` of Slurm and ``ephemeral-storage`` of a Kubernetes pod per node ask for.
    time_limit_s
        Time limit: seconds with GPUs after which the job is ended as it runs in its request; None
        without one.
    nodes
        Nodes that the user asked for (``-N`` of Slurm); None if the GPUs alone decide.
    partition, qos
        Queue and quality of service that it was submitted to; "" where there are none.
    user
        Owner within the tenant; "" if unknown.
    priority
        Priority that the user or the site gave it: larger goes first.
    times_out
        Whether its time limit ends it before its work is done; ``iterations`` end there.

    checkpoint_s
        Seconds of progress between two checkpoints; 0 if a stop loses none, None if unknown.

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
    deadline_s: float | None = None
    feedback_iterations: int | None = None
    local_ssd_gib: float = 0.0
    time_limit_s: float | None = None
    nodes: int | None = None
    partition: str = ""
    qos: str = ""
    user: str = ""
    priority: float = 0.0
    times_out: bool = False
    checkpoint_s: float | None = None

    def __post_init__(self) -> None:
        take_own(self)
        require_name("name", self.name)
        require_name("model", self.model)
        require_name("tenant", self.tenant)
        require_finite("submission_s", self.submission_s, at_least=0.0, at_most=LATEST_S)
        require_int("iterations", self.iterations, at_least=1, at_most=MOST_ITERATIONS)
        require_int("requested_gpus", self.requested_gpus, at_least=1, at_most=MOST_GPUS)
        require_int("cpus_per_gpu", self.cpus_per_gpu, at_least=0, at_most=MOST_GPUS)
        require_finite("local_ssd_gib", self.local_ssd_gib, at_least=0.0, at_most=MOST_AMOUNT)
        require_finite("weight", self.weight, above=0.0)
        require_finite("weight", self.weight, at_least=LEAST_WEIGHT, at_most=MOST_WEIGHT)
        if self.time_limit_s is not None:
            require_finite("time_limit_s", self.time_limit_s, above=0.0)
            require_finite("time_limit_s", self.time_limit_s, at_most=LATEST_S)
        if self.checkpoint_s is not None:
            require_finite("checkpoint_s", self.checkpoint_s, at_least=0.0, at_most=LATEST_S)
        if self.nodes is not None:
            most = self.requested_gpus
            require_int("nodes", self.nodes, at_least=1, at_most=most)
        for name in ("partition", "qos", "user"):
            if getattr(self, name) != "":
                require_name(name, getattr(self, name))
        require_finite("priority", self.priority, at_least=-MOST_PRIORITY, at_most=MOST_PRIORITY)
        if self.deadline_s is not None:
            self._require_future(self.deadline_s)
        if self.feedback_iterations is not None:
            most = self.iterations
            require_int("feedback_iterations", self.feedback_iterations, at_least=1, at_most=most)
        require_type("requested_plan", self.requested_plan, ExecutionPlan)
        require_type("guaranteed", self.guaranteed, bool)
        require_type("times_out", self.times_out, bool)
        workers = self.requested_plan.workers
        for resource in _ASKED:
            if workers and resource.per_node and getattr(self, resource.asked):
                rule = f"is held on every node; workers of {self.requested_plan} have no nodes"
                raise InputError(f"{rule} of their own", field=resource.asked)
        plan = self.requested_plan
        plan.require_gpus(self.requested_gpus, "the job requests", "requested_plan")
        if workers and self.requested_gpus > workers:
            raise InputError(
                f"must be at most {workers}, the workers of {self.requested_plan}, "
                f"got {self.requested_gpus}",
                field="requested_gpus",
            )

    @property
    def side(self) -> SideDemand:
        """Resources other than GPUs that the job asks for, in any configuration."""
        return _side(_AMOUNTS(self))

    def _require_future(self, deadline_s: float) -> None:
        require_finite("deadline_s", deadline_s, at_most=LATEST_S)
        if deadline_s <= self.submission_s:
            raise InputError(
                f"SLO in the past: job {self.name} ({self.model}) must be complete by "
                f"{deadline_s:g} s and is submitted at {self.submission_s:g} s",
                field="deadline_s",
            )
