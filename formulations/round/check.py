"""The independent check: restates what a feasible round is, and never reads a model.

Rules, each a word of the formulation page: ``one_config``, ``stay``, ``own_candidate``,
``node_exists``, ``node_open``, ``node_class``, ``node_set``, ``parts``, ``distinct_nodes``,
``scope``, ``span``, ``partners``, ``same_nodes``, ``one_gang``, ``capacity``, ``uplink``, and the
names of the operator's rules.
"""

from __future__ import annotations

import numpy as np

from formulations.linear_model import Floats
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, RESOURCES, STAY, RoundProblem, Scope, Selection


class RuleError(Exception):
    """A decision that breaks a rule of the round.

    Parameters
    ----------
    rule
        The rule's word.
    job
        Index of the job, or None when it concerns a node.
    detail
        What was found.
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
    used = np.zeros((problem.nodes.count, len(RESOURCES)))
    running = problem.jobs.running
    alone = problem.candidates.count - problem.pairs.count
    for job, choice in enumerate(selection.choice.tolist()):
        if choice in (NONE, STAY):
            if selection.nodes[job]:
                raise RuleError("parts", job, "names nodes without a configuration")
            if choice == STAY and not running[job]:
                raise RuleError("stay", job, "cannot stay, it holds nothing")
            continue
        if alone <= choice < problem.candidates.count:
            used += _pair_use(problem, job, choice, selection)
            continue
        _check_start(problem, job, choice, selection.nodes[job])
        for part, node in zip(problem.candidates.parts(choice), selection.nodes[job], strict=True):
            used[node] += problem.candidates.demand(choice, part)
    stays = selection.choice[problem.holds.job] == STAY
    np.add.at(used, problem.holds.node[stays], problem.holds.demand[stays])
    _check_one_gang(problem, selection)
    capacity = problem.nodes.capacity[problem.nodes.node_class]
    _check_uplinks(problem, selection)
    over = np.argwhere(used > capacity * (1 + 1e-9) + 1e-9)
    if over.size:
        node, resource = over[0].tolist()
        raise RuleError(
            "capacity",
            None,
            f"node {node} would hold {used[node, resource]:g} of {capacity[node, resource]:g} "
            f"{RESOURCES[resource]}",
        )
    broken = broken_rule(problem, selection)
    if broken is not None:
        raise RuleError(broken[0], None, f"the rule's row {list(broken[1])} is violated")


def _check_uplinks(problem: RoundProblem, selection: Selection) -> None:
    """Network share of POD candidates and staying jobs on each leaf against its uplink."""
    nodes, candidates, holds = problem.nodes, problem.candidates, problem.holds
    used = np.zeros(nodes.uplink_gb_per_s.size)
    for job, choice in enumerate(selection.choice.tolist()):
        if choice >= 0 and candidates.job[choice] == job and not candidates.parts(choice):
            _add_uplinks_in_place(problem, job, choice, used)
        # What a pair reserves is counted with its first job.
        if choice < 0 or candidates.scope[choice] != Scope.POD or candidates.job[choice] != job:
            continue
        for part, node in zip(candidates.parts(choice), selection.nodes[job], strict=True):
            used[nodes.leaf[node]] += part * candidates.side[choice, 2]
    stays = selection.choice[holds.job] == STAY
    np.add.at(used, nodes.leaf[holds.node[stays]], holds.uplink_gb_per_s[stays])
    over = np.flatnonzero(used > nodes.uplink_gb_per_s * (1 + 1e-9) + 1e-9)
    if over.size:
        leaf = int(over[0])
        raise RuleError(
            "uplink",
            None,
            f"leaf {leaf} would carry {used[leaf]:g} of {nodes.uplink_gb_per_s[leaf]:g} GB/s",
        )


def _add_uplinks_in_place(problem: RoundProblem, job: int, choice: int, used: Floats) -> None:
    """Network share of a pair on the GPUs that its first job holds, if these are in two leaves."""
    mine = problem.holds.job == job
    leaves = problem.nodes.leaf[problem.holds.node[mine]]
    if np.unique(leaves).size > 1:
        share = problem.holds.demand[mine, 0] * problem.candidates.side[choice, 2]
        np.add.at(used, leaves, share)


def _pair_use(problem: RoundProblem, job: int, choice: int, selection: Selection) -> Floats:
    """Check one job of a pair; what the pair uses on every node, counted with its first job."""
    table, pairs, holds = problem.candidates, problem.pairs, problem.holds
    pair = choice - (table.count - pairs.count)
    first, second = int(table.job[choice]), int(pairs.partner[pair])
    used = np.zeros((problem.nodes.count, len(RESOURCES)))
    if job not in (first, second):
        raise RuleError("own_candidate", job, f"pair {choice} is not one of its own")
    other = first + second - job
    if selection.choice[other] != choice:
        raise RuleError("partners", job, f"job {other} does not run in the same pair")
    if job == second:
        if selection.nodes[job] != selection.nodes[first]:
            raise RuleError("same_nodes", job, f"is not where its partner {first} is")
        return used
    if pairs.first_half[pair] >= 0:
        _check_start(problem, first, choice, selection.nodes[first])
        for part, node in zip(table.parts(choice), selection.nodes[first], strict=True):
            used[node] += table.demand(choice, part)
        return used
    if selection.nodes[job]:
        raise RuleError("parts", job, "names nodes without a configuration")
    where = holds.node[holds.job == first]
    if not where.size:
        raise RuleError("stay", first, "cannot stay, it holds nothing")
    if pairs.second_half[pair] >= 0:
        _check_nodes(problem, second, choice, tuple(where.tolist()))
    for node, gpus in zip(where, holds.demand[holds.job == first, 0], strict=True):
        used[node] += gpus * np.concatenate([[1.0], table.side[choice]])
    return used


def _check_one_gang(problem: RoundProblem, selection: Selection) -> None:
    """GPUs that two jobs share go on with one of them, or with one pair in place."""
    table, pairs = problem.candidates, problem.pairs
    for one, two in pairs.sharing.tolist():
        ways = 0
        for job in (one, two):
            choice = int(selection.choice[job])
            first = choice >= 0 and table.job[choice] == job
            ways += choice == STAY or bool(first and not table.parts(choice))
        if ways > 1:
            raise RuleError("one_gang", one, f"goes on where job {two} goes on by itself")


def _check_start(problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...]) -> None:
    candidates = problem.candidates
    if not 0 <= choice < candidates.count or candidates.job[choice] != job:
        raise RuleError("own_candidate", job, f"candidate {choice} is not one of its own")
    parts = candidates.parts(choice)
    if len(parts) != len(nodes):
        raise RuleError("parts", job, f"{len(parts)} parts on {len(nodes)} nodes")
    if len(set(nodes)) != len(nodes):
        raise RuleError("distinct_nodes", job, f"two parts share a node: {nodes}")
    _check_nodes(problem, job, choice, nodes)
    _check_scope(problem, job, choice, nodes)


def _check_nodes(problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...]) -> None:
    candidates = problem.candidates
    for node in nodes:
        if not 0 <= node < problem.nodes.count:
            raise RuleError("node_exists", job, f"there is no node {node}")
        if not problem.nodes.open[node]:
            raise RuleError("node_open", job, f"node {node} is closed to new work")
        if problem.nodes.node_class[node] != candidates.node_class[choice]:
            raise RuleError("node_class", job, f"node {node} is not of the candidate's class")
        if not problem.nodes.sets[candidates.node_set[choice], node]:
            raise RuleError("node_set", job, f"node {node} is not among those it may use")


def _check_scope(problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...]) -> None:
    scope = Scope(int(problem.candidates.scope[choice]))
    strict = bool(problem.candidates.strict[choice])
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
