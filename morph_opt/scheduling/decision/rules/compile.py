"""Compile rules into a round's problem: named rows, node sets and closed nodes.

==================  ====================================================================
row                 meaning
==================  ====================================================================
``quota[i]``        GPUs started and kept by tenant i, less what it borrows <= its quota
``borrow[0]``       borrowed in all <= quota that owners' active jobs cannot use, and not less
                    than what borrowers hold that another rule keeps in place
``cohort_quota[i]`` amount used at node i of a tree of quotas, less what counts at the node above
                    it <= what it keeps for itself
``strict_order[j]`` sum of x[j,k] of a job <= that of the queued job before it
``minimum_run[j]``  s[j] >= 1
``restart_limit[j]``  sum of x[j,k] <= 0
``no_preemption[j]``  s[j] >= 1
``node_rule[j]``    s[j] <= 0 where the job runs on a node that it may not use; its candidates
                    are confined to the others (node sets)
``gang_limit[j]``   configurations outside the limits <= 0
``maintenance[j]``  s[j] <= 0 for jobs on a node whose window has begun; such nodes are closed
==================  ====================================================================
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.rule_table import RULE_S, RULE_U, RULE_X, RuleTable
from formulations.round.tables import CandidateTable, Level, RoundProblem
from morph_opt.core.domain import RoundState
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.rules.cohorts import CohortForest
from morph_opt.scheduling.decision.rules.lending import could_use
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    Maintenance,
    MinimumRun,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    RestartLimit,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StrictOrder,
)


class _Rows:
    """Rows under construction."""

    def __init__(self) -> None:
        self.name: list[str] = []
        self.label: list[tuple[int, ...]] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.entries: list[tuple[int, int, int, float]] = []
        self.aux: list[float] = []

    def add(
        self,
        name: str,
        label: tuple[int, ...],
        entries: list[tuple[int, int, float]],
        *,
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> None:
        """Add a row; entries are (kind, index, coefficient)."""
        row = len(self.name)
        self.name.append(name)
        self.label.append(label)
        self.lower.append(lower)
        self.upper.append(upper)
        self.entries += [(row, kind, index, value) for kind, index, value in entries]

    def table(self) -> RuleTable:
        """Return the rows as arrays."""
        row, kind, index, value = zip(*self.entries, strict=True) if self.entries else ((),) * 4
        return RuleTable(
            tuple(self.name),
            tuple(self.label),
            np.asarray(self.lower, dtype=np.float64),
            np.asarray(self.upper, dtype=np.float64),
            np.asarray(row, dtype=np.int64),
            np.asarray(kind, dtype=np.int64),
            np.asarray(index, dtype=np.int64),
            np.asarray(value, dtype=np.float64),
            np.asarray(self.aux, dtype=np.float64),
        )


def apply_rules(view: RoundView, state: RoundState, rules: OperatorRules) -> RoundView:
    """Return the round under the rules; the view itself if there are none."""
    if not rules.rules:
        return view
    rows = _Rows()
    problem = _confined(view, state, rules, rows)
    problem = _maintained(problem, state, rules, rows)
    for rule in rules.rules:
        if isinstance(rule, MinimumRun | NonPreemptible):
            _add_stays(rows, state, rule)
        elif isinstance(rule, RestartLimit):
            _add_restart_limit(rows, problem, state, rule)
        elif isinstance(rule, GangLimit):
            _add_gang_limit(rows, problem, state, rule)
        elif isinstance(rule, StrictOrder):
            _add_strict_order(rows, problem, state, rule)
    quotas = [rule for rule in rules.rules if isinstance(rule, TenantQuota)]
    if quotas:
        _add_quotas(rows, replace(view, problem=problem), quotas)
    cohorts = [rule for rule in rules.rules if isinstance(rule, CohortQuota)]
    if cohorts:
        _add_cohorts(rows, problem, state, cohorts)
    return replace(view, problem=replace(problem, rules=rows.table()))


def ranks_below(problem: RoundProblem, rules: OperatorRules) -> tuple[Level, ...]:
    """Return the levels that rank after the objective and decide between equal decisions."""
    options, members = problem.options, problem.options.members
    levels: list[Level] = []
    if rules.fewer_moves:
        stays = np.where(members.starts, 0.0, 1.0)
        levels.append(Level.of(problem, "fewer_moves", "jobs left in place", stays))
    if rules.tighter_packing:
        nodes = np.bincount(options.held.option, minlength=options.count).astype(np.float64)
        nodes[: problem.candidates.count] += np.diff(problem.candidates.part_start)
        # Never negative: gains by stopping jobs would use up the slack of the levels above.
        below = nodes.max(initial=1.0) - nodes[members.alone]
        levels.append(Level.of(problem, "tighter_packing", "nodes below the widest shape", below))
    return tuple(levels)


def preferences(
    problem: RoundProblem, state: RoundState, rules: OperatorRules
) -> tuple[Level, ...]:
    """Return the level that favours each job's first node types; empty without preferences."""
    demands = [rule for rule in rules.rules if isinstance(rule, NodePreference)]
    if not demands:
        return ()
    types = [kind.name for kind in state.cluster.node_types]
    candidates, members = problem.candidates, problem.options.members
    worth = np.zeros(candidates.count)
    for rule in demands:
        most = len(rule.node_types)
        place = {name: most - at for at, name in enumerate(rule.node_types)}
        by_class = np.asarray([place.get(name, 0) for name in types], dtype=np.float64)
        for job, known in enumerate(state.jobs):
            if matches(known.job.name, rule.jobs):
                mine = _own(problem, job)
                worth[mine] = by_class[candidates.node_class[mine]]
    value = np.where(members.starts & (members.alone < candidates.count), 1.0, 0.0)
    value[value > 0] = worth[members.alone[value > 0]]
    return (Level.of(problem, "node_preference", "places in lists of node types", value),)


