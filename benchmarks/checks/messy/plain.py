"""Plain MIP of a round, and a check of decisions, written from ``docs/formulations/round.md``.

The model has a column per option and a column per (start, size of parts, node), and rows for what
the page lists. It shares no code with the formulations: only the tables of the round are read.
HiGHS solves it with default options. Its limits are in CPU seconds, as the machine may be busy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from formulations.arrays import Floats, Ints
from formulations.resources import SIDES, UPLINK
from formulations.round.tables import Level, RoundProblem, Scope, Selection

TOLERANCE = 1e-6
PER_NODE = tuple(side.per_node for side in SIDES)
"""Whether each side resource is held per node; else it is per GPU."""


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """Value and bound of the plain MIP, its CPU seconds, and its size."""

    value: float
    bound: float
    cpu_s: float
    columns: int
    proved: bool


class _Rows:
    """Rows under construction: entries with row and column, and the sides of each row."""

    def __init__(self) -> None:
        self.count = 0
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._sides: list[tuple[Floats, Floats]] = []

    def add(
        self,
        count: int,
        lower: float | Floats,
        upper: float | Floats,
        *entries: tuple[Ints, Ints, Floats | float],
    ) -> None:
        """Add rows; the rows of entries are numbered from 0."""
        for row, column, value in entries:
            values = np.broadcast_to(np.asarray(value, dtype=float), row.shape)
            self._entries.append((row + self.count, column, values))
        sides = (
            np.broadcast_to(np.asarray(side, dtype=float), (count,)) for side in (lower, upper)
        )
        low, high = sides
        self._sides.append((low, high))
        self.count += count

    def matrix(self, columns: int) -> tuple[sparse.csr_array, Floats, Floats]:
        """Return the matrix and the sides."""
        row, column, value = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        low, high = (np.concatenate(part) for part in zip(*self._sides, strict=True))
        matrix = sparse.csr_array((value, (row, column)), shape=(self.count, columns))
        matrix.sum_duplicates()
        return matrix, low, high


def solve(problem: RoundProblem, level: Level, gap: float, time_s: float) -> PlainAnswer:
    """Build the plain MIP and solve it on one thread; all CPU seconds are counted."""
    began_s = time.process_time()
    matrix, low, high, cost, upper, whole = model(problem, level)
    # Solvers' tolerances are absolute.
    scale = float(np.abs(cost).max(initial=0.0)) or 1.0
    highs = highspy.Highs()
    for option, setting in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", gap),
        ("mip_abs_gap", 1e-9),
    ):
        highs.setOptionValue(option, setting)
    limit_cpu_s(highs, began_s + time_s)
    highs.passModel(
        cost.size,
        low.size,
        matrix.nnz,
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMaximize),
        0.0,
        cost / scale,
        np.zeros(cost.size),
        upper,
        low,
        high,
        matrix.indptr[:-1].astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data,
        whole.astype(np.int32),
    )
    highs.run()
    info = highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    value = info.objective_function_value * scale if found else -np.inf
    proved = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    bound = info.mip_dual_bound * scale
    return PlainAnswer(value, bound, time.process_time() - began_s, int(cost.size), proved)


def limit_cpu_s(highs: highspy.Highs, until_s: float) -> None:
    """Interrupt a solve once `time.process_time` is later than ``until_s``."""

    def interrupt(_kind: object, _message: str, _out: object, into: Any, _data: object) -> None:
        if into is not None and time.process_time() > until_s:
            into.user_interrupt = True

    highs.setCallback(interrupt, None)
    for kind in ("MipInterrupt", "SimplexInterrupt"):
        highs.startCallback(getattr(highspy.cb.HighsCallbackType, f"kCallback{kind}"))


def model(
    problem: RoundProblem, level: Level
) -> tuple[sparse.csr_array, Floats, Floats, Floats, Floats, np.ndarray]:
    """Return the matrix, the sides of rows, and cost, upper limit and integrality of columns."""
    options, nodes, starts, held = (
        problem.options,
        problem.nodes,
        problem.options.starts,
        problem.options.held,
    )
    count, kinds = options.count, nodes.resources
    # Groups of parts of equal size on nodes of one class.
    key = np.column_stack([starts.part_candidate, starts.part_gpus, starts.part_class])
    groups, many = np.unique(key.reshape(-1, 3), axis=0, return_counts=True)
    owner, size, kind = groups.T
    may = nodes.open & nodes.sets[starts.node_set[owner]] & (nodes.node_class == kind[:, None])
    group, node = np.nonzero(may)
    y = count + np.arange(group.size)
    most = np.where(starts.loose[owner[group]], nodes.capacity[kind[group], 0] // size[group], 1.0)
    # Regions that hold all parts of a start.
    confined = np.isin(starts.scope, (Scope.NVLINK, Scope.LEAF))
    places = np.where(
        (starts.scope == Scope.LEAF)[owner[group]], nodes.leaf[node], nodes.domain[node]
    )
    in_region = confined[owner[group]]
    region = np.column_stack([owner[group], places])[in_region]
    regions, region_of = np.unique(region.reshape(-1, 2), axis=0, return_inverse=True)
    h = count + group.size + np.arange(regions.shape[0])
    u = count + group.size + regions.shape[0] + np.arange(problem.rules.aux_upper.size)

    rows, members = _Rows(), options.members
    rows.add(problem.jobs.count, -np.inf, 1.0, (members.job, members.option, 1.0))
    here = np.unique(held.option)
    rows.add(
        problem.jobs.count,
        -np.inf,
        1.0,
        (options.gang[options.job[here]] if options.gang.size else options.job[here], here, 1.0),
    )
    rows.add(len(owner), 0.0, 0.0, (group, y, 1.0), (np.arange(owner.size), owner, -1.0 * many))
    # One part per node, of a start that is chosen, in the region that is chosen.
    at = np.column_stack([owner[group], node])
    spots, spot_of = np.unique(at.reshape(-1, 2), axis=0, return_inverse=True)
    switch = spots[:, 0].copy()
    region_of_spot = np.full(len(spots), -1)
    region_of_spot[spot_of.reshape(-1)[in_region]] = region_of.reshape(-1)
    switch[region_of_spot >= 0] = h[region_of_spot[region_of_spot >= 0]]
    limit = np.ones(len(spots))
    np.maximum.at(limit, spot_of.reshape(-1), most)
    rows.add(
        len(spots),
        -np.inf,
        0.0,
        (spot_of.reshape(-1), y, 1.0),
        (np.arange(len(spots)), switch, -limit),
    )
    mine = np.flatnonzero(confined & (np.diff(starts.part_start) > 0))
    rows.add(
        mine.size,
        0.0,
        0.0,
        (np.searchsorted(mine, regions[:, 0]), h, 1.0),
        (np.arange(mine.size), mine, -1.0),
    )
    demand = _demands(starts.side[owner[group]], size[group])
    resource = np.arange(kinds)
    rows.add(
        nodes.count * kinds,
        -np.inf,
        nodes.capacity[nodes.node_class].reshape(-1),
        ((node[:, None] * kinds + resource).reshape(-1), np.repeat(y, kinds), demand.reshape(-1)),
        (
            (held.node[:, None] * kinds + resource).reshape(-1),
            np.repeat(held.option, kinds),
            held.demand.reshape(-1),
        ),
    )
    sent = (
        np.where(starts.scope == Scope.POD, starts.side[:, UPLINK], 0.0)[owner[group]] * size[group]
    )
    limits = nodes.uplink_gb_per_s
    rows.add(
        limits.size,
        -np.inf,
        limits,
        (nodes.leaf[node], y, sent),
        (nodes.leaf[held.node], held.option, held.uplink_gb_per_s),
    )
    # The row of its own span: not all parts in one tighter place.
    own = np.flatnonzero(starts.strict[owner[group]])
    tight = np.where(
        (starts.scope == Scope.POD)[owner[group]], nodes.leaf[node], nodes.domain[node]
    )
    narrow, narrow_of = np.unique(
        np.column_stack([owner[group], tight])[own].reshape(-1, 2), axis=0, return_inverse=True
    )
    fewer = np.diff(starts.part_start)[narrow[:, 0]] - 1.0
    rows.add(
        len(narrow),
        -np.inf,
        0.0,
        (narrow_of.reshape(-1), y[own], 1.0),
        (np.arange(len(narrow)), narrow[:, 0], -fewer),
    )
    _add_rules(rows, problem, u)
    columns = count + y.size + h.size + u.size
    cost, upper, whole = np.zeros(columns), np.ones(columns), np.ones(columns, dtype=bool)
    cost[:count], upper[:count] = level.value, options.possible
    upper[y], upper[u], whole[u] = most, problem.rules.aux_upper, False
    return (*rows.matrix(columns), cost, upper, whole)


def _add_rules(rows: _Rows, problem: RoundProblem, u: Ints) -> None:
    """Add the rows of the operator's rules; ``u`` are the rules' own columns."""
    rules, stay = problem.rules, problem.options.stay
    for row in range(rules.count):
        entries = np.flatnonzero(rules.row == row)
        index = rules.index[entries]
        column = np.select(
            [rules.kind[entries] == 0, rules.kind[entries] == 1],
            [index, stay[np.where(rules.kind[entries] == 1, index, 0)]],
            u[index] if u.size else -1,
        )
        there = column >= 0
        rows.add(
            1,
            rules.lower[row],
            rules.upper[row],
            (np.zeros(int(there.sum()), dtype=int), column[there], rules.value[entries][there]),
        )


def _demands(side: Floats, gpus: Ints) -> Floats:
    """Return what parts hold of each resource, GPUs first."""
    units = np.where(np.asarray(PER_NODE[: side.shape[1]]), 1.0, gpus[:, None])
    return np.column_stack([gpus, side * units])


def faults(problem: RoundProblem, selection: Selection) -> Iterator[str]:
    """Yield which rules of the page a decision breaks, in words."""
    options, nodes, starts = problem.options, problem.nodes, problem.options.starts
    members, held, choice = options.members, options.held, selection.choice
    used = np.zeros((nodes.count, nodes.resources))
    traffic = np.zeros(nodes.uplink_gb_per_s.size)
    values = np.zeros(options.count)
    for option in sorted({int(one) for one in choice if one >= 0}):
        jobs = members.job[members.option == option]
        values[option] = 1.0
        if not options.possible[option]:
            yield f"option {option} is not possible"
        if (np.flatnonzero(choice == option) != np.sort(jobs)).any():
            yield f"option {option} is not chosen by its jobs and by no other"
        for row in np.flatnonzero(held.option == option):
            used[held.node[row]] += held.demand[row]
            traffic[nodes.leaf[held.node[row]]] += held.uplink_gb_per_s[row]
        if (held.option == option).any():
            continue
        where = np.asarray(selection.nodes[jobs[0]], dtype=int)
        yield from _misplaced(problem, option, where)
        parts = slice(starts.part_start[option], starts.part_start[option + 1])
        sizes = starts.part_gpus[parts]
        if where.size == sizes.size:
            side = np.repeat(starts.side[[option]], sizes.size, axis=0)
            np.add.at(used, where, _demands(side, sizes))
            sent = starts.side[option, UPLINK] * sizes * (starts.scope[option] == Scope.POD)
            np.add.at(traffic, nodes.leaf[where], sent)
    capacity = nodes.capacity[nodes.node_class]
    for node, resource in np.argwhere(used > capacity * (1 + TOLERANCE) + TOLERANCE):
        yield f"node {node} holds {used[node, resource]:g} of resource {resource}"
    for leaf in np.flatnonzero(traffic > nodes.uplink_gb_per_s * (1 + TOLERANCE)):
        yield f"leaf {leaf} carries {traffic[leaf]:g}"
    here = np.unique(held.option[values[held.option] > 0])
    gangs = options.gang[options.job[here]] if options.gang.size else options.job[here]
    if np.unique(gangs).size < gangs.size:
        yield "two options continue on the same GPUs"
    if not problem.rules.aux_upper.size:
        yield from _broken_rules(problem, values)


def _misplaced(problem: RoundProblem, option: int, where: Ints) -> Iterator[str]:
    """Yield what is wrong with the nodes of a start."""
    nodes, starts = problem.nodes, problem.options.starts
    parts = slice(starts.part_start[option], starts.part_start[option + 1])
    if where.size != starts.part_gpus[parts].size:
        yield f"option {option}: not one node for every part"
        return
    if not starts.loose[option] and np.unique(where).size < where.size:
        yield f"option {option}: two parts are on one node"
    if not (nodes.open & nodes.sets[starts.node_set[option]])[where].all():
        yield f"option {option}: a node is closed to it"
    if (nodes.node_class[where] != starts.part_class[parts]).any():
        yield f"option {option}: a node is of another class"
    leaves, domains = np.unique(nodes.leaf[where]).size, np.unique(nodes.domain[where]).size
    scope = starts.scope[option]
    if (scope == Scope.LEAF and leaves > 1) or (scope == Scope.NVLINK and domains > 1):
        yield f"option {option}: its parts are too far apart"
    if starts.strict[option] and (leaves if scope == Scope.POD else domains) == 1:
        yield f"option {option}: its parts are too close, where its row does not hold"


def _broken_rules(problem: RoundProblem, values: Floats) -> Iterator[str]:
    """Yield which rows of rules without columns of their own are broken."""
    rules, stay = problem.rules, problem.options.stay
    for row in range(rules.count):
        mine = np.flatnonzero(rules.row == row)
        option = [
            int(rules.index[e]) if rules.kind[e] == 0 else int(stay[rules.index[e]]) for e in mine
        ]
        total = sum(
            float(rules.value[e]) * values[o] for e, o in zip(mine, option, strict=True) if o >= 0
        )
        if not rules.lower[row] - TOLERANCE <= total <= rules.upper[row] + TOLERANCE:
            yield f"rule {rules.name[row]}{list(rules.label[row])}"
