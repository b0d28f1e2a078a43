"""The strict check: is an allocation possible on this cluster, job by job and node by node?

It is written from the definitions. It knows cluster, jobs, who holds what and what a job needs
next to its GPUs; it knows no solver, no formulation and no policy.

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
    The truth can run that plan on that placement.
``one_holder``
    No GPU is held by two jobs, but by the two of a pair.
``partners``
    A job that names a partner is named by it in turn, holds the very same GPUs, and the truth can
    run the two next to each other.
``node_gpus``, ``node_cpus``, ``node_host_memory``, ``node_rdma``
    What the jobs of a node hold together is within the node; the GPUs of a pair count once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from morph_opt.domain import Assignment, Cluster, Job, Placement, PlanFamily
from morph_opt.domain.placement import DEMAND_TOLERANCE
from morph_opt.engine.truth import RunFacts

FactsOf = Callable[[Job, Assignment], RunFacts | None]
"""How a job truly runs with an assignment; None if it cannot."""

PaceOf = Callable[[tuple[str, str], Assignment, Assignment], float | None]
"""Seconds per iteration of the first of two models next to the second; None: cannot share."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule with the jobs and the node that break it (node None: not one node)."""

    rule: str
    jobs: tuple[str, ...]
    node: str | None
    detail: str

    def __str__(self) -> str:
        where = f"node {self.node}, " if self.node is not None else ""
        jobs = "job" if len(self.jobs) == 1 else "jobs"
        return f"{self.rule}: {where}{jobs} {', '.join(self.jobs)}: {self.detail}"


class AllocationError(RuntimeError):
    """A policy's allocation breaks a rule; the replay stops.

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
    """What the check may know about the instant of the decision.

    Parameters
    ----------
    active
        Jobs submitted and not complete, by name.
    known
        Names of all jobs of the trace.
    held
        What running jobs hold as the round begins.
    unavailable, failed
        Node indices; see `morph_opt.domain.RoundState`.
    """

    active: Mapping[str, Job]
    known: Collection[str]
    held: Mapping[str, Assignment]
    unavailable: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()


@dataclass(slots=True)
class _NodeUse:
    """What jobs hold on one node; ``mask`` and ``paired`` (held by two) have a bit per GPU."""

    mask: int = 0
    paired: int = 0
    gpus: int = 0
    cpus: int = 0
    host_memory_gib: float = 0.0
    rdma_gb_per_s: float = 0.0
    jobs: list[str] = field(default_factory=list)
    holdings: dict[str, Placement] = field(default_factory=dict)


def check_allocation(
    assignments: Iterable[Assignment],
    cluster: Cluster,
    before: StateFacts,
    facts: FactsOf,
    pace: PaceOf | None = None,
    *,
    held_passed: bool = False,
) -> tuple[Violation, ...]:
    """Every broken rule, in the order of the assignments, then of the nodes; empty if none.

    Parameters
    ----------
    pace
        What the truth says of pairs; None: nothing, so that there must be none.
    held_passed
        Whether what is held as the round begins has passed this check: then only what changes is
        looked at, with everything on the nodes to which something comes.
    """
    assignments = tuple(assignments)
    if held_passed:
        assignments = _concerned(assignments, before.held)
    found: list[Violation] = []
    seen: set[str] = set()
    uses: dict[int, _NodeUse] = {}
    for assignment in assignments:
        if assignment.job in seen:
            found.append(Violation("one_config", (assignment.job,), None, "is assigned twice"))
            continue
        seen.add(assignment.job)
        broken = _check_job(assignment, cluster, before)
        if not broken:
            broken = _hold(assignment, cluster, before.active[assignment.job], facts, uses)
        found += broken
    found += _check_partners(assignments, before, pace)
    for node in sorted(uses):
        found += _check_node(cluster, node, uses[node])
    return tuple(found)


def _concerned(
    assignments: tuple[Assignment, ...], held: Mapping[str, Assignment]
) -> tuple[Assignment, ...]:
    """Assignments that can break a rule if what is held breaks none.

    A job that goes on alone exactly where it is, on nodes to which nothing comes, is as it was
    when it passed: jobs that leave only make room, and failed nodes hold nothing.
    """
    if len({assignment.job for assignment in assignments}) < len(assignments):
        return assignments
    fresh = {
        assignment.job
        for assignment in assignments
        if assignment.partner is not None or not _goes_on(assignment, held.get(assignment.job))
    }
    nodes = {node for a in assignments if a.job in fresh for node in a.placement.nodes}
    return tuple(
        a for a in assignments if a.job in fresh or not nodes.isdisjoint(a.placement.nodes)
    )


def _goes_on(assignment: Assignment, held: Assignment | None) -> bool:
    return assignment is held or (assignment == held and held.partner is None)


def changes(
    assignments: Iterable[Assignment],
    held: Mapping[str, Assignment],
    order: Callable[[Assignment], int],
) -> tuple[list[Assignment], list[Assignment]]:
    """What starts, and where a partner comes or goes, each in this order."""
    fresh: list[Assignment] = []
    regrouped: list[Assignment] = []
    for assignment in assignments:
        before = held.get(assignment.job)
        if before is assignment:
            continue
        starts = before is None or before != assignment
        if starts:
            fresh.append(assignment)
        if assignment.partner != (None if starts or before is None else before.partner):
            regrouped.append(assignment)
    return sorted(fresh, key=order), sorted(regrouped, key=order)


def _check_job(assignment: Assignment, cluster: Cluster, before: StateFacts) -> list[Violation]:
    """Rules that concern one job alone."""
    name, placement = assignment.job, assignment.placement

    def broken(rule: str, detail: str, node: str | None = None) -> list[Violation]:
        return [Violation(rule, (name,), node, detail)]

    if name not in before.active:
        if name in before.known:
            return broken("active_job", "is complete or not yet submitted")
        return broken("known_job", "is not a job of this trace")
    for node, gpus in placement.parts:
        if node >= len(cluster.nodes):
            return broken("known_node", f"node index {node} of {len(cluster.nodes)} nodes")
        there = cluster.nodes[node]
        if gpus[-1] >= there.type.gpus:
            return broken("known_gpu", f"GPU {gpus[-1]} of {there.type.gpus}", there.name)
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
    return broken("determinism", detail) if detail else []


def _loss_curve(assignment: Assignment, job: Job, types: set[str]) -> str:
    """What would change the loss curve of a job with a fixed number of workers; "" if nothing."""
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


def _hold(
    assignment: Assignment, cluster: Cluster, job: Job, facts: FactsOf, uses: dict[int, _NodeUse]
) -> list[Violation]:
    """Book the job's holdings; complain about GPUs that are taken and plans that cannot run."""
    placement = assignment.placement
    run = facts(job, assignment)
    if run is None:
        detail = f"{job.model} cannot run {assignment.plan} on {placement.shape} GPUs"
        return [Violation("runnable", (job.name,), None, detail)]
    found = []
    for node, gpus in placement.parts:
        use = uses.setdefault(node, _NodeUse())
        mask = 0
        for gpu in gpus:
            mask |= 1 << gpu
        shared = use.holdings.get(assignment.partner or "") == placement
        others = use.mask & ~mask if shared else use.mask
        if shared and use.paired & mask:
            others |= use.paired & mask
        if others & mask:
            taken = [gpu for gpu in gpus if others >> gpu & 1]
            detail = f"GPUs {taken} are held by another job ({', '.join(use.jobs)})"
            found.append(Violation("one_holder", (job.name,), cluster.nodes[node].name, detail))
        side = run.side(cluster.nodes[node].type)
        count = len(gpus)
        use.mask |= mask
        use.paired |= mask if shared else 0
        use.gpus += 0 if shared else count
        use.cpus += count * max(job.cpus_per_gpu, side.cpus)
        use.host_memory_gib += count * side.host_memory_gib
        use.rdma_gb_per_s += count * side.rdma_gb_per_s
        use.jobs.append(job.name)
        use.holdings[job.name] = placement
    return found


