"""Change that an option of a job takes where a rule is in its way, in one sentence a rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch

from morph_opt.core.domain import Assignment, Job, JobState, RoundState
from morph_opt.core.domain.units import HOUR_S
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
    ANY_TYPE,
    NOTHING,
    PriorityClass,
    Queue,
    QueueTree,
    RunningLimit,
    class_of,
)
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import CohortQuota, StrictOrder
from morph_opt.scheduling.explanation.report import EXPLAIN


@dataclass(frozen=True)
class Blocked:
    """Option of a job that a rule forbids or holds back, and the decision of the round.

    Parameters
    ----------
    state, rules
        Snapshot and rules of the operator.
    held
        Assignments after the round, by job.
    known
        The job.
    gpus, gpu_type
        GPUs of the option, and the name of their type.
    """

    state: RoundState
    rules: OperatorRules
    held: Mapping[str, Assignment]
    known: JobState
    gpus: int
    gpu_type: str

    @property
    def tree(self) -> QueueTree:
        """Queues of the rules."""
        return self.rules.tree

    def used(self, counts: Callable[[Job], bool], on: Callable[[str], bool]) -> int:
        """Return the GPUs of some types that some of the other jobs hold after the round."""
        return sum(
            self.gpus_of(self.held[other.job.name], on)
            for other in self.others(counts)
            if other.job.name in self.held
        )

    def holds(self, queue: Queue, kind: str) -> int:
        """Return the GPUs of a type that other jobs of a queue and of those below it hold."""

        def counts(job: Job) -> bool:
            return any(name == queue.name for name, _ in self.tree.lineage(job.tenant))

        return self.used(counts, lambda name: kind in (ANY_TYPE, name))

    def gpus_of(self, held: Assignment, on: Callable[[str], bool]) -> int:
        """Return the GPUs of some types of an assignment."""
        nodes = self.state.cluster.nodes
        return sum(
            len(gpus) for at, gpus in held.placement.parts if on(nodes[at].type.gpu_type.name)
        )

    def others(self, counts: Callable[[Job], bool]) -> list[JobState]:
        """Return the other jobs that count."""
        mine = self.known.job.name
        return [one for one in self.state.jobs if one.job.name != mine and counts(one.job)]

    def staying(self, counts: Callable[[Job], bool]) -> str:
        """Return names of jobs that stay on GPUs of the option's type, the largest first."""
        found = [
            (-self.gpus_of(one.running, self.gpu_type.__eq__), one.job.name)
            for one in self.others(counts)
            if one.running is not None and self.held.get(one.job.name) == one.running
        ]
        names = [name for gpus, name in sorted(found) if gpus]
        more = f" or {len(names) - EXPLAIN.names} more" if len(names) > EXPLAIN.names else ""
        return ", ".join(names[: EXPLAIN.names]) + more


def what_it_takes(rule: Rule, blocked: Blocked) -> str:
    """Return a sentence on what holds the option back now, and the change that it takes."""
    return _takes(rule, blocked)


@singledispatch
def _takes(rule: object, blocked: Blocked) -> str:
    name = type(rule).__name__
    return f"{name} has to leave {blocked.gpus} GPUs to {blocked.known.job.name}"


def _beyond(most: float, used: float, asked: float, what: str) -> str:
    """Return the sentence of an amount that is used up."""
    missing = used + asked - most
    if missing <= 0.0:
        return f"{used:g} of {most:g} {what} are in use, and the rest is lent or kept for owners"
    return f"{used:g} of {most:g} {what} are in use; {asked:g} more take {missing:g} beyond that"


@_takes.register
def _(rule: Queue, blocked: Blocked) -> str:
    tree = blocked.tree
    named = tree.kinds(tree.roots[rule.name])
    kind = ANY_TYPE if ANY_TYPE in named else blocked.gpu_type
    own = tree.of(blocked.known.job.tenant)
    line = [rule] if own is None else list(tree.line(own))
    # A queue limits a job with all queues above it: the lowest one that is full is in the way.
    full = (one for one in line if blocked.holds(one, kind) + blocked.gpus > _most(tree, one, kind))
    queue = next(full, rule)
    used, nominal = blocked.holds(queue, kind), tree.nominal(queue, kind)
    borrow, word = queue.most_borrowed(kind), "GPUs" if kind == ANY_TYPE else kind
    first = f"queue {tree.path(queue)} holds {used:g} of its {nominal:g} {word}"
    missing = used + blocked.gpus - nominal
    if missing <= 0.0:
        return f"{first}; the rest is lent to jobs that stay, or is for owners below it"
    may = "" if borrow is None else f" and may borrow {borrow:g}"
    how = "as nominal or lent by other queues" if queue.parent else "as nominal"
    return f"{first}{may}; {blocked.gpus} more take {missing:g} {how}"


def _most(tree: QueueTree, queue: Queue, kind: str) -> float:
    """Return the most GPUs of a type that a queue may hold, whatever others lend."""
    borrow = queue.most_borrowed(kind)
    if queue.parent in tree.by_name:
        return tree.nominal(queue, kind) + (math.inf if borrow is None else borrow)
    return tree.nominal(queue, kind)


