r"""`node_pattern`, the default formulation: identical nodes are counted, not named.

Data: a `RoundProblem` and one `Level`; a[p,g] is the number of slots of g GPUs in pattern p.

Variables
    x[j,k] in {0,1}    job j (re)starts in candidate k
    s[j]   in {0,1}    job j stays as it is
    w[n,f] in {0,1}    node n, which carries running jobs, has f free GPUs after the stays
    z[t,f,p] integer   nodes of class t with f free GPUs that are cut by pattern p

Model
    maximise  sum value[k] x[j,k] + sum stay_value[j] s[j]
    (1) one_config[j]       sum_k x[j,k] + s[j] <= 1
    (2) one_free[n]         sum_f w[n,f] = 1
    (3) node_free[n]        sum_f f w[n,f] + sum_j g[j,n] s[j] = G_n
    (4) pattern_count[t,f]  sum_p z[t,f,p] - sum_{n in t} w[n,f] = idle nodes of t if f = G_t, else 0
    (5) slots[t,g]          sum_k count[k,g] x[j,k] - sum_{f,p} a[p,g] z[t,f,p] <= 0
    (6) distinct[j,t,g]     sum_k count[k,g] x[j,k] - sum_{f,p} min(a[p,g],1) z[t,f,p] <= 0
                            for jobs with several parts of g GPUs where two such fit one node

Exact for jobs whose parts are whole nodes or lie in one node. For several sub-node parts (6) is
necessary, not sufficient; `formulations.decode` either finds distinct nodes or says that it
cannot, and the caller cuts the choice off (`forbid`) and solves again. See
``docs/formulations/node_pattern.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Floats, Ints, LinearModel, ModelBuilder
from formulations.patterns import maximal_patterns, reachable_free
from formulations.round_problem import NONE, STAY, Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the decisions stand in a model's columns.

    Parameters
    ----------
    x
        Column of each candidate, shape (K,).
    stay
        Column of each job's stay, shape (J,); -1 for queued jobs.
    columns
        Number of columns.
    """

    x: Ints
    stay: Ints
    columns: int

    def cost(self, level: Level) -> Floats:
        """Objective coefficients of a level, shape (columns,)."""
        cost = np.zeros(self.columns)
        cost[self.x] = level.value
        running = self.stay >= 0
        cost[self.stay[running]] = level.stay_value[running]
        return cost

    def choice(self, problem: RoundProblem, x: Floats) -> Ints:
        """Choice of every job at an integer point: candidate index, `STAY` or `NONE`."""
        choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
        picked = np.flatnonzero(x[self.x] > 0.5)
        choice[problem.candidates.job[picked]] = picked
        running = np.flatnonzero(self.stay >= 0)
        choice[running[x[self.stay[running]] > 0.5]] = STAY
        return choice

    def picked(self, choice: Ints) -> Ints:
        """Columns that are one under a choice."""
        stays = np.flatnonzero(choice == STAY)
        return np.sort(np.concatenate([self.x[choice[choice >= 0]], self.stay[stays]]))


@dataclass(frozen=True, slots=True)
class RoundModel:
    """A built model and the layout that decodes it."""

    model: LinearModel
    layout: Layout


def add_choices(builder: ModelBuilder, problem: RoundProblem) -> Layout:
    """Columns x and s and the rows ``one_config``: common to both formulations."""
    jobs, candidates = problem.jobs, problem.candidates
    k = np.arange(candidates.count, dtype=np.int64)
    x = builder.add_columns("x", np.column_stack([candidates.job, k]), 1.0)
    running = np.flatnonzero(jobs.running)
    s = builder.add_columns("s", running[:, None], 1.0)
    stay = np.full(jobs.count, -1, dtype=np.int64)
    stay[running] = s
    builder.add_rows(
        "one_config", np.arange(jobs.count)[:, None], -np.inf, 1.0,
        [(candidates.job, x, 1.0), (running, s, 1.0)],
    )
    return Layout(x, stay, 0)


def forbid(built: RoundModel, choice: Ints, serial: int) -> RoundModel:
    """The model without this very choice of configurations (row ``not_again[serial]``)."""
    ones = built.layout.picked(choice)
    model = built.model.with_row(
        "not_again", [serial], ones, np.ones(ones.size), -np.inf, ones.size - 1.0
    )
    return RoundModel(model, built.layout)


