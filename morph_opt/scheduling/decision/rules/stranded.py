"""Find jobs that the rules never let run, before a replay waits for them in vain."""

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
    limiting = [r for r in rules.rules if isinstance(r, _Limiting)]
    if not limiting:
        return ()
    builder = CandidateBuilder(belief, prune=False)
    quotas = [rule for rule in limiting if isinstance(rule, CohortQuota)]
    most = {place: node.could for place, node in quota_trees(quotas).items()}
    found: list[tuple[Job, str]] = []
    for job in jobs:
        mine = [rule for rule in limiting if _names(rule, job)]
        if mine and not _can_run(job, mine, most, builder, cluster):
            words = "; ".join(rule.words for rule in mine)
            found.append((job, f"the operator's rules leave it no configuration ({words})"))
    return tuple(found)


_Limiting = GangLimit | NodeRule | TenantQuota | CohortQuota


def _names(rule: _Limiting, job: Job) -> bool:
    if isinstance(rule, TenantQuota):
        return rule.tenant == job.tenant
    if isinstance(rule, CohortQuota):
        return rule.amount_of(job.tenant, job.name, 1.0) > 0.0
    return matches(job.name, rule.jobs)


def _can_run(
    job: Job,
    mine: list[_Limiting],
    could: Mapping[tuple[str, str], float],
    builder: CandidateBuilder,
    cluster: Cluster,
) -> bool:
    """Return whether some configuration is within all limits and has enough allowed nodes."""
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

    def within(kind: int, gpus: float) -> bool:
        """Return whether no tree of quotas is too small for GPUs of a node type."""
        name = cluster.node_types[kind].name
        return all(
            rule.amount_of(job.tenant, job.name, gpus) <= could[rule.pool, rule.name]
            for rule in trees
            if rule.counts_on(name)
        )

    return any(
        least <= gpus <= most and parts <= usable[kind] and within(kind, gpus)
        for kind, gpus, parts in zip(
            configurations.node_class.tolist(),
            configurations.gpus.tolist(),
            configurations.part_count.tolist(),
            strict=True,
        )
    )