@_takes.register
def _(rule: RunningLimit, blocked: Blocked) -> str:
    tree, mine = blocked.tree, blocked.known.job
    named = rule.named(mine, tree)
    queue = named[0] if named else mine.tenant

    def counts(job: Job) -> bool:
        theirs = rule.named(job, tree)
        if not theirs or rule.per == "job":
            return False
        same_user = job.user == mine.user or "user" not in rule.per
        return same_user and (queue in theirs or "queue" not in rule.per)

    user = f"user {mine.user or 'without a name'}"
    who = {"user": user, "queue": f"queue {queue}", "job": f"job {mine.name}"}
    who |= {"user_queue": f"{user} in queue {queue}", "all": "all jobs"}
    found = []
    if rule.gpus is not None:
        used = blocked.used(counts, rule.counts_on)
        found.append(_beyond(rule.gpus, used, blocked.gpus, f"GPUs of {who[rule.per]}"))
    if rule.jobs is not None:
        running = sum(one.job.name in blocked.held for one in blocked.others(counts))
        found.append(_beyond(rule.jobs, running, 1, f"running jobs of {who[rule.per]}"))
    return "; ".join(found)


@_takes.register
def _(rule: PriorityClass, blocked: Blocked) -> str:
    mine = blocked.known.job
    own = class_of(mine, blocked.rules.classes)
    stays = blocked.staying(lambda job: rule.has(job) or job.priority <= mine.priority)
    wait = f"it takes waiting until {stays or 'a job of it'} ends"
    if own is not None and own.preempts == NOTHING:
        return f"class {own.name} stops no others: {wait}"
    if not rule.preemptible:
        return f"jobs of class {rule.name} are not stopped: {wait}"
    if own is rule:
        return f'class {rule.name} stops none of its own: {wait}, or preempts = "own"'
    return f"jobs of class {rule.name} come first: {wait}"


@_takes.register
def _(rule: TenantQuota, blocked: Blocked) -> str:
    used = blocked.used(lambda job: job.tenant == rule.tenant, lambda _: True)
    most = rule.gpus + (rule.borrow_gpus or 0)
    return _beyond(most, used, blocked.gpus, f"GPUs of tenant {rule.tenant}")


@_takes.register
def _(rule: CohortQuota, blocked: Blocked) -> str:
    if rule.jobs:
        return f"what {rule.name} counts for {blocked.known.job.name} has to be free in its tree"
    used = blocked.used(lambda job: matches(job.tenant, rule.tenants), lambda _: True)
    return _beyond(rule.gpus, used, blocked.gpus, f"GPUs of {rule.name}")


def _about(rule: MinimumRun | NonPreemptible, blocked: Blocked) -> list[JobState]:
    running = [one for one in blocked.state.jobs if one.running is not None]
    return [one for one in running if matches(one.job.name, rule.jobs)]


@_takes.register
def _(rule: MinimumRun, blocked: Blocked) -> str:
    now_s = blocked.state.time_s
    starts = (one.last_start_s for one in _about(rule, blocked))
    ends = [at + rule.seconds for at in starts if at is not None and at + rule.seconds > now_s]
    if not ends:
        return "no job is within its minimum run"
    left_s = min(ends) - now_s
    return f"jobs within their minimum run: {len(ends)}; the first may be moved in {left_s:g} s"


@_takes.register
def _(rule: NonPreemptible, blocked: Blocked) -> str:
    stays = blocked.staying(lambda job: matches(job.name, rule.jobs))
    return f"it takes waiting until {stays or 'one of these jobs'} ends"


@_takes.register
def _(rule: RestartLimit, blocked: Blocked) -> str:
    now_s, known = blocked.state.time_s, blocked.known
    recent = [
        at for at in known.recent_starts_s if at > now_s - HOUR_S and at != known.first_start_s
    ]
    if len(recent) < rule.per_hour:
        return "jobs that would make way are at their limit"
    left_s = recent[len(recent) - rule.per_hour] + HOUR_S - now_s
    return f"restarts of {known.job.name} within an hour: {len(recent)}; the next in {left_s:g} s"


@_takes.register
def _(rule: NodeRule, blocked: Blocked) -> str:
    nodes = blocked.state.cluster.nodes
    may = sum(rule.allows(node.name, node.type.gpu_type.name) for node in nodes)
    them = f"it may use {may} of {len(nodes)} nodes"
    return f"{them}, and needs {blocked.gpus} free GPUs there or other nodes"


@_takes.register
def _(rule: GangLimit, blocked: Blocked) -> str:
    most = "any number" if rule.most is None else f"{rule.most}"
    return f"the option has {blocked.gpus} GPUs, and from {rule.least} to {most} are allowed"


@_takes.register
def _(rule: Maintenance, blocked: Blocked) -> str:
    left_s = rule.end_s - blocked.state.time_s
    nodes = ", ".join(rule.nodes)
    return f"nodes {nodes} take jobs again in {left_s:g} s, when the window ends"


@_takes.register
def _(rule: StrictOrder, blocked: Blocked) -> str:
    name = blocked.known.job.name
    waits = {one.job.name for one in blocked.state.jobs if one.running is None}
    before = [other for other in rule.jobs[: rule.jobs.index(name)] if other in waits]
    return f"{', '.join(before)} have to start before {name}"
