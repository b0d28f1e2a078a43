"""Rules of the strict check, and the check of those on one job alone.

Written from the definitions: they know the cluster, the jobs, what these hold and the speeds of a
placement; they know no solver, no formulation and no policy.

Rules
-----
``one_config``
    A job has at most one assignment.
``known_job``, ``active_job``
    The job is of this trace; it is submitted and not complete.
``known_node``, ``known_gpu``
    The node and the GPU exist.
``node_available``
    Nothing on a failed node; on a drained node only a job that stays exactly where it is.
``plan_gpus``
    The plan runs on that number of GPUs.
``one_gpu_type``
    All GPUs of a job are of one type, unless its workers may mix types (determinism d2).
``determinism``
    Workers run in the plan that their job asks for; of levels d0 and d1 on the type of the plan,
    of d0 on as many GPUs as the job asks for.
``runnable``
    The speeds have the model run that plan on that placement, with the span that it has.
``one_holder``
    No GPU is held by two jobs, but by the two of a pair.
``partners``
    A job that names a partner is named by it in turn, holds the very same GPUs, and the speeds
    have the two run next to each other.
One for each resource, named in `formulations.resources.RESOURCES`
    What the jobs of a node hold together is within the node; the GPUs of a pair count once.
``uplink``
    Traffic of jobs across leaf switches is within the uplink of each leaf: of every GPU under it
    the job's share of the network cards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from morph_opt.core.domain import Assignment, Cluster, Job, PlanFamily, RoundState
from morph_opt.core.domain.errors import ContractError


@dataclass(frozen=True, slots=True)
class Violation:
    """Broken rule with the jobs and the node that break it (None if not one node)."""

    rule: str
    jobs: tuple[str, ...]
    node: str | None
    detail: str

    def __str__(self) -> str:
        where = f"node {self.node}, " if self.node is not None else ""
        jobs = "job" if len(self.jobs) == 1 else "jobs"
        return f"{self.rule}: {where}{jobs} {', '.join(self.jobs)}: {self.detail}"


class AllocationError(ContractError):
    """Error: a policy's allocation breaks a rule; the replay stops.

    Parameters
    ----------
    index, time_s
        Round and its boundary.
    violations
        All broken rules, at least one.
    """

    def __init__(self, index: int, time_s: float, violations: tuple[Violation, ...]) -> None:
        self.index = index
        self.time_s = time_s
        self.violations = violations
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        super().__init__(f"round {index} at {time_s:g} s: {violations[0]}{more}")


@dataclass(frozen=True, slots=True)
class StateFacts:
    """Facts about the instant of the decision.

    Parameters
    ----------
    active
        Jobs submitted and not complete, by name.
    known
        Names of all jobs of the trace.
    held
        Assignments of running jobs at the start of the round.
    unavailable, failed
        Node indices; see `morph_opt.core.domain.RoundState`.
    """

    active: Mapping[str, Job]
    known: Collection[str]
    held: Mapping[str, Assignment]
    unavailable: Collection[int] = frozenset()
    failed: Collection[int] = frozenset()

    @classmethod
    def of(cls, state: RoundState) -> StateFacts:
        """Return the facts of a snapshot."""
        active = {known.job.name: known.job for known in state.jobs}
        held = {known.job.name: known.running for known in state.jobs if known.running is not None}
        return cls(active, active, held, state.unavailable, state.failed)


def check_job(assignment: Assignment, cluster: Cluster, before: StateFacts) -> Violation | None:
    """Check the rules on one job alone."""
    name, placement = assignment.job, assignment.placement

    def broken(rule: str, detail: str, node: str | None = None) -> Violation | None:
        return Violation(rule, (name,), node, detail)

    if name not in before.active:
        if name in before.known:
            return broken("active_job", "is complete or not yet submitted")
        return broken("known_job", "is not a job of this trace")
    for node, gpus in placement.parts:
        if node >= len(cluster.nodes):
            return broken("known_node", f"node index {node} of {len(cluster.nodes)} nodes")
        there = cluster.nodes[node]
        if gpus[-1] >= there.type.gpus:
            return broken(
                "known_gpu", f"has the GPUs 0 to {there.type.gpus - 1}, got {gpus[-1]}", there.name
            )
        if node in before.failed:
            return broken("node_available", "the node has failed", there.name)
        if node in before.unavailable and before.held.get(name) != assignment:
            return broken("node_available", "the node is drained", there.name)
    needed = assignment.plan.gpus
    if needed is not None and needed != placement.gpus:
        return broken("plan_gpus", f"{assignment.plan} needs {needed}, holds {placement.gpus}")
    types = {cluster.nodes[node].type.gpu_type.name for node in placement.nodes}
    if len(types) > 1 and assignment.plan.determinism != "d2":
        return broken("one_gpu_type", f"holds {', '.join(sorted(types))}")
    detail = _loss_curve(assignment, before.active[name], types)
    return broken("determinism", detail) if detail else None


def _loss_curve(assignment: Assignment, job: Job, types: set[str]) -> str:
    """Return what would change the loss curve of a job with fixed workers; "" if nothing."""
    plan, asked = assignment.plan, job.requested_plan
    if PlanFamily.EST not in (plan.family, asked.family):
        return ""
    if plan != asked:
        return f"runs {plan}, its workers are {asked}"
    if plan.determinism != "d2" and types != {plan.gpu_type}:
        return f"{plan} is on {', '.join(sorted(types))}"
    if plan.determinism == "d0" and assignment.placement.gpus != job.requested_gpus:
        return f"{plan} is on {assignment.placement.gpus} of {job.requested_gpus} GPUs"
    return ""