def ranks_above(
    problem: RoundProblem, state: RoundState, rules: OperatorRules, worth: Level
) -> tuple[Level, ...]:
    """Return the levels above the objective: the value of jobs of each priority and above.

    The lowest priority needs none, as the objective itself is about all jobs.
    """
    demands = [rule for rule in rules.rules if isinstance(rule, Priority)]
    if not demands:
        return ()
    priority = np.zeros(problem.jobs.count, dtype=np.int64)
    for job, known in enumerate(state.jobs):
        mine = [rule.level for rule in demands if matches(known.job.name, rule.jobs)]
        priority[job] = max(mine, default=0)
    waiting = ~problem.jobs.running
    levels = sorted(set(priority[waiting].tolist()), reverse=True)
    of_member = priority[problem.options.members.job]
    return tuple(
        Level.of(
            problem,
            f"priority_{level}".replace("-", "minus_"),
            worth.unit,
            np.where(of_member >= level, worth.worth, 0.0),
        )
        for level in levels[:-1]
    )


def _own(problem: RoundProblem, job: int) -> list[int]:
    return np.flatnonzero(problem.candidates.job == job).tolist()


def _confined(
    view: RoundView, state: RoundState, rules: OperatorRules, rows: _Rows
) -> RoundProblem:
    """Return the problem with node sets of jobs under node rules; end stays on forbidden nodes."""
    problem = view.problem
    demands = [rule for rule in rules.rules if isinstance(rule, NodeRule)]
    if not demands:
        return problem
    nodes = state.cluster.nodes
    sets: list[Bools] = [problem.nodes.sets[0]]
    known: dict[bytes, int] = {sets[0].tobytes(): 0}
    set_of_job = np.zeros(problem.jobs.count, dtype=np.int64)
    for job, known_job in enumerate(view.states):
        mine = [rule for rule in demands if matches(known_job.job.name, rule.jobs)]
        if not mine:
            continue
        allowed = np.asarray(
            [all(rule.allows(n.name, n.type.gpu_type.name) for rule in mine) for n in nodes]
        )
        if allowed.tobytes() not in known:
            known[allowed.tobytes()] = len(sets)
            sets.append(allowed)
        set_of_job[job] = known[allowed.tobytes()]
        running = known_job.running
        if running is not None and not allowed[list(running.placement.nodes)].all():
            rows.add("node_rule", (job,), [(RULE_S, job, 1.0)], upper=0.0)
    candidates = replace(problem.candidates, node_set=set_of_job[problem.candidates.job])
    return replace(
        problem, candidates=candidates, nodes=replace(problem.nodes, sets=np.vstack(sets))
    )