def _check_partners(
    assignments: tuple[Assignment, ...], before: StateFacts, pace: PaceOf | None
) -> list[Violation]:
    """Rule ``partners`` of every job that names one."""
    granted = {assignment.job: assignment for assignment in assignments}
    found = []
    for held in assignments:
        if held.partner is None or held.job not in before.active:
            continue
        other = granted.get(held.partner)
        detail = ""
        if other is None or other.partner != held.job or other.job == held.job:
            detail = f"names {held.partner} as its partner, which does not name it"
        elif other.placement != held.placement:
            detail = f"does not hold the same GPUs as its partner {held.partner}"
        elif held.partner in before.active:
            models = before.active[held.job].model, before.active[held.partner].model
            if pace is None or pace(models, held, other) is None:
                detail = f"{models[0]} cannot share GPUs with {models[1]}"
        if detail:
            found.append(Violation("partners", (held.job,), None, detail))
    return found


def _check_node(cluster: Cluster, node: int, use: _NodeUse) -> list[Violation]:
    """Rules on the sum of what a node's jobs hold."""
    there = cluster.nodes[node].type
    sums = (
        ("node_gpus", use.gpus, there.gpus, "GPUs"),
        ("node_cpus", use.cpus, there.cpus, "CPU threads"),
        ("node_host_memory", use.host_memory_gib, there.host_memory_gib, "GiB of host memory"),
        ("node_rdma", use.rdma_gb_per_s, there.rdma_gb_per_s, "GB/s of RDMA bandwidth"),
    )
    return [
        Violation(rule, tuple(use.jobs), cluster.nodes[node].name, f"{held:g} of {limit:g} {unit}")
        for rule, held, limit, unit in sums
        if held > limit * (1.0 + DEMAND_TOLERANCE)
    ]