def build(problem: RoundProblem, level: Level) -> RoundModel:
    """The model of this module's docstring; deterministic and free of side effects."""
    builder = ModelBuilder(f"node_pattern {level.name}")
    layout = add_choices(builder, problem)
    sizes = _slot_sizes(problem)
    busy = _add_free(builder, problem, layout)
    z = _add_patterns(builder, problem, sizes, busy)
    demand = _part_counts(problem)
    _add_slots(builder, problem, layout, sizes, z, demand)
    _add_distinct(builder, problem, layout, sizes, z, demand)
    layout = Layout(layout.x, layout.stay, builder.column_count)
    return RoundModel(builder.build(layout.cost(level)), layout)


def _slot_sizes(problem: RoundProblem) -> list[tuple[int, ...]]:
    """Distinct part sizes that candidates of each class ask for, ascending."""
    c = problem.candidates
    part_class = c.node_class[c.part_candidate]
    return [
        tuple(np.unique(c.part_gpus[part_class == t]).tolist())
        for t in range(problem.nodes.classes)
    ]


@dataclass(frozen=True, slots=True)
class _Busy:
    """Columns w: node, class, free GPUs and column index, one entry per state."""

    node: Ints
    node_class: Ints
    free: Ints
    column: Ints


def _add_free(builder: ModelBuilder, problem: RoundProblem, layout: Layout) -> _Busy:
    """Columns w with rows ``one_free`` and ``node_free`` for open nodes with running jobs."""
    holds, nodes = problem.holds, problem.nodes
    on_open = np.flatnonzero(nodes.open[holds.node])
    held_node, held_job = holds.node[on_open], holds.job[on_open]
    held_gpus = holds.demand[on_open, 0]
    busy_nodes = np.unique(held_node)
    capacity = nodes.capacity[nodes.node_class[busy_nodes], 0]
    order = np.argsort(held_node, kind="stable")
    by_node = np.split(held_gpus[order], np.cumsum(np.bincount(held_node)[busy_nodes])[:-1])
    node_of: list[int] = []
    free_of: list[int] = []
    for position, held in enumerate(by_node if busy_nodes.size else []):
        parts = tuple(sorted(int(gpus) for gpus in held.tolist()))
        states = reachable_free(int(capacity[position]), parts)
        node_of += [position] * len(states)
        free_of += states
    state = np.asarray(node_of, dtype=np.int64)
    free = np.asarray(free_of, dtype=np.int64)
    node = busy_nodes[state]
    w = builder.add_columns("w", np.column_stack([node, free]), 1.0)
    row_of = np.searchsorted(busy_nodes, held_node)
    builder.add_rows("one_free", busy_nodes[:, None], 1.0, 1.0, [(state, w, 1.0)])
    builder.add_rows(
        "node_free", busy_nodes[:, None], capacity, capacity,
        [(state, w, free.astype(np.float64)), (row_of, layout.stay[held_job], held_gpus)],
    )
    return _Busy(node, nodes.node_class[node], free, w)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Columns z: class and column index, shape (Z,), and slot counts per class as one array."""

    node_class: Ints
    column: Ints
    counts: list[Ints]


def _add_patterns(
    builder: ModelBuilder, problem: RoundProblem, sizes: list[tuple[int, ...]], busy: _Busy
) -> _Patterns:
    """Columns z with rows ``pattern_count``."""
    nodes = problem.nodes
    carries = np.zeros(nodes.count, dtype=bool)
    carries[busy.node] = True
    labels: list[tuple[int, int, int]] = []
    uppers: list[float] = []
    classes: list[int] = []
    counts: list[Ints] = []
    row_labels: list[tuple[int, int]] = []
    row_idle: list[float] = []
    z_rows: list[int] = []
    w_rows: list[int] = []
    w_columns: list[int] = []
    for t in range(nodes.classes):
        full = int(nodes.capacity[t, 0])
        idle = int((nodes.open & ~carries & (nodes.node_class == t)).sum())
        mine = busy.node_class == t
        states = sorted(set(busy.free[mine].tolist()) | ({full} if idle else set()), reverse=True)
        for free in states:
            patterns = maximal_patterns(free, sizes[t])
            if not patterns.shape[0]:
                continue
            row = len(row_labels)
            of_state = np.flatnonzero(mine & (busy.free == free))
            row_labels.append((t, free))
            row_idle.append(float(idle if free == full else 0))
            first = len(labels)
            labels += [(t, free, p) for p in range(patterns.shape[0])]
            uppers += [float(of_state.size + row_idle[-1])] * patterns.shape[0]
            classes += [t] * patterns.shape[0]
            counts.append(patterns)
            z_rows += [row] * (len(labels) - first)
            w_rows += [row] * of_state.size
            w_columns += busy.column[of_state].tolist()
    z = builder.add_columns(
        "z", np.asarray(labels, dtype=np.int64).reshape(-1, 3), np.asarray(uppers)
    )
    idle_nodes = np.asarray(row_idle)
    builder.add_rows(
        "pattern_count", np.asarray(row_labels, dtype=np.int64).reshape(-1, 2),
        idle_nodes, idle_nodes,
        [
            (np.asarray(z_rows, dtype=np.int64), z, 1.0),
            (np.asarray(w_rows, dtype=np.int64), np.asarray(w_columns, dtype=np.int64), -1.0),
        ],
    )
    of_class = np.asarray(classes, dtype=np.int64)
    by_class = [
        np.concatenate(
            [c for c, label in zip(counts, row_labels, strict=True) if label[0] == t]
            or [np.zeros((0, len(sizes[t])), dtype=np.int64)]
        )
        for t in range(nodes.classes)
    ]
    return _Patterns(of_class, z, by_class)


@dataclass(frozen=True, slots=True)
class _PartCounts:
    """Parts of a candidate by size: one entry per (candidate, size), count at least 1."""

    candidate: Ints
    size: Ints
    count: Ints


def _part_counts(problem: RoundProblem) -> _PartCounts:
    c = problem.candidates
    if not c.count:
        none = np.zeros(0, dtype=np.int64)
        return _PartCounts(none, none, none)
    base = int(c.part_gpus.max()) + 1
    key, count = np.unique(c.part_candidate * base + c.part_gpus, return_counts=True)
    return _PartCounts(key // base, key % base, count)


def _add_slots(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout,
    sizes: list[tuple[int, ...]], z: _Patterns, demand: _PartCounts,
) -> None:
    """Rows ``slots``: parts of each class and size are not more than the slots cut for them."""
    of_class = problem.candidates.node_class[demand.candidate]
    labels = [(t, g) for t in range(problem.nodes.classes) for g in sizes[t]]
    first = np.cumsum([0, *(len(s) for s in sizes)])
    entries: list[tuple[Ints, Ints, Floats | float]] = []
    for t in range(problem.nodes.classes):
        mine = np.flatnonzero(of_class == t)
        position = np.searchsorted(np.asarray(sizes[t], dtype=np.int64), demand.size[mine])
        entries.append(
            (first[t] + position, layout.x[demand.candidate[mine]],
             demand.count[mine].astype(np.float64))
        )
        pattern, slot = np.nonzero(z.counts[t])
        entries.append(
            (first[t] + slot, z.column[z.node_class == t][pattern],
             -z.counts[t][pattern, slot].astype(np.float64))
        )
    builder.add_rows(
        "slots", np.asarray(labels, dtype=np.int64).reshape(-1, 2), -np.inf, 0.0, entries
    )


def _add_distinct(
    builder: ModelBuilder, problem: RoundProblem, layout: Layout,
    sizes: list[tuple[int, ...]], z: _Patterns, demand: _PartCounts,
) -> None:
    """Rows ``distinct``: a job with m parts of one size needs m nodes that offer that size."""
    c = problem.candidates
    of_class = c.node_class[demand.candidate]
    capacity = problem.nodes.capacity[of_class, 0]
    several = np.flatnonzero((demand.count > 1) & (2 * demand.size <= capacity))
    keys = np.column_stack(
        [c.job[demand.candidate[several]], of_class[several], demand.size[several]]
    ).reshape(-1, 3)
    labels, row_of = np.unique(keys, axis=0, return_inverse=True)
    entries: list[tuple[Ints, Ints, Floats | float]] = [
        (row_of.reshape(-1), layout.x[demand.candidate[several]],
         demand.count[several].astype(np.float64))
    ]
    for row, (_, t, size) in enumerate(labels.tolist()):
        offers = z.counts[t][:, sizes[t].index(size)] > 0
        columns = z.column[z.node_class == t][offers]
        entries.append((np.full(columns.size, row, dtype=np.int64), columns, -1.0))
    builder.add_rows("distinct", labels, -np.inf, 0.0, entries)
