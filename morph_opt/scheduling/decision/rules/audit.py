"""Independent audit of a decision against operator's rules as they are written.

It restates each rule from `decision.rules.model` in terms of jobs, nodes and GPUs, and shares no
code with `decision.rules.compile` and no table with the models, so that it finds errors
of the rows instead of repeating them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from morph_opt.core.domain import Allocation, Assignment, JobState, RoundState
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.rules.audit_organisation import Organisation
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    Rule,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import (
    PriorityClass,
    Queue,
    RunningLimit,
)
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    StrictOrder,
)
from morph_opt.scheduling.decision.rules.quota_tree import quota_trees

Sizes = Callable[[str], Iterable[tuple[str, int]]]
"""Function from a job's name to node type and GPUs of each configuration in which it could start.
"""


@dataclass(frozen=True, slots=True)
class Breach:
    """Rule that a decision breaks.

    Parameters
    ----------
    word
        Name of the rule, as in its row: ``quota``, ``borrow``, ``minimum_run``,
        ``restart_limit``, ``no_preemption``, ``node_rule``, ``gang_limit``, ``maintenance``,
        ``cohort_quota``, ``strict_order``, ``queue``, ``limit``.
    subject
        Name of the job, of the tenant for quotas of tenants, or of the queue; for limits what the
        jobs have in common.
    detail
        Part of the decision that breaks it.
    rule
        Rule; None for ``borrow``, which concerns all quotas together.
    """

    word: str
    subject: str
    detail: str
    rule: Rule | None = None

    def __str__(self) -> str:
        stated = "" if self.rule is None else f" ({self.rule.words})"
        kinds = {"quota": "tenant ", "borrow": "tenant ", "queue": "", "limit": ""}
        return f"{self.word}: {kinds.get(self.word, 'job ')}{self.subject}: {self.detail}{stated}"


class BrokenRuleError(Exception):
    """Error: a decision breaks operator's rules; the message names rule and job.

    Parameters
    ----------
    breaches
        All breaches; the message is the first.
    """

    def __init__(self, breaches: tuple[Breach, ...]) -> None:
        super().__init__(str(breaches[0]))
        self.breaches = breaches


def audit(
    state: RoundState,
    allocation: Allocation,
    rules: OperatorRules,
    sizes: Sizes | None = None,
) -> tuple[Breach, ...]:
    """Return the breaches of a decision in the order of the rules; empty if there are none.

    Parameters
    ----------
    state
        Snapshot of the round.
    allocation
        Decision.
    rules
        Rules of the operator.
    sizes
        Sizes that jobs could use, which decide how much others may borrow. None: borrowed GPUs are
        only compared with those that owners leave unused in the decision.
    """
    granted = allocation.by_job()
    found: list[Breach] = []
    for rule in rules.rules:
        if isinstance(rule, TenantQuota):
            found += _over_quota(state, granted, rule)
        elif isinstance(rule, Maintenance):
            found += _in_maintenance(state, granted, rule)
        elif isinstance(rule, StrictOrder):
            found += _out_of_order(state, granted, rule)
        elif isinstance(rule, PriorityClass):
            found += _preempted(state, granted, rule)
        elif isinstance(rule, _JOB_RULES):
            found += _of_jobs(state, granted, rule)
    found += _of_organisation(state, granted, rules, sizes)
    found += _over_cohorts(state, granted, rules)
    quotas = [rule for rule in rules.rules if isinstance(rule, TenantQuota)]
    if any(quota.borrow_gpus != 0 for quota in quotas):
        found += _over_borrowed(state, granted, rules, quotas, sizes)
    return tuple(found)


Granted = dict[str, Assignment]
JobRule = MinimumRun | RestartLimit | NonPreemptible | NodeRule | GangLimit
_JOB_RULES = (MinimumRun, RestartLimit, NonPreemptible, NodeRule, GangLimit)


def _of_jobs(state: RoundState, granted: Granted, rule: JobRule) -> list[Breach]:
    """Return the breaches of a rule on single jobs."""
    found: list[Breach] = []
    for job in state.jobs:
        name = job.job.name
        if not matches(name, rule.jobs):
            continue
        after = granted.get(name)
        detail = _says(state, job, after, rule)
        if detail is not None:
            found.append(Breach(_WORDS[type(rule)], name, detail, rule))
    return found


_WORDS: dict[type[JobRule], str] = {
    MinimumRun: "minimum_run",
    RestartLimit: "restart_limit",
    NonPreemptible: "no_preemption",
    NodeRule: "node_rule",
    GangLimit: "gang_limit",
}


def _says(state: RoundState, job: JobState, after: Assignment | None, rule: JobRule) -> str | None:
    """Return how a job's assignment breaks a rule that names it; None if the rule is kept."""
    if isinstance(rule, MinimumRun):
        return _cut_short(state, job, after, rule)
    if isinstance(rule, NonPreemptible):
        moved = job.running is not None and after != job.running
        return f"is {_fate(after)} while it runs" if moved else None
    if after is None:
        return None
    if isinstance(rule, RestartLimit):
        return _restarted_again(state, job, after, rule)
    if isinstance(rule, NodeRule):
        for index in after.placement.nodes:
            node = state.cluster.nodes[index]
            if not rule.allows(node.name, node.type.gpu_type.name):
                return f"is on node {node.name} ({node.type.gpu_type.name})"
        return None
    gpus = after.placement.gpus
    outside = gpus < rule.least or (rule.most is not None and gpus > rule.most)
    return f"holds {gpus} GPUs" if outside else None


