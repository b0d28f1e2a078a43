"""Random rounds of any size and nastiness; equal generators give equal rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.round.rule_table import RULE_S, RULE_U, RULE_X, RuleTable
from formulations.round.tables import JobTable, Level, NodeTable, RoundProblem, Scope
from morph_opt.scheduling.policies.objectives.plain import Jct, Throughput
from tests.formulations.worlds.rounds import (
    SIDES,
    Candidate,
    Hold,
    Rule,
    candidate_table,
    hold_table,
    level_of,
    rule_table,
    set_table,
)


@dataclass(frozen=True, slots=True)
class RoundSize:
    """How large and how nasty random rounds are.

    Parameters
    ----------
    jobs, nodes, classes, candidates, parts
        Largest number of each: of jobs, nodes, node classes, candidates per job, parts per shape.
    gpus
        GPUs per node to draw from.
    running, closed, guaranteed
        Chance of each: that a job runs, a node is closed, a job is guaranteed.
    side_resources_bind
        Whether side resources may be scarce. With False they are
        drawn all the same, but every node has enough for whatever fits its GPUs.
    leaves
        Largest number of leaf switches. With more than one, shapes of several parts are confined
        to an NVLink domain, a leaf or nothing, and the uplinks of leaves may be scarce.
    node_sets
        Largest number of node sets that candidates may be confined to, besides all nodes.
    rules
        Largest number of operator's rules: limits on GPUs with borrowing, and jobs that must run.
    mixed
        Chance that a candidate or a hold has parts on several classes; half of these candidates
        are of single GPUs that may share nodes.
    sides
        Number of side resources: one more than `SIDES` brings local SSD, held per node.
    """

    jobs: int = 4
    nodes: int = 3
    classes: int = 2
    candidates: int = 5
    parts: int = 3
    gpus: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    running: float = 0.5
    closed: float = 0.15
    guaranteed: float = 0.25
    side_resources_bind: bool = False
    leaves: int = 1
    node_sets: int = 0
    rules: int = 0
    mixed: float = 0.0
    sides: int = SIDES


SMALL = RoundSize()
"""Within reach of the brute force: GPUs alone."""

EVERYTHING = RoundSize(
    nodes=4, candidates=4, side_resources_bind=True, leaves=3, node_sets=2, rules=3
)
"""Within reach of the brute force: everything at once."""

LOCAL_SSD = replace(EVERYTHING, sides=SIDES + 1)
"""Everything and local SSD, which is held per node."""


def random_round(draw: np.random.Generator, size: RoundSize = SMALL) -> RoundProblem:
    """A random round; equal generators give equal rounds."""
    nodes = _random_nodes(draw, size)
    jobs = int(draw.integers(1, size.jobs + 1))
    side = _side_demands(draw, jobs, size.sides)
    free = nodes.capacity[nodes.node_class].copy()
    holds: list[Hold] = []
    for job in range(jobs):
        if draw.random() < size.running:
            holds += _random_hold(draw, size, nodes, job, free, side[job])
    rows = [
        row for job in range(jobs) for row in _random_candidates(draw, size, nodes, job, side[job])
    ]
    nodes = _with_uplinks(draw, nodes, holds)
    running = sorted({row.job for row in holds})
    stay = np.full(jobs, np.nan)
    stay[running] = draw.uniform(0.2, 4.0, len(running))
    table = JobTable(
        iterations_left=draw.uniform(1.0, 2000.0, jobs),
        request_iteration_s=draw.uniform(0.5, 3.0, jobs),
        guaranteed=draw.random(jobs) < size.guaranteed,
        restart_s=draw.uniform(0.0, 300.0, jobs),
        restart_left_s=np.where(np.isnan(stay), 0.0, draw.uniform(0.0, 100.0, jobs)),
        stay_iteration_s=stay,
        attained_gpu_s=draw.uniform(0.0, 1e4, jobs),
        submission_s=np.sort(draw.uniform(0.0, 1e4, jobs)),
        weight=draw.choice([1.0, 2.0, 0.5], jobs),
    )
    rules = _random_rules(draw, size, jobs, rows, holds)
    candidates, held = candidate_table(rows, size.sides), hold_table(holds, size.sides)
    return RoundProblem(table, candidates, nodes, held, rules=rules)


def random_level(draw: np.random.Generator, problem: RoundProblem) -> Level:
    """Values from one of the objectives, drawn freely, or with many ties."""
    kind = int(draw.integers(4))
    if kind == 0:
        return Throughput().levels(problem)[0]
    if kind == 1:
        return Jct().levels(problem)[0]
    started, stayed = problem.candidates.count, problem.jobs.count
    if kind == 2:
        values, stays = draw.uniform(0.0, 10.0, started), draw.uniform(0.0, 10.0, stayed)
    else:
        values = draw.integers(0, 4, started).astype(np.float64)
        stays = draw.integers(0, 4, stayed).astype(np.float64)
    return level_of(problem, values.tolist(), stays.tolist(), "random")


def with_one_more_node(problem: RoundProblem, node_class: int) -> RoundProblem:
    """The same round with another idle open node of a class."""
    nodes = problem.nodes
    more = NodeTable(
        np.append(nodes.node_class, node_class),
        nodes.capacity,
        np.append(nodes.open, True),
        np.append(nodes.leaf, 0),
        np.append(nodes.domain, nodes.domain.max(initial=0) + 1),
        nodes.uplink_gb_per_s,
        np.column_stack([nodes.sets, np.ones(nodes.sets.shape[0], dtype=bool)]),
    )
    return replace(problem, nodes=more)


def _random_nodes(draw: np.random.Generator, size: RoundSize) -> NodeTable:
    count = int(draw.integers(1, size.nodes + 1))
    classes = int(draw.integers(1, min(size.classes, count) + 1))
    first = np.arange(classes)
    node_class = np.concatenate([first, draw.integers(0, classes, count - classes)])
    gpus = draw.choice(size.gpus, classes).astype(np.float64)
    enough = _LARGEST[: size.sides] * gpus[:, None]
    # Of what is held per node few jobs must find enough, or it is never scarce.
    enough[:, SIDES:] = 1.2 * _LARGEST[SIDES : size.sides]
    some = draw.uniform(0.3, 0.9, enough.shape) if size.side_resources_bind else 1.0
    side = enough * some
    leaves = int(draw.integers(1, size.leaves + 1))
    chosen = [
        draw.permutation(count)[: int(draw.integers(1, count + 1))] for _ in range(size.node_sets)
    ]
    return NodeTable(
        draw.permutation(node_class).astype(np.int64),
        np.column_stack([gpus, side]),
        draw.random(count) >= size.closed,
        draw.integers(0, leaves, count),
        draw.integers(0, count, count) if size.leaves > 1 else np.arange(count),
        np.full(leaves, np.inf),
        set_table(count, [one.tolist() for one in chosen]),
    )


_LARGEST = np.asarray([12.0, 60.0, 10.0, 40.0])
"""Largest demand that is drawn: CPU threads, GiB, GB/s per GPU, GiB of local SSD per node."""


def units(part: int, sides: int) -> np.ndarray:
    """How often a part holds its demand for each side resource: per GPU, of local SSD once."""
    return np.asarray([float(part)] * SIDES + [1.0])[:sides]


def _side_demands(draw: np.random.Generator, jobs: int, sides: int) -> np.ndarray:
    """Demand of each job's configurations on average, shape (jobs, sides)."""
    share = draw.choice([0.0, 0.25, 0.5, 1.0], (jobs, sides))
    return np.asarray(share * _LARGEST[:sides])


