"""The independent check: restates what a feasible round is, and never reads a model.

Rules, each a word of the formulation page: ``one_config``, ``stay``, ``own_candidate``,
``node_exists``, ``node_open``, ``node_class``, ``node_set``, ``parts``, ``distinct_nodes``,
``scope``, ``capacity``, ``uplink``, and the names of the operator's rules.
"""

from __future__ import annotations

import numpy as np

from formulations.round_problem import NONE, RESOURCES, STAY, RoundProblem, Scope, Selection
from formulations.rules import broken_rule


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
    for job, choice in enumerate(selection.choice.tolist()):
        if choice in (NONE, STAY):
            if selection.nodes[job]:
                raise RuleError("parts", job, "names nodes without a configuration")
            if choice == STAY and not running[job]:
                raise RuleError("stay", job, "cannot stay, it holds nothing")
            continue
        _check_start(problem, job, choice, selection.nodes[job])
        for part, node in zip(problem.candidates.parts(choice), selection.nodes[job], strict=True):
            used[node] += problem.candidates.demand(choice, part)
    stays = selection.choice[problem.holds.job] == STAY
    np.add.at(used, problem.holds.node[stays], problem.holds.demand[stays])
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
        if choice < 0 or candidates.scope[choice] != Scope.POD:
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


def _check_start(problem: RoundProblem, job: int, choice: int, nodes: tuple[int, ...]) -> None:
    candidates = problem.candidates
    if not 0 <= choice < candidates.count or candidates.job[choice] != job:
        raise RuleError("own_candidate", job, f"candidate {choice} is not one of its own")
    parts = candidates.parts(choice)
    if len(parts) != len(nodes):
        raise RuleError("parts", job, f"{len(parts)} parts on {len(nodes)} nodes")
    if len(set(nodes)) != len(nodes):
        raise RuleError("distinct_nodes", job, f"two parts share a node: {nodes}")
    for node in nodes:
        if not 0 <= node < problem.nodes.count:
            raise RuleError("node_exists", job, f"there is no node {node}")
        if not problem.nodes.open[node]:
            raise RuleError("node_open", job, f"node {node} is closed to new work")
        if problem.nodes.node_class[node] != candidates.node_class[choice]:
            raise RuleError("node_class", job, f"node {node} is not of the candidate's class")
        if not problem.nodes.sets[candidates.node_set[choice], node]:
            raise RuleError("node_set", job, f"node {node} is not among those it may use")
    _check_scope(problem, job, Scope(int(candidates.scope[choice])), nodes)


def _check_scope(problem: RoundProblem, job: int, scope: Scope, nodes: tuple[int, ...]) -> None:
    where = list(nodes)
    if scope is Scope.NVLINK and len(set(problem.nodes.domain[where].tolist())) > 1:
        raise RuleError("scope", job, f"nodes {nodes} are not in one NVLink domain")
    if scope is Scope.LEAF and len(set(problem.nodes.leaf[where].tolist())) > 1:
        raise RuleError("scope", job, f"nodes {nodes} are not under one leaf switch")
