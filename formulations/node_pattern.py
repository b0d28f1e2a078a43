r"""`node_pattern`, the default formulation: identical nodes are counted, not named.

Data: a `RoundProblem` and one `Level`. Nodes form cells c, part demands form kinds g of slots,
candidates form gang types q (`formulations.cells`); a[p,g] is the number of slots of kind g in
pattern p, and count[q,g] the number of parts of kind g of a gang of type q.

Variables
    x[j,k] in {0,1}      job j (re)starts in candidate k
    s[j]   in {0,1}      job j stays as it is
    w[n,i] in {0,1}      node n, which carries running jobs, is left with its i-th free state
    z[c,i,p] integer     nodes of cell c in free state i that are cut by pattern p
    m[q,h] integer       gangs of type q inside leaf or NVLink domain h
    f[q,h,g,c]           their parts of kind g that lie in cell c
    u      rules' own    e.g. GPUs that a tenant borrows

Model
    maximise  sum value[k] x[j,k] + sum stay_value[j] s[j]
    (1) one_config[j]       sum_k x[j,k] + s[j] <= 1
    (2) one_free[n]         sum_i w[n,i] = 1
    (3) node_free[n,r]      sum_i free[n,i,r] w[n,i] + sum_j hold[j,n,r] s[j] <= capacity[n,r]
    (4) pattern_count[c,i]  sum_p z[c,i,p] - sum_{n in c} w[n,i] <= idle nodes of c (full state)
    (5) gangs[q]            sum_{k of q} x[j,k] - sum_h m[q,h] = 0      only if q has several h
    (6) parts[q,h,g]        count[q,g] m[q,h] - sum_c f[q,h,g,c] = 0    only if h has several c
    (7) slots[c,g]          parts of kind g in c - sum_{i,p} a[p,g] z[c,i,p] <= 0
    (8) distinct[j,g]       sum_k count[k,g] x[j,k] - sum_{c,i,p} min(a[p,g],1) z[c,i,p] <= 0
                            for jobs with several parts of kind g where two fit one node
    (9) uplink[l]           network share of parts and staying jobs that may leave leaf l <= capacity
    (10) side[c,r]          demand of parts and staying jobs for r in c <= capacity of c together
                            for scarce resources that the kinds do not tell apart
    and the operator's rules (`formulations.rules`).

Exact for jobs whose parts are whole nodes or lie in one node, under resources that the kinds tell
apart. For several sub-node parts (8) is necessary, not sufficient, and so is (10); `formulations.decode` either finds distinct nodes or says that it
cannot, and the caller cuts the choice off (`formulations.layout.forbid`) and solves again. See
``docs/formulations/node_pattern.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.cells import (
    Cells,
    GangTypes,
    Kinds,
    PartCounts,
    count_parts,
    find_cells,
    find_gang_types,
    find_kinds,
    uplinks_matter,
)
from formulations.layout import Layout, RoundModel, add_choices
from formulations.linear_model import Floats, Ints, ModelBuilder
from formulations.patterns import Vector, maximal_patterns, reachable_free
from formulations.round_problem import Level, RoundProblem, Scope
from formulations.rules import add_rules

Entries = list[tuple[Ints, Ints, Floats | float]]


def build(problem: RoundProblem, level: Level) -> RoundModel:
    """The model of this module's docstring; deterministic and free of side effects.

    Raises
    ------
    formulations.patterns.TooManyPatternsError
        If side resources make more patterns than are worth counting.
    """
    builder = ModelBuilder(f"node_pattern {level.name}")
    layout = add_choices(builder, problem)
    cells, kinds = find_cells(problem), find_kinds(problem)
    parts = count_parts(problem, kinds)
    busy = _add_free(builder, problem, layout, cells, kinds)
    z = _add_patterns(builder, problem, cells, kinds, busy)
    lies = _add_gangs(builder, problem, layout, cells, find_gang_types(problem, kinds, parts), parts)
    _add_slots(builder, cells, kinds, z, lies)
    _add_distinct(builder, problem, layout, cells, kinds, z, parts)
    _add_uplinks(builder, problem, layout, cells, kinds, lies)
    _add_side(builder, problem, layout, cells, kinds, lies)
    add_rules(builder, problem, layout.x, layout.stay)
    layout = Layout(layout.x, layout.stay, builder.column_count)
    return RoundModel(builder.build(layout.cost(level)), layout)


@dataclass(frozen=True, slots=True)
class _Busy:
    """Columns w: node, cell, free state and column index, one entry per state."""

    node: Ints
    cell: Ints
    free: tuple[Vector, ...]
    column: Ints


def _add_free(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, cells: Cells, kinds: Kinds
) -> _Busy:
    """Columns w with rows ``one_free`` and ``node_free`` for open nodes with running jobs."""
    holds, nodes = problem.holds, problem.nodes
    on_open = np.flatnonzero(nodes.open[holds.node])
    on_open = on_open[np.argsort(holds.node[on_open], kind="stable")]
    busy, first = np.unique(holds.node[on_open], return_index=True)
    of_node: list[int] = []
    labels: list[tuple[int, int]] = []
    free: list[Vector] = []
    row_label: list[tuple[int, int]] = []
    row_limit: list[float] = []
    state_entries: list[tuple[int, int, float]] = []
    hold_entries: list[tuple[int, int, float]] = []
    groups = np.split(on_open, first[1:]) if busy.size else []
    for position, (node, rows) in enumerate(zip(busy.tolist(), groups, strict=True)):
        t = int(nodes.node_class[node])
        scarce = kinds.scarce[t]
        capacity = nodes.capacity[t, scarce]
        held = np.round(holds.demand[rows][:, scarce], 9)
        states = reachable_free(
            tuple(capacity.tolist()), tuple(sorted(tuple(row) for row in held.tolist()))
        )
        at = len(free)
        of_node += [position] * len(states)
        labels += [(node, i) for i in range(len(states))]
        free += states
        for column, resource in enumerate(scarce.tolist()):
            row = len(row_label)
            row_label.append((node, resource))
            row_limit.append(float(capacity[column]))
            state_entries += [(row, at + i, state[column]) for i, state in enumerate(states)]
            hold_entries += [
                (row, job, amount)
                for job, amount in zip(
                    layout.stay[holds.job[rows]].tolist(), held[:, column].tolist(), strict=True
                )
            ]
    w = builder.add_columns("w", np.asarray(labels, dtype=np.int64).reshape(-1, 2), 1.0)
    builder.add_rows(
        "one_free", busy[:, None], 1.0, 1.0, [(np.asarray(of_node, dtype=np.int64), w, 1.0)]
    )
    state_row, state_column, state_value = _columns(state_entries)
    hold_row, hold_column, hold_value = _columns(hold_entries)
    builder.add_rows(
        "node_free", np.asarray(row_label, dtype=np.int64).reshape(-1, 2), -np.inf,
        np.asarray(row_limit),
        [(state_row, w[state_column], state_value), (hold_row, hold_column, hold_value)],
    )
    node = busy[np.asarray(of_node, dtype=np.int64)]
    return _Busy(node, cells.of_node[node], tuple(free), w)


def _columns(entries: list[tuple[int, int, float]]) -> tuple[Ints, Ints, Floats]:
    table = np.asarray(entries, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Columns z with what they offer: entries (column, cell, kind, slots)."""

    column: Ints
    cell: Ints
    kind: Ints
    slots: Ints