def _fate(after: Assignment | None) -> str:
    return "preempted" if after is None else "moved"


def _cut_short(
    state: RoundState, job: JobState, after: Assignment | None, rule: MinimumRun
) -> str | None:
    if job.running is None or job.last_start_s is None or after == job.running:
        return None
    ran_s = state.time_s - job.last_start_s
    return f"is {_fate(after)} after {ran_s:g} s" if ran_s < rule.seconds else None


def _restarted_again(
    state: RoundState, job: JobState, after: Assignment, rule: RestartLimit
) -> str | None:
    if job.first_start_s is None or after == job.running:
        return None
    before = _restarts_within_the_hour(state, job)
    if before + 1 <= rule.per_hour:
        return None
    return f"would be restarted for the {before + 1}. time within an hour"


def _restarts_within_the_hour(state: RoundState, job: JobState) -> int:
    """Return the number of starts in the last hour, without the job's first start."""
    restarts = set(job.recent_starts_s) - {job.first_start_s}
    return sum(state.time_s - start_s < HOUR_S for start_s in restarts)


def _in_maintenance(state: RoundState, granted: Granted, rule: Maintenance) -> list[Breach]:
    """Return breaches by jobs on nodes that must be empty or take no new jobs in this round."""
    round_end_s = state.time_s + state.interval_s
    if state.time_s >= rule.end_s or round_end_s <= rule.start_s - rule.lead_s:
        return []
    begun = round_end_s > rule.start_s
    before = {job.job.name: job.running for job in state.jobs}
    found: list[Breach] = []
    for name, after in granted.items():
        if not begun and after == before.get(name):
            continue
        for index in after.placement.nodes:
            node = state.cluster.nodes[index].name
            if matches(node, rule.nodes):
                detail = f"is on node {node}" if begun else f"is placed on node {node}"
                found.append(Breach("maintenance", name, detail, rule))
                break
    return found


def _of_organisation(
    state: RoundState, granted: Granted, rules: OperatorRules, sizes: Sizes | None
) -> list[Breach]:
    """Return the breaches of queues and limits."""
    limits = [rule for rule in rules.rules if isinstance(rule, RunningLimit)]
    if not limits and not any(isinstance(rule, Queue) for rule in rules.rules):
        return []
    organisation = Organisation.of(state, rules)
    staying = rules.only(
        rule
        for rule in rules.rules
        if isinstance(rule, MinimumRun | NonPreemptible | PriorityClass)
    )
    of_jobs = rules.only(rule for rule in rules.rules if isinstance(rule, _JOB_RULES))
    held = {job.job.name: job.running for job in state.jobs if job.running is not None}
    kept = {
        job.job.name: held[job.job.name]
        for job in state.jobs
        if job.running is not None and _kept_in_place(state, job, staying)
    }
    found = [
        Breach("limit", " ".join(common) or "all jobs", detail, limit)
        for limit in limits
        for common, detail in organisation.over_limit(limit, granted, kept)
    ]

    def could_use(job: JobState, kind: str) -> float:
        """Return the most GPUs of a type that a job could hold."""
        if sizes is None:
            return organisation.gpus(granted.get(job.job.name), kind)
        mine = [one for one in sizes(job.job.name) if organisation.has_type(one[0], kind)]
        held = int(organisation.gpus(job.running, kind))
        return _could_use(state, job, of_jobs, organisation, lambda _: mine, held)

    for queue, detail in organisation.over_queues(granted, kept, could_use):
        found.append(Breach("queue", queue.name, detail, queue))
    return found


def _preempted(state: RoundState, granted: Granted, rule: PriorityClass) -> list[Breach]:
    """Return breaches by running jobs of a class that is not preempted."""
    return [
        Breach("no_preemption", job.job.name, f"is {_fate(after)} while it runs", rule)
        for job in state.jobs
        if not rule.preemptible and job.running is not None and rule.has(job.job)
        if (after := granted.get(job.job.name)) != job.running
    ]


def _used(state: RoundState, granted: Granted, tenant: str) -> int:
    return sum(
        granted[job.job.name].placement.gpus
        for job in state.jobs
        if job.job.tenant == tenant and job.job.name in granted
    )


def _over_quota(state: RoundState, granted: Granted, quota: TenantQuota) -> list[Breach]:
    used = _used(state, granted, quota.tenant)
    if quota.borrow_gpus is None or used <= quota.gpus + quota.borrow_gpus:
        return []
    return [Breach("quota", quota.tenant, f"holds {used} GPUs", quota)]