def _fitting(side: np.ndarray, part: int, capacity: np.ndarray) -> tuple[float, ...]:
    """The demand, cut to what an empty node can give to a part: nothing impossible."""
    return tuple(np.minimum(side, capacity[1:] / units(part, side.size)).tolist())


def _random_hold(
    draw: np.random.Generator,
    size: RoundSize,
    nodes: NodeTable,
    job: int,
    free: np.ndarray,
    side: np.ndarray,
) -> list[Hold]:
    """Parts on distinct nodes of one class that still have room; none if there is no room."""
    node_class = int(draw.integers(nodes.classes))
    anywhere = bool(size.mixed and draw.random() < size.mixed)
    where = np.flatnonzero(((nodes.node_class == node_class) | anywhere) & (free[:, 0] >= 1))
    if not where.size:
        return []
    chosen = draw.permutation(where)[: int(draw.integers(1, min(size.parts, where.size) + 1))]
    crosses = len(set(nodes.leaf[chosen].tolist())) > 1
    found: list[Hold] = []
    for node in chosen.tolist():
        part = int(draw.integers(1, int(free[node, 0]) + 1))
        times = units(part, side.size)
        need = np.minimum(side, np.maximum(0.0, free[node, 1:]) / times)
        free[node] -= np.concatenate([[part], times * need])
        share = part * float(need[SIDES - 1]) if crosses else 0.0
        found.append(Hold(job, node, part, tuple(need.tolist()), share))
    return found


def _with_uplinks(draw: np.random.Generator, nodes: NodeTable, holds: list[Hold]) -> NodeTable:
    """Some uplinks limited, none below what is on it already."""
    leaves = nodes.uplink_gb_per_s.size
    if leaves == 1:
        return nodes
    carried = np.zeros(leaves)
    for hold in holds:
        carried[nodes.leaf[hold.node]] += hold.uplink
    limit = carried + draw.uniform(0.0, 60.0, leaves)
    unlimited = draw.random(leaves) < 0.3
    return replace(nodes, uplink_gb_per_s=np.where(unlimited, np.inf, limit))