def _maintained(
    problem: RoundProblem, state: RoundState, rules: OperatorRules, rows: _Rows
) -> RoundProblem:
    """Return the problem with nodes closed by maintenance; make jobs leave once a window began."""
    is_open = problem.nodes.open.copy()
    leaving: set[int] = set()
    for rule in rules.rules:
        if not isinstance(rule, Maintenance) or state.time_s >= rule.end_s:
            continue
        named = np.asarray([matches(node.name, rule.nodes) for node in state.cluster.nodes])
        # A round in which a window begins must already leave the nodes empty; the lead is counted
        # the same way, so that a lead as long as a job's minimum run is enough for both.
        round_end_s = state.time_s + state.interval_s
        if round_end_s > rule.start_s - rule.lead_s:
            is_open &= ~named
        if round_end_s > rule.start_s:
            leaving |= set(problem.holds.job[named[problem.holds.node]].tolist())
    for job in sorted(leaving):
        rows.add("maintenance", (job,), [(RULE_S, job, 1.0)], upper=0.0)
    return replace(problem, nodes=replace(problem.nodes, open=is_open))


def _add_stays(rows: _Rows, state: RoundState, rule: MinimumRun | NonPreemptible) -> None:
    for job, known in enumerate(state.jobs):
        if known.running is None or not matches(known.job.name, rule.jobs):
            continue
        if isinstance(rule, NonPreemptible):
            rows.add("no_preemption", (job,), [(RULE_S, job, 1.0)], lower=1.0)
        elif known.last_start_s is not None and state.time_s - known.last_start_s < rule.seconds:
            rows.add("minimum_run", (job,), [(RULE_S, job, 1.0)], lower=1.0)


def _add_restart_limit(
    rows: _Rows, problem: RoundProblem, state: RoundState, rule: RestartLimit
) -> None:
    for job, known in enumerate(state.jobs):
        if not matches(known.job.name, rule.jobs) or known.first_start_s is None:
            continue
        hour_ago_s, first_s = state.time_s - HOUR_S, known.first_start_s
        recent = [t for t in known.recent_starts_s if t > hour_ago_s and t != first_s]
        if len(recent) >= rule.per_hour:
            entries = [(RULE_X, k, 1.0) for k in _own(problem, job)]
            rows.add("restart_limit", (job,), entries, upper=0.0)


def _add_gang_limit(rows: _Rows, problem: RoundProblem, state: RoundState, rule: GangLimit) -> None:
    most = np.inf if rule.most is None else rule.most
    gpus: Ints = problem.candidates.gpus
    for job, known in enumerate(state.jobs):
        if not matches(known.job.name, rule.jobs):
            continue
        outside = [
            (RULE_X, k, 1.0) for k in _own(problem, job) if not rule.least <= gpus[k] <= most
        ]
        held = known.running
        if held is not None and not rule.least <= held.placement.gpus <= most:
            outside.append((RULE_S, job, 1.0))
        if outside:
            rows.add("gang_limit", (job,), outside, upper=0.0)


def _add_strict_order(
    rows: _Rows, problem: RoundProblem, state: RoundState, rule: StrictOrder
) -> None:
    """Add a row for each queued job of the list but the first."""
    place = {known.job.name: job for job, known in enumerate(state.jobs)}
    queued = [place[name] for name in rule.jobs if name in place]
    queued = [job for job in queued if state.jobs[job].running is None]
    for before, job in pairwise(queued):
        entries = [(RULE_X, k, 1.0) for k in _own(problem, job)]
        entries += [(RULE_X, k, -1.0) for k in _own(problem, before)]
        if entries:
            rows.add("strict_order", (job,), entries, upper=0.0)


