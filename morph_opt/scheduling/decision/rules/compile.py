"""Compile rules into a round's problem: named rows, node sets and closed nodes.

==================  ====================================================================
row                 meaning
==================  ====================================================================
``quota[i]``        GPUs started and kept by tenant i, less what it borrows <= its quota
``borrow[0]``       borrowed in all <= quota that owners' active jobs cannot use, and not less
                    than what borrowers hold that another rule keeps in place
``queue[i]``        GPUs of a type used by a queue and all below it, less what counts at the queue
                    above it <= what it keeps for itself
``limit[i,g,w]``    GPUs (w = 0) or jobs (w = 1) of the jobs that count together <= the limit
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
from itertools import pairwise

import numpy as np

from formulations.arrays import Bools, Ints
from formulations.round.rule_table import RULE_S, RULE_X
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import RoundState
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.rules.limits import add_limits
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
from morph_opt.scheduling.decision.rules.organisation import class_of
from morph_opt.scheduling.decision.rules.owned import quotas_of
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import StrictOrder
from morph_opt.scheduling.decision.rules.quota_rows import (
    add_quotas,
    add_trees,
    within_queues,
)
from morph_opt.scheduling.decision.rules.rows import Rows


def apply_rules(view: RoundView, state: RoundState, rules: OperatorRules) -> RoundView:
    """Return the round under the rules; the view itself if there are none."""
    if not rules.rules:
        return view
    rows = Rows(view.problem)
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
    _add_unpreempted(rows, state, rules)
    view = replace(view, problem=problem)
    usable = rows.usable() & add_limits(rows, view, state.cluster, rules)
    trees = quotas_of(rules, state.cluster)
    usable &= within_queues(view, trees, state.cluster)
    quotas = [rule for rule in rules.rules if isinstance(rule, TenantQuota)]
    if quotas:
        add_quotas(rows, view, quotas, usable)
    if trees:
        add_trees(rows, view, trees, state.cluster, usable)
    return replace(view, problem=replace(problem, rules=rows.table()))


def _own(problem: RoundProblem, job: int) -> list[int]:
    return np.flatnonzero(problem.candidates.job == job).tolist()


def _confined(view: RoundView, state: RoundState, rules: OperatorRules, rows: Rows) -> RoundProblem:
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
    problem: RoundProblem, state: RoundState, rules: OperatorRules, rows: Rows
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


def _add_stays(rows: Rows, state: RoundState, rule: MinimumRun | NonPreemptible) -> None:
    for job, known in enumerate(state.jobs):
        if known.running is None or not matches(known.job.name, rule.jobs):
            continue
        if isinstance(rule, NonPreemptible):
            rows.add("no_preemption", (job,), [(RULE_S, job, 1.0)], lower=1.0)
        elif known.last_start_s is not None and state.time_s - known.last_start_s < rule.seconds:
            rows.add("minimum_run", (job,), [(RULE_S, job, 1.0)], lower=1.0)


def _add_unpreempted(rows: Rows, state: RoundState, rules: OperatorRules) -> None:
    """Add a row for each running job of a class that is not preempted."""
    for job, known in enumerate(state.jobs):
        mine = None if known.running is None else class_of(known.job, rules.classes)
        if mine is not None and not mine.preemptible:
            rows.add("no_preemption", (job,), [(RULE_S, job, 1.0)], lower=1.0)


def _add_restart_limit(
    rows: Rows, problem: RoundProblem, state: RoundState, rule: RestartLimit
) -> None:
    for job, known in enumerate(state.jobs):
        if not matches(known.job.name, rule.jobs) or known.first_start_s is None:
            continue
        hour_ago_s, first_s = state.time_s - HOUR_S, known.first_start_s
        recent = [t for t in known.recent_starts_s if t > hour_ago_s and t != first_s]
        if len(recent) >= rule.per_hour:
            entries = [(RULE_X, k, 1.0) for k in _own(problem, job)]
            rows.add("restart_limit", (job,), entries, upper=0.0)


def _add_gang_limit(rows: Rows, problem: RoundProblem, state: RoundState, rule: GangLimit) -> None:
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
    rows: Rows, problem: RoundProblem, state: RoundState, rule: StrictOrder
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