def _random_rules(
    draw: np.random.Generator,
    size: RoundSize,
    jobs: int,
    rows: list[Candidate],
    holds: list[Hold],
) -> RuleTable:
    """Limits on the GPUs of some jobs, some with borrowing from a pool; jobs that must run.

    Leaving everything as it is satisfies all of them, so no round is impossible.
    """
    if not size.rules:
        return RuleTable()
    held = np.zeros(jobs)
    for hold in holds:
        held[hold.job] += hold.gpus
    found: list[Rule] = []
    pool: list[float] = []
    for _ in range(int(draw.integers(0, size.rules + 1))):
        members = np.flatnonzero(draw.random(jobs) < 0.6).tolist()
        uses = [
            (RULE_X, k, float(sum(row.parts))) for k, row in enumerate(rows) if row.job in members
        ]
        uses += [(RULE_S, j, float(held[j])) for j in members if held[j]]
        least = sum(amount for kind, _, amount in uses if kind == RULE_S)
        kind = int(draw.integers(3))
        if kind == 0 and members:
            job = members[0]
            starts = tuple((RULE_X, k, 1.0) for k, row in enumerate(rows) if row.job == job)
            if held[job]:
                found.append(Rule("must_run", 1.0, np.inf, (*starts, (RULE_S, job, 1.0))))
        elif kind == 1:
            found.append(Rule("quota", -np.inf, least + float(draw.integers(0, 6)), tuple(uses)))
        else:
            own, aux = float(draw.integers(0, 6)), len(pool)
            pool.append(least + float(draw.integers(0, 6)))
            found.append(Rule("quota", -np.inf, own, (*uses, (RULE_U, aux, -1.0))))
    if pool:
        total = sum(pool) - float(draw.integers(0, 4))
        borrowed = tuple((RULE_U, i, 1.0) for i in range(len(pool)))
        found.append(Rule("borrowed", -np.inf, max(total, _needed(found, held)), borrowed))
    return rule_table(found, pool)


def _needed(rules: list[Rule], held: np.ndarray) -> float:
    """What is borrowed when everything stays."""
    total = 0.0
    for rule in rules:
        if any(kind == RULE_U for kind, _, _ in rule.entries):
            used = sum(held[i] for kind, i, _ in rule.entries if kind == RULE_S)
            total += max(0.0, float(used) - rule.upper)
    return total


def _random_candidates(
    draw: np.random.Generator, size: RoundSize, nodes: NodeTable, job: int, side: np.ndarray
) -> list[Candidate]:
    """Shapes of several parts are as likely as single parts; whole nodes occur as well."""
    rows = []
    for _ in range(int(draw.integers(0, size.candidates + 1))):
        node_class = int(draw.integers(nodes.classes))
        largest = int(nodes.capacity[node_class, 0])
        count = int(draw.integers(1, size.parts + 1))
        parts = sorted(draw.integers(1, largest + 1, count).tolist(), reverse=True)
        if draw.random() < 0.5:
            parts = [parts[0]] * count
        need = _fitting(side * draw.choice([0.5, 1.0]), parts[0], nodes.capacity[node_class])
        seconds = float(draw.uniform(0.2, 4.0))
        scope, node_set, strict = Scope.NODE, 0, False
        if count > 1:
            several = (Scope.NVLINK, Scope.LEAF, Scope.POD) if size.leaves > 1 else (Scope.POD,)
            scope = several[int(draw.integers(len(several)))]
            strict = size.leaves > 1 and scope > Scope.NVLINK and draw.random() < 0.5
        if size.node_sets and draw.random() < 0.4:
            node_set = int(draw.integers(1, size.node_sets + 1))
        made = Candidate(job, tuple(parts), node_class, seconds, need, scope, node_set, strict)
        if size.mixed and draw.random() < size.mixed:
            made = _over_classes(draw, nodes, made, side)
        rows.append(made)
    return rows


def _over_classes(
    draw: np.random.Generator, nodes: NodeTable, row: Candidate, side: np.ndarray
) -> Candidate:
    """The candidate with a class drawn for each part, or as single GPUs that may share nodes."""
    loose = bool(draw.random() < 0.5)
    count = int(draw.integers(1, 5)) if loose else len(row.parts)
    classes = tuple(draw.integers(0, nodes.classes, count).tolist())
    room = nodes.capacity[list(classes)]
    most = room[:, 0].min()
    parts = (1,) * count if loose else tuple(min(part, int(most)) for part in row.parts)
    need = _fitting(side, parts[0], room.min(axis=0))
    several = count > 1
    scope = (row.scope if row.within > Scope.NODE else Scope.POD) if several else Scope.NODE
    strict = row.strict and several and not loose
    return replace(
        row, parts=parts, side=need, scope=scope, strict=strict, classes=classes, loose=loose
    )
