"""Shares with memory: what queues used, halved every half-life, in the values of their jobs.

The factor of a job is Slurm's classic fair-share factor ``2 ** (-usage / share)`` of its queue
(SchedMD, "Classic Fairshare Algorithm"), with effective usage level by level of the tree. It enters
values only, so that every bound holds as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.arrays import Floats
from formulations.objectives import scaled
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import Job, JobState, RoundState
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import QueueTree, Usage


class UsedShares(Objective[tuple[Any, Floats]]):
    """Objective whose jobs are worth less the more their queue used.

    Parameters
    ----------
    objective
        The objective.
    usage
        Half-life, and usage so far.
    tree
        Queues; tenants without one are queues of weight 1 at the root.
    """

    def __init__(self, objective: Objective[Any], usage: Usage, tree: QueueTree) -> None:
        self.name = objective.name
        self.faster_is_better = objective.faster_is_better
        self._objective, self._usage, self._tree = objective, usage, tree
        self._used, self._used_by = dict(usage.used), dict(usage.used_by)
        self._seen: dict[str, JobState] = {}
        self._at_s: float | None = None

    @property
    def used(self) -> Mapping[str, float]:
        """GPU-seconds of each tenant, decayed to the last observed round."""
        return self._used

    @property
    def used_by(self) -> Mapping[str, float]:
        """GPU-seconds of each user of a queue, decayed likewise; empty unless users share."""
        return self._used_by

    def observe(self, state: RoundState) -> tuple[Any, Floats]:
        """Charge what was held since the last round, and return each job's factor, shape (J,)."""
        if self._at_s is not None:
            self._charge(state, state.time_s - self._at_s)
        self._at_s = state.time_s
        self._seen = {known.job.name: known for known in state.jobs}
        if self._usage.users:
            by_user = self.factors_of_users({(j.job.tenant, j.job.user) for j in state.jobs})
            factor = np.asarray([by_user[j.job.tenant, j.job.user] for j in state.jobs])
        else:
            by_tenant = self.factors(known.job.tenant for known in state.jobs)
            factor = np.asarray([by_tenant[known.job.tenant] for known in state.jobs])
        return self._objective.observe(state), factor

    def levels(self, problem: RoundProblem, data: tuple[Any, Floats]) -> tuple[Level, ...]:
        """Return the goals of the objective, with each job's values by its factor.

        Parameters
        ----------
        problem
            The round.
        data
            Observation of the objective, and factors of the jobs.
        """
        return scaled(problem, self._objective.levels(problem, data[0]), data[1])

    def slo_changes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the changes of the objective."""
        return self._objective.slo_changes()

    def factors(self, tenants: Iterable[str]) -> Mapping[str, float]:
        """Return the factor of each of these tenants, from `Usage.least` to 1."""
        found = self._standing(tenants)
        return {tenant: self._factor(*one) for tenant, one in found.items()}

    def factors_of_users(self, users: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], float]:
        """Return the factor of each tenant and user, from `Usage.least` to 1.

        Users that used something, or that are asked for, have equal shares of their queue.
        """
        pairs = sorted(set(users))
        total = sum(self._used.values()) or 1.0
        members: dict[str, set[str]] = {}
        for key in (*self._used_by, *(self._key(*pair) for pair in pairs)):
            members.setdefault(key.rpartition("@")[2], set()).add(key)
        found = {}
        standing = self._standing(tenant for tenant, _ in pairs)
        for tenant, user in pairs:
            key, (share, effective) = self._key(tenant, user), standing[tenant]
            part, own = 1.0 / len(members[key.rpartition("@")[2]]), self._used_by.get(key, 0.0)
            mine = own / total + (effective - own / total) * part
            found[tenant, user] = self._factor(share * part, mine)
        return found

    def _key(self, tenant: str, user: str) -> str:
        queue = self._tree.of(tenant)
        return f"{user}@{tenant if queue is None else queue.name}"

    def _factor(self, share: float, effective: float) -> float:
        return max(self._usage.least, float(2.0 ** -(effective / share)))

    def _standing(self, tenants: Iterable[str]) -> Mapping[str, tuple[float, float]]:
        """Return share of the whole and effective usage of each tenant's queue."""
        queue_of = {tenant: self._tree.of(tenant) for tenant in sorted({*tenants, *self._used})}
        used: dict[str, float] = {}
        siblings: dict[str, dict[str, float]] = {"": {}}
        for queue in self._tree.queues:
            above = queue.parent if queue.parent in self._tree.by_name else ""
            siblings.setdefault(above, {})[queue.name] = queue.weight
        for tenant, own in queue_of.items():
            if own is None:
                siblings[""][f"\n{tenant}"] = 1.0  # no queue has this name
            line = [f"\n{tenant}"] if own is None else [one.name for one in self._tree.line(own)]
            for name in line:
                used[name] = used.get(name, 0.0) + self._used.get(tenant, 0.0)
        total = sum(self._used.values())
        found: dict[str, tuple[float, float]] = {}
        # Share of the whole, and effective usage, of each queue whose children come next.
        todo = [("", 1.0, 1.0 if total else 0.0)]
        while todo:
            above, share, effective = todo.pop()
            below = siblings.get(above, {})
            weights = sum(below.values())
            for name, weight in below.items():
                part, own_used = weight / weights, used.get(name, 0.0) / (total or 1.0)
                mine = own_used + (effective - own_used) * part
                found[name] = share * part, mine
                todo.append((name, share * part, mine))
        return {
            tenant: found[f"\n{tenant}" if own is None else own.name]
            for tenant, own in queue_of.items()
        }

    def _charge(self, state: RoundState, passed_s: float) -> None:
        decay = 0.5 ** (passed_s / self._usage.half_life_s)
        for used in (self._used, self._used_by):
            for name in used:
                used[name] *= decay
        # What was received in between has decayed for half of the time, to the first order.
        for job, gpu_s in self._received(state, passed_s):
            charge = decay**0.5 * gpu_s
            self._used[job.tenant] = self._used.get(job.tenant, 0.0) + charge
            if self._usage.users:
                key = self._key(job.tenant, job.user)
                self._used_by[key] = self._used_by.get(key, 0.0) + charge

    def _received(self, state: RoundState, passed_s: float) -> Iterator[tuple[Job, float]]:
        """Yield what each job received since the last round, in GPU-seconds."""
        for known in state.jobs:
            before = self._seen.get(known.job.name)
            gpu_s = known.attained_gpu_s - (0.0 if before is None else before.attained_gpu_s)
            yield known.job, max(0.0, gpu_s)
        for name in sorted(self._seen.keys() - {known.job.name for known in state.jobs}):
            gone = self._seen[name]
            yield gone.job, _of_gone(gone, passed_s)


def with_usage(objective: Objective[Any], rules: OperatorRules) -> Objective[Any]:
    """Return the objective, with shares if the rules have them."""
    return objective if rules.usage is None else UsedShares(objective, rules.usage, rules.tree)


def current(objective: Objective[Any], rules: OperatorRules) -> OperatorRules:
    """Return the rules with what queues used as of the objective's last round."""
    if rules.usage is None or not isinstance(objective, UsedShares):
        return rules
    used, used_by = dict(objective.used), dict(objective.used_by)
    return replace(rules, usage=replace(rules.usage, used=used, used_by=used_by))


def _of_gone(known: JobState, passed_s: float) -> float:
    """Return GPU-seconds of a job that ended since its state; at most those of the whole time.

    Its pace is that so far; without one, and if it waited, it is charged for the whole time.
    """
    if known.running is None:
        return known.job.requested_gpus * passed_s
    left_s, ran_s = passed_s, known.executed_s - known.restart_s
    if known.iterations_done > 0.0 and ran_s > 0.0:
        left_s = known.restart_left_s + known.iterations_left * ran_s / known.iterations_done
    return known.running.placement.gpus * min(passed_s, left_s)
