"""Independent check of a decision against the definition of a feasible round, without any model.

Rules, each named on the formulation page: ``one_config``, ``own_candidate``,
``node_exists``, ``node_open``, ``node_class``, ``node_set``, ``parts``, ``distinct_nodes``,
``scope``, ``span``, ``partners``, ``same_nodes``, ``one_gang``, ``capacity``, ``uplink``, and the
names of the operator's rules.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import at_rows
from formulations.resources import RESOURCES
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, RoundProblem, Scope, Selection
from formulations.tolerances import FEASIBILITY


class RuleError(Exception):
    """A decision that breaks a rule of the round.

    Parameters
    ----------
    rule
        Name of the rule.
    job
        Index of the job; None if the rule is about a node.
    detail
        The violation.
    """

    def __init__(self, rule: str, job: int | None, detail: str) -> None:
        self.rule = rule
        self.job = job
        self.detail = detail
        super().__init__(f"{rule}: {'' if job is None else f'job {job}: '}{detail}")


def check(problem: RoundProblem, selection: Selection) -> None:
    """Raise `RuleError` unless ``selection`` is a feasible decision of ``problem``."""
    jobs = problem.jobs.count
    if selection.choice.shape != (jobs,) or len(selection.nodes) != jobs:
        raise RuleError("one_config", None, f"the decision must have one choice for {jobs} jobs")
    used, held = np.zeros((problem.nodes.count, problem.nodes.resources)), problem.options.held
    here = np.flatnonzero(selection.choice[held.job] == held.option)
    at_rows(np.add, used, held.node[here], held.demand[here])
    named = selection.named
    quick, demand, at = _plain_starts(problem, selection, named)
    at_rows(np.add, used, at, demand)
    waits = (named == 0) & (selection.choice == NONE)
    done = quick | _continues_alone(problem, selection, named) | waits
    in_place = set(held.option[here[~done[held.job[here]]]].tolist())
    for job in np.flatnonzero(~done).tolist():
        choice, nodes = int(selection.choice[job]), selection.nodes[job]
        leads = choice != NONE and _leads(problem, job, choice, selection)
        if (choice == NONE or choice in in_place) and nodes:
            raise RuleError("parts", job, "names nodes but has no parts to place")
        if leads and choice not in in_place:
            check_start(problem, job, choice, nodes)
            for part, node in zip(problem.options.starts.parts(choice), nodes, strict=True):
                used[node] += problem.options.starts.demand(choice, part)
    _check_partners(problem, selection)
    _check_returns(problem, selection)
    _check_one_gang(problem, selection)
    capacity = problem.nodes.capacity[problem.nodes.node_class]
    _check_uplinks(problem, selection)
    over = np.argwhere(used > capacity * (1 + FEASIBILITY) + FEASIBILITY)
    if over.size:
        node, resource = over[0].tolist()
        raise RuleError(
            "capacity",
            None,
            f"node {node} would hold {used[node, resource]:g} of {capacity[node, resource]:g} "
            f"{RESOURCES[resource].name}",
        )
    broken = broken_rule(problem, selection)
    if broken is not None:
        raise RuleError(broken[0], None, f"the rule's row {list(broken[1])} is violated")


def _plain_starts(
    problem: RoundProblem, selection: Selection, named: Ints
) -> tuple[Bools, Floats, Ints]:
    """Return which jobs start alone in one part on an allowed node, (J,).

    With the demand and the node of each: only capacity is left to check. All other jobs are checked
    one by one.
    """
    table, nodes, choice = problem.candidates, problem.nodes, selection.choice
    one = (named == 1) & (choice >= 0) & (choice < table.count)
    quick, jobs = np.zeros(choice.size, dtype=bool), np.flatnonzero(one)
    if not jobs.size:
        return quick, np.zeros((0, nodes.resources)), jobs
    node = np.asarray([selection.nodes[job][0] for job in jobs.tolist()], dtype=np.int64)
    rows, which = table.templates
    fine, picked = table.job[choice[jobs]] == jobs, which[choice[jobs]]
    parts = rows.part_start[picked + 1] - rows.part_start[picked]
    fine &= (rows.scope[picked] == Scope.NODE) & (parts == 1)
    fine &= (node >= 0) & (node < nodes.count)
    jobs, node, picked = jobs[fine], node[fine], picked[fine]
    fine = nodes.open[node] & nodes.sets[rows.node_set[picked], node]
    fine &= nodes.node_class[node] == rows.part_class[rows.part_start[picked]]
    jobs, node, picked = jobs[fine], node[fine], picked[fine]
    quick[jobs] = True
    return quick, rows.demands(rows.part_start[picked]), node


def _continues_alone(problem: RoundProblem, selection: Selection, named: Ints) -> Bools:
    """Return which jobs choose an option in place of their own and name no nodes, (J,)."""
    options, choice = problem.options, selection.choice
    quiet: Bools = (named == 0) & (choice >= 0) & (choice < options.count)
    mine = choice[quiet]
    quiet[quiet] = (
        options.in_place[mine]
        & ~options.shared[mine]
        & (options.job[mine] == np.flatnonzero(quiet))
    )
    return quiet


def _check_uplinks(problem: RoundProblem, selection: Selection) -> None:
    """Check the traffic of starts across leaves and of stays against each uplink."""
    nodes, candidates = problem.nodes, problem.options.starts
    if np.isposinf(nodes.uplink_gb_per_s).all():
        return
    here = problem.options.held.chosen(selection.choice)
    used = np.zeros(nodes.uplink_gb_per_s.size)
    np.add.at(used, nodes.leaf[here.node], here.uplink_gb_per_s)
    starts = [job for job, own in enumerate(selection.nodes) if own]
    for job in starts:
        choice = int(selection.choice[job])
        # The members of an option reserve its traffic once.
        if candidates.job[choice] != job:
            continue
        for part, node in zip(candidates.parts(choice), selection.nodes[job], strict=True):
            used[nodes.leaf[node]] += candidates.sends(choice, part)
    over = np.flatnonzero(used > nodes.uplink_gb_per_s * (1 + FEASIBILITY) + FEASIBILITY)
    if over.size:
        leaf = int(over[0])
        raise RuleError(
            "uplink",
            None,
            f"leaf {leaf} would carry {used[leaf]:g} of {nodes.uplink_gb_per_s[leaf]:g} GB/s",
        )


def _leads(problem: RoundProblem, job: int, choice: int, selection: Selection) -> bool:
    """Check the other jobs of an option; return whether its nodes are this job's."""
    options = problem.options
    mine = options.jobs_of(choice) if 0 <= choice < options.count else []
    if job not in mine:
        raise RuleError("own_candidate", job, f"option {choice} is not one of its own")
    for other in mine:
        if selection.choice[other] != choice:
            raise RuleError("partners", job, f"job {other} does not choose the same option")
    if selection.nodes[job] != selection.nodes[mine[0]]:
        raise RuleError("same_nodes", job, f"is not on the nodes of job {mine[0]}")
    return job == mine[0]


