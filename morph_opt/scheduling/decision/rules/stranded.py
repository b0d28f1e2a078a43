"""GPUs on which the rules ever let a job run, and jobs that they never let run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from morph_opt.core.domain import Cluster, Job
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    NodeRule,
    OperatorRules,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import QueueTree, RunningLimit
from morph_opt.scheduling.decision.rules.owned import quotas_of
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.decision.rules.quota_tree import quota_trees


def stranded_jobs(
    rules: OperatorRules, jobs: Iterable[Job], belief: SpeedModel, cluster: Cluster
) -> tuple[tuple[Job, str], ...]:
    """Return jobs without a configuration that gang limits, node rules and quotas allow, and why.

    Maintenance windows and restart limits end, so they strand no job. GPUs that a tenant may borrow
    count as its own.
    """
    sizes = PossibleSizes(rules, CandidateBuilder(belief, prune=False), cluster)
    found: list[tuple[Job, str]] = []
    for job in jobs:
        if sizes.of(job) == frozenset():
            words = "; ".join(sizes.words(job))
            found.append((job, f"the operator's rules leave it no configuration ({words})"))
    return tuple(found)


class PossibleSizes:
    """GPUs that jobs can ever hold under gang limits, node rules, quotas and limits.

    Parameters
    ----------
    rules, cluster
        The rules and their cluster.
    builder
        Builder of the configurations of jobs.
    """

    def __init__(self, rules: OperatorRules, builder: CandidateBuilder, cluster: Cluster) -> None:
        quotas = quotas_of(rules, cluster)
        self._limiting = [*(rule for rule in rules.rules if isinstance(rule, _OfJobs)), *quotas]
        self._tree, self._builder, self._cluster = rules.tree, builder, cluster
        self._most = {place: node.could for place, node in quota_trees(quotas).items()}

    def of(self, job: Job) -> frozenset[int] | None:
        """Return the numbers of GPUs on which a job could run; None if no rule limits it."""
        mine = self._of(job)
        return _sizes(job, mine, self._most, self._builder, self._cluster) if mine else None

    def words(self, job: Job) -> tuple[str, ...]:
        """Return the rules that limit a job, as sentences."""
        tree = self._tree
        stated = [tree.of(job.tenant) if _is_queue(rule) else rule for rule in self._of(job)]
        return tuple(dict.fromkeys(rule.words for rule in stated if rule is not None))

    def _of(self, job: Job) -> list[_Limiting]:
        return [rule for rule in self._limiting if _names(rule, job, self._tree)]


_OfJobs = GangLimit | NodeRule | TenantQuota | RunningLimit
_Limiting = _OfJobs | CohortQuota


def _is_queue(rule: _Limiting) -> bool:
    return isinstance(rule, CohortQuota) and rule.owners_first


def _names(rule: _Limiting, job: Job, tree: QueueTree) -> bool:
    if isinstance(rule, RunningLimit):
        return bool(rule.named(job, tree))
    if isinstance(rule, TenantQuota):
        return rule.tenant == job.tenant
    if isinstance(rule, CohortQuota):
        return rule.amount_of(job.tenant, job.name, 1.0) > 0.0
    return matches(job.name, rule.jobs)


def _sizes(
    job: Job,
    mine: list[_Limiting],
    could: Mapping[tuple[str, str], float],
    builder: CandidateBuilder,
    cluster: Cluster,
) -> frozenset[int]:
    """Return the GPUs of configurations within all limits that have enough allowed nodes."""
    least, most = 1.0, math.inf
    allowed = list(cluster.nodes)
    for rule in mine:
        if isinstance(rule, GangLimit):
            least = max(least, rule.least)
            most = most if rule.most is None else min(most, rule.most)
        elif isinstance(rule, NodeRule):
            allowed = [n for n in allowed if rule.allows(n.name, n.type.gpu_type.name)]
        elif isinstance(rule, TenantQuota) and rule.borrow_gpus is not None:
            most = min(most, rule.gpus + rule.borrow_gpus)
    usable = [sum(node.type == kind for node in allowed) for kind in cluster.node_types]
    configurations = builder.all_of(job, cluster)
    trees = [rule for rule in mine if isinstance(rule, CohortQuota)]
    limits = [rule for rule in mine if isinstance(rule, RunningLimit)]

    def within(kind: int, gpus: float) -> bool:
        """Return whether no tree of quotas or limit is too small for GPUs of a node type."""
        name, gpu_type = cluster.node_types[kind].name, cluster.node_types[kind].gpu_type.name
        most = min((_most(rule) for rule in limits if rule.counts_on(gpu_type)), default=math.inf)
        return gpus <= most and all(
            rule.amount_of(job.tenant, job.name, gpus) <= could[rule.pool, rule.name]
            for rule in trees
            if rule.counts_on(name)
        )

    return frozenset(
        int(gpus)
        for kind, gpus, parts in zip(
            configurations.node_class.tolist(),
            configurations.gpus.tolist(),
            configurations.part_count.tolist(),
            strict=True,
        )
        if least <= gpus <= most and parts <= usable[kind] and within(kind, gpus)
    )


def _most(limit: RunningLimit) -> float:
    """Return the most GPUs of one job under a limit."""
    if limit.jobs == 0:
        return 0.0
    return math.inf if limit.gpus is None else limit.gpus
