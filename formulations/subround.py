"""Rounds within a round: fewer options, or some jobs on some nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.decode import started_parts
from formulations.round.rule_table import RULE_S, RULE_X, RuleTable
from formulations.round.rules import options_in_rules
from formulations.round.tables import (
    HoldTable,
    JobTable,
    Level,
    RoundProblem,
    Selection,
)
from formulations.tolerances import FEASIBILITY


@dataclass(frozen=True, slots=True)
class SubRound:
    """A round within a round.

    Parameters
    ----------
    problem, level
        The smaller round and its goal.
    jobs, options, nodes
        Indices in the larger round of the first jobs and of all options and nodes. Further jobs
        represent the holdings of fixed jobs and must stay (option -1).
    """

    problem: RoundProblem
    level: Level
    jobs: Ints
    options: Ints
    nodes: Ints

    def merged(self, whole: Selection, part: Selection) -> Selection:
        """Return the larger round's decision with the free jobs decided by the smaller one."""
        choice, nodes = whole.choice.copy(), list(whole.nodes)
        for at, job in enumerate(self.jobs.tolist()):
            picked = int(part.choice[at])
            choice[job] = int(self.options[picked]) if picked >= 0 else picked
            nodes[job] = tuple(int(self.nodes[node]) for node in part.nodes[at])
        return Selection(choice, tuple(nodes))

    def numbered(self, whole: Selection) -> Selection:
        """Return a decision of the larger round in the smaller one's numbers.

        Only for a smaller round of all jobs and nodes that has all options of the decision.
        """
        at = _positions(int(self.options.max(initial=-1)) + 1, self.options)
        choice = whole.choice.copy()
        decided = choice >= 0
        choice[decided] = at[choice[decided]]
        return Selection(choice, whole.nodes)


def with_candidates(problem: RoundProblem, level: Level, kept: Ints | None) -> SubRound:
    """Return the round restricted to these candidates, ascending, or whole if None.

    A restricted round must have no pairs.
    """
    every, nodes = (np.arange(n, dtype=np.int64) for n in (problem.jobs.count, problem.nodes.count))
    if kept is None:
        options = np.arange(problem.options.count, dtype=np.int64)
        return SubRound(problem, level, every, options, nodes)
    at = np.full(problem.candidates.count, -1, dtype=np.int64)
    at[kept] = np.arange(kept.size)
    rules = _rules_of(problem.rules, at, every, np.zeros(problem.rules.count))
    smaller = replace(problem, candidates=problem.candidates.take(kept), rules=rules)
    options = np.concatenate([kept, problem.options.stays])
    worth = Level(level.name, level.unit, level.value[options])
    return SubRound(smaller, worth, every, options, nodes)


def residual_round(
    problem: RoundProblem,
    level: Level,
    decided: Selection,
    free: Bools,
    on: Bools,
    offered: Bools | None = None,
) -> SubRound:
    """Return the round of some jobs on some nodes, all other jobs as decided.

    Parameters
    ----------
    decided
        A feasible decision.
    free, on
        Whether a job may change, shape (J,), and whether it may use a node, shape (N,). All nodes
        of free jobs, held or decided, must be among these.
    offered
        Whether a candidate may be chosen, shape (K,); None for all.
    """
    jobs, nodes = np.flatnonzero(free), np.flatnonzero(on)
    used, uplinks = _used_by_others(problem, decided, free)
    running = _may_stay(problem, decided, free, used)
    others = nodes[used[nodes].any(axis=1)]
    table = problem.candidates
    kept = np.flatnonzero(free[table.job] & (True if offered is None else offered))
    job_at, node_at = _positions(problem.jobs.count, jobs), _positions(problem.nodes.count, nodes)
    candidate_at = _positions(table.count, kept)
    holds = problem.holds
    own = np.flatnonzero(running[holds.job])
    held = HoldTable(
        np.concatenate([job_at[holds.job[own]], jobs.size + np.arange(others.size)]),
        np.concatenate([node_at[holds.node[own]], node_at[others]]),
        np.concatenate([holds.demand[own], used[others]]),
        np.concatenate([holds.uplink_gb_per_s[own], np.zeros(others.size)]),
    )
    rules = _rules_of(problem.rules, candidate_at, job_at, _rows_of_others(problem, decided, free))
    smaller = RoundProblem(
        jobs=_jobs_of(problem.jobs, jobs, running[jobs], others.size),
        candidates=table.take(kept, job_at[table.job[kept]]),
        nodes=replace(
            problem.nodes,
            node_class=problem.nodes.node_class[nodes],
            open=problem.nodes.open[nodes],
            leaf=problem.nodes.leaf[nodes],
            domain=problem.nodes.domain[nodes],
            uplink_gb_per_s=np.maximum(0.0, problem.nodes.uplink_gb_per_s - uplinks),
            sets=problem.nodes.sets[:, nodes],
        ),
        holds=held,
        interval_s=problem.interval_s,
        rules=_with_stays(rules, jobs.size + np.arange(others.size)),
    )
    options = np.concatenate([kept, problem.options.stay[jobs[running[jobs]]]])
    worth = Level(level.name, level.unit, np.append(level.value[options], np.zeros(others.size)))
    options = np.append(options, np.full(others.size, -1))
    return SubRound(smaller, worth, jobs, options, nodes)


def _positions(count: int, members: Ints) -> Ints:
    at = np.full(count, -1, dtype=np.int64)
    at[members] = np.arange(members.size)
    return at


