"""Mixes of nodes: the planning MILP's instance of some workloads, and what it proposes."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.fleet import FleetProblem, build, check, decode
from morph_opt.domain import Cluster, InputError, Node, NodeType
from morph_opt.metrics.bounds.demands import speed_curve
from morph_opt.plan.workloads import Source
from morph_opt.solvers.outcome import Limits, Status
from morph_opt.solvers.registry import make_solver

BIN_S = 1800.0
MIXES = 16
"""Mixes of the MILP that are tried."""
MOST_ENUMERATED = 64
"""Mixes up to which all are tried: the cheapest that passes is then the cheapest there is."""
SCALES = (0.5, 0.75, 1.25, 1.5, 2.0, 3.0)
SCENARIOS = 2
"""Workloads that the MILP serves at once."""


def fleet_of(types: Sequence[NodeType], counts: Sequence[int]) -> Cluster:
    """A flat cluster of so many nodes of each type."""
    nodes = [
        Node(f"{kind.name}-{k}", kind)
        for kind, count in zip(types, counts, strict=True)
        for k in range(count)
    ]
    name = " + ".join(f"{c} x {k.name}" for k, c in zip(types, counts, strict=True) if c)
    return Cluster(name or "none", tuple(nodes))


def fleet_problem(
    source: Source,
    seeds: Sequence[int],
    types: Sequence[NodeType],
    node_price: Sequence[float],
    most: int,
    delay_s: float,
    *,
    restart_s: float = 0.0,
    budget: float = math.inf,
) -> FleetProblem:
    """The planning MILP's instance of some workloads.

    A job class is a model with its CPU need; its configurations are the fastest for every GPU
    count that fits as many nodes of a type as may be had.

    Raises
    ------
    InputError
        If a job can run on none of the types.
    """
    arrivals: dict[tuple[int, tuple[str, int], int], list[float]] = {}
    configs: dict[tuple[str, int], list[tuple[int, float, float]]] = {}
    for w, seed in enumerate(seeds):
        workload = source.workload(seed)
        for job in workload.trace.jobs:
            group = job.model, job.cpus_per_gpu
            if group not in configs:
                configs[group] = _configs(workload.truth, group, types, most)
                if not configs[group]:
                    names = ", ".join(kind.name for kind in types)
                    rule = f"job {job.name} ({job.model}) can run on no {names}"
                    raise InputError(rule, field="--types")
            found = arrivals.setdefault((w, group, int(job.submission_s // BIN_S)), [0.0, 0.0])
            found[0] += job.iterations
            found[1] += 1.0
    groups = {group: g for g, group in enumerate(sorted(configs))}
    keys = sorted(arrivals, key=lambda key: (key[0], groups[key[1]], key[2]))
    rows = [(groups[group], *row) for group in groups for row in configs[group]]
    sizes = np.asarray([kind.gpus for kind in types], dtype=np.int64)
    return FleetProblem(
        np.asarray(node_price, dtype=np.float64), sizes, np.full(len(types), most),
        np.full(len(types), -1),
        np.asarray([key[0] for key in keys]), np.asarray([groups[key[1]] for key in keys]),
        np.asarray([key[2] for key in keys]),
        np.asarray([arrivals[key][0] for key in keys]),
        np.asarray([int(arrivals[key][1]) for key in keys]),
        np.asarray([row[0] for row in rows]), np.asarray([row[1] for row in rows]),
        np.asarray([row[2] for row in rows]), np.asarray([row[3] for row in rows]),
        BIN_S, delay_s, min(restart_s, delay_s), budget,
    )  # fmt: skip


def _configs(
    truth: object, group: tuple[str, int], types: Sequence[NodeType], most: int
) -> list[tuple[int, float, float]]:
    """Type, GPUs and seconds per iteration; only those on the least convex cost of speed."""
    found = []
    for k, kind in enumerate(types):
        there = Cluster.uniform(most, kind)
        gpus, pace_s = speed_curve(truth, group[0], there, group[1])  # type: ignore[arg-type]
        held = (gpus * pace_s).tolist()
        kept: list[tuple[float, float, float]] = []  # seconds, GPU-seconds, GPUs
        for one in sorted(zip(pace_s.tolist(), held, gpus.tolist(), strict=True)):
            if kept and one[1] >= kept[-1][1]:
                continue  # slower and dearer
            while len(kept) > 1 and _above(kept[-2], kept[-1], one):
                kept.pop()
            kept.append(one)
        found += [(k, g, s) for s, _, g in kept]
    return found


def _above(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> bool:
    """Whether ``b`` is not below the line from ``a`` to ``c``: a mix of these does as well."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


@dataclass(frozen=True, slots=True)
class Cheapest:
    """A fleet of the MILP: its cost, and the nodes of each type."""

    cost: float
    nodes: tuple[int, ...]


def cheapest(problem: FleetProblem, count: int, *, time_s: float = 60.0) -> list[Cheapest]:
    """The cheapest integer fleets, in order of cost.

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
    """Mixes to try, by cost: all there are where these are few, else what the MILP proposes.

    The MILP is a first guess for most SLOs, so next to its cheapest mixes stand larger and smaller
    ones of the same proportions, and every type alone.
    """
    most = [int(n) for n in problem.most]
    if math.prod(n + 1 for n in most) <= MOST_ENUMERATED:
        every = [_priced(problem, n) for n in itertools.product(*(range(k + 1) for k in most))]
    else:
        near = cheapest(problem, mixes) if floor else []
        found = {one.nodes for one in near}
        for one in near[: max(1, mixes // 4)]:
            for factor in SCALES:
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
