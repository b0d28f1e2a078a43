"""Mixes of nodes that the planning MILP proposes."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.fleet import FleetProblem, build, check, decode
from morph_opt.core.domain import Cluster, InputError, Node, NodeType
from morph_opt.plan.parameters import FLEET
from morph_opt.scheduling.solvers.outcome import Limits, Status
from morph_opt.scheduling.solvers.registry import make_solver


def fleet_of(types: Sequence[NodeType], counts: Sequence[int]) -> Cluster:
    """Make a flat cluster with these numbers of nodes per type."""
    nodes = [
        Node(f"{kind.name}-{k}", kind)
        for kind, count in zip(types, counts, strict=True)
        for k in range(count)
    ]
    name = " + ".join(f"{c} x {k.name}" for k, c in zip(types, counts, strict=True) if c)
    return Cluster(name or "none", tuple(nodes))


@dataclass(frozen=True, slots=True)
class Cheapest:
    """Fleet of the MILP: its cost, and the nodes of each type."""

    cost: float
    nodes: tuple[int, ...]


def cheapest(problem: FleetProblem, count: int, *, time_s: float = 60.0) -> list[Cheapest]:
    """Return the cheapest integer fleets, in order of cost.

    The box of fleets is split around each answer into boxes that do not hold it (Lawler 1972), so
    that none is found twice and none is missed.

    Raises
    ------
    InputError
        If the solver neither solves nor refutes a box in time.
    """
    limits, solver = Limits(gap=1e-6, time_s=time_s), make_solver("highs")
    heap: list[tuple[float, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []

    def push(low: tuple[int, ...], high: tuple[int, ...]) -> None:
        if any(a > b for a, b in zip(low, high, strict=True)):
            return
        outcome = solver.solve(build(problem, np.asarray(low), np.asarray(high)), limits)
        if outcome.status is Status.INFEASIBLE:
            return
        if outcome.status is not Status.OPTIMAL or outcome.x is None:
            rule = f"the planning MILP was not solved within {time_s:g} s ({outcome.status})"
            raise InputError(rule, field="fleet")
        answer = decode(problem, outcome.x)
        check(problem, answer)
        nodes = tuple(int(n) for n in answer.nodes)
        heapq.heappush(heap, (problem.cost(answer.nodes), nodes, low, high))

    push((0,) * problem.types, tuple(int(n) for n in problem.most))
    found: list[Cheapest] = []
    while heap and len(found) < count:
        cost, nodes, low, high = heapq.heappop(heap)
        found.append(Cheapest(cost, nodes))
        for k in range(problem.types):
            fixed = nodes[:k]
            push(fixed + low[k:], (*fixed, nodes[k] - 1, *high[k + 1 :]))
            push((*fixed, nodes[k] + 1, *low[k + 1 :]), fixed + high[k:])
    return found


def candidates(
    problem: FleetProblem, floor: Sequence[Cheapest], mixes: int, budget: float
) -> list[Cheapest]:
    """Return the mixes to try, by cost: all mixes if few, else what the MILP proposes.

    The MILP is a first guess for most SLOs. Larger and smaller mixes of the same proportions and
    every type alone are therefore tried as well.
    """
    most = [int(n) for n in problem.most]
    if math.prod(n + 1 for n in most) <= FLEET.enumerated:
        every = [_priced(problem, n) for n in itertools.product(*(range(k + 1) for k in most))]
    else:
        near = cheapest(problem, mixes) if floor else []
        found = {one.nodes for one in near}
        for one in near[: max(1, mixes // 4)]:
            for factor in FLEET.scales:
                scaled = (math.ceil(factor * n) for n in one.nodes)
                found.add(tuple(min(n, m) for n, m in zip(scaled, most, strict=True)))
        for k, limit in enumerate(most):
            for count in range(1, limit + 1):
                found.add(tuple(count * (j == k) for j in range(len(most))))
        every = [_priced(problem, nodes) for nodes in found]
    within = [one for one in every if one.cost <= budget + 1e-9 and any(one.nodes)]
    return sorted(within, key=lambda one: (one.cost, one.nodes))


def _priced(problem: FleetProblem, nodes: Sequence[int]) -> Cheapest:
    return Cheapest(problem.cost(np.asarray(nodes)), tuple(nodes))