def _used_by_others(
    problem: RoundProblem, decided: Selection, free: Bools
) -> tuple[Floats, Floats]:
    """Return the use by fixed jobs of each node, shape (N, R), and uplink, shape (L,)."""
    nodes, table = problem.nodes, problem.candidates
    used = np.zeros((nodes.count, nodes.resources))
    uplinks = np.zeros(nodes.uplink_gb_per_s.size)
    here = problem.options.held.chosen(np.where(free, -1, decided.choice))
    np.add.at(used, here.node, here.demand)
    np.add.at(uplinks, nodes.leaf[here.node], here.uplink_gb_per_s)
    starts = (decided.choice >= 0) & (decided.choice < table.count)
    node, part = started_parts(problem, decided, np.flatnonzero(starts & ~free))
    rows = problem.options.starts.templates[0]
    np.add.at(used, node, rows.demands(part))
    sent = rows.part_gpus[part] * rows.sent_per_gpu[rows.part_candidate[part]]
    np.add.at(uplinks, nodes.leaf[node], sent)
    return used, uplinks


def _may_stay(problem: RoundProblem, decided: Selection, free: Bools, used: Floats) -> Bools:
    """Return the free running jobs whose GPUs no other job was given, shape (J,)."""
    nodes, holds = problem.nodes, problem.holds
    room = nodes.capacity[nodes.node_class] - used
    running = problem.jobs.running & free
    stays = running & (decided.choice == problem.options.stay)
    mine = stays[holds.job]
    np.subtract.at(room, holds.node[mine], holds.demand[mine])
    for job in np.flatnonzero(running & ~stays).tolist():
        rows = np.flatnonzero(holds.job == job)
        left = room[holds.node[rows]] - holds.demand[rows]
        if (left >= -FEASIBILITY).all():
            room[holds.node[rows]] = left
        else:
            running[job] = False
    return running


def _rows_of_others(problem: RoundProblem, decided: Selection, free: Bools) -> Floats:
    """Return the use by fixed jobs of each rule's row, shape (Q,)."""
    rules = problem.rules
    used = np.zeros(rules.count)
    others = decided.choice[~free & (decided.choice >= 0)]
    chosen = np.isin(options_in_rules(problem), others)
    np.add.at(used, rules.row[chosen], rules.value[chosen])
    return used


def _rules_of(rules: RuleTable, candidate_at: Ints, job_at: Ints, used: Floats) -> RuleTable:
    """Return the rows that concern free jobs, less the use by fixed jobs."""
    index = rules.index.copy()
    starts, stays = rules.kind == RULE_X, rules.kind == RULE_S
    index[starts], index[stays] = candidate_at[index[starts]], job_at[index[stays]]
    entries = np.flatnonzero(index >= 0)
    concerned = np.zeros(rules.count, dtype=bool)
    concerned[rules.row[entries]] = True
    # A row that is not satisfied by fixed jobs stays, even if its candidates are gone.
    concerned |= rules.lower - used > FEASIBILITY
    concerned |= rules.upper - used < -FEASIBILITY
    rows = np.flatnonzero(concerned)
    at = _positions(rules.count, rows)
    return replace(
        rules,
        name=tuple(rules.name[row] for row in rows.tolist()),
        label=tuple(rules.label[row] for row in rows.tolist()),
        lower=(rules.lower - used)[rows],
        upper=(rules.upper - used)[rows],
        row=at[rules.row[entries]],
        kind=rules.kind[entries],
        index=index[entries],
        value=rules.value[entries],
    )


def _with_stays(rules: RuleTable, jobs: Ints) -> RuleTable:
    """Return the rules with rows ``fixed[j]`` that keep jobs where they are."""
    return replace(
        rules,
        name=(*rules.name, *(["fixed"] * jobs.size)),
        label=(*rules.label, *((int(job),) for job in jobs.tolist())),
        lower=np.concatenate([rules.lower, np.ones(jobs.size)]),
        upper=np.concatenate([rules.upper, np.full(jobs.size, np.inf)]),
        row=np.concatenate([rules.row, rules.count + np.arange(jobs.size)]),
        kind=np.concatenate([rules.kind, np.full(jobs.size, RULE_S)]).astype(np.int64),
        index=np.concatenate([rules.index, jobs]),
        value=np.concatenate([rules.value, np.ones(jobs.size)]),
    )


def _jobs_of(table: JobTable, jobs: Ints, running: Bools, others: int) -> JobTable:
    """Return the free jobs, followed by placeholders for what fixed jobs hold."""

    def column(values: Floats, other: float) -> Floats:
        return np.concatenate([values[jobs], np.full(others, other)])

    stay = np.where(running, table.stay_iteration_s[jobs], np.nan)
    return JobTable(
        iterations_left=column(table.iterations_left, 1.0),
        request_iteration_s=column(table.request_iteration_s, 1.0),
        guaranteed=np.concatenate([table.guaranteed[jobs], np.zeros(others, dtype=bool)]),
        restart_s=column(table.restart_s, 0.0),
        restart_left_s=column(table.restart_left_s, 0.0),
        stay_iteration_s=np.concatenate([stay, np.ones(others)]),
        attained_gpu_s=column(table.attained_gpu_s, 0.0),
        submission_s=column(table.submission_s, 0.0),
        weight=column(table.weight, 1.0),
    )