def _add_patterns(
    builder: ModelBuilder, problem: RoundProblem, cells: Cells, kinds: Kinds, busy: _Busy
) -> _Patterns:
    """Columns z with rows ``pattern_count``."""
    nodes = problem.nodes
    carries = np.zeros(nodes.count, dtype=bool)
    carries[busy.node] = True
    idle = np.bincount(
        cells.of_node[nodes.open & ~carries], minlength=cells.count
    ) if cells.count else np.zeros(0, dtype=np.int64)
    waiting: dict[tuple[int, Vector], list[int]] = {}
    for cell, state, column in zip(
        busy.cell.tolist(), busy.free, busy.column.tolist(), strict=True
    ):
        waiting.setdefault((cell, state), []).append(column)
    for cell in np.flatnonzero(idle).tolist():
        waiting.setdefault((cell, _full(problem, cells, kinds, cell)), [])
    labels: list[tuple[int, int, int]] = []
    upper: list[float] = []
    row_labels: list[tuple[int, int]] = []
    row_idle: list[float] = []
    z_rows: list[int] = []
    w_entries: list[tuple[int, int]] = []
    offers: list[tuple[Ints, int, Ints]] = []
    numbers: dict[int, int] = {}
    for (cell, state), columns in sorted(waiting.items()):
        t = int(cells.node_class[cell])
        patterns = maximal_patterns(state, kinds.vectors[t])
        number = numbers[cell] = numbers.get(cell, -1) + 1
        if not patterns.shape[0]:
            continue
        row = len(row_labels)
        spare = float(idle[cell]) if state == _full(problem, cells, kinds, cell) else 0.0
        row_labels.append((cell, number))
        row_idle.append(spare)
        offers.append((patterns, cell, np.arange(len(labels), len(labels) + patterns.shape[0])))
        labels += [(cell, number, p) for p in range(patterns.shape[0])]
        upper += [spare + len(columns)] * patterns.shape[0]
        z_rows += [row] * patterns.shape[0]
        w_entries += [(row, column) for column in columns]
    z = builder.add_columns(
        "z", np.asarray(labels, dtype=np.int64).reshape(-1, 3), np.asarray(upper)
    )
    w_table = np.asarray(w_entries, dtype=np.int64).reshape(-1, 2)
    builder.add_rows(
        "pattern_count", np.asarray(row_labels, dtype=np.int64).reshape(-1, 2), -np.inf,
        np.asarray(row_idle),
        [(np.asarray(z_rows, dtype=np.int64), z, 1.0), (w_table[:, 0], w_table[:, 1], -1.0)],
    )
    return _offers(offers, z, cells, kinds)