def _check_partners(problem: RoundProblem, selection: Selection) -> None:
    """Check that a job may be on the nodes of the running job that it joins."""
    options, held = problem.options, problem.options.held
    if not options.shared.any():
        return
    members, visits = options.members, options.in_place & options.shared
    mine = members.chosen(selection.choice)
    mine = mine[members.starts[mine] & visits[members.option[mine]]]
    for job, option in zip(members.job[mine].tolist(), members.option[mine].tolist(), strict=True):
        there = held.node[held.option == option].tolist()
        kind = int(problem.options.node_class[option])
        _check_nodes(problem, job, option, tuple(there), [kind] * len(there))


def _check_returns(problem: RoundProblem, selection: Selection) -> None:
    """Check that a job may be on the named nodes it returns to, one part on each."""
    if not problem.returns.options:
        return
    for job, picked in enumerate(selection.choice.tolist()):
        row = problem.returning(picked)
        if row is not None:
            candidate = int(problem.returns.candidate[row])
            check_start(problem, job, candidate, problem.named_nodes(picked))


def _check_one_gang(problem: RoundProblem, selection: Selection) -> None:
    """Check that shared GPUs continue with one job or one shared option."""
    options = problem.options
    if not problem.shared.gang.size:
        return
    taken = np.unique(options.held.chosen(selection.choice).option)
    often = np.flatnonzero(np.bincount(options.gang[options.job[taken]]) > 1)
    if often.size:
        raise RuleError("one_gang", int(often[0]), "two options continue on its GPUs")


def check_start(problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...]) -> None:
    """Raise `RuleError` unless a candidate may start on these nodes, one part on each."""
    candidates = problem.options.starts
    parts = candidates.parts(choice)
    if len(parts) != len(nodes):
        raise RuleError("parts", job, f"{len(parts)} parts on {len(nodes)} nodes")
    if len(set(nodes)) != len(nodes) and not candidates.loose[choice]:
        raise RuleError("distinct_nodes", job, f"two parts share a node: {nodes}")
    _check_nodes(problem, job, choice, nodes, candidates.classes_of(choice).tolist())
    _check_scope(problem, job, choice, nodes)


def _check_nodes(
    problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...], classes: list[int]
) -> None:
    """Check that every part may be on its node."""
    candidates = problem.options.starts
    for node, kind in zip(nodes, classes, strict=True):
        if not 0 <= node < problem.nodes.count:
            raise RuleError("node_exists", job, f"there is no node {node}")
        if not problem.nodes.open[node]:
            raise RuleError("node_open", job, f"node {node} is closed to new work")
        if problem.nodes.node_class[node] != kind:
            raise RuleError("node_class", job, f"node {node} is not of its part's class")
        if not problem.nodes.sets[candidates.node_set[choice], node]:
            raise RuleError("node_set", job, f"node {node} is not among those it may use")


def _check_scope(problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...]) -> None:
    scope = Scope(int(problem.options.starts.scope[choice]))
    strict = bool(problem.options.starts.strict[choice])
    domains = len(set(problem.nodes.domain[list(nodes)].tolist()))
    leaves = len(set(problem.nodes.leaf[list(nodes)].tolist()))
    if scope is Scope.NVLINK and domains > 1:
        raise RuleError("scope", job, f"nodes {nodes} are not in one NVLink domain")
    if scope is Scope.LEAF and leaves > 1:
        raise RuleError("scope", job, f"nodes {nodes} are not under one leaf switch")
    if scope is Scope.LEAF and strict and domains == 1:
        raise RuleError("span", job, f"nodes {nodes} are in one NVLink domain")
    if scope is Scope.POD and strict and leaves == 1:
        raise RuleError("span", job, f"nodes {nodes} are under one leaf switch")