def _add_cohorts(
    rows: _Rows, problem: RoundProblem, state: RoundState, quotas: list[CohortQuota]
) -> None:
    """Add a row for each node of the trees, children first."""
    bound = _bound(problem, rows)
    types = [kind.name for kind in state.cluster.node_types]
    candidates, holds = problem.candidates, problem.holds
    held_class = problem.nodes.node_class[holds.node]
    used: list[list[tuple[int, int, float]]] = []
    base: list[float] = []
    for quota in quotas:
        counts = np.asarray([quota.counts_on(name) for name in types])
        entries: list[tuple[int, int, float]] = []
        stays = quota.used
        for job, known in enumerate(state.jobs if quota.tenants else ()):
            here = (holds.job == job) & counts[held_class]
            of = partial(quota.amount_of, known.job.tenant, known.job.name)
            if not of(1.0):
                continue
            for k in _own(problem, job):
                if counts[candidates.node_class[k]]:
                    entries.append((RULE_X, k, of(float(candidates.gpus[k]))))
            if here.any():
                value = of(float(holds.demand[here, 0].sum()))
                entries.append((RULE_S, job, value))
                stays += value * bool(bound[job])
        used.append(entries)
        base.append(stays)
    forest = CohortForest(quotas, base)
    column: dict[int, int] = {}
    for at in forest.order:
        kept, beyond = forest.limits[at]
        entries = [*used[at], *((RULE_U, column[one], 1.0) for one in forest.children[at])]
        if forest.parent(at) is not None or forest.orphan(at):
            column[at] = len(rows.aux)
            rows.aux.append(beyond)
            entries.append((RULE_U, column[at], -1.0))
        if entries:
            rows.add("cohort_quota", (at,), entries, upper=kept - quotas[at].used)


def _usable(problem: RoundProblem, rows: _Rows) -> Bools:
    """Return the candidates that no single row so far rules out, shape (K,)."""
    free = np.ones(problem.candidates.count, dtype=bool)
    # A row in which another decision makes up for a candidate does not rule it out.
    signed = {row for row, _, _, value in rows.entries if value < 0.0}
    for row, kind, index, _ in rows.entries:
        if kind == RULE_X and rows.upper[row] <= 0.0 and row not in signed:
            free[index] = False
    return free


def _bound(problem: RoundProblem, rows: _Rows) -> Bools:
    """Return the jobs that another rule keeps in place, shape (J,)."""
    bound = np.zeros(problem.jobs.count, dtype=bool)
    for row, kind, index, _ in rows.entries:
        if kind == RULE_S and rows.lower[row] >= 1.0:
            bound[index] = True
    return bound


def _add_quotas(rows: _Rows, view: RoundView, quotas: list[TenantQuota]) -> None:
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
    candidates: CandidateTable = problem.candidates
    held = np.bincount(problem.holds.job, problem.holds.demand[:, 0], minlength=problem.jobs.count)
    bound = _bound(problem, rows)
    lends = any(quota.borrow_gpus != 0 for quota in quotas)
    largest: Floats = held.astype(np.float64)
    if lends:
        largest = np.maximum(largest, could_use(view, _usable(problem, rows)))
    idle = kept = 0.0
    borrowing: list[tuple[int, int, float]] = []
    for position, quota in enumerate(quotas):
        jobs = [j for j, known in enumerate(states) if known.job.tenant == quota.tenant]
        idle += max(0.0, quota.gpus - float(largest[jobs].sum()))
        kept += max(0.0, float((held * bound)[jobs].sum()) - quota.gpus)
        entries = [
            (RULE_X, k, float(candidates.gpus[k])) for j in jobs for k in _own(problem, j)
        ] + [(RULE_S, j, float(held[j])) for j in jobs if held[j]]
        if quota.borrow_gpus != 0:
            rows.aux.append(np.inf if quota.borrow_gpus is None else float(quota.borrow_gpus))
            entries.append((RULE_U, len(rows.aux) - 1, -1.0))
            borrowing.append((RULE_U, len(rows.aux) - 1, 1.0))
        rows.add("quota", (position,), entries, upper=float(quota.gpus))
    if borrowing:
        # A job that may not be moved yet gives back as soon as that rule lets it go.
        rows.add("borrow", (0,), borrowing, upper=max(idle, kept))