def _full(problem: RoundProblem, cells: Cells, kinds: Kinds, cell: int) -> Vector:
    t = int(cells.node_class[cell])
    return tuple(problem.nodes.capacity[t, kinds.scarce[t]].tolist())


def _offers(
    offers: list[tuple[Ints, int, Ints]], z: Ints, cells: Cells, kinds: Kinds
) -> _Patterns:
    column, cell, kind, slots = [], [], [], []
    for patterns, at, indices in offers:
        row, local = np.nonzero(patterns)
        column.append(z[indices[row]])
        cell.append(np.full(row.size, at, dtype=np.int64))
        kind.append(kinds.first[cells.node_class[at]] + local)
        slots.append(patterns[row, local])
    none = np.zeros(0, dtype=np.int64)
    return _Patterns(*(np.concatenate(c or [none]) for c in (column, cell, kind, slots)))


@dataclass(frozen=True, slots=True)
class _Lies:
    """Parts by where they lie: entries (column, cell, kind, parts, gang type)."""

    column: Ints
    cell: Ints
    kind: Ints
    parts: Floats
    gang: Ints
    types: GangTypes


def _add_gangs(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, cells: Cells,
    types: GangTypes, parts: PartCounts,
) -> _Lies:
    """Columns m and f with rows ``gangs`` and ``parts``; types with one possible cell need none."""
    found: list[_Entry] = []
    of_type = types.of_candidate[parts.candidate]
    for q in range(types.count):
        hosts = _hosts(cells, types, q)
        members = np.flatnonzero(types.of_candidate == q)
        kind = np.flatnonzero(types.counts[q])
        if len(hosts) == 1 and len(hosts[0]) == 1:
            mine = np.flatnonzero(of_type == q)
            found.append(_lie(
                layout.x[parts.candidate[mine]], int(hosts[0][0]), parts.kind[mine],
                parts.count[mine].astype(np.float64), q,
            ))
            continue
        gangs = _gang_columns(builder, layout, q, hosts, members)
        for h, (host, column) in enumerate(zip(hosts, gangs, strict=True)):
            for g in kind.tolist():
                count = float(types.counts[q, g])
                if len(host) == 1:
                    found.append(_lie(column, int(host[0]), np.full(column.size, g),
                                      np.full(column.size, count), q))
                    continue
                f = builder.add_columns(
                    "f", np.column_stack([np.full((len(host), 3), (q, h, g)), host]), np.inf
                )
                row = np.zeros(1, dtype=np.int64)
                builder.add_rows(
                    "parts", np.asarray([[q, h, g]]), 0.0, 0.0,
                    [(np.zeros(column.size, dtype=np.int64), column, count),
                     (np.repeat(row, f.size), f, -1.0)],
                )
                found += [
                    _lie(f[i : i + 1], int(cell), np.asarray([g]), np.ones(1), q)
                    for i, cell in enumerate(host.tolist())
                ]
    none = np.zeros(0, dtype=np.int64)
    columns = [np.concatenate([entry[i] for entry in found] or [none]) for i in range(5)]
    return _Lies(columns[0], columns[1], columns[2], columns[3], columns[4], types)


