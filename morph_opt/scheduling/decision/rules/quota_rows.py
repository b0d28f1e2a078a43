"""Rows of quotas: of tenants, and of the nodes of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.rule_table import RULE_S, RULE_U
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import Cluster
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.rules.cohorts import CohortForest
from morph_opt.scheduling.decision.rules.lending import could_use
from morph_opt.scheduling.decision.rules.model import TenantQuota
from morph_opt.scheduling.decision.rules.queues import CohortQuota
from morph_opt.scheduling.decision.rules.rows import Entry, Rows


def add_quotas(rows: Rows, view: RoundView, quotas: Sequence[TenantQuota], usable: Bools) -> None:
    """Add rows ``quota`` and, if a tenant may borrow, ``borrow``, after all other rules' rows.

    A tenant's GPUs less what it borrows are at most its quota; what all borrow together is at most
    ``max(idle, kept)``:

    * ``idle``: GPUs of quotas that their owners' active jobs could not use, however they are
      started. Owners may take the others back in this round, so they cannot be lent.
    * ``kept``: GPUs beyond their tenants' quotas that jobs hold which another rule keeps in place.
      Such a job may stay although its owner wants the GPUs back, or the rules would contradict
      each other. Both may be served by the same GPUs, hence the maximum and not the sum: new
      borrowing is allowed only while all borrowing stays within ``idle``.

    Example: quotas of 8 for a and b, both may borrow. Tenant b could use 5 of its 8, so 3 are idle.
    Tenant a may hold 11. If a runs 12 that must stay, ``kept`` is 4, and a may hold these 12 and no
    more. docs/formulations/operator-rules.md has a worked example.
    """
    problem, states = view.problem, view.states
    candidates = problem.candidates
    held = np.bincount(problem.holds.job, problem.holds.demand[:, 0], minlength=problem.jobs.count)
    bound = rows.bound()
    lends = any(quota.borrow_gpus != 0 for quota in quotas)
    largest: Floats = held.astype(np.float64)
    if lends:
        largest = np.maximum(largest, could_use(view, usable))
    idle = kept = 0.0
    borrowing: list[Entry] = []
    for position, quota in enumerate(quotas):
        mine = np.asarray([known.job.tenant == quota.tenant for known in states], dtype=bool)
        jobs = np.flatnonzero(mine)
        idle += max(0.0, quota.gpus - float(largest[jobs].sum()))
        kept += max(0.0, float((held * bound)[jobs].sum()) - quota.gpus)
        entries = [(RULE_S, job, float(held[job])) for job in jobs.tolist() if held[job]]
        if quota.borrow_gpus != 0:
            most = np.inf if quota.borrow_gpus is None else float(quota.borrow_gpus)
            column = rows.column(most)
            entries.append((RULE_U, column, -1.0))
            borrowing.append((RULE_U, column, 1.0))
        starts = np.flatnonzero(mine[candidates.job])
        amounts = candidates.gpus[starts].astype(np.float64)
        rows.add(
            "quota", (position,), entries, starts=starts, amounts=amounts, upper=float(quota.gpus)
        )
    if borrowing:
        # A job that may not be moved yet gives back as soon as that rule lets it go.
        rows.add("borrow", (0,), borrowing, upper=max(idle, kept))


def within_queues(view: RoundView, quotas: Sequence[CohortQuota], cluster: Cluster) -> Bools:
    """Return which candidates their jobs' queues could ever hold, shape (K,).

    A job without such a candidate never runs, so nothing is kept for it.
    """
    candidates = view.problem.candidates
    within = np.ones(candidates.count, dtype=bool)
    owned = [quota for quota in quotas if quota.owners_first]
    if not owned:
        return within
    idle = [0.0] * len(owned)
    most: dict[str, Floats] = {}
    for quota, limit in zip(owned, CohortForest(owned, idle, idle).most, strict=True):
        here = [limit if quota.counts_on(kind.name) else np.inf for kind in cluster.node_types]
        for tenant in quota.tenants:
            most[tenant] = np.minimum(most.get(tenant, np.inf), here)
    for job, known in enumerate(view.states):
        if known.job.tenant in most:
            mine = slice(int(view.offset[job]), int(view.offset[job + 1]))
            limits = most[known.job.tenant][candidates.node_class[mine]]
            within[mine] = candidates.gpus[mine] <= limits + FEASIBILITY
    return within


def add_trees(
    rows: Rows, view: RoundView, quotas: Sequence[CohortQuota], cluster: Cluster, usable: Bools
) -> None:
    """Add a row for each node of the trees that jobs could exceed, children first."""
    uses = _Uses(view, cluster, usable, rows.bound())
    used = [uses.at(quota) for quota in quotas]
    base = [quota.used + one.stays for quota, one in zip(quotas, used, strict=True)]
    forest = CohortForest(quotas, base, [one.wanted for one in used])
    column: dict[int, int] = {}
    # Most that a node counts above it, whatever is decided; 0 for all without a row.
    above = np.zeros(len(quotas))
    for at in forest.order:
        (kept, beyond), one = forest.limits[at], used[at]
        below = [column[child] for child in forest.children[at] if child in column]
        most = quotas[at].used + one.most + sum(above[child] for child in forest.children[at])
        if not (one.starts.size or one.held or below or quotas[at].used):
            continue
        if quotas[at].owners_first and most <= kept:
            continue
        above[at] = min(beyond, most - kept)
        entries: list[Entry] = [*one.held, *((RULE_U, each, 1.0) for each in below)]
        if forest.parent(at) is not None or forest.orphan(at):
            column[at] = rows.column(above[at] if quotas[at].owners_first else beyond)
            entries.append((RULE_U, column[at], -1.0))
        rows.add(
            "queue" if quotas[at].owners_first else "cohort_quota",
            (at,),
            entries,
            starts=one.starts,
            amounts=one.amounts,
            upper=kept - quotas[at].used,
        )


@dataclass(frozen=True, slots=True)
class _Use:
    """Use of a quota by the jobs of its tenants.

    Parameters
    ----------
    starts, amounts
        Candidates that use it, and the amount of each.
    held
        Entries of the jobs that stay.
    stays
        Amount of the jobs that another rule keeps in place.
    most
        Amount that all jobs would use by their largest candidates.
    wanted
        Amount that all jobs could use; 0 if the quota does not ask for it.
    """

    starts: Ints
    amounts: Floats
    held: list[Entry]
    stays: float = 0.0
    most: float = 0.0
    wanted: float = 0.0


class _Uses:
    """Uses of the quotas of a round."""

    def __init__(self, view: RoundView, cluster: Cluster, usable: Bools, bound: Bools) -> None:
        self._view, self._usable, self._bound = view, usable, bound
        self._types = [kind.name for kind in cluster.node_types]
        self._of_tenant: dict[str, list[int]] = {}
        for job, known in enumerate(view.states):
            self._of_tenant.setdefault(known.job.tenant, []).append(job)
        self._by_classes: dict[bytes, tuple[Floats, Bools]] = {}
        self._largest: dict[bytes, Floats] = {}

    def at(self, quota: CohortQuota) -> _Use:
        """Return the use of a quota."""
        view, candidates = self._view, self._view.problem.candidates
        counts = np.asarray([quota.counts_on(name) for name in self._types], dtype=bool)
        tenants = dict.fromkeys(quota.tenants)
        mine = [job for tenant in tenants for job in self._of_tenant.get(tenant, ())]
        amounts = {
            job: quota.amount_of(view.states[job].job.tenant, view.states[job].job.name, 1.0)
            for job in mine
        }
        jobs = np.asarray(sorted(job for job, amount in amounts.items() if amount), dtype=np.int64)
        of_job = np.asarray([amounts[job] for job in jobs.tolist()])
        gpus, counted = self._held(counts)

        def amount(of: Floats, gpus: Floats) -> Floats:
            """Return the amounts of jobs with these GPUs: by GPU, or wherever they run."""
            return of * (gpus > 0.0) if quota.amounts else gpus

        held = amount(of_job, gpus[jobs])
        entries = [
            (RULE_S, job, value)
            for job, value in zip(jobs.tolist(), held.tolist(), strict=True)
            if value
        ]
        stays = float(held[self._bound[jobs]].sum())
        wanted = 0.0
        if quota.owners_first and jobs.size:
            wanted = float(np.maximum(held, amount(of_job, self._most(counts)[jobs])).sum())
        first, last = view.offset[jobs], view.offset[jobs + 1]
        starts = np.repeat(first - np.cumsum(last - first) + (last - first), last - first)
        starts += np.arange(starts.size)
        of_start = np.repeat(of_job, last - first)
        own = counted[starts]
        starts, of_start = starts[own], of_start[own]
        amounts_ = amount(of_start, candidates.gpus[starts].astype(np.float64))
        largest = np.zeros(view.problem.jobs.count)
        largest[jobs] = held
        np.maximum.at(largest, candidates.job[starts], amounts_)
        return _Use(starts, amounts_, entries, stays, float(largest[jobs].sum()), wanted)

    def _held(self, counts: Bools) -> tuple[Floats, Bools]:
        """Return the GPUs that each job holds on these classes, and the candidates on them."""
        key, problem = counts.tobytes(), self._view.problem
        if key not in self._by_classes:
            holds = problem.holds
            here = counts[problem.nodes.node_class[holds.node]]
            gpus: Floats = np.bincount(
                holds.job[here], holds.demand[here, 0], minlength=problem.jobs.count
            ).astype(np.float64)
            self._by_classes[key] = gpus, counts[problem.candidates.node_class]
        return self._by_classes[key]

    def _most(self, counts: Bools) -> Floats:
        """Return the GPUs on these classes that each job could use."""
        key = counts.tobytes()
        if key not in self._largest:
            self._largest[key] = could_use(self._view, self._usable & self._held(counts)[1])
        return self._largest[key]