def _out_of_order(state: RoundState, granted: Granted, rule: StrictOrder) -> list[Breach]:
    """Return breaches by queued jobs that start before one listed earlier."""
    queued = {job.job.name for job in state.jobs if job.running is None}
    waits: str | None = None
    found: list[Breach] = []
    for name in rule.jobs:
        if name not in queued:
            continue
        if name in granted and waits is not None:
            found.append(Breach("strict_order", name, f"starts before {waits}", rule))
        elif name not in granted:
            waits = name if waits is None else waits
    return found


def _over_cohorts(state: RoundState, granted: Granted, rules: OperatorRules) -> list[Breach]:
    """Return breaches by jobs for which a quota tree has nothing left, in snapshot order.

    What is used already and what another rule keeps in place comes first, whatever the limits are.
    """
    trees = quota_trees(rule for rule in rules.rules if isinstance(rule, CohortQuota))
    leaves = [node for node in trees.values() if node.quota.tenants]
    types = [node.type.name for node in state.cluster.nodes]
    found: list[Breach] = []
    jobs = [job for job in state.jobs if job.job.name in granted] if leaves else []
    kept = [job.running is not None and _kept_in_place(state, job, rules) for job in jobs]
    for first in (True, False):
        for job, stays in zip(jobs, kept, strict=True):
            if stays is not first:
                continue
            name, parts = job.job.name, granted[job.job.name].placement.parts
            for node in leaves:
                gpus = [len(held) for at, held in parts if node.quota.counts_on(types[at])]
                if not gpus:
                    continue
                amount = node.quota.amount_of(job.job.tenant, name, float(sum(gpus)))
                if amount > max(0.0, node.free) + 1e-6 and not first:
                    detail = f"asks for {amount:g}, {max(0.0, node.free):g} is left"
                    found.append(Breach("cohort_quota", name, detail, node.quota))
                node.add(amount)
    return found


def _over_borrowed(
    state: RoundState,
    granted: Granted,
    rules: OperatorRules,
    quotas: list[TenantQuota],
    sizes: Sizes | None,
) -> list[Breach]:
    """Return the breach if tenants borrow more GPUs than owners leave; else an empty list."""
    over = {q.tenant: max(0, _used(state, granted, q.tenant) - q.gpus) for q in quotas}
    borrowed = sum(over.values())
    if not borrowed:
        return []
    spare = kept = 0
    organisation = Organisation.of(state, rules)
    for quota in quotas:
        jobs = [job for job in state.jobs if job.job.tenant == quota.tenant]
        if sizes is None:
            need = _used(state, granted, quota.tenant)
        else:
            need = sum(_could_use(state, job, rules, organisation, sizes) for job in jobs)
        spare += max(0, quota.gpus - need)
        held = sum(
            job.running.placement.gpus
            for job in jobs
            if job.running is not None and _kept_in_place(state, job, rules)
        )
        kept += max(0, held - quota.gpus)
    if borrowed <= max(spare, kept):
        return []
    borrower = max(over, key=lambda tenant: over[tenant])
    detail = f"{borrowed} GPUs are borrowed in all, owners leave {spare}"
    return [Breach("borrow", borrower, detail)]


def _could_use(
    state: RoundState,
    job: JobState,
    rules: OperatorRules,
    organisation: Organisation,
    sizes: Sizes,
    held: int | None = None,
) -> int:
    """Return the most GPUs that a job could hold under the rules and limits that name it."""
    if held is None:
        held = 0 if job.running is None else job.running.placement.gpus
    name = job.job.name
    mine = [rule for rule in rules.rules if isinstance(rule, GangLimit | RestartLimit)]
    mine = [rule for rule in mine if matches(name, rule.jobs)]
    most_starts = [rule.per_hour for rule in mine if isinstance(rule, RestartLimit)]
    started = job.first_start_s is not None
    if started and _restarts_within_the_hour(state, job) >= min(most_starts, default=math.inf):
        return held
    limits = [rule for rule in mine if isinstance(rule, GangLimit)]
    allowed = (
        gpus
        for node_type, gpus in sizes(name)
        if gpus <= organisation.most_alone(job, node_type)
        and all(r.least <= gpus and (r.most is None or gpus <= r.most) for r in limits)
    )
    return max(held, max(allowed, default=0))


def _kept_in_place(state: RoundState, job: JobState, rules: OperatorRules) -> bool:
    """Return whether some rule forbids moving a running job."""
    for rule in rules.rules:
        if isinstance(rule, PriorityClass) and not rule.preemptible and rule.has(job.job):
            return True
        if not isinstance(rule, MinimumRun | NonPreemptible) or not matches(
            job.job.name, rule.jobs
        ):
            continue
        if isinstance(rule, NonPreemptible):
            return True
        if job.last_start_s is not None and state.time_s - job.last_start_s < rule.seconds:
            return True
    return False