_Entry = tuple[Ints, Ints, Ints, Floats, Ints]


def _lie(column: Ints, cell: int, kind: Ints, parts: Floats, gang: int) -> _Entry:
    size = column.size
    return (
        column, np.full(size, cell, dtype=np.int64), np.asarray(kind, dtype=np.int64),
        np.asarray(parts, dtype=np.float64), np.full(size, gang, dtype=np.int64),
    )


def _hosts(cells: Cells, types: GangTypes, q: int) -> list[Ints]:
    """Per place that may hold a whole gang of the type, the cells in it; never empty inside."""
    usable = np.flatnonzero(
        (cells.node_class == types.node_class[q]) & cells.in_set[types.node_set[q]]
    )
    scope = types.scope[q]
    if scope in (Scope.NODE, Scope.POD):
        return [usable] if usable.size else []
    place = cells.leaf if scope == Scope.LEAF else cells.domain
    return [usable[place[usable] == value] for value in np.unique(place[usable]).tolist()]


def _gang_columns(
    builder: ModelBuilder, layout: Layout, q: int, hosts: list[Ints], members: Ints
) -> list[Ints]:
    """Columns that count the gangs in each host: the x themselves where there is one host."""
    x = layout.x[members]
    if len(hosts) == 1:
        return [x]
    labels = np.column_stack(
        [np.full(len(hosts), q, dtype=np.int64), np.arange(len(hosts), dtype=np.int64)]
    )
    m = builder.add_columns("m", labels, float(members.size))
    zero = np.zeros(1, dtype=np.int64)
    builder.add_rows(
        "gangs", np.asarray([[q]]), 0.0, 0.0,
        [(np.repeat(zero, x.size), x, 1.0), (np.repeat(zero, m.size), m, -1.0)],
    )
    return [m[h : h + 1] for h in range(len(hosts))]


def _add_slots(
    builder: ModelBuilder, cells: Cells, kinds: Kinds, z: _Patterns, lies: _Lies
) -> None:
    """Rows ``slots``: parts in each cell and kind are not more than the slots cut for them."""
    width = max(1, kinds.count)
    demand, supply = lies.cell * width + lies.kind, z.cell * width + z.kind
    keys = np.unique(demand)
    kept = np.isin(supply, keys)
    builder.add_rows(
        "slots", np.column_stack([keys // width, keys % width]), -np.inf, 0.0,
        [
            (np.searchsorted(keys, demand), lies.column, lies.parts),
            (np.searchsorted(keys, supply[kept]), z.column[kept],
             -z.slots[kept].astype(np.float64)),
        ],
    )


def _add_distinct(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, cells: Cells, kinds: Kinds,
    z: _Patterns, parts: PartCounts,
) -> None:
    """Rows ``distinct``: a job with m parts of one kind needs m nodes that offer that kind."""
    c = problem.candidates
    capacity = problem.nodes.capacity[kinds.node_class[parts.kind], 0]
    several = np.flatnonzero((parts.count > 1) & (2 * kinds.gpus[parts.kind] <= capacity))
    keys = np.column_stack([c.job[parts.candidate[several]], parts.kind[several]])
    labels, row_of = np.unique(keys.reshape(-1, 2), axis=0, return_inverse=True)
    entries: Entries = [
        (row_of.reshape(-1), layout.x[parts.candidate[several]],
         parts.count[several].astype(np.float64))
    ]
    for row, (_, kind) in enumerate(labels.tolist()):
        columns = z.column[z.kind == kind]
        entries.append((np.full(columns.size, row, dtype=np.int64), columns, -1.0))
    builder.add_rows("distinct", labels, -np.inf, 0.0, entries)


def _add_uplinks(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, cells: Cells, kinds: Kinds,
    lies: _Lies,
) -> None:
    """Rows ``uplink`` of the leaves with a limit."""
    if not uplinks_matter(problem):
        return
    limit = problem.nodes.uplink_gb_per_s
    leaves = np.flatnonzero(np.isfinite(limit))
    row_of = np.full(limit.size, -1, dtype=np.int64)
    row_of[leaves] = np.arange(leaves.size)
    share = lies.types.uplink_per_gpu[lies.gang]
    uses = np.flatnonzero((share > 0) & (row_of[cells.leaf[lies.cell]] >= 0))
    holds = problem.holds
    held = np.flatnonzero(
        (holds.uplink_gb_per_s > 0) & (row_of[problem.nodes.leaf[holds.node]] >= 0)
    )
    builder.add_rows(
        "uplink", leaves[:, None], -np.inf, limit[leaves],
        [
            (
                row_of[cells.leaf[lies.cell[uses]]], lies.column[uses],
                lies.parts[uses] * share[uses] * kinds.gpus[lies.kind[uses]],
            ),
            (
                row_of[problem.nodes.leaf[holds.node[held]]], layout.stay[holds.job[held]],
                holds.uplink_gb_per_s[held],
            ),
        ],
    )


def _add_side(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout, cells: Cells, kinds: Kinds,
    lies: _Lies,
) -> None:
    """Rows ``side``: what a cell's open nodes have together of each lazy resource."""
    nodes, holds = problem.nodes, problem.holds
    size = np.bincount(cells.of_node[nodes.open], minlength=cells.count)
    labels = [
        (cell, int(resource))
        for cell in range(cells.count)
        for resource in kinds.lazy[int(cells.node_class[cell])]
    ]
    if not labels:
        return
    limit = [size[cell] * nodes.capacity[cells.node_class[cell], r] for cell, r in labels]
    entries: Entries = []
    held_cell = cells.of_node[holds.node]
    for row, (cell, resource) in enumerate(labels):
        per_gpu = lies.types.side[lies.gang, resource - 1]
        uses = np.flatnonzero((lies.cell == cell) & (per_gpu > 0))
        held = np.flatnonzero((held_cell == cell) & (holds.demand[:, resource] > 0))
        entries += [
            (np.full(uses.size, row, dtype=np.int64), lies.column[uses],
             lies.parts[uses] * per_gpu[uses] * kinds.gpus[lies.kind[uses]]),
            (np.full(held.size, row, dtype=np.int64), layout.stay[holds.job[held]],
             holds.demand[held, resource]),
        ]
    builder.add_rows(
        "side", np.asarray(labels, dtype=np.int64), -np.inf, np.asarray(limit), entries
    )
